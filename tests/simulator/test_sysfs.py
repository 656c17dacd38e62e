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
        file = self.root / path
        text = file.read_text()
        assert text.endswith("\n")
        return text[:-1]

    def node(self, file: str) -> str:
        """A file about NUMA nodes."""
        return self.read(f"devices/system/node/{file}")

    def package(self, cpu: int) -> str:
        """The socket of a CPU."""
        return self.read(f"devices/system/cpu/cpu{cpu}/topology/physical_package_id")

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
    devices = h200.root / "bus/pci/devices"
    for function in h200.machine.functions:
        link = devices / function.address
        assert link.is_symlink()
        slot = function.slot
        expected = h200.root.joinpath(
            "devices",
            slot.root,
            *slot.bridges,
            function.address,
        )
        assert link.resolve() == expected.resolve()
    for entry in devices.iterdir():
        kind = (entry / "class").read_text()
        assert kind.startswith("0x")


def test_files_of_a_gpu(h200: Tree) -> None:
    gpu = h200.machine.gpus[0]
    address = gpu.function.address
    assert h200.device(address, "class") == "0x030200"
    assert h200.device(address, "vendor") == "0x10de"
    assert h200.device(address, "device") == "0x2335"
    node = h200.device(address, "numa_node")
    assert node == "0"
    cpus = h200.device(address, "local_cpulist")
    assert cpus == "0-55,112-167"


def test_classes_of_switch_and_bridge(h200: Tree) -> None:
    switch = h200.machine.nvswitches[0]
    switch_class = h200.device(switch.address, "class")
    assert switch_class == "0x068000"

    gpu = h200.machine.gpus[0]
    bridge = gpu.slot.bridges[0]
    bridge_class = h200.device(bridge, "class")
    assert bridge_class == "0x060400"


def test_files_of_nodes_and_cpus(h200: Tree) -> None:
    assert h200.node("online") == "0-1"
    assert h200.node("node1/cpulist") == "56-111,168-223"
    assert h200.node("node1/distance") == "20 10"
    assert h200.read("devices/system/cpu/online") == "0-223"
    assert h200.package(223) == "1"


def test_nodes_without_cpus_are_online(tmp_path: Path) -> None:
    machine = load_profile("gb200-nvl72-tray")
    tray = Tree(machine, tmp_path)
    assert tray.node("online") == "0-33"
    assert tray.node("has_cpu") == "0-1"
    assert tray.node("node10/cpulist") == ""


def test_device_without_node_is_near_all_cpus(tmp_path: Path) -> None:
    machine = load_profile("gb200-nvl72-tray")
    tray = Tree(machine, tmp_path)
    address = "0000:01:00.0"
    assert tray.device(address, "numa_node") == "-1"
    assert tray.device(address, "local_cpulist") == "0-143"


def test_numbers_of_nodes_may_have_gaps(tmp_path: Path) -> None:
    machine = load_profile("power9-v100")
    power9 = Tree(machine, tmp_path)
    assert power9.node("online") == "0,8"


def test_nodes_of_one_socket_share_its_package(tmp_path: Path) -> None:
    machine = load_profile("dgx-a100")
    a100 = Tree(machine, tmp_path)
    distances = a100.node("node4/distance")
    assert distances == "20 20 20 20 10 12 12 12"
    assert a100.package(63) == "0"
    assert a100.package(64) == "1"


def test_rdma_devices_lead_to_their_functions(h200: Tree) -> None:
    folder = h200.root / "class/infiniband"
    listed = {entry.name for entry in folder.iterdir()}
    names = {nic.name for nic in h200.machine.nics}
    assert listed == names
    for nic in h200.machine.nics:
        entry = h200.nic(nic.name)
        assert entry.is_symlink()
        device = entry / "device"
        assert device.resolve().name == nic.function.address
        state = entry / "ports/1/state"
        assert state.read_text() == "4: ACTIVE\n"
        guid = (entry / "node_guid").read_text()
        digits = guid.strip().replace(":", "")
        assert len(digits) == 16


def test_link_layer_is_that_of_the_port(h200: Tree) -> None:
    infiniband = h200.nic("mlx5_0") / "ports/1/link_layer"
    assert infiniband.read_text() == "InfiniBand\n"
    ethernet = h200.nic("mlx5_1") / "ports/1/link_layer"
    assert ethernet.read_text() == "Ethernet\n"


def test_virtual_functions_point_at_their_parent(tmp_path: Path) -> None:
    tree = Tree(load_profile(VIRTUAL), tmp_path)
    functions = []
    for nic in tree.machine.nics:
        _, _, function = nic.function.address.rpartition(":")
        functions.append(function)
    assert functions == ["00.0", "00.1", "00.2", "00.3"]

    physical = tree.nic("mlx5_0") / "device"
    for name in ("mlx5_2", "mlx5_3"):
        parent = tree.nic(name) / "device/physfn"
        assert parent.resolve() == physical.resolve()

    other = tree.nic("mlx5_1")
    parent = other / "device/physfn"
    assert not parent.exists()
    state = other / "ports/1/state"
    assert state.read_text() == "1: DOWN\n"


@pytest.mark.parametrize("name", profile_names())
def test_every_cpu_is_on_one_node(name: str, tmp_path: Path) -> None:
    tree = Tree(load_profile(name), tmp_path)
    cpus: list[int] = []
    nodes = tree.node("online")
    for node in parse_list(nodes):
        cpulist = tree.node(f"node{node}/cpulist")
        cpus.extend(parse_list(cpulist))
    online = tree.read("devices/system/cpu/online")
    expected = list(parse_list(online))
    assert sorted(cpus) == expected


def test_existing_tree_is_not_overwritten(h200: Tree) -> None:
    with pytest.raises(FileExistsError):
        write_sysfs(h200.machine, h200.root)
