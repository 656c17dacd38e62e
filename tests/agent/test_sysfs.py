"""What the PCI tree, NUMA nodes and NICs of real machines do that one would not expect."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered, probed
from tests.support.paths import DOCUMENTS
from tests.support.sysfs_trees import machine_of
from toposcope.agent.describe import describe
from toposcope.agent.discover import discover
from toposcope.agent.labels import labels_for
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files
from toposcope.api import label_keys
from toposcope.hardware.matrix_annotation import reasons
from toposcope.hardware.topology import Interconnect, NodeTopology, PathDispute, Port, State
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Ancestor
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

H200, A100, TRAY, POWER9 = "dgx-h200", "dgx-a100", "gb200-nvl72-tray", "power9-v100"

VM = (DOCUMENTS / "agent" / "vm.yaml").read_text()

NICS = (DOCUMENTS / "agent" / "nics.yaml").read_text()


def described(text: str, folder: Path, change: tuple[str, str] = ("", "")) -> NodeTopology:
    """A machine written down here."""
    folder.mkdir(exist_ok=True)
    file = folder / "machine.yaml"
    file.write_text(text.replace(*change))
    return discovered(load_profile(file), folder)


def test_without_numa_nodes_two_roots_are_sys_and_one_is_phb(tmp_path: Path) -> None:
    """-1 twice is not the same node, and not node 0 either."""
    tray = discovered(load_profile(TRAY), tmp_path / "tray")
    assert {nic.numa for nic in tray.nics} == {None}
    assert tray.pci_levels.sysfs[5][4] == "SYS"
    vm = described(VM, tmp_path)
    assert {cell for i, row in enumerate(vm.matrix.cells) for cell in row[:i]} == {"PHB"}


def test_nvmls_ancestor_wins_for_gpus_and_both_are_kept(tmp_path: Path) -> None:
    """On some machines NVML answers SYS where the sysfs rule gives NODE."""

    class Stubborn(SimulatedNvml):
        def nvmlDeviceGetTopologyCommonAncestor(self, a: Any, b: Any) -> int:  # noqa: N802 - NVML's name
            super().nvmlDeviceGetTopologyCommonAncestor(a, b)
            return int(Ancestor.SYS)

    topology = discovered(load_profile("l40s-4"), tmp_path, kind=Stubborn)
    assert topology.matrix.cells[1][0] == topology.pci_levels.nvml[1][0] == "SYS"
    assert topology.pci_levels.sysfs[1][0] == "NODE"
    assert topology.disputes == (PathDispute("GPU0", "GPU1", "SYS", "NODE"), PathDispute("GPU2", "GPU3", "SYS", "NODE"))
    assert topology.state is State.OK  # two views of one machine, not a fault


@pytest.mark.parametrize(("profile", "cell"), [(H200, "PXB"), (TRAY, "SYS"), ("hgx-b300-8", "PXB"), (A100, "PXB")])
def test_nearest_nic_differs_between_makers(profile: str, cell: str, tmp_path: Path) -> None:
    matrix = discovered(load_profile(profile), tmp_path).matrix
    assert min(matrix.cells[0][matrix.gpus :], key=["PIX", "PXB", "PHB", "NODE", "SYS"].index) == cell


def test_root_is_found_by_its_pattern(tmp_path: Path) -> None:
    """Virtual machines put other components before it."""
    write_sysfs(load_profile("l40s-4"), tmp_path / "sys")
    before = Sysfs(tmp_path / "sys").nvidia_functions()
    devices = tmp_path / "sys" / "devices"
    odd = tmp_path / "sys" / "devices" / "LNXSYSTM:00" / "VMBUS:00"
    odd.mkdir(parents=True)
    for root in list(devices.glob("pci*")):
        root.rename(odd / root.name)
    bus = tmp_path / "sys" / "bus" / "pci" / "devices"
    for link in list(bus.iterdir()):
        target = Path("../../../devices/LNXSYSTM:00/VMBUS:00", *link.readlink().parts[4:])
        link.unlink()
        link.symlink_to(target)
    assert Sysfs(tmp_path / "sys").nvidia_functions() == before
    assert before[0][0].path[0].startswith("pci0000:")


def test_both_ends_of_a_link_have_to_agree(tmp_path: Path) -> None:
    raw = probed(load_profile("rtx3090-2-nvlink"), tmp_path)
    first, second = raw.gpus
    half = first._replace(links=tuple(link._replace(state=0) if link.link > 1 else link for link in first.links))
    assert discover(raw._replace(gpus=(half, second))).matrix.cells[1][0] == "NV2"
    assert discover(raw._replace(gpus=(second, half))).matrix.cells[1][0] == "NV2"


def test_some_pairs_of_a_hybrid_mesh_have_no_link(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx1-v100"), tmp_path)
    cells = {cell for i, row in enumerate(topology.matrix.cells[:8]) for cell in row[:i]}
    assert cells == {"NV1", "NV2", "SYS"}
    assert topology.nvlink_domains == (tuple(range(8)),)


def test_board_made_for_nvlink_may_have_none(tmp_path: Path) -> None:
    """Never from the product's name: the matrix shows PCIe, and the state degraded."""
    machine = load_profile("hgx-h100-8")
    gpus = tuple(replace(gpu, links=()) for gpu in machine.gpus)
    topology = discovered(replace(machine, gpus=gpus), tmp_path)
    assert topology.interconnect is Interconnect.PCIE
    assert not any(cell.startswith("NV") for row in topology.matrix.cells for cell in row)
    assert topology.state is State.DEGRADED
    assert topology.reasons[0] == "GPU 0: 0 of 18 NVLinks active"


def test_virtual_functions_are_not_nics_and_odd_names_are_kept(tmp_path: Path) -> None:
    topology = described(NICS, tmp_path)
    assert sorted(nic.name for nic in topology.nics) == ["dark0", "mlx5_bond_0", "rail_b", "storage0"]


@pytest.mark.regression
def test_nics_are_numbered_as_nvidia_smi_numbers_them(tmp_path: Path) -> None:
    """By name, its numbers as numbers: storage NICs and firmware give addresses another order."""
    addresses = [nic.pci for nic in described(NICS, tmp_path).nics]
    assert addresses != sorted(addresses)


@pytest.mark.regression
@pytest.mark.parametrize(
    "legend",
    [
        pytest.param(["mlx5_2", "mlx5_9", "mlx5_10", "mlx5_bond_0", "mlx5_bond_1"], id="mlx5"),
        pytest.param(["ibp14s0", "ibp71s0", "ibp134s0", "ibp195s0", "rocep32s0f0"], id="infiniband"),
        pytest.param(["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"], id="roce"),
    ],
)
def test_nics_come_in_the_order_of_nvidia_smis_legend(legend: list[str], tmp_path: Path) -> None:
    """Each is the legend of a machine that somebody published."""
    machine = load_profile(H200)
    nics = [replace(nic, name=name) for nic, name in zip(machine.nics, reversed(legend), strict=False)]
    topology = discovered(replace(machine, nics=tuple(nics)), tmp_path)
    assert [nic.name for nic in topology.nics] == legend


@pytest.mark.regression
def test_storage_ports_and_ports_that_are_down_are_not_rails(tmp_path: Path) -> None:
    topology = described(NICS, tmp_path)
    assert topology.gpus[0].rails == ("rail_b",)
    assert topology.rail_aligned
    ports = {nic.name: nic.ports for nic in topology.nics}
    assert ports["rail_b"] == (Port(1, "InfiniBand", "ACTIVE"),)
    assert ports["storage0"] == (Port(1, "Ethernet", "ACTIVE"),)
    assert ports["dark0"] == (Port(1, "InfiniBand", "DOWN"),)
    dark = "{names: [rail_b], pci_id: 0x1021}", "{names: [rail_b], pci_id: 0x1021, state: DOWN}"
    # Without InfiniBand that is up, Ethernet is taken for RoCE.
    assert described(NICS, tmp_path / "roce", dark).gpus[0].rails == ("storage0",)


def test_ports_of_one_card_are_one_rail(tmp_path: Path) -> None:
    two = NICS.replace("count: 1", "count: 2").replace("names: [rail_b]", "names: [rail_b, rail_c]")
    separate = described(two.replace("[rail_b], [gpu0]", "[rail_b], [rail_c], [gpu0], [gpu1]"), tmp_path / "two")
    one_card = described(two.replace("[rail_b], [gpu0]", "[rail_b+rail_c], [gpu0], [gpu1]"), tmp_path / "one")
    assert (separate.rail_aligned, one_card.rail_aligned) == (True, False)
    assert one_card.gpus[1].rails == ("rail_b", "rail_c")


def test_node_without_rdma_devices_has_no_rails_and_is_ok(tmp_path: Path) -> None:
    """Cloud adapters need not show as RDMA devices: their absence is not a fault."""
    topology = discovered(replace(load_profile(H200), nics=()), tmp_path)
    assert (topology.nics, topology.rail_aligned, topology.state) == ((), False, State.OK)


def numbered(raw: RawNode, **functions: Any) -> NodeTopology:
    """The node if sysfs had other facts about its GPUs."""
    return discover(raw._replace(gpu_functions=tuple(function._replace(**functions) for function in raw.gpu_functions)))


def test_cpus_come_from_sysfs_and_not_from_this_process_cpuset(tmp_path: Path) -> None:
    """NVML's answer is cut to the caller's cpuset: the simulated one does not have the call."""
    with pytest.raises(AttributeError, match="nvmlDeviceGetCpuAffinity"):
        getattr(SimulatedNvml(load_profile(H200)), "nvmlDeviceGetCpuAffinity")  # noqa: B009 - mypy knows it is not there
    topology = discovered(load_profile(H200), tmp_path)
    assert [node.cpus for node in topology.numa] == ["0-55,112-167", "56-111,168-223"]
    assert topology.numa[0].distances == (10, 20)


def test_unknown_numa_node_follows_from_local_cpus(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    near = numbered(raw, numa=None, local_cpus="56-111,168-223")
    assert {gpu.numa for gpu in near.gpus} == {1}
    everywhere = numbered(raw, numa=None, local_cpus="0-223")
    assert {gpu.numa for gpu in everywhere.gpus} == {None}
    assert label_keys.GPUS_PER_NUMA not in labels_for(everywhere, "n1").known
    straddling = numbered(raw, numa=None, local_cpus="50-60")
    assert {gpu.numa for gpu in straddling.gpus} == {None}


@pytest.mark.regression
def test_minus_one_is_unknown_and_not_a_node(tmp_path: Path) -> None:
    write_sysfs(load_profile("l40s-4"), tmp_path)
    for file in tmp_path.glob("devices/pci*/**/numa_node"):
        file.chmod(0o644)
        file.write_text("-1\n")
    assert {function.numa for function in Sysfs(tmp_path).nvidia_functions()[0]} == {None}


@pytest.mark.regression
@pytest.mark.parametrize(("shown", "which"), [(8, None), (7, "1 of 8 GPUs (index 7)"), (6, "2 of 8 GPUs (index 6, 7)")])
def test_gpus_that_nvml_lists_and_sysfs_lacks_are_named(shown: int, which: str | None, tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    raw = raw._replace(gpu_functions=raw.gpu_functions[:shown])
    why = [f"{which}: in NVML but not on the PCI bus, so NUMA node and PCI path are not known"] if which else []
    description = describe(raw, "n1")
    assert reasons(description.annotations[label_keys.MATRIX]) == tuple(why)
    assert description.sentence.endswith("; ".join(["state ok", *why]))  # two views of one machine, not a fault
    assert (label_keys.GPUS_PER_NUMA in description.labels.known) == (which is None)
    assert describe(raw._replace(bus_visible=False), "n1").sentence.endswith("state ok")  # it proves nothing
    weak = raw._replace(gpus=(raw.gpus[0]._replace(links=raw.gpus[0].links[:-1]), *raw.gpus[1:]))
    degraded = describe(weak, "n1", description.annotations[label_keys.REFERENCE])
    assert degraded.labels.known[label_keys.STATE] == State.DEGRADED
    assert set(why) < set(reasons(degraded.annotations[label_keys.MATRIX]))


def test_half_mounted_sysfs_costs_only_what_it_hides(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    whole = discover(raw)
    broken = raw._replace(numa=tuple(node._replace(cpus="0-") for node in raw.numa), nics=())
    assert discover(broken).matrix.cells[1][0] == "NV18"
    bare = discover(raw._replace(numa=(), nics=(), gpu_functions=(), switch_functions=(), bus_visible=False))
    assert [row[:8] for row in bare.matrix.cells] == [row[:8] for row in whole.matrix.cells[:8]]
    assert bare.state is State.OK
    assert label_keys.NUMA_NODES not in labels_for(bare, "n1").known


def test_gpus_passed_through_to_vms_are_not_missed(tmp_path: Path) -> None:
    raw = probed(load_profile("l40s-4"), tmp_path, Faults(lost=frozenset({3})))
    last = raw.gpu_functions[3]
    for driver, missed in (("vfio-pci", 0), ("nvgrace_gpu_vfio_pci", 0), ("nvidia", 1), ("nouveau", 1), (None, 1)):
        functions = (*raw.gpu_functions[:3], last._replace(driver=driver))
        reasons = discover(raw._replace(gpu_functions=functions)).reasons
        named = [reason for reason in reasons if last.address in reason]
        assert len(named) == missed, driver
        assert ("held by the driver nouveau" in "".join(named)) == (driver == "nouveau")


def test_virtual_functions_of_a_gpu_are_not_gpus(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    (first,), _ = Sysfs(tmp_path).nvidia_functions()
    folder = (tmp_path / "bus" / "pci" / "devices" / first.address).resolve()
    virtual = folder.with_name(first.address[:-1] + "4")
    virtual.mkdir()
    for name in ("vendor", "class"):
        (virtual / name).write_text((folder / name).read_text())
    link = tmp_path / "bus" / "pci" / "devices" / virtual.name
    link.symlink_to(virtual)
    assert len(Sysfs(tmp_path).nvidia_functions()[0]) == 2  # as in the machine it is lent to
    (virtual / "physfn").symlink_to(folder)
    assert len(Sysfs(tmp_path).nvidia_functions()[0]) == 1


# One NUMA node

ONE_NODE = """
name: one-node
description: a GPU and two NICs behind root complexes of their own, on the only NUMA node
driver: "580.126.09"
numa: {0: "0-19"}
gpus: {count: 1, product: NVIDIA GB10, architecture: blackwell, pci_id: 0x2e12, geforce: true}
nics:
  - {names: [rocep1s0f0, rocep1s0f1], pci_id: 0x1021, link_layer: Ethernet}
pci:
  - {numa: 0, bus: "0000:00", ports: [rocep1s0f0]}
  - {numa: 0, bus: "0002:00", ports: [rocep1s0f1]}
  - {numa: 0, bus: "000f:00", ports: [gpu0]}
"""


@pytest.mark.regression
def test_one_numa_node_has_everything_whatever_the_firmware_says(tmp_path: Path) -> None:
    said = described(ONE_NODE, tmp_path / "said")
    silent = described(ONE_NODE.replace("numa: 0, ", ""), tmp_path / "silent")
    assert silent.matrix == said.matrix
    assert silent.matrix.cells[0] == ("X", "NODE", "NODE")
    assert labels_for(silent, "n1").known[label_keys.GPUS_PER_NUMA] == "1"
    assert {gpu.numa for gpu in silent.gpus} == {nic.numa for nic in silent.nics} == {0}


def test_pasted_matrix_of_one_numa_node_has_its_cells(tmp_path: Path) -> None:
    """One GPU and four ports of two cards, each behind a root complex of its own."""
    matrix = """
\tGPU0\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNODE\tNODE\tNODE\tNODE\t0-19\t0
NIC0\tNODE\t X \tPIX\tNODE\tNODE
NIC1\tNODE\tPIX\t X \tNODE\tNODE
NIC2\tNODE\tNODE\tNODE\t X \tPIX
NIC3\tNODE\tNODE\tNODE\tPIX\t X
"""
    topology = discovered(machine_from_capture(matrix), tmp_path)
    assert topology.matrix.cells[0] == ("X", "NODE", "NODE", "NODE", "NODE")
    assert topology.matrix.cells[1] == ("NODE", "X", "PIX", "NODE", "NODE")
    assert labels_for(topology, "n1").known[label_keys.GPUS_PER_NUMA] == "1"


def test_one_numa_node_has_also_what_the_firmware_puts_elsewhere(tmp_path: Path) -> None:
    topology = numbered(probed(machine_of(ONE_NODE, tmp_path), tmp_path), numa=7)
    assert topology.gpus[0].numa == 0
    assert topology.matrix.cells[0] == ("X", "NODE", "NODE")


def test_one_numa_node_has_a_gpu_that_sysfs_does_not_show(tmp_path: Path) -> None:
    raw = probed(machine_of(ONE_NODE, tmp_path), tmp_path)
    assert discover(raw._replace(gpu_functions=())).gpus[0].numa == 0


def test_one_numa_node_need_not_be_number_0(tmp_path: Path) -> None:
    text = ONE_NODE.replace('{0: "0-19"}', '{3: "0-19"}').replace("numa: 0, ", "")
    assert described(text, tmp_path).gpus[0].numa == 3


def test_two_numa_nodes_tell_nothing_of_a_device_without_one(tmp_path: Path) -> None:
    text = ONE_NODE.replace('{0: "0-19"}', '{0: "0-9", 1: "10-19"}').replace("numa: 0, ", "")
    topology = described(text, tmp_path)
    assert topology.gpus[0].numa is None
    assert topology.matrix.cells[0] == ("X", "SYS", "SYS")


def test_shapes_stay_what_they_were_where_the_firmware_is_silent(tmp_path: Path) -> None:
    assert discovered(load_profile("rtx3090-2-nvlink"), tmp_path).shape == "157ab3f74c"


# Reading


class CountedFiles(Files):
    """Counts the files that are read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def text(self, path: str) -> str:
        self.read.append(path)
        return super().text(path)


@pytest.mark.parametrize(("profile", "most"), [(H200, 13), (TRAY, 9), ("hgx-b300-8", 9), ("t4-1", 1)])
def test_only_files_that_can_change_are_read_at_rest(profile: str, most: int, tmp_path: Path) -> None:
    """The state of each port, and which CPUs are online."""
    write_sysfs(load_profile(profile), tmp_path / "sys")
    files = CountedFiles()
    sysfs = Sysfs(tmp_path / "sys", files)
    first = sysfs.devices(), sysfs.numa()
    files.read.clear()
    assert (sysfs.devices(), sysfs.numa()) == first
    assert len(files.read) == most
    assert {path.rpartition("/")[2] for path in files.read} <= {"state", "online"}


def test_port_that_goes_down_is_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    sysfs = Sysfs(tmp_path)
    assert {port.state for nic in sysfs.nics() for port in nic.ports} == {"4: ACTIVE"}
    state = tmp_path / "class" / "infiniband" / "mlx5_3" / "ports" / "1" / "state"
    state.chmod(0o644)
    state.write_text("1: DOWN\n")
    assert [nic.name for nic in sysfs.nics() if nic.ports[0].state == "1: DOWN"] == ["mlx5_3"]


def test_cpus_that_go_offline_are_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    sysfs = Sysfs(tmp_path)
    before = sysfs.numa()
    for path, text in (("node/node0/cpulist", "0-54,112-167"), ("cpu/online", "0-54,56-223")):
        file = tmp_path / "devices" / "system" / path
        file.chmod(0o644)
        file.write_text(text)
    assert [node.cpus for node in sysfs.numa()] == ["0-54,112-167", before[1].cpus]


def test_driver_that_lets_a_gpu_go_is_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    sysfs = Sysfs(tmp_path)
    ((gpu,), _) = sysfs.nvidia_functions()
    home = tmp_path / "bus" / "pci" / "drivers" / "vfio-pci"
    home.mkdir(parents=True)
    (tmp_path / "bus" / "pci" / "devices" / gpu.address).resolve().joinpath("driver").symlink_to(home)
    assert sysfs.nvidia_functions()[0] == (gpu._replace(driver="vfio-pci"),)


@pytest.mark.regression
@pytest.mark.parametrize("name", ["numa_node", "local_cpulist", "vendor", "class", "vpd", "device"])
def test_pipe_in_place_of_a_file_is_not_awaited(name: str, tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    for function in (tmp_path / "bus" / "pci" / "devices").iterdir():
        file = function / name
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    Sysfs(tmp_path).devices()


@pytest.mark.parametrize("name", ["state", "link_layer"])
def test_port_that_is_a_pipe_says_nothing(name: str, tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    file = tmp_path / "class" / "infiniband" / "mlx5_3" / "ports" / "1" / name
    file.unlink()
    os.mkfifo(file)
    (nic,) = [nic for nic in Sysfs(tmp_path).nics() if nic.name == "mlx5_3"]
    assert getattr(nic.ports[0], name) == ""


@pytest.mark.parametrize("kind", ["folder", "device", "socket"])
def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(place))
    assert Files().text(str(place)) == ""
    assert Files().vpd(str(place)) is None
