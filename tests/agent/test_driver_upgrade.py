"""A driver that is replaced while the probe's process runs: the library in that process never gets over it."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.nvml import PROFILE, upgradable
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    write_sysfs(load_profile(PROFILE), tmp_path / "sys")
    return tmp_path / "sys"


def test_a_driver_that_was_upgraded_is_found_by_a_new_process(sysfs: Path, tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    driver.write_text("570")
    with ProbeProcess(partial(upgradable, driver), sysfs) as probe:
        assert len(probe.probe().gpus) == 4
        driver.write_text("580")
        assert [fault.code for fault in probe.probe().faults] == [18]
        assert len(probe.probe().gpus) == 4
