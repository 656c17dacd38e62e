"""The tree that stands for /sys has the kernel's layout and formats."""

from pathlib import Path

import pytest
from tests.support.paths import DOCUMENTS
from toposcope.hardware.ranges import parse_list
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

VIRTUAL = DOCUMENTS / "simulator" / "virtual.yaml"


class Tree:
    """A machine and the tree that was written for it."""

    def __init__(self, machine: Machine, root: Path) -> None:
        write_sysfs(machine, root)
        self.machine = machine
        self.root = root

    def read(self, path: str) -> str:
        """A file without the end of its line."""
        text = (self.root / path).read_text()
        assert text.endswith("\n")
        return text[:-1]

    def device(self, address: str, file: str) -> str:
        """A file of a PCI function."""
        return self.read(f"bus/pci/devices/{address}/{file}")

    def nic(self, name: str) -> Path:
        """The folder of an RDMA device."""
        return self.root / "class/infiniband" / name


@pytest.fixture
def h200(tmp_path: Path) -> Tree:
    return Tree(load_profile("dgx-h200"), tmp_path)


def test_every_device_is_listed_and_leads_into_the_tree(h200: Tree) -> None:
    for function in h200.machine.functions:
        link = h200.root / "bus/pci/devices" / function.address
        assert link.is_symlink()
        slot = function.slot
        expected = h200.root.joinpath("devices", slot.root, *slot.bridges, function.address)
        assert link.resolve() == expected.resolve()
    for entry in (h200.root / "bus/pci/devices").iterdir():
        assert (entry / "class").read_text().startswith("0x")


def test_files_of_a_gpu(h200: Tree) -> None:
    address = h200.machine.gpus[0].function.address
    assert h200.device(address, "class") == "0x030200"
    assert h200.device(address, "vendor") == "0x10de"
    assert h200.device(address, "device") == "0x2335"
    assert h200.device(address, "numa_node") == "0"
    assert h200.device(address, "local_cpulist") == "0-55,112-167"


def test_classes_of_switch_and_bridge(h200: Tree) -> None:
    assert h200.device(h200.machine.nvswitches[0].address, "class") == "0x068000"
    assert h200.device(h200.machine.gpus[0].slot.bridges[0], "class") == "0x060400"


def test_files_of_nodes_and_cpus(h200: Tree) -> None:
    assert h200.read("devices/system/node/online") == "0-1"
    assert h200.read("devices/system/node/node1/cpulist") == "56-111,168-223"
    assert h200.read("devices/system/node/node1/distance") == "20 10"
    assert h200.read("devices/system/cpu/online") == "0-223"
    assert h200.read("devices/system/cpu/cpu223/topology/physical_package_id") == "1"


def test_nodes_without_cpus_are_online(tmp_path: Path) -> None:
    tray = Tree(load_profile("gb200-nvl72-tray"), tmp_path)
    assert tray.read("devices/system/node/online") == "0-33"
    assert tray.read("devices/system/node/has_cpu") == "0-1"
    assert tray.read("devices/system/node/node10/cpulist") == ""


def test_device_without_node_is_near_all_cpus(tmp_path: Path) -> None:
    tray = Tree(load_profile("gb200-nvl72-tray"), tmp_path)
    assert tray.device("0000:01:00.0", "numa_node") == "-1"
    assert tray.device("0000:01:00.0", "local_cpulist") == "0-143"


def test_numbers_of_nodes_may_have_gaps(tmp_path: Path) -> None:
    power9 = Tree(load_profile("power9-v100"), tmp_path)
    assert power9.read("devices/system/node/online") == "0,8"


def test_nodes_of_one_socket_share_its_package(tmp_path: Path) -> None:
    a100 = Tree(load_profile("dgx-a100"), tmp_path)
    assert a100.read("devices/system/node/node4/distance") == "20 20 20 20 10 12 12 12"
    assert a100.read("devices/system/cpu/cpu63/topology/physical_package_id") == "0"
    assert a100.read("devices/system/cpu/cpu64/topology/physical_package_id") == "1"


def test_rdma_devices_lead_to_their_functions(h200: Tree) -> None:
    listed = {entry.name for entry in (h200.root / "class/infiniband").iterdir()}
    assert listed == {nic.name for nic in h200.machine.nics}
    for nic in h200.machine.nics:
        entry = h200.nic(nic.name)
        assert entry.is_symlink()
        assert (entry / "device").resolve().name == nic.function.address
        assert (entry / "ports/1/state").read_text() == "4: ACTIVE\n"
        guid = (entry / "node_guid").read_text().strip()
        assert len(guid.replace(":", "")) == 16
    assert (h200.nic("mlx5_0") / "ports/1/link_layer").read_text() == "InfiniBand\n"
    assert (h200.nic("mlx5_1") / "ports/1/link_layer").read_text() == "Ethernet\n"


def test_virtual_functions_point_at_their_parent(tmp_path: Path) -> None:
    tree = Tree(load_profile(VIRTUAL), tmp_path)
    parent = (tree.nic("mlx5_0") / "device").resolve()
    addresses = [nic.function.address for nic in tree.machine.nics]
    assert [address[-4:] for address in addresses] == ["00.0", "00.1", "00.2", "00.3"]
    assert (tree.nic("mlx5_2") / "device/physfn").resolve() == parent
    assert (tree.nic("mlx5_3") / "device/physfn").resolve() == parent
    assert not (tree.nic("mlx5_1") / "device/physfn").exists()
    assert (tree.nic("mlx5_1") / "ports/1/state").read_text() == "1: DOWN\n"


@pytest.mark.parametrize("name", profile_names())
def test_every_cpu_is_on_one_node(name: str, tmp_path: Path) -> None:
    tree = Tree(load_profile(name), tmp_path)
    cpus: list[int] = []
    for node in parse_list(tree.read("devices/system/node/online")):
        cpus.extend(parse_list(tree.read(f"devices/system/node/node{node}/cpulist")))
    assert sorted(cpus) == list(parse_list(tree.read("devices/system/cpu/online")))


def test_existing_tree_is_not_overwritten(h200: Tree) -> None:
    with pytest.raises(FileExistsError):
        write_sysfs(h200.machine, h200.root)
