"""The machines that commands look at reach a worker that is started afresh: what opens their NVML can be pickled."""

import argparse
import pickle
from pathlib import Path
from typing import Any

import pytest

from toposcope.cli.hardware import Source, source

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
