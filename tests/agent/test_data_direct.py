"""Data Direct (ConnectX-8): rows `DDn` beside `NICn`, and rails by them."""

from pathlib import Path

import pytest
from tests.support.machines import discovered
from tests.support.sysfs_trees import LivingMachine, machine_of
from toposcope.agent.describe import describe
from toposcope.agent.discover import discover
from toposcope.api.label_keys import MATRIX, RAIL_ALIGNED, SHAPE
from toposcope.hardware.matrix_annotation import parse
from toposcope.hardware.topology import NodeTopology
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.capture_text import CaptureError

GB300 = """
name: gb300
description: a GB300 tray, each NIC on a root complex of its own, and its Data Direct function beside a GPU
driver: "580.95.05"
numa: {0: "0-71", 1: "72-143"}
gpus: {count: 4, product: NVIDIA GB300, architecture: blackwell, pci_id: 0x31c2, mig: {}}
nics:
  - {names: [mlx5_0, mlx5_1, mlx5_2, mlx5_3], pci_id: 0x1023, data_direct: true}
  - {names: [mlx5_4], pci_id: 0xa2dc, link_layer: Ethernet}
pci:
  - {numa: 0, bus: "0000:01", ports: [mlx5_0]}
  - {numa: 0, bus: "0002:01", ports: [mlx5_1]}
  - {numa: 0, bus: "0008:01", ports: [[[gpu0], [mlx5_1/dd]]]}
  - {numa: 0, bus: "0009:01", ports: [[[gpu1], [mlx5_0/dd]]]}
  - {numa: 1, bus: "0010:01", ports: [mlx5_2]}
  - {numa: 1, bus: "0012:01", ports: [mlx5_3, mlx5_4]}
  - {numa: 1, bus: "0018:01", ports: [[[gpu2], [mlx5_3/dd]]]}
  - {numa: 1, bus: "0019:01", ports: [[[gpu3], [mlx5_2/dd]]]}
nvlink: {version: "5.0", mbps: 53125, switched: 18}
"""
DEVICES = (*("GPU0", "GPU1", "GPU2", "GPU3"), *("NIC0", "NIC1", "NIC2", "NIC3", "NIC4"), *("DD0", "DD1", "DD2", "DD3"))
UNREADABLE = GB300.replace("data_direct: true", "data_direct: true, vpd: false")


def topology_of(text: str, folder: Path) -> NodeTopology:
    machine = machine_of(text, folder)
    return discovered(machine, folder)


def rails(topology: NodeTopology) -> list[tuple[str, ...]]:
    return [gpu.rails for gpu in topology.gpus]


def cell(topology: NodeTopology, a: str, b: str) -> str:
    matrix = topology.matrix
    row = matrix.devices.index(a)
    column = matrix.devices.index(b)
    return matrix.cells[row][column]


@pytest.mark.regression
def test_rows_are_numbered_as_nvidia_smi_numbers_them(tmp_path: Path) -> None:
    topology = topology_of(GB300, tmp_path)
    assert topology.matrix.devices == DEVICES
    assert len(topology.data_direct) == 4
    for number, function in enumerate(topology.data_direct):
        assert function.nics == (f"mlx5_{number}",)
    assert cell(topology, "GPU0", "NIC0") == "NODE"
    assert cell(topology, "GPU0", "DD0") == "NODE"
    assert cell(topology, "GPU1", "DD0") == "PXB"
    assert cell(topology, "DD0", "GPU1") == "PXB"


@pytest.mark.regression
def test_rails_go_by_the_functions(tmp_path: Path) -> None:
    topology = topology_of(GB300, tmp_path)
    assert rails(topology) == [
        ("mlx5_1",),
        ("mlx5_0",),
        ("mlx5_3",),
        ("mlx5_2",),
    ]
    assert topology.rail_aligned is True


def test_without_the_functions_no_nic_is_near(tmp_path: Path) -> None:
    text = GB300.replace(", data_direct: true", "")
    for name in ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"):
        text = text.replace(f", [{name}/dd]", "")
    topology = topology_of(text, tmp_path)
    assert topology.gpus
    for gpu in topology.gpus:
        assert gpu.rails == ()
    assert topology.rail_aligned is False


def test_both_ports_of_a_card_have_one_function(tmp_path: Path) -> None:
    text = GB300.replace("ports: [mlx5_3, mlx5_4]", "ports: [mlx5_3+mlx5_4]")
    topology = topology_of(text, tmp_path)
    assert topology.data_direct[3].nics == ("mlx5_3", "mlx5_4")
    assert topology.gpus[2].rails == ("mlx5_3",)  # the other port is Ethernet


def test_function_of_an_unknown_nic_is_unknown(tmp_path: Path) -> None:
    """Only root can read the vital product data, and nothing else says which NIC it is."""
    machine = LivingMachine(machine_of(UNREADABLE, tmp_path), tmp_path)
    found = describe(machine.probe(), "n1")
    topology = found.topology
    assert topology
    assert topology.matrix.devices == DEVICES
    assert topology.data_direct
    for function in topology.data_direct:
        assert function.nics == ()
    assert topology.rail_aligned is None
    assert RAIL_ALIGNED in found.labels.unknown
    assert SHAPE in found.labels.by_key
    (reason,) = topology.reasons
    assert reason.startswith("the NIC of DD0, DD1, DD2, DD3 (Data Direct) is unknown, and so are the rails")
    assert topology.state == "ok"


def test_shape_does_not_depend_on_permissions(tmp_path: Path) -> None:
    root = topology_of(GB300, tmp_path / "root")
    other = topology_of(UNREADABLE, tmp_path / "other")
    assert root.shape == other.shape


def test_function_stays_when_a_pod_takes_its_nic(tmp_path: Path) -> None:
    machine = LivingMachine(machine_of(GB300, tmp_path), tmp_path)
    before = describe(machine.probe(), "n1")
    machine.hide("mlx5_2")
    after = describe(machine.probe(), "n1")
    assert after.labels == before.labels
    assert after.topology
    assert after.topology.gpus[3].rails == ("mlx5_2",)


def test_nic_that_is_down_is_no_rail_though_its_function_is_near(tmp_path: Path) -> None:
    text = GB300.replace(
        "  - {names: [mlx5_0, mlx5_1, mlx5_2, mlx5_3], pci_id: 0x1023, data_direct: true}",
        "  - {names: [mlx5_0], pci_id: 0x1023, data_direct: true, state: DOWN}\n"
        "  - {names: [mlx5_1, mlx5_2, mlx5_3], pci_id: 0x1023, data_direct: true}",
    )
    topology = topology_of(text, tmp_path)
    assert topology.gpus[1].rails == ()
    assert topology.rail_aligned is False


def test_virtual_functions_go_by_the_function_of_their_card(tmp_path: Path) -> None:
    virtual = "  - {names: [vf0], pci_id: 0x101e, physfn: mlx5_0}\n"
    text = GB300.replace("pci:\n", f"{virtual}pci:\n", 1)
    machine = LivingMachine(machine_of(text, tmp_path), tmp_path, has_vf_rails=True)
    topology = discover(machine.probe())
    assert topology.data_direct[0].nics == ("mlx5_0", "vf0")
    assert topology.gpus[1].rails == ("mlx5_0", "vf0")


def test_annotation_names_the_rows(tmp_path: Path) -> None:
    machine = LivingMachine(machine_of(GB300, tmp_path), tmp_path)
    found = describe(machine.probe(), "n1")
    matrix = parse(found.annotations[MATRIX])
    names = tuple(device.label for device in matrix.devices)
    assert names == DEVICES
    assert matrix.devices[9].title == "DD0: mlx5_0 data-direct function (0009:09:00.0)"
    assert matrix.devices[1].rails == ("mlx5_0",)
    assert matrix.links
    assert matrix.links.devices == DEVICES


# Pasted matrices

PASTE = """
\tGPU0\tGPU1\tNIC0\tNIC1\tDD0\tDD1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tNODE\tNODE\tNODE\tPXB\t0-71\t0
GPU1\tNV18\t X \tNODE\tNODE\tPXB\tNODE\t0-71\t0
NIC0\tNODE\tNODE\t X \tNODE\tNODE\tNODE
NIC1\tNODE\tNODE\tNODE\t X \tNODE\tNODE
DD0\tNODE\tPXB\tNODE\tNODE\t X \tNODE
DD1\tPXB\tNODE\tNODE\tNODE\tNODE\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
  DD0:  mlx5_0 data-direct function
  DD1:  mlx5_1 data-direct function
"""


def pasted(text: str, folder: Path) -> NodeTopology:
    machine = machine_from_capture(text)
    return discovered(machine, folder)


def without_row(name: str) -> str:
    """The matrix without the rows of functions whose name begins so."""
    lines = []
    for line in PASTE.splitlines():
        if not line.startswith(name):
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PASTE, id="as-printed"),
        pytest.param(PASTE.replace(" data-direct function", ""), id="legend-of-names"),
        pytest.param(PASTE.replace(" data-direct function", "_dma"), id="legend-of-dma"),
        pytest.param(PASTE.replace("DD0:  ", "DD0: "), id="one-blank"),
    ],
)
def test_pasted_matrix_has_its_rows(text: str, tmp_path: Path) -> None:
    topology = pasted(text, tmp_path)
    assert topology.matrix.devices == ("GPU0", "GPU1", "NIC0", "NIC1", "DD0", "DD1")
    first, second = topology.nics
    assert first.name == "mlx5_0"
    assert second.name == "mlx5_1"
    assert rails(topology) == [("mlx5_1",), ("mlx5_0",)]
    assert topology.rail_aligned is True


def test_pasted_matrix_without_a_legend_leaves_rails_unknown(tmp_path: Path) -> None:
    text, _heading, _legend = PASTE.partition("NIC Legend")
    machine = machine_from_capture(text)
    assert "NIC of DD0, DD1 (Data Direct) unknown: append the NIC legend" in machine.notes
    topology = discovered(machine, tmp_path)
    assert topology.matrix.devices == ("GPU0", "GPU1", "NIC0", "NIC1", "DD0", "DD1")
    assert topology.rail_aligned is None


def test_pasted_matrix_without_rows_is_filled_from_its_columns(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="rows missing: DD0, DD1"):
        machine_from_capture(without_row("DD"))

    topology = pasted(without_row("DD0"), tmp_path)
    assert rails(topology) == [("mlx5_1",), ("mlx5_0",)]
