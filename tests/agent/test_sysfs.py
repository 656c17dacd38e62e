"""What the PCI tree, NUMA nodes and NICs of real machines do that one would not expect."""

import os
import socket
from collections.abc import Sequence
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
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Ancestor
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

H200 = "dgx-h200"
A100 = "dgx-a100"
TRAY = "gb200-nvl72-tray"

VM = (DOCUMENTS / "agent" / "vm.yaml").read_text()

NICS = (DOCUMENTS / "agent" / "nics.yaml").read_text()


def of_h200(folder: Path) -> RawNode:
    """What the probe finds of a DGX H200."""
    return probed(load_profile(H200), folder)


def described(text: str, folder: Path, change: tuple[str, str] = ("", "")) -> NodeTopology:
    """A machine written down here."""
    folder.mkdir(exist_ok=True)
    file = folder / "machine.yaml"
    old, new = change
    file.write_text(text.replace(old, new))
    return discovered(load_profile(file), folder)


def cells_between(rows: Sequence[Sequence[str]]) -> set[str]:
    """The cells of two different devices."""
    cells: set[str] = set()
    for number, row in enumerate(rows):
        cells.update(row[:number])
    return cells


def test_without_numa_nodes_two_roots_are_sys_and_one_is_phb(tmp_path: Path) -> None:
    """-1 twice is not the same node, and not node 0 either."""
    tray = discovered(load_profile(TRAY), tmp_path / "tray")
    assert tray.nics
    for nic in tray.nics:
        assert nic.numa is None
    assert tray.pci_levels.sysfs[5][4] == "SYS"

    vm = described(VM, tmp_path)
    assert cells_between(vm.matrix.cells) == {"PHB"}


def test_nvmls_ancestor_wins_for_gpus_and_both_are_kept(tmp_path: Path) -> None:
    """On some machines NVML answers SYS where the sysfs rule gives NODE."""

    class Stubborn(SimulatedNvml):
        def nvmlDeviceGetTopologyCommonAncestor(self, a: Any, b: Any) -> int:  # noqa: N802 - NVML's name
            super().nvmlDeviceGetTopologyCommonAncestor(a, b)
            return int(Ancestor.SYS)

    topology = discovered(load_profile("l40s-4"), tmp_path, kind=Stubborn)
    levels = topology.pci_levels
    assert topology.matrix.cells[1][0] == "SYS"
    assert levels.nvml[1][0] == "SYS"
    assert levels.sysfs[1][0] == "NODE"
    assert topology.disputes == (
        PathDispute("GPU0", "GPU1", "SYS", "NODE"),
        PathDispute("GPU2", "GPU3", "SYS", "NODE"),
    )
    assert topology.state is State.OK  # two views of one machine, not a fault


@pytest.mark.parametrize(
    ("profile", "cell"),
    [
        (H200, "PXB"),
        (TRAY, "SYS"),
        ("hgx-b300-8", "PXB"),
        (A100, "PXB"),
    ],
)
def test_nearest_nic_differs_between_makers(profile: str, cell: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    matrix = topology.matrix
    to_nics = matrix.cells[0][matrix.gpus :]
    nearest_first = ["PIX", "PXB", "PHB", "NODE", "SYS"]
    nearest = min(to_nics, key=nearest_first.index)
    assert nearest == cell


def test_root_is_found_by_its_pattern(tmp_path: Path) -> None:
    """Virtual machines put other components before it."""
    sys_folder = tmp_path / "sys"
    write_sysfs(load_profile("l40s-4"), sys_folder)
    before = Sysfs(sys_folder).nvidia_functions()
    devices = sys_folder / "devices"
    odd = devices / "LNXSYSTM:00" / "VMBUS:00"
    odd.mkdir(parents=True)
    for root in list(devices.glob("pci*")):
        root.rename(odd / root.name)
    bus = sys_folder / "bus" / "pci" / "devices"
    for link in list(bus.iterdir()):
        below_devices = link.readlink().parts[4:]
        target = Path("../../../devices/LNXSYSTM:00/VMBUS:00", *below_devices)
        link.unlink()
        link.symlink_to(target)
    assert Sysfs(sys_folder).nvidia_functions() == before

    gpus, _switches = before
    root_name = gpus[0].path[0]
    assert root_name.startswith("pci0000:")


def test_both_ends_of_a_link_have_to_agree(tmp_path: Path) -> None:
    raw = probed(load_profile("rtx3090-2-nvlink"), tmp_path)
    first, second = raw.gpus
    links = list(first.links[:2])
    for link in first.links[2:]:
        links.append(link._replace(state=0))
    half_dead = first._replace(links=tuple(links))
    for gpus in ((half_dead, second), (second, half_dead)):
        topology = discover(raw._replace(gpus=gpus))
        cells = topology.matrix.cells
        assert cells[1][0] == "NV2"


def test_some_pairs_of_a_hybrid_mesh_have_no_link(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx1-v100"), tmp_path)
    between_gpus = topology.matrix.cells[:8]
    assert cells_between(between_gpus) == {"NV1", "NV2", "SYS"}
    (domain,) = topology.nvlink_domains
    assert domain == tuple(range(8))


def test_board_made_for_nvlink_may_have_none(tmp_path: Path) -> None:
    """Never from the product's name: the matrix shows PCIe, and the state degraded."""
    machine = load_profile("hgx-h100-8")
    gpus = []
    for gpu in machine.gpus:
        gpus.append(replace(gpu, links=()))
    machine = replace(machine, gpus=tuple(gpus))
    topology = discovered(machine, tmp_path)
    assert topology.interconnect is Interconnect.PCIE
    for cell in cells_between(topology.matrix.cells):
        assert not cell.startswith("NV")
    assert topology.state is State.DEGRADED
    assert topology.reasons[0] == "GPU 0: 0 of 18 NVLinks active"


def test_virtual_functions_are_not_nics_and_odd_names_are_kept(tmp_path: Path) -> None:
    topology = described(NICS, tmp_path)
    names = sorted(nic.name for nic in topology.nics)
    assert names == ["dark0", "mlx5_bond_0", "rail_b", "storage0"]


@pytest.mark.regression
def test_nics_are_numbered_as_nvidia_smi_numbers_them(tmp_path: Path) -> None:
    """By name, its numbers as numbers: storage NICs and firmware give addresses another order."""
    topology = described(NICS, tmp_path)
    addresses = [nic.pci for nic in topology.nics]
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
    nics = []
    for nic, name in zip(machine.nics, reversed(legend), strict=False):
        nics.append(replace(nic, name=name))
    machine = replace(machine, nics=tuple(nics))
    topology = discovered(machine, tmp_path)
    names = [nic.name for nic in topology.nics]
    assert names == legend


@pytest.mark.regression
def test_storage_ports_and_ports_that_are_down_are_not_rails(tmp_path: Path) -> None:
    topology = described(NICS, tmp_path)
    assert topology.gpus[0].rails == ("rail_b",)
    assert topology.rail_aligned

    ports = {nic.name: nic.ports for nic in topology.nics}
    assert ports["rail_b"] == (Port(1, "InfiniBand", "ACTIVE"),)
    assert ports["storage0"] == (Port(1, "Ethernet", "ACTIVE"),)
    assert ports["dark0"] == (Port(1, "InfiniBand", "DOWN"),)


def test_ethernet_is_roce_where_no_infiniband_is_up(tmp_path: Path) -> None:
    rail = "{names: [rail_b], pci_id: 0x1021}"
    dark_rail = "{names: [rail_b], pci_id: 0x1021, state: DOWN}"
    topology = described(NICS, tmp_path, (rail, dark_rail))
    assert topology.gpus[0].rails == ("storage0",)


def test_ports_of_one_card_are_one_rail(tmp_path: Path) -> None:
    two_gpus = NICS.replace("count: 1", "count: 2")
    two_nics = two_gpus.replace("names: [rail_b]", "names: [rail_b, rail_c]")
    ports = "[rail_b], [gpu0]"
    two_cards = described(two_nics, tmp_path / "two", (ports, "[rail_b], [rail_c], [gpu0], [gpu1]"))
    assert two_cards.rail_aligned

    one_card = described(two_nics, tmp_path / "one", (ports, "[rail_b+rail_c], [gpu0], [gpu1]"))
    assert not one_card.rail_aligned
    assert one_card.gpus[1].rails == ("rail_b", "rail_c")


def test_node_without_rdma_devices_has_no_rails_and_is_ok(tmp_path: Path) -> None:
    """Cloud adapters need not show as RDMA devices: their absence is not a fault."""
    machine = replace(load_profile(H200), nics=())
    topology = discovered(machine, tmp_path)
    assert topology.nics == ()
    assert topology.rail_aligned is False
    assert topology.state is State.OK


def numbered(raw: RawNode, **functions: Any) -> NodeTopology:
    """The node if sysfs had other facts about its GPUs."""
    changed = []
    for function in raw.gpu_functions:
        changed.append(function._replace(**functions))
    raw = raw._replace(gpu_functions=tuple(changed))
    return discover(raw)


def assert_all_gpus_on(numa: int | None, topology: NodeTopology) -> None:
    """Each GPU is on this NUMA node; None: on an unknown one."""
    assert topology.gpus
    for gpu in topology.gpus:
        assert gpu.numa == numa


def test_cpus_come_from_sysfs_and_not_from_this_process_cpuset(tmp_path: Path) -> None:
    """NVML's answer is cut to the caller's cpuset: the simulated one does not have the call."""
    machine = load_profile(H200)
    with pytest.raises(AttributeError, match="nvmlDeviceGetCpuAffinity"):
        getattr(SimulatedNvml(machine), "nvmlDeviceGetCpuAffinity")  # noqa: B009 - it is missing
    topology = discovered(machine, tmp_path)
    first, second = topology.numa
    assert first.cpus == "0-55,112-167"
    assert second.cpus == "56-111,168-223"
    assert first.distances == (10, 20)


def test_unknown_numa_node_follows_from_local_cpus(tmp_path: Path) -> None:
    raw = of_h200(tmp_path)
    near = numbered(raw, numa=None, local_cpus="56-111,168-223")
    assert_all_gpus_on(1, near)

    everywhere = numbered(raw, numa=None, local_cpus="0-223")
    assert_all_gpus_on(None, everywhere)
    labels = labels_for(everywhere, "n1")
    assert label_keys.GPUS_PER_NUMA not in labels.by_key

    straddling = numbered(raw, numa=None, local_cpus="50-60")
    assert_all_gpus_on(None, straddling)


@pytest.mark.regression
def test_minus_one_is_unknown_and_not_a_node(tmp_path: Path) -> None:
    write_sysfs(load_profile("l40s-4"), tmp_path)
    for file in tmp_path.glob("devices/pci*/**/numa_node"):
        file.chmod(0o644)
        file.write_text("-1\n")
    gpus, _switches = Sysfs(tmp_path).nvidia_functions()
    assert gpus
    for gpu in gpus:
        assert gpu.numa is None


@pytest.mark.regression
@pytest.mark.parametrize(
    ("shown", "which"),
    [
        pytest.param(7, "1 of 8 GPUs (index 7)", id="one"),
        pytest.param(6, "2 of 8 GPUs (index 6, 7)", id="two"),
    ],
)
def test_gpus_that_nvml_lists_and_sysfs_lacks_are_named(shown: int, which: str, tmp_path: Path) -> None:
    """Two views of one machine are no fault."""
    whole = of_h200(tmp_path)
    raw = whole._replace(gpu_functions=whole.gpu_functions[:shown])
    reason = f"{which}: in NVML but not on the PCI bus, so NUMA node and PCI path are not known"
    description = describe(raw, "n1")
    shown_reasons = reasons(description.annotations[label_keys.MATRIX])
    assert shown_reasons == (reason,)
    assert description.sentence.endswith(f"state ok; {reason}")
    assert label_keys.GPUS_PER_NUMA not in description.labels.by_key

    first, *others = raw.gpus
    weak = first._replace(links=first.links[:-1])
    weak_raw = raw._replace(gpus=(weak, *others))
    baseline = description.annotations[label_keys.REFERENCE]
    degraded = describe(weak_raw, "n1", baseline)
    assert degraded.labels.by_key[label_keys.STATE] == State.DEGRADED
    shown_reasons = reasons(degraded.annotations[label_keys.MATRIX])
    assert {reason} < set(shown_reasons)


@pytest.mark.regression
def test_gpus_that_sysfs_shows_need_no_reason(tmp_path: Path) -> None:
    raw = of_h200(tmp_path)
    description = describe(raw, "n1")
    assert reasons(description.annotations[label_keys.MATRIX]) == ()
    assert description.sentence.endswith("state ok")
    assert label_keys.GPUS_PER_NUMA in description.labels.by_key


@pytest.mark.regression
@pytest.mark.parametrize("shown", [8, 7, 6])
def test_invisible_bus_proves_nothing_of_gpus(shown: int, tmp_path: Path) -> None:
    raw = of_h200(tmp_path)
    invisible = raw._replace(
        gpu_functions=raw.gpu_functions[:shown],
        is_bus_visible=False,
    )
    description = describe(invisible, "n1")
    assert description.sentence.endswith("state ok")


def test_half_mounted_sysfs_costs_only_what_it_hides(tmp_path: Path) -> None:
    raw = of_h200(tmp_path)
    whole = discover(raw)
    nodes = [node._replace(cpus="0-") for node in raw.numa]
    without_cpus = discover(raw._replace(numa=tuple(nodes), nics=()))
    assert without_cpus.matrix.cells[1][0] == "NV18"

    nothing = raw._replace(
        numa=(),
        nics=(),
        gpu_functions=(),
        switch_functions=(),
        is_bus_visible=False,
    )
    bare = discover(nothing)
    bare_rows = bare.matrix.cells
    whole_rows = whole.matrix.cells[:8]
    for bare_row, whole_row in zip(bare_rows, whole_rows, strict=True):
        assert bare_row[:8] == whole_row[:8]
    assert bare.state is State.OK
    labels = labels_for(bare, "n1")
    assert label_keys.NUMA_NODES not in labels.by_key


def reasons_with_last_gpu_held_by(driver: str | None, folder: Path) -> list[str]:
    """What is said of a GPU that NVML does not see and this driver holds."""
    lost = MachineFaults(lost=frozenset({3}))
    raw = probed(load_profile("l40s-4"), folder, lost)
    *others, last = raw.gpu_functions
    held = last._replace(driver=driver)
    topology = discover(raw._replace(gpu_functions=(*others, held)))
    reasons_of_last = []
    for reason in topology.reasons:
        if last.address in reason:
            reasons_of_last.append(reason)
    return reasons_of_last


@pytest.mark.parametrize("driver", ["vfio-pci", "nvgrace_gpu_vfio_pci"])
def test_gpu_passed_through_to_a_vm_is_not_missed(driver: str, tmp_path: Path) -> None:
    assert reasons_with_last_gpu_held_by(driver, tmp_path) == []


@pytest.mark.parametrize("driver", ["nvidia", None])
def test_gpu_that_nvml_does_not_see_is_missed(driver: str | None, tmp_path: Path) -> None:
    (reason,) = reasons_with_last_gpu_held_by(driver, tmp_path)
    assert "held by" not in reason


def test_gpu_of_another_driver_is_missed_with_the_driver(tmp_path: Path) -> None:
    (reason,) = reasons_with_last_gpu_held_by("nouveau", tmp_path)
    assert "held by the driver nouveau" in reason


def test_virtual_functions_of_a_gpu_are_not_gpus(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    bus = tmp_path / "bus" / "pci" / "devices"
    (first,), _switches = Sysfs(tmp_path).nvidia_functions()
    folder = (bus / first.address).resolve()
    virtual = folder.with_name(first.address[:-1] + "4")
    virtual.mkdir()
    for name in ("vendor", "class"):
        text = (folder / name).read_text()
        (virtual / name).write_text(text)
    link = bus / virtual.name
    link.symlink_to(virtual)
    gpus, _switches = Sysfs(tmp_path).nvidia_functions()
    assert len(gpus) == 2  # as in the machine it is lent to

    (virtual / "physfn").symlink_to(folder)
    gpus, _switches = Sysfs(tmp_path).nvidia_functions()
    assert len(gpus) == 1


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
    told = described(ONE_NODE, tmp_path / "told")
    silent = described(ONE_NODE, tmp_path / "silent", ("numa: 0, ", ""))
    assert silent.matrix == told.matrix
    assert silent.matrix.cells[0] == ("X", "NODE", "NODE")
    labels = labels_for(silent, "n1")
    assert labels.by_key[label_keys.GPUS_PER_NUMA] == "1"
    assert_all_gpus_on(0, silent)
    assert silent.nics
    for nic in silent.nics:
        assert nic.numa == 0


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
    cells = topology.matrix.cells
    assert cells[0] == ("X", "NODE", "NODE", "NODE", "NODE")
    assert cells[1] == ("NODE", "X", "PIX", "NODE", "NODE")
    labels = labels_for(topology, "n1")
    assert labels.by_key[label_keys.GPUS_PER_NUMA] == "1"


def test_one_numa_node_has_also_what_the_firmware_puts_elsewhere(tmp_path: Path) -> None:
    machine = machine_of(ONE_NODE, tmp_path)
    raw = probed(machine, tmp_path)
    topology = numbered(raw, numa=7)
    assert topology.gpus[0].numa == 0
    assert topology.matrix.cells[0] == ("X", "NODE", "NODE")


def test_one_numa_node_has_a_gpu_that_sysfs_does_not_show(tmp_path: Path) -> None:
    machine = machine_of(ONE_NODE, tmp_path)
    raw = probed(machine, tmp_path)
    topology = discover(raw._replace(gpu_functions=()))
    assert topology.gpus[0].numa == 0


def test_one_numa_node_need_not_be_number_0(tmp_path: Path) -> None:
    text = ONE_NODE.replace('{0: "0-19"}', '{3: "0-19"}')
    text = text.replace("numa: 0, ", "")
    topology = described(text, tmp_path)
    assert topology.gpus[0].numa == 3


def test_two_numa_nodes_tell_nothing_of_a_device_without_one(tmp_path: Path) -> None:
    text = ONE_NODE.replace('{0: "0-19"}', '{0: "0-9", 1: "10-19"}')
    text = text.replace("numa: 0, ", "")
    topology = described(text, tmp_path)
    assert topology.gpus[0].numa is None
    assert topology.matrix.cells[0] == ("X", "SYS", "SYS")


def test_shapes_stay_what_they_were_where_the_firmware_is_silent(tmp_path: Path) -> None:
    topology = discovered(load_profile("rtx3090-2-nvlink"), tmp_path)
    assert topology.shape == "157ab3f74c"


# Reading


class CountedFiles(Files):
    """Counts the files that are read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def text(self, path: str) -> str:
        self.read.append(path)
        return super().text(path)


@pytest.mark.parametrize(
    ("profile", "most"),
    [
        (H200, 13),
        (TRAY, 9),
        ("hgx-b300-8", 9),
        ("t4-1", 1),
    ],
)
def test_only_files_that_can_change_are_read_at_rest(profile: str, most: int, tmp_path: Path) -> None:
    """The state of each port, and which CPUs are online."""
    write_sysfs(load_profile(profile), tmp_path / "sys")
    files = CountedFiles()
    sysfs = Sysfs(tmp_path / "sys", files)
    devices = sysfs.devices()
    nodes = sysfs.numa()
    files.read.clear()
    assert sysfs.devices() == devices
    assert sysfs.numa() == nodes
    assert len(files.read) == most
    for path in files.read:
        name = Path(path).name
        assert name in ("state", "online")


def test_port_that_goes_down_is_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    sysfs = Sysfs(tmp_path)
    for nic in sysfs.nics():
        (port,) = nic.ports
        assert port.state == "4: ACTIVE"

    state = tmp_path / "class" / "infiniband" / "mlx5_3" / "ports" / "1" / "state"
    state.chmod(0o644)
    state.write_text("1: DOWN\n")
    down = []
    for nic in sysfs.nics():
        (port,) = nic.ports
        if port.state == "1: DOWN":
            down.append(nic.name)
    assert down == ["mlx5_3"]


def test_cpus_that_go_offline_are_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    sysfs = Sysfs(tmp_path)
    before = sysfs.numa()
    changed = {"node/node0/cpulist": "0-54,112-167", "cpu/online": "0-54,56-223"}
    for path, text in changed.items():
        file = tmp_path / "devices" / "system" / path
        file.chmod(0o644)
        file.write_text(text)
    first, second = sysfs.numa()
    assert first.cpus == "0-54,112-167"
    assert second.cpus == before[1].cpus


def test_driver_that_lets_a_gpu_go_is_seen_at_the_next_probe(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    sysfs = Sysfs(tmp_path)
    (gpu,), _switches = sysfs.nvidia_functions()
    pci = tmp_path / "bus" / "pci"
    home = pci / "drivers" / "vfio-pci"
    home.mkdir(parents=True)
    function = (pci / "devices" / gpu.address).resolve()
    (function / "driver").symlink_to(home)
    gpus, _switches = sysfs.nvidia_functions()
    assert gpus == (gpu._replace(driver="vfio-pci"),)


@pytest.mark.regression
@pytest.mark.parametrize("name", ["numa_node", "local_cpulist", "vendor", "class", "vpd", "device"])
def test_pipe_in_place_of_a_file_is_not_awaited(name: str, tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    bus = tmp_path / "bus" / "pci" / "devices"
    for function in bus.iterdir():
        file = function / name
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    Sysfs(tmp_path).devices()


@pytest.mark.parametrize("name", ["state", "link_layer"])
def test_port_that_is_a_pipe_says_nothing(name: str, tmp_path: Path) -> None:
    write_sysfs(load_profile(H200), tmp_path)
    port_folder = tmp_path / "class" / "infiniband" / "mlx5_3" / "ports" / "1"
    file = port_folder / name
    file.unlink()
    os.mkfifo(file)
    nics = {nic.name: nic for nic in Sysfs(tmp_path).nics()}
    (port,) = nics["mlx5_3"].ports
    assert getattr(port, name) == ""


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
