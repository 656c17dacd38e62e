"""`toposcope discover --capture` on pastes: its labels say what was read, and nothing else."""

import codecs
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.simulator.test_pastes import NV_LEGEND, OTHER, PAIRS, PCI, ROWS, WIRED, prefixed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paste.txt"


@pytest.mark.regression
def test_paste_of_pci_levels_gives_no_label_about_nvlinks(file: Path, toposcope: Command) -> None:
    file.write_text(PCI + WIRED)
    ran = toposcope(f"discover --node-name n1 --capture {file}")
    assert "note: NVLinks unknown: the matrix is that of `nvidia-smi topo -mp`, which leaves NVLink out" in ran.err
    for wrong in ("degraded", "NVLinks active", "interconnect=", "nvlink-links=", "nvlink-domains=", "shape="):
        assert wrong not in ran.out
    for right in ("gpu.topology/state=ok", "gpu.topology/gpus=4", "gpu.topology/interconnect not in this text"):
        assert right in ran.out
    assert "NODE" in ran.out


def test_label_that_a_paste_does_not_tell_is_removed(file: Path, toposcope: Command) -> None:
    file.write_text(PAIRS)
    ran = toposcope(f"discover --node-name n1 --capture {file}")
    assert "gpu.topology/gpu-product not in this text" in ran.out
    assert "gpu.topology/nvlink-version not in this text" in ran.out
    assert "stays as it is on the Node" not in ran.out


TRAY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tNV18\tNV18\t0-71\t0
GPU1\tNV18\t X \tNV18\tNV18\t0-71\t0
GPU2\tNV18\tNV18\t X \tNV18\t72-143\t1
GPU3\tNV18\tNV18\tNV18\t X \t72-143\t1
"""


@pytest.mark.parametrize("names", ["", WIRED.replace("H100 80GB HBM3", "GB200")], ids=["nameless", "named"])
def test_matrix_of_a_tray_says_nothing_of_its_fabric(names: str, file: Path, toposcope: Command) -> None:
    file.write_text(TRAY + NV_LEGEND + names)
    ran = toposcope(f"discover --node-name n1 --capture {file}")
    assert "gpu.topology/fabric not in this text" in ran.out
    assert "gpu.topology/nvlink-domain not in this text" in ran.out
    assert "gpu.topology/nvlink-domain-size=4" in ran.out
    assert toposcope(f"discover --capture {file} -o json").json["fabric"] is None


def test_matrix_of_an_hgx_board_ends_its_fabric_at_the_node(file: Path, toposcope: Command) -> None:
    file.write_text(TRAY + NV_LEGEND + WIRED)
    ran = toposcope(f"discover --node-name n1 --capture {file}")
    assert "gpu.topology/fabric=not-supported" in ran.out
    assert "gpu.topology/nvlink-domain=n1" in ran.out


def test_pasted_matrix_is_the_same_as_json(file: Path, toposcope: Command) -> None:
    file.write_text(PCI + WIRED)
    found = toposcope(f"discover --node-name n1 --capture {file} -o json").json
    labels = found["labels"]
    assert labels.get("gpu.topology/interconnect") is None
    assert labels["gpu.topology/gpu-product"] == "NVIDIA-H100-80GB-HBM3"
    assert found["state"] == "ok"
    assert found["reasons"] == []
    assert found["interconnect"] is None
    assert found["nvlink_domains"] is None
    assert found["nvswitches"] is None
    assert found["shape"] is None
    assert list(found["annotations"]) == ["gpu.topology/matrix"]


def test_pasted_board_without_links_is_degraded(file: Path, toposcope: Command) -> None:
    file.write_text(ROWS.format("NODE") + NV_LEGEND + WIRED)
    out = toposcope(f"discover --node-name n1 --capture {file}").out
    assert "gpu.topology/state=degraded" in out
    assert "gpu.topology/interconnect=pcie" in out


def test_one_gpu_needs_no_links_to_have_no_path_to_another(file: Path, toposcope: Command) -> None:
    file.write_text("$ nvidia-smi topo -mp\n\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n")
    ran = toposcope(f"discover --node-name n1 --capture {file} -o labels")
    assert "gpu.topology/interconnect=none" in ran.out
    assert "nvlink-links" not in ran.out


@pytest.mark.regression
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_file_of_powershell(encoding: str, file: Path, toposcope: Command) -> None:
    file.write_bytes(PAIRS.replace("\n", "\r\n").encode(encoding))
    out = toposcope(f"discover --node-name n1 --capture {file} -o labels").out
    assert "gpu.topology/interconnect=nvlink" in out
    assert "gpu.topology/nvlink-domains=2" in out
    assert codecs.BOM_UTF8.decode() not in out


@pytest.mark.regression
def test_paste_of_two_hosts_needs_a_name(file: Path, toposcope: Command) -> None:
    file.write_text(prefixed(PAIRS, "node1: ") + prefixed(OTHER, "node2: "))
    refused = toposcope(f"discover --node-name n1 --capture {file}", code=1).err
    assert "2 different matrices in the text: node1 (line 1), node2 (line 23)" in refused
    out = toposcope(f"discover --node-name n1 --capture {file} --capture-host node2 -o labels").out
    assert "gpu.topology/gpus=2" in out


def test_host_without_a_capture(toposcope: Command) -> None:
    assert "--capture-host chooses a matrix of --capture FILE" in toposcope("discover --capture-host n1", code=2).err


@pytest.mark.regression
def test_numa_nodes_that_are_implied_are_counted(file: Path, toposcope: Command) -> None:
    file.write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t48-63\t3\n")
    ran = toposcope(f"discover --node-name n1 --capture {file} -o labels")
    assert "gpu.topology/numa-nodes=4" in ran.out
    assert "gpu.topology/gpus-per-numa=0-0-0-1" in ran.out
    assert "note: NUMA nodes 0-2 assumed" in ran.err
