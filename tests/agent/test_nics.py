"""Which RDMA devices are NICs of the compute network: no bridges to NVSwitches, sub-devices, virtual functions."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.machines import discovered
from tests.support.sysfs_trees import LivingMachine, machine_of
from toposcope.agent.describe import describe
from toposcope.agent.discover import discover
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files
from toposcope.api.label_keys import RAIL_ALIGNED, SHAPE
from toposcope.hardware.topology import NodeTopology
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

HGX_B200 = """
name: hgx-b200
description: eight B200 with RoCE, and two functions of the bridge to the NVSwitches beside GPU 4 and 5
driver: "595.91.07"
numa: {0: "0-47,96-143", 1: "48-95,144-191"}
gpus: {count: 8, product: NVIDIA B200, architecture: blackwell, pci_id: 0x2901, mig: {}}
nics:
  - {names: [rdma0, rdma1, rdma2, rdma3, rdma4, rdma5, rdma6, rdma7], pci_id: 0x1021, link_layer: Ethernet}
  - {names: [mlx5_0, mlx5_1], pci_id: 0x1021, management: true}
pci:
  - {numa: 0, bus: "0000:44", ports: [[gpu0, gpu1, rdma0, rdma1]]}
  - {numa: 0, bus: "0000:55", ports: [[gpu2, gpu3, rdma2, rdma3]]}
  - {numa: 1, bus: "0000:66", ports: [[mlx5_0, mlx5_1, gpu4, gpu5, rdma4, rdma5]]}
  - {numa: 1, bus: "0000:79", ports: [[gpu6, gpu7, rdma6, rdma7]]}
nvlink: {version: "5.0", mbps: 53125, switched: 18}
"""
BRIDGE = "  - {names: [mlx5_0, mlx5_1], pci_id: 0x1021, management: true}\n"
WITHOUT_BRIDGE = HGX_B200.replace(BRIDGE, "").replace("mlx5_0, mlx5_1, gpu4", "gpu4")
ROCE = tuple(f"rdma{number}" for number in range(8))


def topology_of(text: str, folder: Path) -> NodeTopology:
    machine = machine_of(text, folder)
    return discovered(machine, folder)


def names(found: NodeTopology | RawNode) -> list[str]:
    return [nic.name for nic in found.nics]


def held(raw: RawNode) -> list[str]:
    """NICs whose RDMA device a pod took along."""
    held_names = []
    for nic in raw.nics:
        if nic.is_held:
            held_names.append(nic.name)
    return held_names


def rails(topology: NodeTopology) -> list[tuple[str, ...]]:
    return [gpu.rails for gpu in topology.gpus]


def with_four_functions(fields: str) -> str:
    """The board with one card of four functions in the place of the bridge."""
    four = f"  - {{names: [mlx5_0, mlx5_1, mlx5_2, mlx5_3], pci_id: 0x1021, {fields}}}\n"
    text = HGX_B200.replace(BRIDGE, four)
    return text.replace("[mlx5_0, mlx5_1, gpu4", "[mlx5_0+mlx5_1+mlx5_2+mlx5_3, gpu4")


@pytest.fixture
def h200(tmp_path: Path) -> LivingMachine:
    return LivingMachine(load_profile("dgx-h200"), tmp_path)


@pytest.fixture
def b300(tmp_path: Path) -> LivingMachine:
    return LivingMachine(load_profile("hgx-b300-8"), tmp_path)


# Bridges to NVSwitches


@pytest.mark.regression
def test_bridge_to_the_nvswitches_is_no_nic(tmp_path: Path) -> None:
    with_bridge = topology_of(HGX_B200, tmp_path / "with")
    without = topology_of(WITHOUT_BRIDGE, tmp_path / "without")
    assert names(with_bridge) == list(ROCE)
    assert with_bridge.matrix == without.matrix
    assert with_bridge.shape == without.shape
    assert rails(with_bridge) == rails(without)
    assert with_bridge.rail_aligned


def test_board_with_the_bridge_alone_has_no_nics(tmp_path: Path) -> None:
    text = HGX_B200.replace("  - {names: [rdma0", "  # - {names: [rdma0")
    for name in ROCE:
        text = text.replace(f", {name}", "")
    topology = topology_of(text, tmp_path)
    assert topology.nics == ()
    assert topology.gpus
    for gpu in topology.gpus:
        assert gpu.rails == ()


def test_infiniband_rails_beside_the_bridge_are_the_only_ones(tmp_path: Path) -> None:
    text = HGX_B200.replace(", link_layer: Ethernet", "")
    topology = topology_of(text, tmp_path)
    assert names(topology) == list(ROCE)
    assert topology.gpus[4].rails == ("rdma4", "rdma5")


def test_bridge_in_functions_of_one_card_is_no_nic(tmp_path: Path) -> None:
    text = HGX_B200.replace("[mlx5_0, mlx5_1, gpu4", "[mlx5_0+mlx5_1, gpu4")
    topology = topology_of(text, tmp_path)
    assert names(topology) == list(ROCE)


def test_bridge_whose_ports_are_down_is_no_nic(tmp_path: Path) -> None:
    text = HGX_B200.replace("management: true", "management: true, state: DOWN")
    topology = topology_of(text, tmp_path)
    assert names(topology) == list(ROCE)


def test_four_functions_of_one_connectx_7_are_the_bridge_without_root(tmp_path: Path) -> None:
    text = with_four_functions("management: true, vpd: false")
    topology = topology_of(text, tmp_path)
    assert names(topology) == list(ROCE)


@pytest.mark.parametrize("data", [b"\xff" * 64, b"\0" * 64], ids=["ones", "zeros"])
def test_data_of_a_silent_function_says_as_little_as_none(data: bytes, tmp_path: Path) -> None:
    text = with_four_functions("management: true")
    machine = LivingMachine(machine_of(text, tmp_path), tmp_path)
    for number in range(4):
        function = machine.function(f"mlx5_{number}")
        (function / "vpd").write_bytes(data)
    raw = machine.probe()
    assert names(raw) == list(ROCE)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        pytest.param("mlx5_2+mlx5_3", "mlx5_2, mlx5_3", id="two-cards-of-two-functions"),
        pytest.param("pci_id: 0x1021, vpd", "pci_id: 0x1023, vpd", id="another-chip"),
        pytest.param("vpd: false", "vpd: false, link_layer: Ethernet", id="four-ports-of-ethernet"),
    ],
)
def test_no_other_card_is_taken_for_the_bridge_without_root(part: str, other: str, tmp_path: Path) -> None:
    """Such cards are sold."""
    text = with_four_functions("vpd: false")
    assert part in text
    topology = topology_of(text.replace(part, other), tmp_path)
    assert len(topology.nics) == 12


WITHOUT_ROOT = HGX_B200.replace("management: true", "management: true, vpd: false")


@pytest.mark.parametrize("pci_id", ["0x2901", "0x3182"], ids=["B200", "B300"])
def test_only_two_infiniband_functions_are_the_bridge_without_root(pci_id: str, tmp_path: Path) -> None:
    with_bridge = WITHOUT_ROOT.replace("0x2901", pci_id)
    without_bridge = WITHOUT_BRIDGE.replace("0x2901", pci_id)
    topology = topology_of(with_bridge, tmp_path / "with")
    without = topology_of(without_bridge, tmp_path / "without")
    assert names(topology) == list(ROCE)
    assert topology.matrix == without.matrix
    assert topology.shape == without.shape
    assert topology.rail_aligned


@pytest.mark.regression
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WITHOUT_ROOT.replace("pci_id: 0x2901", "pci_id: 0x2330"), id="h100-has-no-such-bridge"),
        pytest.param(
            WITHOUT_ROOT.replace("count: 8", "count: 7").replace("[gpu6, gpu7, ", "[gpu6, "),
            id="vm-with-a-part-of-the-board",
        ),
        pytest.param(
            WITHOUT_ROOT.replace("[mlx5_0, mlx5_1], pci_id: 0x1021", "[mlx5_0, mlx5_1], pci_id: 0x1023"),
            id="connectx-8",
        ),
    ],
)
def test_two_bridge_functions_take_nobodys_rails_without_root(text: str, tmp_path: Path) -> None:
    """They look like any dual-port NIC, so they are in the matrix; but most GPUs have RoCE near them."""
    topology = topology_of(text, tmp_path)
    assert {"mlx5_0", "mlx5_1"} <= set(names(topology))
    pairs = [
        ("rdma0", "rdma1"),
        ("rdma2", "rdma3"),
        ("rdma4", "rdma5"),
        ("rdma6", "rdma7"),
    ]
    for number, gpu in enumerate(topology.gpus):
        assert gpu.rails == pairs[number // 2]
    assert topology.rail_aligned


def test_bridge_and_infiniband_nics_look_alike_without_root(tmp_path: Path) -> None:
    text = WITHOUT_ROOT.replace("pci_id: 0x1021, link_layer: Ethernet", "pci_id: 0x1021, vpd: false")
    topology = topology_of(text, tmp_path)
    assert len(topology.nics) == 10


def test_product_data_is_read_once_or_left_alone(tmp_path: Path) -> None:
    # GPUs of a board without a bridge: what the functions are follows from their data alone.
    text = HGX_B200.replace("0x2901", "0x2330")
    machine = LivingMachine(machine_of(text, tmp_path), tmp_path)
    raw = machine.probe()
    assert len(raw.nics) == 8

    for name in ("mlx5_0", "mlx5_1"):
        function = machine.function(name)
        (function / "vpd").unlink()
    raw = machine.probe()
    assert len(raw.nics) == 8  # from memory

    machine.restart()
    for _ in range(5):
        raw = machine.probe()
        assert len(raw.nics) == 10

    function = machine.function("mlx5_0")
    os.mkfifo(function / "vpd")  # whoever waits for a writer waits for ever
    machine.restart()
    raw = machine.probe()
    assert len(raw.nics) == 10


# Sub-devices


def add_device(machine: LivingMachine, parent: str, name: str, ports: int, *, verbs: bool = False) -> None:
    """Another RDMA device on the PCI function of a NIC."""
    function = machine.function(parent)
    folder = function / "infiniband" / name
    for number in range(1, ports + 1):
        port = folder / "ports" / str(number)
        port.mkdir(parents=True)
        (port / "link_layer").write_text("InfiniBand\n")
        (port / "state").write_text("2: INIT\n")
    (folder / "node_guid").write_text("0000:0000:0000:0099\n")
    (folder / "device").symlink_to(function)
    (machine.root / "class" / "infiniband" / name).symlink_to(folder)
    if verbs:
        add_verbs(machine, name)


def add_verbs(machine: LivingMachine, name: str) -> None:
    folder = machine.root / "class" / "infiniband_verbs"
    folder.mkdir(exist_ok=True)
    count = len(list(folder.iterdir()))
    uverbs = folder / f"uverbs{count}"
    uverbs.mkdir()
    (uverbs / "ibdev").write_text(name + "\n")


B300 = tuple(f"mlx5_bond_{number}" for number in range(8))


@pytest.mark.regression
def test_sub_devices_of_type_smi_are_no_nics(b300: LivingMachine) -> None:
    """`rdma dev add smi1 type SMI parent mlx5_0`: the planes of the parent's port, each as a port again."""
    before = discover(b300.probe())
    for number, parent in enumerate(B300, 1):
        add_device(b300, parent, f"smi{number}", ports=4)
    b300.restart()
    after = discover(b300.probe())
    assert names(after) == list(B300)
    assert rails(after) == rails(before)
    assert after.shape == before.shape


@pytest.mark.parametrize("name", ["planes_of_mlx5_0", "a0", "smi1", "smi"])
def test_sub_devices_are_known_by_their_ports_whatever_their_name(name: str, b300: LivingMachine) -> None:
    add_device(b300, B300[0], name, ports=4)
    raw = b300.probe()
    assert names(raw) == list(B300)


def test_device_without_verbs_is_a_sub_device(b300: LivingMachine) -> None:
    """With one plane it has one port as its parent has; but the kernel gives it no verbs device."""
    add_device(b300, B300[0], "a0", ports=1)
    for name in B300:
        add_verbs(b300, name)
    raw = b300.probe()
    assert names(raw) == list(B300)


def test_sub_device_whose_parent_a_pod_took_is_no_nic(b300: LivingMachine) -> None:
    b300.probe()
    add_device(b300, B300[0], "smi1", ports=4)
    b300.hide(B300[0])
    raw = b300.probe()
    assert names(raw) == list(B300)
    assert held(raw) == [B300[0]]


def test_sub_device_that_comes_and_goes_changes_nothing(b300: LivingMachine) -> None:
    before = b300.probe()
    add_device(b300, B300[0], "smi1", ports=4)
    during = b300.probe()
    assert during == before

    (b300.root / "class" / "infiniband" / "smi1").unlink()
    after = b300.probe()
    assert after == before


def test_renamed_nic_keeps_its_place(b300: LivingMachine) -> None:
    b300.probe()
    folder = b300.root / "class" / "infiniband"
    (folder / B300[0]).rename(folder / "ibp26s0")
    raw = b300.probe()
    assert sorted(names(raw)) == ["ibp26s0", *B300[1:]]
    assert held(raw) == []


# RDMA devices that a pod took along


def test_nic_whose_device_a_pod_holds_stays(h200: LivingMachine) -> None:
    before = describe(h200.probe(), "n1")
    h200.hide("mlx5_4")
    raw = h200.probe()
    during = describe(raw, "n1")
    assert during.labels == before.labels
    assert held(raw) == ["mlx5_4"]

    h200.show("mlx5_4")
    after = h200.probe()
    assert held(after) == []


@pytest.mark.regression
def test_all_devices_in_pods_change_no_label(h200: LivingMachine) -> None:
    before = describe(h200.probe(), "n1")
    for nic in h200.machine.nics:
        h200.hide(nic.name)
        during = describe(h200.probe(), "n1")
        assert during.labels == before.labels


@pytest.mark.regression
def test_agent_started_meanwhile_does_not_know_rails_and_shape(h200: LivingMachine) -> None:
    """So the labels stay what they are on the Node."""
    h200.bind("mlx5_4", "mlx5_core")
    h200.hide("mlx5_4")
    found = describe(h200.probe(), "n1")
    topology = found.topology
    assert topology
    assert topology.hidden_nics == (h200.function("mlx5_4").name,)
    for key in (RAIL_ALIGNED, SHAPE):
        assert key in found.labels.unknown
        assert key not in found.labels.by_key
    assert "another network namespace" in topology.reasons[0]
    assert topology.state == "ok"

    h200.show("mlx5_4")
    shown = describe(h200.probe(), "n1")
    assert not shown.labels.unknown


def test_removed_nic_is_gone(h200: LivingMachine) -> None:
    before = h200.probe().nics
    function = h200.function("mlx5_4")
    h200.hide("mlx5_4")
    (h200.root / "bus" / "pci" / "devices" / function.name).unlink()
    after = h200.probe()
    assert len(after.nics) == len(before) - 1
    assert after.hidden_nics == ()


def test_function_of_another_driver_is_no_nic(h200: LivingMachine) -> None:
    """It was passed through to a virtual machine, which takes the function and not the device alone."""
    h200.bind("mlx5_4", "mlx5_core")
    before = h200.probe()
    assert len(before.nics) == 12

    h200.hide("mlx5_4")
    h200.bind("mlx5_4", "vfio-pci")
    after = h200.probe()
    assert len(after.nics) == 11
    assert after.hidden_nics == ()


def without_module(machine: LivingMachine) -> None:
    (machine.root / "module" / "mlx5_core").mkdir(parents=True)


def with_ethernet_alone(machine: LivingMachine) -> None:
    (machine.function("mlx5_4") / "mlx5_core.eth.4").mkdir()


def of_a_bond(machine: LivingMachine) -> None:
    """Both ports of a bond have one device, that of the first function."""
    function = machine.function("mlx5_4")
    first = function.with_name(function.name[:-1] + "7")
    first.mkdir()
    (first / "vendor").write_text("0x15b3\n")
    (first / "class").write_text("0x020000\n")
    (machine.root / "bus" / "pci" / "devices" / first.name).symlink_to(first)
    bond = machine.root / "class" / "infiniband" / "mlx5_bond_0"
    bond.mkdir()
    (bond / "device").symlink_to(first)


@pytest.mark.parametrize("off", [without_module, with_ethernet_alone, of_a_bond])
def test_function_without_rdma_hides_no_nic(off: Callable[[LivingMachine], None], h200: LivingMachine) -> None:
    h200.bind("mlx5_4", "mlx5_core")
    h200.hide("mlx5_4")
    off(h200)
    raw = h200.probe()
    assert raw.hidden_nics == ()


def test_auxiliary_device_of_the_driver_shows_rdma(h200: LivingMachine) -> None:
    h200.bind("mlx5_4", "mlx5_core")
    h200.hide("mlx5_4")
    function = h200.function("mlx5_4")
    for part in ("mlx5_core.eth.4", "mlx5_core.rdma.4"):
        (function / part).mkdir()
    raw = h200.probe()
    assert raw.hidden_nics == (function.name,)


# Virtual functions

SR_IOV = """
name: sr-iov
description: two GPUs, each with a NIC that has two virtual functions
driver: "550.90.07"
numa: {0: "0-31"}
gpus: {count: 2, product: NVIDIA H100 NVL, architecture: hopper, pci_id: 0x2321, mig: {}}
nics:
  - {names: [mlx5_0, mlx5_1], pci_id: 0x1021, link_layer: Ethernet}
  - {names: [mlx5_2, mlx5_3], pci_id: 0x101e, physfn: mlx5_0, link_layer: Ethernet}
  - {names: [mlx5_4, mlx5_5], pci_id: 0x101e, physfn: mlx5_1, link_layer: Ethernet}
pci:
  - {numa: 0, bus: "0000:10", ports: [[mlx5_0, gpu0]]}
  - {numa: 0, bus: "0000:40", ports: [[mlx5_1, gpu1]]}
"""


def test_virtual_functions_are_no_rails_unless_they_are_asked_for(tmp_path: Path) -> None:
    machine = machine_of(SR_IOV, tmp_path)
    without_rails = LivingMachine(machine, tmp_path)
    without = discover(without_rails.probe())
    assert rails(without) == [("mlx5_0",), ("mlx5_1",)]

    with_rails = LivingMachine(machine, tmp_path, has_vf_rails=True)
    with_them = discover(with_rails.probe())
    assert rails(with_them) == [
        ("mlx5_0", "mlx5_2", "mlx5_3"),
        ("mlx5_1", "mlx5_4", "mlx5_5"),
    ]
    physical, _second, virtual, *_others = with_them.nics
    assert virtual.parent == physical.pci


def test_virtual_function_is_no_card_of_its_own(tmp_path: Path) -> None:
    """Two GPUs that share a NIC share it however many functions it has."""
    shared = SR_IOV.replace("[[mlx5_0, gpu0]]", "[[mlx5_0, gpu0, gpu1]]")
    shared = shared.replace("[[mlx5_1, gpu1]]", "[mlx5_1]")
    machine = LivingMachine(machine_of(shared, tmp_path), tmp_path, has_vf_rails=True)
    topology = discover(machine.probe())
    assert len(topology.gpus[0].rails) == 3
    assert topology.rail_aligned is False


def test_virtual_functions_in_pods_stay_rails(tmp_path: Path) -> None:
    machine = LivingMachine(machine_of(SR_IOV, tmp_path), tmp_path, has_vf_rails=True)
    before = describe(machine.probe(), "n1")
    for name in ("mlx5_2", "mlx5_5"):
        machine.hide(name)
    during = describe(machine.probe(), "n1")
    assert during.labels == before.labels


def test_many_virtual_functions_cost_nothing_at_rest(tmp_path: Path) -> None:
    many = ", ".join(f"vf{number}" for number in range(64))
    text = SR_IOV.replace("[mlx5_2, mlx5_3]", f"[{many}]")
    write_sysfs(machine_of(text, tmp_path), tmp_path / "sys")
    files = CountedFiles()
    sysfs = Sysfs(tmp_path / "sys", files)
    first, second = sysfs.nics()
    assert first.name == "mlx5_0"
    assert second.name == "mlx5_1"

    files.paths.clear()
    assert len(sysfs.nics()) == 2
    for path in files.paths:
        assert "/vf" not in path


class CountedFiles(Files):
    """Notes every path that is looked at."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def text(self, path: str) -> str:
        self.paths.append(path)
        return super().text(path)

    def exists(self, path: str) -> bool:
        self.paths.append(path)
        return super().exists(path)

    def lexists(self, path: str) -> bool:
        self.paths.append(path)
        return super().lexists(path)
