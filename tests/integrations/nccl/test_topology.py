"""NCCL's topology file, read again as NCCL walks it: the matrix that comes out is the one that went in."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.machines import discovered
from toposcope.agent.annotation import annotation_for
from toposcope.hardware.matrix import nv_links
from toposcope.hardware.matrix_annotation import NodeMatrix, parse
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.nccl.topology import cpu_mask, write
from toposcope.simulator.profile import load_profile, profile_names

BRIDGE = "0x060400"
NVSWITCHES = "fffffff:ff:ff.0"
"""The target that NCCL reads as all NVSwitches together."""

PROFILES = profile_names()

PciPath = tuple[str, ...]
"""The NUMA node of a device's CPU, and the switches from there down to the device."""


def annotated(profile: str, folder: Path) -> tuple[NodeMatrix, str]:
    """The annotation of a simulated machine, and how its GPUs are connected."""
    topology = discovered(load_profile(profile), folder)
    return parse(annotation_for(topology)), topology.interconnect


def root_of(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def paths_by_address(root: ET.Element) -> dict[str, PciPath]:
    paths: dict[str, PciPath] = {}

    def walk(element: ET.Element, above: PciPath) -> None:
        for pci in element.findall("pci"):
            address = pci.attrib["busid"]
            if pci.get("class") == BRIDGE:
                walk(pci, (*above, address))
                continue
            assert address not in paths
            paths[address] = above

    for cpu in root.findall("cpu"):
        walk(cpu, (cpu.attrib["numaid"],))
    return paths


def nccl_path(first: PciPath, second: PciPath) -> str:
    """NCCL's path between two devices: one switch, several, the CPU, two CPUs."""
    if first[0] != second[0]:
        return "SYS"
    are_below_switches = len(first) > 1 and len(second) > 1
    if are_below_switches and first == second:
        return "PIX"
    if are_below_switches and first[1] == second[1]:
        return "PXB"
    return "PHB"


def is_same_path(written: str, cell: str, *, has_unknown_numa: bool) -> bool:
    """Whether NCCL's path is the matrix cell's. NCCL has no NODE; without a NUMA node the CPU is a guess."""
    if has_unknown_numa and {written, cell} <= {"PHB", "NODE", "SYS"}:
        return True
    return written == ("PHB" if cell == "NODE" else cell)


@pytest.mark.parametrize("profile", PROFILES)
def test_paths_of_the_file_are_those_of_the_matrix(profile: str, tmp_path: Path) -> None:
    matrix, interconnect = annotated(profile, tmp_path)
    assert matrix.links

    written = write("n1", matrix, interconnect, "amd64", 5)

    paths = paths_by_address(root_of(written.text))
    assert set(paths) == {device.pci for device in matrix.devices}
    for row, first in enumerate(matrix.devices):
        for column, second in enumerate(matrix.devices[:row]):
            cell = matrix.links.cells[row][column]
            if nv_links(cell):
                continue
            path = nccl_path(paths[first.pci], paths[second.pci])
            has_unknown_numa = first.numa is None or second.numa is None
            pair = f"{first.label} {second.label}"
            assert is_same_path(path, cell, has_unknown_numa=has_unknown_numa), f"{pair}: {path}, but {cell}"


@pytest.mark.parametrize("profile", PROFILES)
def test_nvlinks_of_the_file_are_those_of_the_matrix(profile: str, tmp_path: Path) -> None:
    matrix, interconnect = annotated(profile, tmp_path)
    assert matrix.links

    written = write("n1", matrix, interconnect, "amd64", None)

    gpus: dict[str, ET.Element] = {}
    for pci in root_of(written.text).iter("pci"):
        gpu = pci.find("gpu")
        if gpu is not None:
            gpus[pci.attrib["busid"]] = gpu

    for number, device in enumerate(matrix.devices[: matrix.links.gpus]):
        gpu = gpus[device.pci]
        assert gpu.attrib["dev"] == device.label.removeprefix("GPU")

        links_by_peer = {}
        for peer, cell in zip(matrix.devices, matrix.links.cells[number], strict=True):
            links = nv_links(cell)
            if links:
                links_by_peer[peer.pci] = links

        elements = gpu.findall("nvlink")
        links_by_target = {element.attrib["target"]: int(element.attrib["count"]) for element in elements}
        target_classes = {element.attrib["tclass"] for element in elements}
        if interconnect == "nvswitch":
            assert links_by_target == {NVSWITCHES: max(links_by_peer.values())}
            assert target_classes == {"0x068000"}
        else:
            assert links_by_target == links_by_peer
            assert target_classes <= {"0x030200"}


def test_text_has_only_what_nccls_own_parser_reads(tmp_path: Path) -> None:
    matrix, interconnect = annotated("dgx-h200", tmp_path)

    text = write("n1", matrix, interconnect, "amd64", 5).text

    assert text.startswith('<system version="1">\n')
    assert " />" not in text, "a blank begins an attribute there"
    longest_value = max(re.findall(r'"([^"]*)"', text), key=len)
    assert len(longest_value) < 255
    (comment,) = re.findall(r"<!--(.*?)-->", text, re.DOTALL)
    assert comment.startswith(" n1, from the annotation gpu.topology/matrix. Unknown:")
    assert "--" not in comment
    assert 'link_speed="32.0 GT/s PCIe" link_width="16"' in text
    assert '<net name="mlx5_0"/>' in text


def test_without_pcie_generation_speeds_are_left_to_nccl(tmp_path: Path) -> None:
    matrix, interconnect = annotated("dgx-h200", tmp_path)

    written = write("n1", matrix, interconnect, None, None)

    assert "link_speed" not in written.text
    assert "<net" not in written.text, "NCCL would not read the NIC's speed then, and end"
    assert any(fact.startswith("PCIe speed") for fact in written.unknown)
    assert any(fact.startswith("CPU architecture") for fact in written.unknown)


def test_without_interconnect_nvlinks_are_left_out(tmp_path: Path) -> None:
    matrix, _ = annotated("dgx-h200", tmp_path)

    written = write("n1", matrix, None, "amd64", None)

    assert "nvlink target" not in written.text
    assert any("NVSwitches" in fact for fact in written.unknown)


def test_without_matrix_nothing_is_written() -> None:
    matrix = parse('{"version":1,"gpus":[{"index":0,"pci":"0000:01:00.0"}]}')
    with pytest.raises(ExportError, match="too large for the annotation"):
        write("n1", matrix, None, None, None)


def test_without_pci_address_nothing_is_written() -> None:
    matrix = parse('{"version":1,"gpus":[{"index":0}],"matrix":["X"]}')
    with pytest.raises(ExportError, match="no PCI address for GPU0"):
        write("n1", matrix, None, None, None)


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [
        pytest.param("0-3,32", "00000001,0000000f", id="range-and-cpu"),
        pytest.param("0", "00000001", id="first-cpu"),
        pytest.param("", "00000000", id="no-cpu"),
        pytest.param("0-31", "ffffffff", id="whole-word"),
        pytest.param("64", "00000001,00000000,00000000", id="third-word"),
        pytest.param("x", None, id="no-number"),
    ],
)
def test_cpu_mask_is_written_as_the_kernel_does(cpus: str, mask: str | None) -> None:
    assert cpu_mask(cpus) == mask


def test_data_direct_functions_are_left_to_nccl() -> None:
    annotation = {
        "version": 1,
        "gpus": [{"index": 0, "pci": "0000:02:00.0", "numa": 0}],
        "nics": [
            {"name": "mlx5_0", "pci": "0000:01:00.0", "numa": 0},
            {"name": "mlx5_0", "pci": "0000:03:00.0", "numa": 0, "dd": True},
        ],
        "matrix": ["X", "NODE X", "PXB NODE X"],
    }

    text = write("n1", parse(json.dumps(annotation)), "none", "amd64", 5).text

    assert text.count('busid="0000:01:00.0"') == 1
    assert "0000:03:00.0" not in text
