"""Simulated NVMLs that misbehave. Functions of a module, because a worker that is started afresh gets them pickled."""

import os
import signal
from pathlib import Path

from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

PROFILE = "l40s-4"


def faulty(faults: Path) -> SimulatedNvml:
    """Does what the file says; a crash is one by SIGKILL."""

    def crash() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return SimulatedNvml(load_profile(PROFILE), faults_file=faults, crash=crash)


def missing() -> SimulatedNvml:
    """The binding cannot be loaded."""
    raise ImportError("no such binding")


def counting(started: Path) -> SimulatedNvml:
    """Adds a letter to the file for each nvmlInit."""

    class Counting(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            with started.open("a") as file:
                file.write("x")
            super().nvmlInit()

    return Counting(load_profile(PROFILE))
