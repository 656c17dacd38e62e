"""The worker: what the agent sees when NVML hangs, crashes, answers garbage or comes back. All processes are real."""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import psutil
import pytest
from tests.support import nvml
from toposcope.agent.nvml import supervisor, worker
from toposcope.agent.nvml.channel import LISTEN, REQUEST, RESULT, Channel
from toposcope.agent.nvml.process import ProbeWorker
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

FOREVER = 3600.0
HANG = "calls: [{call: nvmlDeviceGetHandleByIndex, gpu: 2, hang: true}]"
CRASH = "calls: [{call: nvmlDeviceGetCount, crash: true}]"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    write_sysfs(load_profile(nvml.PROFILE), tmp_path / "sys")
    return tmp_path / "sys"


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    return tmp_path / "faults.yaml"


@pytest.fixture
def probe(sysfs: Path, faults: Path) -> Iterator[ProbeProcess]:
    """On a machine with the faults in the file `faults`."""
    with ProbeProcess(partial(nvml.faulty, faults), sysfs) as process:
        yield process


@pytest.fixture
def wake() -> Iterator[socket.socket]:
    """A socket that never becomes readable."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def test_probe_crosses_processes_unchanged(probe: ProbeProcess) -> None:
    first = probe.probe()
    second = probe.probe()
    assert first is second  # the same bytes are not read twice
    indexes = [gpu.index for gpu in first.gpus]
    assert indexes == [0, 1, 2, 3]
    root = first.gpu_functions[0].path[0]
    assert root.startswith("pci")


def test_name_that_is_not_utf8_crosses_processes(probe: ProbeProcess, sysfs: Path) -> None:
    probe.probe()
    bus = sysfs / "bus" / "pci" / "devices"
    without_nic = []
    for link in bus.iterdir():
        function = link.resolve()
        if not (function / "infiniband").exists():
            without_nic.append(function)
    nic = sysfs / "class" / "infiniband" / os.fsdecode(b"mlx\xff")
    nic.mkdir(parents=True)
    (nic / "device").symlink_to(without_nic[0])
    raw = probe.probe()
    names = [nic.name for nic in raw.nics]
    assert names == ["mlx5_0", "mlx5_1", "mlx?"]


def _crash(probe: ProbeProcess, faults: Path) -> None:
    """Have the worker crash; the next one is a fresh interpreter."""
    faults.write_text(CRASH)
    with pytest.raises(ProbeError):
        probe.probe()
    faults.unlink()


def _wait_until_ready(probe: ProbeProcess) -> None:
    """Until a new worker has loaded everything: that takes as long as it takes."""
    _wait_for_step(probe, "wait")


def _wait_until_idle(probe: ProbeProcess) -> None:
    """Until a worker that has answered does nothing any more; the answer comes a moment before that."""
    _wait_for_step(probe, "wait for events")


def _wait_for_step(probe: ProbeProcess, step: str) -> None:
    assert probe._worker
    while probe._worker.channel.step()[1] != step:
        os.sched_yield()


def test_crash_is_named_and_the_next_probe_works(probe: ProbeProcess, faults: Path) -> None:
    faults.write_text(CRASH)
    for _ in ("forked", "started afresh"):
        with pytest.raises(ProbeError, match="was killed by SIGKILL in step: nvmlDeviceGetCount") as seen:
            probe.probe()
        assert seen.value.reason == "crash"
    faults.unlink()
    assert len(probe.probe().gpus) == 4


def test_replacement_is_no_fork(probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch, faults: Path) -> None:
    def must_not() -> NoReturn:
        raise AssertionError("forked")

    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    monkeypatch.setattr(os, "fork", must_not)
    _crash(probe, faults)
    assert len(probe.probe().gpus) == 4
    done.set()
    thread.join()


def test_replacement_inherits_nothing_but_what_it_needs(probe: ProbeProcess, faults: Path) -> None:
    # From the parent of the tests: every child has them.
    inheritable = _open_files(os.getpid(), only=os.get_inheritable)
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb"):  # noqa: PTH123 - a pipe
        _crash(probe, faults)
        probe.probe()
        assert probe.worker
        _wait_until_idle(probe)
        inherited = _open_files(probe.worker) - inheritable
    assert sorted(target.split(":")[0] for target in inherited) == ["/memfd", "socket"]


def _open_files(pid: int, only: Callable[[int], bool] = lambda _: True) -> set[str]:
    """What the descriptors of a process stand for, those that `only` accepts."""
    targets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            if only(int(link.name)):
                targets.add(link.readlink().as_posix())
    return targets


def test_failed_start_is_a_failed_probe(probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch, faults: Path) -> None:
    def no_room(*_: Any, **__: Any) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    _crash(probe, faults)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_spawn", no_room)
        with pytest.raises(ProbeError, match=r"cannot start the process that probes.*temporarily unavailable"):
            probe.probe()
    assert len(probe.probe().gpus) == 4


def test_nvml_is_started_by_the_first_probe_and_only_once(sysfs: Path, tmp_path: Path) -> None:
    """Each init wakes idle GPUs."""
    started = tmp_path / "started"
    with ProbeProcess(partial(nvml.counting, started), sysfs) as probe:
        _wait_until_ready(probe)
        assert not started.exists()
        for _ in range(3):
            probe.probe()
    assert started.read_text() == "x"


def test_process_that_cannot_load_the_library_fails(sysfs: Path) -> None:
    with ProbeProcess(nvml.missing, sysfs) as probe:
        for _ in ("forked", "started afresh"):
            with pytest.raises(ProbeError, match="ended with code 1 in step: load the NVML binding"):
                probe.probe()


def test_no_process_and_no_zombie_is_left_behind(sysfs: Path, faults: Path) -> None:
    before = set(psutil.Process().children())
    faults.write_text(CRASH)
    with ProbeProcess(partial(nvml.faulty, faults), sysfs) as probe:
        for _ in range(2):
            with pytest.raises(ProbeError):
                probe.probe()
            assert set(psutil.Process().children()) == before
        faults.unlink()
        probe.probe()
        assert len(set(psutil.Process().children()) - before) == 1
    assert set(psutil.Process().children()) == before


def test_process_held_by_the_driver_is_neither_awaited_nor_doubled(
    probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, and with SIGKILL kept from it, it is as good as one in an uninterruptible call."""
    kill = os.kill
    monkeypatch.setattr(supervisor, "_END_SECONDS", 0.01)
    probe.probe()
    held = probe.worker
    assert held
    _wait_until_idle(probe)
    kill(held, signal.SIGSTOP)
    probe._step_seconds = 0.05
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", lambda _pid, _signal: None)
        with pytest.raises(ProbeError, match=r"no answer within 0\.05 s in step: wait for events"):
            probe.probe()
    children = psutil.Process().children()
    for _ in range(2):
        with pytest.raises(ProbeError, match=rf"still holds an earlier probe \(process {held}\)") as seen:
            probe.probe()
        assert seen.value.reason == "hang"
    assert psutil.Process().children() == children
    kill(held, signal.SIGKILL)  # the driver lets go
    _ended(held)
    probe._step_seconds = FOREVER
    assert len(probe.probe().gpus) == 4
    assert not psutil.pid_exists(held)  # reaped


def _ended(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("crashes_before", [0, 1], ids=["forked", "started-afresh"])
def test_process_in_a_hanging_call_dies_with_the_agent(sysfs: Path, faults: Path, crashes_before: int) -> None:
    reader, writer = os.pipe()
    agent = os.fork()
    if agent == 0:
        with contextlib.suppress(BaseException):
            _agent_with_a_hanging_probe(sysfs, faults, crashes_before, writer)
        os._exit(1)
    os.close(writer)
    try:
        with open(reader, "rb") as pipe:  # noqa: PTH123 - a pipe
            handle = os.pidfd_open(int(pipe.readline()))
    finally:
        os.kill(agent, signal.SIGKILL)
        os.waitpid(agent, 0)
    assert select.select([handle], [], [], 30)[0]
    os.close(handle)


def _agent_with_a_hanging_probe(sysfs: Path, faults: Path, crashes: int, writer: int) -> NoReturn:
    faults.write_text(CRASH)
    probe = ProbeProcess(partial(nvml.faulty, faults), sysfs)
    for _ in range(crashes):
        with contextlib.suppress(ProbeError):
            probe.probe()
    faults.write_text(HANG)
    hanging = probe._worker or probe._replacement()
    hanging.channel.send(REQUEST)
    while "GPU 2" not in hanging.channel.step()[1]:
        os.sched_yield()
    os.write(writer, f"{hanging.pid}\n".encode())
    while True:
        signal.pause()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b'{"gpus": "eight"}', id="object"),
        pytest.param(b"[]", id="empty-list"),
        pytest.param(b"\xff", id="no-utf8"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_garbage_is_a_failed_probe_and_the_end_of_the_process_that_sent_it(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, faults: Path, answer: bytes
) -> None:
    def lie(agent: Channel, *_: Any) -> None:
        while agent.receive():
            agent.store(answer)
            agent.send(RESULT)

    monkeypatch.setattr(worker, "work", lie)
    with ProbeProcess(partial(nvml.faulty, faults), sysfs) as probe:
        with pytest.raises(ProbeError, match="the probe's answer is malformed") as seen:
            probe.probe()
        assert seen.value.reason == "garbage"
        assert len(probe.probe().gpus) == 4  # by a fresh interpreter, which is not patched


class Header(NamedTuple):
    """What tells the agent that an answer is there."""

    kind: bytes
    length: int


@pytest.mark.parametrize(
    ("header", "words"),
    [
        pytest.param(Header(b"\x63", 0), "a signal of kind b'c'", id="unknown-kind"),
        pytest.param(Header(RESULT, 0xFFFFFFFF), "4294967295 bytes", id="too-long"),
    ],
)
def test_malformed_answer_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, faults: Path, header: Header, words: str
) -> None:
    def babble(agent: Channel, *_: Any) -> None:
        agent.receive()
        agent._memory[4096:4100] = header.length.to_bytes(4, sys.byteorder)
        agent._socket.send(header.kind)
        signal.pause()

    monkeypatch.setattr(worker, "work", babble)
    monkeypatch.setattr(supervisor, "_END_SECONDS", 0.01)
    kill = os.kill
    with ProbeProcess(partial(nvml.faulty, faults), sysfs) as probe:
        babbler = probe.worker
        assert babbler
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", lambda _pid, _signal: None)  # else the message says how it ended
            with pytest.raises(ProbeError, match=words) as seen:
                probe.probe()
        assert seen.value.reason == "crash"

        kill(babbler, signal.SIGKILL)
        _ended(babbler)
        raw = probe.probe()
        assert len(raw.gpus) == 4


def test_process_that_stops_in_an_answer_hangs(monkeypatch: pytest.MonkeyPatch, sysfs: Path, faults: Path) -> None:
    def stop(agent: Channel, *_: Any) -> None:
        agent.receive()
        agent._memory[4096:4106] = b"half of it"
        signal.pause()

    monkeypatch.setattr(worker, "work", stop)
    with ProbeProcess(partial(nvml.faulty, faults), sysfs, step_seconds=0.05) as probe:
        with pytest.raises(ProbeError, match="no answer within") as seen:
            probe.probe()
        assert seen.value.reason == "hang"
        assert probe.worker is None


def test_process_that_dies_while_it_waits_wakes_the_agent(probe: ProbeProcess, wake: socket.socket) -> None:
    probe.probe()
    assert probe.worker
    os.kill(probe.worker, signal.SIGKILL)
    assert probe.wait(FOREVER, wake) == "the probe's process was killed by SIGKILL while it waited for events"
    assert len(probe.probe().gpus) == 4


def test_unasked_answer_is_garbage(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, faults: Path, wake: socket.socket
) -> None:
    def blurt(agent: Channel, *_: Any) -> None:
        agent.send(RESULT)
        agent.receive()

    monkeypatch.setattr(worker, "work", blurt)
    with ProbeProcess(partial(nvml.faulty, faults), sysfs) as probe:
        assert probe.wait(FOREVER, wake) == "the probe's process sent an answer without a request"
        assert len(probe.probe().gpus) == 4


def test_devices_wake_it(
    probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch, sysfs: Path, wake: socket.socket
) -> None:
    monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.01)
    device = sysfs / "bus" / "pci" / "devices" / "0000:ff:00.0"
    probe.probe()
    device.symlink_to("nowhere")
    assert probe.wait(FOREVER, wake) == "PCI devices changed: 0000:ff:00.0"
    assert len(probe.probe().gpus) == 4
    device.unlink()
    assert probe.wait(FOREVER, wake) == "PCI devices changed: 0000:ff:00.0"


def test_wait_ends_when_the_agent_stops(sysfs: Path, faults: Path) -> None:
    wake, waker = socket.socketpair()
    with wake, waker, ProbeProcess(partial(nvml.faulty, faults), sysfs) as probe:
        waker.send(b"x")
        assert probe.wait(FOREVER, wake) == ""


def test_wake_up_says_again_how_long_the_worker_listens(probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    wake, waker = socket.socketpair()
    agent, theirs = Channel.pair()
    with wake, waker, contextlib.closing(agent), contextlib.closing(theirs):
        monkeypatch.setattr(probe, "_worker", ProbeWorker(0, agent))
        monkeypatch.setattr(probe, "_is_listening", False)
        began = time.monotonic()
        waker.send(b"x")
        assert probe.wait(3600, wake) == ""
        wake.recv(1)
        assert probe.wait(0.01, wake) == ""
        assert theirs.wait(0)
        first_kind, first_until = theirs.receive()
        assert theirs.wait(0)
        second_kind, second_until = theirs.receive()
        monkeypatch.undo()
    assert first_kind == LISTEN
    assert second_kind == LISTEN
    assert began < float(second_until) < began + 3600
    assert began + 3600 < float(first_until) + 0.001  # to the millisecond


def test_wait_ends_after_its_time(probe: ProbeProcess, monkeypatch: pytest.MonkeyPatch, wake: socket.socket) -> None:
    monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.001)
    probe.probe()
    assert probe.wait(0.01, wake) == ""
    assert probe.wait(-1.0, wake) == ""
    probe._is_listening = False  # as after a wake-up
    assert probe.wait(0.01, wake) == ""
    assert len(probe.probe().gpus) == 4


def test_repeated_step_is_another_one_and_a_long_one_is_cut() -> None:
    agent, announcing = Channel.pair()
    assert agent.step() == (0, "")
    announcing.announce("nvmlInit")
    announcing.announce("GPU 1")
    assert agent.step() == (2, "GPU 1")
    announcing.announce("GPU 1")
    assert agent.step() == (3, "GPU 1")
    announcing.announce("ä" * 5000)
    assert len(agent.step()[1].encode()) <= 4096 + 2
    agent.close()
    announcing.close()


@pytest.mark.regression
@pytest.mark.parametrize("size", [0, 1 << 30])
def test_worker_cannot_resize_the_shared_memory(size: int) -> None:
    agent, theirs = Channel.pair()
    with contextlib.closing(agent), contextlib.closing(theirs):
        theirs.store(b"answer")
        with pytest.raises(PermissionError):
            os.ftruncate(theirs.descriptors[1], size)
        assert agent.load() == b"answer"
