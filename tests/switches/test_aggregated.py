"""NICs that aggregate ports: which switch is the first is known only where all of their cables end in one."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.lldp import of_switch
from tests.support.publishing import Time
from toposcope.hardware.neighbours import Neighbour, Neighbours, parse_neighbours
from toposcope.switches.loop import SETTLE_SECONDS, Switches
from toposcope.switches.ports import NicPorts, read_ports

LEAF_1, LEAF_2 = "b8:59:9f:00:00:01", "b8:59:9f:00:00:02"
BOND = NicPorts("mlx5_bond_0", "eth0", True, (), others=("eth1",), aggregated=True)


class Program:
    """The program with some ports, frames that come in there, and what it writes."""

    def __init__(self, *ports: NicPorts) -> None:
        self.time = Time()
        self.joined: list[str] = []
        self.coming: list[tuple[str, bytes]] = []
        self.text: str | None = None
        self.fabric: Neighbour | None = None
        self.program = Switches(
            lambda: ports,
            self,  # type: ignore[arg-type]  # the socket
            lambda _device, _port: self.fabric,
            self,  # type: ignore[arg-type]  # the publisher
            interval=30.0,
            runtime=self.time,
        )

    def join(self, netdevs: Iterable[str]) -> None:
        self.joined = list(netdevs)

    def frames(self) -> Iterator[tuple[str, bytes]]:
        while self.coming:
            yield self.coming.pop(0)

    def forget(self) -> None: ...

    def miscabled(self) -> tuple[dict[str, Any], int]:
        return {}, 1

    def publish(self, text: str | None) -> bool:
        self.text = text
        return True

    def hears(self, netdev: str, mac: str) -> None:
        name = f"leaf-{mac[-1]}"
        self.coming.append((netdev, of_switch(name, mac, "Ethernet1/3", ttl=3600)))

    def finds(self) -> Neighbours:
        """What it has written after it has listened for long enough."""
        self.program.turn()
        self.time.seconds += SETTLE_SECONDS + 1
        self.program.turn()
        return parse_neighbours(self.text or "{}")


def test_all_cables_in_one_switch_are_a_first_hop() -> None:
    program = Program(BOND)
    program.hears("eth0", LEAF_1)
    program.hears("eth1", LEAF_1)
    found = program.finds()["mlx5_bond_0"]
    assert found
    assert found.switch == "leaf-1"


@pytest.mark.regression
def test_cables_in_two_switches_have_no_first_hop() -> None:
    program = Program(BOND)
    program.hears("eth0", LEAF_1)
    program.hears("eth1", LEAF_2)
    assert program.finds() == {"mlx5_bond_0": None}


@pytest.mark.parametrize("heard", ["eth0", "eth1"])
def test_a_cable_that_is_not_known_leaves_the_first_hop_unknown(heard: str) -> None:
    program = Program(BOND)
    program.hears(heard, LEAF_1)
    assert program.finds() == {"mlx5_bond_0": None}


def test_members_that_are_not_known_leave_the_first_hop_unknown() -> None:
    program = Program(BOND._replace(others=()))
    program.hears("eth0", LEAF_1)
    assert program.finds() == {"mlx5_bond_0": None}


def test_the_fabrics_answer_about_aggregated_ports_is_that_of_one_of_them() -> None:
    program = Program(NicPorts("mlx5_bond_0", "", False, (("umad0", 1),), aggregated=True))
    program.fabric = Neighbour("ib-leaf-1", "guid:b83fd20300000001", "7", "infiniband")
    assert program.finds() == {"mlx5_bond_0": None}


def test_it_listens_on_all_members() -> None:
    program = Program(BOND, NicPorts("mlx5_2", "eth2", True, ()))
    program.program.turn()
    assert program.joined == ["eth0", "eth1", "eth2"]


def test_other_nics_are_as_before() -> None:
    program = Program(BOND, NicPorts("mlx5_2", "eth2", True, ()))
    program.hears("eth2", LEAF_2)
    found = program.finds()["mlx5_2"]
    assert found
    assert found.switch == "leaf-2"


# What /sys shows


def sysfs_with_bond(root: Path, nic: str, members: Sequence[str], *, with_rdma: Sequence[str]) -> Path:
    """A NIC on the first of some interfaces that are a bond; those of `with_rdma` have an RDMA device."""
    files = {
        f"class/infiniband/{nic}/device/vendor": "0x15b3",
        f"class/infiniband/{nic}/ports/1/link_layer": "Ethernet",
        f"class/infiniband/{nic}/ports/1/state": "4: ACTIVE",
        f"class/infiniband/{nic}/device/net/{members[0]}/dev_port": "0",
        "class/net/bond0/bonding/slaves": " ".join(members),
    }
    for member in members:
        files[f"class/net/{member}/carrier"] = "1"
        files[f"class/net/{member}/device/vendor"] = "0x15b3"
    for member in with_rdma:
        files[f"class/net/{member}/device/infiniband/mlx5_9/node_guid"] = "0000:0000:0000:0001"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    for member in members:
        (root / "class" / "net" / member / "master").symlink_to("../bond0")
    return root


def test_the_members_of_a_bond_without_an_rdma_device_are_the_nics(tmp_path: Path) -> None:
    root = sysfs_with_bond(tmp_path, "mlx5_bond_0", ["eth0", "eth1"], with_rdma=["eth0"])
    assert read_ports(root) == [BOND]


def test_a_bond_of_nics_with_rdma_devices_of_their_own_aggregates_none(tmp_path: Path) -> None:
    """The bond is for IP alone: RDMA of each takes its own cable."""
    root = sysfs_with_bond(tmp_path, "mlx5_0", ["eth0", "eth1"], with_rdma=["eth0", "eth1"])
    assert read_ports(root) == [NicPorts("mlx5_0", "eth0", True, ())]


def test_a_bond_is_known_by_its_members_whatever_the_nic_is_called(tmp_path: Path) -> None:
    root = sysfs_with_bond(tmp_path, "rocep1s0f0", ["eth0", "eth1"], with_rdma=["eth0"])
    assert read_ports(root) == [BOND._replace(nic="rocep1s0f0")]


def test_a_bond_whose_members_cannot_be_seen_is_known_by_its_name(tmp_path: Path) -> None:
    root = sysfs_with_bond(tmp_path, "mlx5_bond_0", ["eth0"], with_rdma=["eth0"])
    assert read_ports(root) == [BOND._replace(others=())]
