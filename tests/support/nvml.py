"""Simulated NVMLs that misbehave. Functions of a module, because a worker that is started afresh gets them pickled."""

import os
import signal
from pathlib import Path
from typing import Any

import pynvml

from toposcope.simulator.faults import Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

PROFILE = "l40s-4"


def faulty(faults: Path) -> SimulatedNvml:
    """Does what the file says; a crash is one by SIGKILL."""
    return SimulatedNvml(load_profile(PROFILE), faults_file=faults, crash=lambda: os.kill(os.getpid(), signal.SIGKILL))


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


def with_xids() -> SimulatedNvml:
    """Reports XID 79 on GPU 3 whenever somebody listens."""

    class Xids(SimulatedNvml):
        def nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:  # noqa: N802 - NVML's name
            del events, timeout_ms
            data = pynvml.c_nvmlEventData_t()
            data.eventType, data.eventData = 0x8, 79
            return data

        def nvmlDeviceGetIndex(self, handle: Any) -> int:  # noqa: N802 - NVML's name
            del handle
            return 3

    return Xids(load_profile(PROFILE))


def losing_a_gpu(faults: Path) -> SimulatedNvml:
    """Loses GPU 1 while somebody waits for events."""

    def lose(_seconds: float) -> None:
        made.faults = Faults(lost=frozenset({1}))

    made = SimulatedNvml(load_profile(PROFILE), faults_file=faults, wait=lose)
    return made


def upgradable(driver: Path) -> SimulatedNvml:
    """Remembers the driver (the file's text) that it was started with, and refuses to work with another one."""

    class Upgradable(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            self.known = driver.read_text()
            super().nvmlInit()

        def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
            if driver.read_text() != self.known:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
            return super().nvmlDeviceGetCount()

    return Upgradable(load_profile(PROFILE))
