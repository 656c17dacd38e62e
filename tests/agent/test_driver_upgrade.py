"""A driver that is replaced while the probe's process runs: the library in that process never gets over it."""

from pathlib import Path
from typing import Any

import pynvml
import pytest

from agent.isolation import ProbeProcess
from simulator.nvml import SimulatedNvml
from simulator.profile import load_profile
from simulator.sysfs import write_sysfs


class Upgradable(SimulatedNvml):
    """A library that remembers the driver it was started with, and refuses to work with another one."""

    driver_file: Path

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        self.known = self.driver_file.read_text()
        super().nvmlInit()

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
        if self.driver_file.read_text() != self.known:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        return super().nvmlDeviceGetCount()


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    write_sysfs(load_profile("t4-1"), tmp_path / "sys")
    return tmp_path / "sys"


def test_a_driver_that_was_upgraded_is_found_by_a_new_process(sysfs: Path, tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    driver.write_text("570")

    def library() -> Any:
        made = Upgradable(load_profile("t4-1"))
        made.driver_file = driver
        return made

    with ProbeProcess(library, sysfs) as probe:
        assert len(probe.probe().gpus) == 1
        driver.write_text("580")
        assert [fault.code for fault in probe.probe().faults] == [18]
        assert len(probe.probe().gpus) == 1
