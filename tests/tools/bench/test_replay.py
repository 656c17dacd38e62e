from pathlib import Path

import pynvml
import pytest

from tools.bench.record import record
from tools.bench.replay import Replay
from toposcope.agent.nvml.gateway import Nvml, NvmlReturn
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.profile import profile_names


@pytest.mark.parametrize("profile", profile_names())
def test_tape_tells_what_the_simulation_told(profile: str, tmp_path: Path) -> None:
    machine = record(profile, tmp_path)
    nvml = Nvml(Replay(machine.tape))
    assert probe(nvml, Sysfs(machine.sysfs), nvml.start()) == machine.raw


def test_what_was_not_recorded_is_a_call_that_the_driver_lacks(tmp_path: Path) -> None:
    nvml = Nvml(Replay(record("t4-1", tmp_path).tape))
    answer = nvml.ask("nvmlUnitGetCount")
    assert isinstance(answer, NvmlReturn)
    assert answer.code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


def test_other_arguments_than_the_recorded_ones_are_an_error(tmp_path: Path) -> None:
    replay = Replay(record("t4-1", tmp_path).tape)
    with pytest.raises(LookupError):
        replay.nvmlDeviceGetHandleByIndex(7)
