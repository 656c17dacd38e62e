"""The probe's processes: what the agent sees when NVML hangs, crashes, lies or comes back."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest

from agent import isolation
from agent.frames import Message, receive, send
from agent.isolation import KeeperGone, ProbeFailed, ProbeProcess
from simulator.faults import Faults
from simulator.nvml import SimulatedNvml
from simulator.profile import load_profile
from simulator.sysfs import write_sysfs

FOREVER = 3600.0


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    write_sysfs(load_profile("l40s-4"), tmp_path / "sys")
    return tmp_path / "sys"


def simulated(faults: Path) -> Callable[[], Any]:
    return lambda: SimulatedNvml(
        load_profile("l40s-4"), faults_file=faults, crash=lambda: os.kill(os.getpid(), signal.SIGKILL)
    )


def test_a_probe_crosses_two_processes_unchanged(sysfs: Path, tmp_path: Path) -> None:
    with ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe:
        first, second = probe.probe(), probe.probe()
    assert first == second
    assert [gpu.index for gpu in first.gpus] == [0, 1, 2, 3]
    assert first.gpu_functions[0].path[0].startswith("pci")


def test_a_hanging_call_is_named_and_the_next_probe_works(sysfs: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("calls: [{call: nvmlDeviceGetHandleByIndex, gpu: 2, hang: true}]")
    with ProbeProcess(simulated(faults), sysfs, step_seconds=0.2) as probe:
        with pytest.raises(ProbeFailed, match=r"no answer within 0.2 s in step: nvmlDeviceGetHandleByIndex GPU 2"):
            probe.probe()
        faults.unlink()
        assert len(probe.probe().gpus) == 4


def test_a_crash_is_named_and_the_next_probe_works(sysfs: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("calls: [{call: nvmlDeviceGetCount, crash: true}]")
    with ProbeProcess(simulated(faults), sysfs) as probe:
        with pytest.raises(ProbeFailed, match="was killed by SIGKILL in step: nvmlDeviceGetCount"):
            probe.probe()
        faults.unlink()
        assert len(probe.probe().gpus) == 4


def test_a_driver_that_comes_later_is_found_by_a_new_process(sysfs: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("init_error: 12")
    with ProbeProcess(simulated(faults), sysfs) as probe:
        raw = probe.probe()
        assert [fault.code for fault in raw.faults] == [12]
        assert len(raw.gpu_functions) == 4  # sysfs answers all the same
        faults.unlink()
        assert len(probe.probe().gpus) == 4


def test_nvml_is_started_once_for_many_probes(sysfs: Path, tmp_path: Path) -> None:
    """Each init wakes GPUs that nobody uses."""
    started = tmp_path / "started"

    class Counting(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            with started.open("a") as file:
                file.write("x")
            super().nvmlInit()

    with ProbeProcess(lambda: Counting(load_profile("l40s-4")), sysfs) as probe:
        for _ in range(3):
            probe.probe()
    assert started.read_text() == "x"


def test_a_probe_process_that_cannot_load_the_library_fails_and_does_not_hang(sysfs: Path) -> None:
    def broken() -> Any:
        raise ImportError("no such binding")

    with ProbeProcess(broken, sysfs) as probe, pytest.raises(ProbeFailed, match="ended with code 1"):
        probe.probe()


def test_the_agent_learns_when_the_keeper_is_gone(sysfs: Path, tmp_path: Path) -> None:
    with ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe:
        os.kill(probe._pid, signal.SIGKILL)
        os.waitid(os.P_PID, probe._pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(KeeperGone, match="process that runs NVML probes is gone"):
            probe.probe()


def test_no_process_is_left_behind(sysfs: Path, tmp_path: Path) -> None:
    with ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe:
        probe.probe()
        group = probe._pid
    with pytest.raises(ProcessLookupError):
        os.kill(group, 0)


def test_garbage_from_the_worker_is_a_failed_probe(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, tmp_path: Path
) -> None:
    def lie(parent: Any, *_: Any) -> None:
        while receive(parent, timeout=None):
            send(parent, Message(result=msgspec.Raw(b'{"gpus": "eight"}')))

    monkeypatch.setattr(isolation, "work", lie)
    with ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe, pytest.raises(ProbeFailed, match="nonsense"):
        probe.probe()


def test_a_device_that_comes_or_goes_wakes_the_agent(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(isolation, "_LOOK_SECONDS", 0.01)
    wake, _waker = socket.socketpair()
    with wake, _waker, ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe:
        probe.probe()
        (sysfs / "bus" / "pci" / "devices" / "0000:ff:00.0").symlink_to("nowhere")
        assert probe.wait(FOREVER, wake) == "PCI devices changed: 0000:ff:00.0"
        assert len(probe.probe().gpus) == 4


def test_an_nvml_event_wakes_the_agent_and_a_storm_is_one_wake(sysfs: Path) -> None:
    class Xids(SimulatedNvml):
        def nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:  # noqa: N802 - NVML's name
            del events, timeout_ms
            data = pynvml.c_nvmlEventData_t()
            data.eventType, data.eventData = 0x8, 79
            return data

        def nvmlDeviceGetIndex(self, handle: Any) -> int:  # noqa: N802 - NVML's name
            del handle
            return 3

    wake, waker = socket.socketpair()
    with wake, waker, ProbeProcess(lambda: Xids(load_profile("l40s-4")), sysfs) as probe:
        probe.probe()
        assert probe.wait(FOREVER, wake) == "XID 79 on GPU 3"
        waker.send(b"x")
        assert probe.wait(FOREVER, wake) == ""  # nothing more until the next probe
        assert len(probe.probe().gpus) == 4


def test_a_lost_gpu_ends_the_events_and_wakes_the_agent(sysfs: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    made = SimulatedNvml(load_profile("l40s-4"), faults_file=faults, wait=lambda _: _lose(made))
    wake, waker = socket.socketpair()
    with wake, waker, ProbeProcess(lambda: made, sysfs) as probe:
        probe.probe()
        assert "NVML's events ended" in probe.wait(FOREVER, wake)


def _lose(nvml: SimulatedNvml) -> None:
    nvml.faults = Faults(lost=frozenset({1}))


def test_the_end_of_the_agent_is_not_held_up_by_waiting(sysfs: Path, tmp_path: Path) -> None:
    wake, waker = socket.socketpair()
    with wake, waker, ProbeProcess(simulated(tmp_path / "none"), sysfs) as probe:
        waker.send(b"x")
        assert probe.wait(FOREVER, wake) == ""
