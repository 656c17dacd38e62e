import argparse
import io
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.paths import FIXTURES
from toposcope.agent.annotation import LIMIT
from toposcope.cli.hardware import Source, source
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

MATRIX = (FIXTURES / "topo.txt").read_bytes()


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


def test_yaml_says_the_same_as_json(discover: Command) -> None:
    as_json = discover("--profile l40s-4 -o json").json
    assert discover("--profile l40s-4 -o yaml").yaml == as_json


def test_a_matrix_from_standard_input(monkeypatch: pytest.MonkeyPatch, discover: Command) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MATRIX)))
    out = discover("--capture - -o labels")
    assert "gpu.topology/interconnect=nvlink" in out.out
    assert "gpu.topology/gpus-per-numa=1-1" in out.out
    assert "gpu-product" not in out.out  # a matrix does not say
    assert "note: GPU names unknown" in out.err


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
