"""Keeps NVML at arm's length: three processes, forked before the agent starts its first thread.

    agent (API server, metrics)  ──►  keeper (deadlines, nothing else)  ──►  worker (NVML)

The worker may hang in the driver or crash. The keeper notices, kills it, answers the agent in plain words and forks a
new worker for the next probe; it has no threads, so it may fork at any time, which the agent may not. A worker that
is stuck in the kernel does not even die of SIGKILL until the driver lets go: it is never waited for, and no second
one is sent after it.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from agent.board import Board
from agent.frames import Broken, Message, receive, send
from agent.raw import RawNode
from agent.worker import decode, work

STEP_SECONDS: Final = 60.0
"""How long one step of a probe may take: initialising idle GPUs without persistence mode has taken 32 s, and 200
processes that start at once wait for each other for 12 s."""

_LOOK_SECONDS: Final = 2.0
"""How often the keeper looks whether PCI devices came or went: one directory listing."""

_MOMENT: Final = 1.0
"""How long a process may take to end once its socket is closed, or once it was killed."""


class ProbeFailed(Exception):
    """This probe gave no result; the next one may. The message says what happened, and in which step.

    `reason` is one word for metrics: hang, crash or garbage.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KeeperGone(Exception):
    """The keeper process is dead: only a restart of the agent helps."""


class ProbeProcess:
    """Runs probes in a process of their own. Make it before the first thread; use it from one thread.

    `open_nvml` is called in the worker and returns `pynvml` or what stands in for it; `sysfs` is the root of /sys.
    """

    def __init__(self, open_nvml: Callable[[], Any], sysfs: Path, step_seconds: float = STEP_SECONDS) -> None:
        self._step_seconds = step_seconds
        ours, theirs = socket.socketpair()
        # Objects made so far are left alone by the collector, so that the pages stay shared with the children.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _become(lambda: _Keeper(theirs, open_nvml, sysfs, step_seconds).run())
        theirs.close()
        self._socket = ours
        self._pid = pid

    def probe(self) -> RawNode:
        """One probe. Raises ProbeFailed, or KeeperGone when this object is of no further use."""
        try:
            send(self._socket, Message(request=True))
            # The keeper bounds every step and answers in any case: silence means that it is gone.
            while (answer := receive(self._socket, timeout=None)) and answer.event:
                pass  # this very probe is the answer to whatever happened
        except Broken as error:
            raise KeeperGone(f"the process that runs NVML probes is gone: {error}") from error
        if answer is None or answer.failure:
            raise ProbeFailed(answer.reason if answer else "other", answer.failure if answer else "no answer")
        try:
            return decode(answer.result)
        except msgspec.MsgspecError as error:
            raise ProbeFailed("garbage", f"the probe answered nonsense: {error}") from error

    def wait(self, seconds: float, wake: socket.socket) -> str:
        """Wait so long, or until `wake` can be read, or until something happens to the hardware: then what.

        Raises KeeperGone.
        """
        ready, _, _ = select.select([self._socket, wake], [], [], seconds)
        if self._socket not in ready:
            return ""
        try:
            message = receive(self._socket, timeout=None)
        except Broken as error:
            raise KeeperGone(f"the process that runs NVML probes is gone: {error}") from error
        return message.event if message else ""

    @property
    def keeper(self) -> int:
        """Process id of the keeper."""
        return self._pid

    def close(self) -> None:
        """End the keeper and its worker."""
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _become(run: Callable[[], None]) -> None:
    """Be a child process that ends when `run` does, whatever happens in it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides; its end closes our socket
    status = 1
    try:
        run()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, somebody has to be able to read it
        traceback.print_exc()
    finally:
        os._exit(status)


class _Keeper:
    """The process between the agent and the worker."""

    def __init__(self, agent: socket.socket, open_nvml: Callable[[], Any], sysfs: Path, step_seconds: float) -> None:
        self._agent = agent
        self._open_nvml = open_nvml
        self._sysfs = sysfs
        self._step_seconds = step_seconds
        self._worker: socket.socket | None = None
        self._pid = 0
        self._stuck = 0
        self._devices: frozenset[str] | None = None
        self._board = Board()

    def run(self) -> None:
        """Serve the agent until it is gone; between probes, tell it what happens to the hardware."""
        with contextlib.suppress(Broken):
            while True:
                sources = [self._agent] + ([self._worker] if self._worker else [])
                ready, _, _ = select.select(sources, [], [], _LOOK_SECONDS)
                if self._agent in ready:
                    receive(self._agent, timeout=None)
                    self._devices = self._on_bus()
                    send(self._agent, self._probe())
                elif ready:
                    self._report(self._worker_news())
                else:
                    self._report(self._device_news())
        if self._worker:
            self._end(patience=0.0)  # it may be waiting for events; NVML needs no farewell

    def _report(self, happened: str) -> None:
        if happened:
            send(self._agent, Message(event=happened))

    def _worker_news(self) -> str:
        """What the worker says between probes, or that it ended."""
        try:
            message = receive(self._worker, self._step_seconds) if self._worker else None
        except Broken as error:
            return f"the probe's process {self._end() or error} while it waited for events"
        return message.event if message else ""

    def _device_news(self) -> str:
        """Whether devices came or went since the last probe."""
        before, self._devices = self._devices, self._on_bus()
        if before is None or self._devices == before or self._devices is None:
            return ""
        return f"PCI devices changed: {', '.join(sorted(before ^ self._devices))[:200]}"

    def _on_bus(self) -> frozenset[str] | None:
        try:
            return frozenset(os.listdir(f"{self._sysfs}/bus/pci/devices"))  # noqa: PTH208 - every 2 s on every GPU node
        except OSError:
            return None

    def _probe(self) -> Message:
        if self._stuck and not _reaped(self._stuck):
            held = f"the driver still holds an earlier probe (process {self._stuck}); waiting for it"
            return Message(failure=held, reason="hang")
        self._stuck = 0
        self._board.write("start")
        worker = self._worker or self._start()
        try:
            send(worker, Message(request=True))
            while (answer := self._answer_of(worker)) is not None:
                if answer.event:
                    continue  # this very probe is the answer to whatever happened
                if answer.final:
                    self._end()
                return answer
        except Broken as error:
            _, step = self._board.read()
            return Message(failure=f"the probe's process {self._end() or error} in step: {step}", reason="crash")
        _, step = self._board.read()
        self._end()
        return Message(failure=f"no answer within {self._step_seconds:g} s in step: {step}", reason="hang")

    def _answer_of(self, worker: socket.socket) -> Message | None:
        """The worker's next message; None when it stood at one step for longer than it may. Raises Broken."""
        seen = self._board.read()
        while not select.select([worker], [], [], self._step_seconds)[0]:
            if self._board.read() == seen:
                return None
            seen = self._board.read()
        return receive(worker, self._step_seconds)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            self._agent.close()
            _become(lambda: work(theirs, self._open_nvml, self._sysfs, self._board.write))
        theirs.close()
        self._worker = ours
        return ours

    def _end(self, patience: float = _MOMENT) -> str:
        """Drop the worker, by force unless it ends by itself; how it ended, or nothing while the driver holds it."""
        if self._worker:
            self._worker.close()
        self._worker = None
        ended = _reaped(self._pid, patience)
        if not ended:
            os.kill(self._pid, signal.SIGKILL)
            ended = _reaped(self._pid, _MOMENT)
        self._stuck = 0 if ended else self._pid
        return ended


def _reaped(pid: int, seconds: float = 0.0) -> str:
    """How the process ended, or nothing when it has not within `seconds`."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            return ""
    finally:
        os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
