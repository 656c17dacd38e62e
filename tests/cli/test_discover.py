import argparse
import io
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.support.tables import each_case
from toposcope.agent.annotation import LIMIT
from toposcope.cli.hardware import Source, source
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

MATRIX = """\
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      NV4     PIX     0-15    0
GPU1    NV4      X      SYS     16-31   1
NIC0    PIX     SYS      X

NIC Legend:

  NIC0: mlx5_0
"""


@pytest.fixture
def discover(toposcope: Command) -> Command:
    return partial(toposcope, "discover --node-name n1")


@pytest.mark.parametrize("profile", profile_names())
def test_json_of_every_shipped_profile(profile: str, discover: Command) -> None:
    found = discover(f"--profile {profile} -o json").json
    assert {"labels", "annotations", "state", "reasons", "matrix", "pci_levels", "gpus", "nics", "numa"} <= set(found)
    size = len(found["devices"])
    assert size == len(found["gpus"]) + len(found["nics"])
    assert [len(row) for row in found["matrix"]] == [size] * size
    assert all(row[i] == "X" for i, row in enumerate(found["matrix"]))
    assert found["labels"]["gpu.topology/gpus"] == str(len(found["gpus"]))
    assert len(found["annotations"]["gpu.topology/matrix"]) <= LIMIT


def test_json_holds_every_fact_about_a_tray(discover: Command) -> None:
    found = discover("--profile gb200-nvl72-tray -o json").json
    gpu = found["gpus"][1]
    assert (gpu["architecture"], gpu["module"], gpu["mig"], gpu["c2c_links"]) == ("blackwell", 1, False, 10)
    assert (gpu["numa"], gpu["memory_numa"], gpu["path"][0]) == (0, 10, "pci0009:00")
    assert gpu["links"][17] == {
        "link": 17,
        "state": "active",
        "version": "5.0",
        "mbps": 53125,
        "remote": "nvswitch",
        "remote_pci": None,
    }
    assert (gpu["fabric"], gpu["links_expected"]) == ("completed", 18)
    assert gpu["registration"] == {
        "cluster_uuid": "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2",
        "clique": 32766,
        "cliques": [[0, 32766]],
        "status": 0,
        "health": [],
        "summary": "healthy",
    }
    assert found["platform"] == {"chassis": "1821025193108", "slot": 1, "tray": 0, "host": 1}
    nic = found["nics"][2]
    assert (nic["name"], nic["numa"], nic["path"][-1]) == ("mlx5_2", None, nic["pci"])
    assert nic["ports"] == [{"number": 1, "link_layer": "Ethernet", "state": "ACTIVE"}]
    assert len(nic["guid"]) == 19
    assert found["pci_levels"]["nvml"][1][0] == found["pci_levels"]["sysfs"][1][0] == "NODE"
    assert (found["matrix"][1][0], found["pci_levels"]["sysfs"][7][6]) == ("NV18", "PIX")
    assert [len(node["distances"]) for node in found["numa"]] == [34] * 34
    assert (found["gpus_expected"], found["state"], found["reasons"], found["disputes"]) == (4, "ok", [], [])


def test_json_says_what_is_wrong(tmp_path: Path, discover: Command) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("links_down: {1: [3]}\nvanished: [7]")
    found = discover(f"--profile dgx-h200 --faults {faults} -o json").json
    assert (found["gpus_expected"], len(found["gpus"]), found["state"]) == (8, 7, "degraded")
    assert found["reasons"][1] == "GPU 1: 17 of 18 NVLinks active"
    assert found["gpus"][1]["links"][3]["state"] == "inactive"


def test_yaml_says_the_same_as_json(discover: Command) -> None:
    as_json = discover("--profile l40s-4 -o json").json
    assert discover("--profile l40s-4 -o yaml").yaml == as_json


def test_labels_are_lines_for_scripts(discover: Command) -> None:
    lines = discover("--profile t4-1 -o labels").out.splitlines()
    assert "gpu.topology/gpu-product=Tesla-T4" in lines
    assert "gpu.topology/nvlink-domain=n1" in lines
    assert [line.partition("=")[0] for line in lines] == sorted(line.partition("=")[0] for line in lines)


def test_a_pasted_matrix_is_what_comes_out(tmp_path: Path, discover: Command) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(MATRIX)
    out = discover(f"--capture {file} -o matrix").out
    assert [line.split() for line in out.splitlines()] == [
        ["GPU0", "GPU1", "NIC0"],
        ["GPU0", "X", "NV4", "PIX"],
        ["GPU1", "NV4", "X", "SYS"],
        ["NIC0", "PIX", "SYS", "X"],
    ]


def test_a_matrix_from_standard_input(monkeypatch: pytest.MonkeyPatch, discover: Command) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MATRIX.encode())))
    out = discover("--capture - -o labels")
    assert "gpu.topology/interconnect=nvlink" in out.out
    assert "gpu.topology/gpus-per-numa=1-1" in out.out
    assert "gpu-product" not in out.out  # a matrix does not say
    assert "note: GPU names unknown" in out.err


def test_the_table_tells_matrix_names_labels_and_what_is_wrong(tmp_path: Path, discover: Command) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("links_down: {1: [3]}")
    out = discover(f"--profile dgx-h200 --faults {faults}").out
    for words in ("NV17", "NIC10: mlx5_10 (0000:", "gpu.topology/state=degraded", "! GPU 1: 17 of 18 NVLinks active"):
        assert words in out


def test_without_a_driver_it_says_what_was_looked_for_and_what_to_try(tmp_path: Path, discover: Command) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path / "sys")
    error = discover(f"--sysfs {tmp_path / 'sys'}", code=1).err
    for words in ("libnvidia-ml.so.1", "GPUs on the PCI bus: 0000:", "--profile", "--capture"):
        assert words in error


def test_without_a_gpu_it_says_so_and_what_to_try(tmp_path: Path, discover: Command) -> None:
    (tmp_path / "bus" / "pci" / "devices").mkdir(parents=True)
    error = discover(f"--sysfs {tmp_path}", code=1).err
    for words in ("no NVIDIA GPU on this machine", "--profile", "--capture"):
        assert words in error


@each_case("tables/cli.yaml")
def test_a_machine_that_is_not_there(arguments: str, words: str, discover: Command) -> None:
    assert words in discover(arguments, code=1).err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "GPU0"),
        ("hello", "GPU0"),
        ("\x00\xff" * 100, "GPU0"),
        (MATRIX.replace("GPU1    NV4      X      SYS", "GPU1    NV5      X      SYS"), "GPU0"),
        (
            MATRIX.replace("GPU1    NV4      X      SYS     16-31   1\n", "").replace("NIC0    PIX     SYS      X", ""),
            "GPU1",
        ),
        (MATRIX.replace("PIX", "FOO"), "FOO"),
    ],
)
def test_a_matrix_that_cannot_be_is_refused_by_cell(text: str, words: str, tmp_path: Path, discover: Command) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(text, encoding="latin-1")
    error = discover(f"--capture {file}", code=1).err
    assert error.startswith("toposcope discover: ")
    assert words in error
    assert "Traceback" not in error


def test_two_machines_at_once_are_wrong_usage(discover: Command) -> None:
    assert "give one" in discover("--profile t4-1 --capture x", code=2).err


RECORDING = Path(__file__).parents[1] / "recordings" / "dgx-h200.json"


def arguments(profile: str | None, capture: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(profile=profile, faults=None, capture=capture, sysfs=Path("/sys"))


def reopened(machine: Source) -> Any:
    """What opens its NVML, as another process gets it."""
    return pickle.loads(pickle.dumps(machine.open_nvml))  # noqa: S301 - pickled on this very line


@pytest.mark.parametrize(("profile", "gpus"), [("t4-1", 1), ("dgx-h200", 8), (str(RECORDING), 8)])
def test_simulated_and_recorded_machines(profile: str, gpus: int) -> None:
    with source(arguments(profile), "node-1") as machine:
        nvml = reopened(machine)()
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == gpus


def test_a_machine_built_from_a_capture(tmp_path: Path) -> None:
    capture = tmp_path / "topo.txt"
    capture.write_text("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n")
    with source(arguments(None, str(capture)), "node-1") as machine:
        nvml = reopened(machine)()
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 2


def test_the_machine_itself() -> None:
    with source(arguments(None), "node-1") as machine:
        assert reopened(machine) is machine.open_nvml


def test_a_fault_file_is_refused_before_a_process_ends_at_it(tmp_path: Path, discover: Command) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("links_down: {0: some}")
    error = discover(f"--profile t4-1 --faults {faults}", code=1).err
    assert error == "toposcope discover: faults.yaml: links_down[...]: 'some' is no word of this field\n"
