"""What /sys shows of NICs: the interface and the umad of each, and whether its ports are aggregated."""

from pathlib import Path

import pytest
from toposcope.switches.ports import NicPorts, read_ports

MELLANOX = "0x15b3"
BOND = NicPorts("mlx5_bond_0", "eth0", True, (), others=("eth1",), is_aggregated=True)


class Tree:
    """A /sys in the making."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """One file, as the kernel ends it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def nic(self, name: str, link_layer: str, state: str = "4: ACTIVE", port: int = 1) -> None:
        """An RDMA device with a port, or another port of it."""
        device = f"class/infiniband/{name}"
        port_folder = f"{device}/ports/{port}"
        self.write(f"{device}/device/vendor", MELLANOX)
        self.write(f"{port_folder}/link_layer", link_layer)
        self.write(f"{port_folder}/state", state)

    def netdev(self, nic: str, name: str, dev_port: int = 0, phys_port_name: str | None = None) -> None:
        """An interface with carrier on the function of a NIC."""
        function = f"class/infiniband/{nic}/device"
        folder = f"{function}/net/{name}"
        self.write(f"{folder}/dev_port", str(dev_port))
        if phys_port_name is not None:
            self.write(f"{folder}/phys_port_name", phys_port_name)
        self.write(f"class/net/{name}/carrier", "1")

    def umad(self, name: str, nic: str, port: int = 1) -> None:
        """The device by which the fabric of a port is asked."""
        folder = f"class/infiniband_mad/{name}"
        self.write(f"{folder}/ibdev", nic)
        self.write(f"{folder}/port", str(port))

    def bond(self, nic: str, *members: str, with_rdma: tuple[str, ...]) -> None:
        """A NIC on the first of some interfaces that are a bond; those of `with_rdma` have an RDMA device."""
        self.nic(nic, "Ethernet")
        self.netdev(nic, members[0])
        self.write("class/net/bond0/bonding/slaves", " ".join(members))
        for member in members:
            folder = f"class/net/{member}"
            self.write(f"{folder}/carrier", "1")
            self.write(f"{folder}/device/vendor", MELLANOX)
            master = self.root / folder / "master"
            master.symlink_to("../bond0")
        for member in with_rdma:
            guid = f"class/net/{member}/device/infiniband/mlx5_9/node_guid"
            self.write(guid, "0000:0000:0000:0001")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


# Interfaces and umads


def test_infiniband_nic_has_its_umad(tree: Tree) -> None:
    tree.nic("mlx5_10", "InfiniBand")
    tree.umad("umad0", "mlx5_10")
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts(
        "mlx5_10",
        netdev="",
        has_carrier=False,
        umads=(("umad0", 1),),
    )


def test_function_with_representors_has_its_own_interface(tree: Tree) -> None:
    tree.nic("mlx5_2", "Ethernet")
    tree.netdev("mlx5_2", "ens2f0np0", phys_port_name="p0")
    tree.netdev("mlx5_2", "ens2f0np0_0", phys_port_name="pf0vf0")
    tree.netdev("mlx5_2", "enp2", phys_port_name="c1pf0sf88")
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts("mlx5_2", "ens2f0np0", True, ())


def test_port_that_is_down_has_no_interface(tree: Tree) -> None:
    tree.nic("mlx5_3", "Ethernet", "1: DOWN")
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts("mlx5_3", "", False, ())


def test_old_card_with_two_ports_has_the_interface_of_the_active_one(tree: Tree) -> None:
    """Both are on one function."""
    tree.nic("mlx4_0", "InfiniBand", "1: DOWN", port=1)
    tree.nic("mlx4_0", "Ethernet", port=2)
    tree.netdev("mlx4_0", "enp1", dev_port=0, phys_port_name="")
    tree.netdev("mlx4_0", "enp1d1", dev_port=1, phys_port_name="")
    tree.umad("umad1", "mlx4_0", 1)
    tree.umad("umad2", "mlx4_0", 2)
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts("mlx4_0", "enp1d1", True, ())


def test_other_entries_beside_the_umads_are_passed_over(tree: Tree) -> None:
    tree.nic("mlx5_10", "InfiniBand")
    tree.umad("issm0", "mlx5_10")
    tree.umad("umad0", "mlx5_10")
    tree.write("class/infiniband_mad/abi_version", "5")
    tree.write("class/infiniband_mad/umad1/ibdev", "mlx5_10")  # its port is gone
    (nic,) = read_ports(tree.root)
    assert nic.umads == (("umad0", 1),)


def test_port_whose_number_no_interface_has_is_the_first_one(tree: Tree) -> None:
    tree.nic("mlx5_2", "Ethernet", port=3)
    tree.netdev("mlx5_2", "ens3", dev_port=1)
    tree.netdev("mlx5_2", "ens2", dev_port=0)
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts("mlx5_2", "ens2", True, ())


def test_nics_come_in_the_order_of_nvidia_smi(tree: Tree) -> None:
    for name in ("mlx5_10", "mlx5_2", "mlx5_3", "mlx4_0"):
        tree.nic(name, "InfiniBand")
    names = [port.nic for port in read_ports(tree.root)]
    assert names == ["mlx4_0", "mlx5_2", "mlx5_3", "mlx5_10"]


# Aggregated ports


def test_members_of_a_bond_without_an_rdma_device_are_the_nics(tree: Tree) -> None:
    tree.bond("mlx5_bond_0", "eth0", "eth1", with_rdma=("eth0",))
    assert read_ports(tree.root) == [BOND]


def test_bond_of_nics_with_rdma_devices_of_their_own_aggregates_none(tree: Tree) -> None:
    """The bond is for IP alone: RDMA of each takes its own cable."""
    tree.bond("mlx5_0", "eth0", "eth1", with_rdma=("eth0", "eth1"))
    (nic,) = read_ports(tree.root)
    assert nic == NicPorts("mlx5_0", "eth0", True, ())


def test_bond_is_known_by_its_members_whatever_the_nic_is_called(tree: Tree) -> None:
    tree.bond("rocep1s0f0", "eth0", "eth1", with_rdma=("eth0",))
    (nic,) = read_ports(tree.root)
    assert nic == BOND._replace(nic="rocep1s0f0")


def test_bond_whose_members_cannot_be_seen_is_known_by_its_name(tree: Tree) -> None:
    tree.bond("mlx5_bond_0", "eth0", with_rdma=("eth0",))
    (nic,) = read_ports(tree.root)
    assert nic == BOND._replace(others=())
