"""NICs that aggregate ports: which switch is the first is known only where all of their cables end in one."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.support.lldp import of_switch
from tests.support.publishing import Time
from toposcope.hardware.neighbours import Neighbour, Neighbours, parse_neighbours
from toposcope.switches.loop import SETTLE_SECONDS, Switches
from toposcope.switches.ports import NicPorts

LEAF_1 = "b8:59:9f:00:00:01"
LEAF_2 = "b8:59:9f:00:00:02"
BOND = NicPorts("mlx5_bond_0", "eth0", True, (), others=("eth1",), is_aggregated=True)


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
def test_unknown_cable_leaves_the_first_hop_unknown(heard: str) -> None:
    program = Program(BOND)
    program.hears(heard, LEAF_1)
    assert program.finds() == {"mlx5_bond_0": None}


def test_unknown_members_leave_the_first_hop_unknown() -> None:
    program = Program(BOND._replace(others=()))
    program.hears("eth0", LEAF_1)
    assert program.finds() == {"mlx5_bond_0": None}


def test_answer_of_the_fabric_is_about_one_of_the_aggregated_ports() -> None:
    aggregated = NicPorts(
        "mlx5_bond_0",
        netdev="",
        has_carrier=False,
        umads=(("umad0", 1),),
        is_aggregated=True,
    )
    program = Program(aggregated)
    program.fabric = Neighbour(
        switch="ib-leaf-1",
        id="guid:b83fd20300000001",
        port="7",
        by="infiniband",
    )
    assert program.finds() == {"mlx5_bond_0": None}


def test_program_listens_on_all_members() -> None:
    program = Program(BOND, NicPorts("mlx5_2", "eth2", True, ()))
    program.program.turn()
    assert program.joined == ["eth0", "eth1", "eth2"]


def test_other_nics_keep_their_first_hop() -> None:
    program = Program(BOND, NicPorts("mlx5_2", "eth2", True, ()))
    program.hears("eth2", LEAF_2)
    found = program.finds()["mlx5_2"]
    assert found
    assert found.switch == "leaf-2"
