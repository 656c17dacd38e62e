"""Keeps NVML in a process of its own, for which the agent never waits without a limit.

    agent (deadlines, API server, metrics)  ──►  worker (NVML)

The worker may hang in the driver or crash. The agent notices, kills it, reports it and starts a new
one for the next probe. A worker that is stuck in the kernel does not even die of SIGKILL until the
driver lets go: it is not waited for, and no second one is started meanwhile.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from toposcope.agent.nvml.channel import EVENT, LISTEN, REQUEST, Channel, ChannelError
from toposcope.agent.nvml.process import ProbeTarget, ProbeWorker, ended, fork, spawn
from toposcope.agent.raw import RawNode, decode
from toposcope.errors import ToposcopeError

STEP_SECONDS: Final = 60.0
"""How long one step of a probe may take: initialising idle GPUs without persistence mode has
taken 32 s, and 200 processes that start at once wait for each other for 12 s."""

_LOOK_SECONDS: Final = 10.0
"""How often the agent checks whether PCI devices came or went: one directory listing."""

_END_SECONDS: Final = 1.0
"""How long a process may take to end once its channel is closed, or once it was killed."""


class ProbeError(ToposcopeError):
    """A probe without a result.

    The message says what happened in which step, `reason` is metrics' word for it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProbeProcess:
    """Runs probes in a process of their own.

    Create it early (see `process.fork`) and use it from one thread.

    `open_nvml` is called in the worker and returns `pynvml` or what stands in for it. A worker that
    has to be replaced gets it pickled, so it is a function of a module or a `functools.partial` of
    one. `sysfs` is the root of /sys; with `has_vf_rails` virtual functions are NICs too.
    """

    def __init__(
        self,
        open_nvml: Callable[[], Any],
        sysfs: Path,
        step_seconds: float = STEP_SECONDS,
        *,
        has_vf_rails: bool = False,
    ) -> None:
        self._machine = ProbeTarget(open_nvml, str(sysfs), has_vf_rails)
        self._step_seconds = step_seconds
        self._devices: frozenset[str] | None = None
        self._stuck = 0
        self._is_listening = True
        """Whether the worker was told to since the last probe.

        Before the first there is nothing to listen to.
        """
        self.is_waiting_for_answer = False
        """Whether a probe is under way that may wait for the driver: a signal need not."""
        self._last: tuple[bytes, RawNode] | None = None
        self._worker: ProbeWorker | None = fork(self._machine)

    @property
    def worker(self) -> int | None:
        """Process id of the worker; None between two of them."""
        worker = self._worker  # another thread may ask
        return worker.pid if worker else None

    def probe(self) -> RawNode:
        """One probe. Raises ProbeError."""
        self._devices = self._on_bus()
        answer = self._answer()
        # at rest the hardware answers the same each time
        if self._last is None or self._last[0] != answer:
            try:
                self._last = answer, decode(answer)
            except ValueError as error:
                self._end(patience=0.0)  # its memory may be damaged
                raise ProbeError("garbage", f"the probe's answer is malformed: {error}") from error
        raw = self._last[1]
        self._is_listening = False
        if raw.down:
            self._end()  # by itself: see `worker.work`
        return raw

    def wait(self, seconds: float, wake: socket.socket) -> str:
        """Wait so long, or until `wake` is readable, or until something happens to the hardware.

        What, else empty.
        """
        until = time.monotonic() + seconds
        if self._worker and not self._is_listening:
            with contextlib.suppress(ChannelError):  # it ended: what follows notices
                self._worker.channel.send(LISTEN, f"{until:.3f}")
            self._is_listening = True
        while (seconds_left := until - time.monotonic()) > 0:
            sources: list[socket.socket | Channel] = (
                [wake, self._worker.channel] if self._worker else [wake]
            )
            ready, _, _ = select.select(sources, [], [], min(seconds_left, _LOOK_SECONDS))
            if wake in ready:
                self._is_listening = False  # the next probe may be due sooner now
                return ""
            happened = self._worker_event() if ready else self._device_change()
            if happened:
                return happened
        return ""

    def close(self) -> None:
        """End the worker; one that the driver holds is left to it."""
        if self._worker:
            self._end(patience=0.0)  # it may be waiting for events, and NVML needs no shutdown

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self) -> bytes:
        """Ask the worker, a new one when there is none; its answer. Raises ProbeError."""
        if self._stuck and not ended(self._stuck):
            message = (
                f"the driver still holds an earlier probe (process {self._stuck}); waiting for it"
            )
            raise ProbeError("hang", message)
        self._stuck = 0
        channel = (self._worker or self._replacement()).channel
        self.is_waiting_for_answer = True
        try:
            channel.send(REQUEST)
            kind = EVENT
            while kind == EVENT:  # this very probe is the answer to whatever happened
                last_step = channel.step()
                while not channel.wait(self._step_seconds):
                    if channel.step() == last_step:
                        self._end(patience=0.0)
                        raise ProbeError(
                            "hang",
                            f"no answer within {self._step_seconds:g} s in step: {last_step[1]}",
                        )
                    last_step = channel.step()
                kind, _ = channel.receive()
            return channel.load()
        except ChannelError as error:
            step = channel.step()[1]
            raise ProbeError(
                "crash", f"the probe's process {self._end() or error} in step: {step}"
            ) from error
        finally:
            self.is_waiting_for_answer = False

    def _replacement(self) -> ProbeWorker:
        try:
            self._worker = spawn(self._machine)
        except OSError as error:
            raise ProbeError("other", f"cannot start the process that probes: {error}") from error
        return self._worker

    def _worker_event(self) -> str:
        """What the worker reports between probes, or that it ended."""
        if self._worker is None:
            raise AssertionError("only a worker reports")
        try:
            kind, words = self._worker.channel.receive()
        except ChannelError as error:
            return f"the probe's process {self._end() or error} while it waited for events"
        if kind != EVENT:
            self._end(patience=0.0)
            return "the probe's process sent an answer without a request"
        return words

    def _device_change(self) -> str:
        """Which devices came or went since the last probe."""
        before = self._devices
        now = self._on_bus()
        self._devices = now
        if before is None or now is None or now == before:
            return ""
        changed = ", ".join(sorted(before ^ now))
        return f"PCI devices changed: {changed[:200]}"

    def _on_bus(self) -> frozenset[str] | None:
        try:
            folder = f"{self._machine.sysfs}/bus/pci/devices"
            return frozenset(os.listdir(folder))  # noqa: PTH208 - every 2 s on every GPU node
        except OSError:
            return None

    def _end(self, patience: float = _END_SECONDS) -> str:
        """End the worker, by force if it does not end by itself.

        How it ended, empty while the driver holds it.
        """
        worker, self._worker = self._worker, None
        if worker is None:
            raise AssertionError("there is no worker to end")
        worker.channel.close()
        how = ended(worker.pid, patience)
        if not how:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
            how = ended(worker.pid, _END_SECONDS)
        self._stuck = 0 if how else worker.pid
        return how
