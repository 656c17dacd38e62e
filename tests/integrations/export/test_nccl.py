"""NCCL's XML, read again as NCCL walks it: the matrix that comes out is the one that went in."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.machines import discovered
from tests.support.tables import each_case
from toposcope.agent.annotation import annotation_for
from toposcope.hardware.matrix import nv_links
from toposcope.hardware.matrix_annotation import NodeMatrix, parse
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.nccl.topology import cpu_mask, write
from toposcope.simulator.profile import load_profile, profile_names

BRIDGE = "0x060400"


def described(profile: str, folder: Path) -> tuple[NodeMatrix, str]:
    topology = discovered(load_profile(profile), folder)
    return parse(annotation_for(topology)), topology.interconnect


def chains(root: ET.Element) -> dict[str, tuple[str, ...]]:
    """PCI address to the CPU and the switches above it."""
    found: dict[str, tuple[str, ...]] = {}

    def walk(element: ET.Element, above: tuple[str, ...]) -> None:
        for pci in element.findall("pci"):
            if pci.get("class") == BRIDGE:
                walk(pci, (*above, pci.attrib["busid"]))
            else:
                assert pci.attrib["busid"] not in found
                found[pci.attrib["busid"]] = above

    for cpu in root.findall("cpu"):
        walk(cpu, (cpu.attrib["numaid"],))
    return found


def level(a: tuple[str, ...], b: tuple[str, ...]) -> str:
    """NCCL's path between two devices: one switch, several, the CPU, two CPUs."""
    if a[0] != b[0]:
        return "SYS"
    if len(a) > 1 and a == b:
        return "PIX"
    return "PXB" if len(a) > 1 and len(b) > 1 and a[1] == b[1] else "PHB"


SAME = {"PIX": {"PIX"}, "PXB": {"PXB"}, "PHB": {"PHB"}, "NODE": {"PHB"}, "SYS": {"SYS"}}


@pytest.mark.parametrize("profile", profile_names())
def test_what_is_known_of_the_paths_comes_back(profile: str, tmp_path: Path) -> None:
    found, interconnect = described(profile, tmp_path)
    assert found.links
    paths = chains(ET.fromstring(write("n1", found, interconnect, "amd64", 5).text))  # noqa: S314 - our own text
    assert set(paths) == {device.pci for device in found.devices}
    for i, one in enumerate(found.devices):
        for j, other in enumerate(found.devices[:i]):
            cell = found.links.cells[i][j]
            if nv_links(cell):
                continue
            seen = level(paths[one.pci], paths[other.pci])
            unknown = one.numa is None or other.numa is None
            assert seen in SAME[cell] or (unknown and {seen, cell} <= {"PHB", "NODE", "SYS"}), (one.label, other.label)


@pytest.mark.parametrize("profile", profile_names())
def test_nvlinks_are_those_of_the_matrix(profile: str, tmp_path: Path) -> None:
    found, interconnect = described(profile, tmp_path)
    assert found.links
    root = ET.fromstring(write("n1", found, interconnect, "amd64", None).text)  # noqa: S314 - same
    gpus = {pci.attrib["busid"]: gpu for pci in root.iter("pci") if (gpu := pci.find("gpu")) is not None}
    for number, device in enumerate(found.devices[: found.links.gpus]):
        cells = found.links.cells[number]
        to_gpus = {found.devices[i].pci: n for i, cell in enumerate(cells) if (n := nv_links(cell))}
        links = {link.attrib["target"]: int(link.attrib["count"]) for link in gpus[device.pci].findall("nvlink")}
        classes = {link.attrib["tclass"] for link in gpus[device.pci].findall("nvlink")}
        if interconnect == "nvswitch":
            assert links == {"fffffff:ff:ff.0": max(to_gpus.values())}
            assert classes == {"0x068000"}
        else:
            assert links == to_gpus
            assert classes <= {"0x030200"}
        assert gpus[device.pci].attrib["dev"] == device.label.removeprefix("GPU")


def test_the_text_is_what_nccls_small_parser_reads(tmp_path: Path) -> None:
    found, interconnect = described("dgx-h200", tmp_path)
    text = write("n1", found, interconnect, "amd64", 5).text
    assert text.startswith('<system version="1">\n')
    assert " />" not in text, "a blank begins an attribute there"
    assert all(len(value) < 255 for value in re.findall(r'"([^"]*)"', text))
    comments = re.findall(r"<!--(.*?)-->", text, re.DOTALL)
    assert len(comments) == 1
    assert comments[0].startswith(" n1, from the annotation gpu.topology/matrix. Not known from it:")
    assert "--" not in comments[0]
    assert 'link_speed="32.0 GT/s PCIe" link_width="16"' in text
    assert '<net name="mlx5_0"/>' in text


def test_without_a_generation_nccl_asks_the_machine(tmp_path: Path) -> None:
    found, interconnect = described("dgx-h200", tmp_path)
    written = write("n1", found, interconnect, None, None)
    assert "link_speed" not in written.text
    assert "<net" not in written.text, "NCCL would not read the NIC's speed then, and end"
    assert any(fact.startswith("PCIe speed") for fact in written.unknown)
    assert any(fact.startswith("CPU architecture") for fact in written.unknown)


def test_links_are_left_out_where_nobody_says_where_they_end(tmp_path: Path) -> None:
    found, _ = described("dgx-h200", tmp_path)
    written = write("n1", found, None, "amd64", None)
    assert "nvlink target" not in written.text
    assert any("NVSwitches" in fact for fact in written.unknown)


def test_what_cannot_be_written() -> None:
    small = parse('{"version":1,"gpus":[{"index":0,"pci":"0000:01:00.0"}]}')
    with pytest.raises(ExportError, match="too large for the annotation"):
        write("n1", small, None, None, None)
    nowhere = parse('{"version":1,"gpus":[{"index":0}],"matrix":["X"]}')
    with pytest.raises(ExportError, match="no PCI address for GPU0"):
        write("n1", nowhere, None, None, None)


@each_case("tables/integrations-export.yaml")
def test_masks_are_the_kernels(cpus: str, mask: str | None) -> None:
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
