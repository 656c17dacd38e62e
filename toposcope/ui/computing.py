"""Answers questions about the cluster in a process that can be killed: see `ui.worker`.

Neither pasted text nor objects that anybody in the cluster wrote may stop the page. In a thread
they could: the interpreter runs one thread at a time, and a call that does not return to it stops
all others.
"""

import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import Snapshot
from toposcope.ui.frames import READY, EndedError, Frames
from toposcope.ui.known import KnownCluster, Sent, encoded
from toposcope.ui.questions import (
    Ask,
    CheckRequest,
    Metrics,
    NoPlanError,
    Question,
    QuestionOutcome,
    WorkerAnswer,
)

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 20.0
"""How long the answer to a question may take."""
READY_SECONDS: Final = 30.0
"""How long it may take until the worker runs and knows the cluster."""
PLAN_SECONDS: Final = 10.0
"""How long plans use the same cluster: pods come and go, and a large plan takes a second."""
IDLE_SECONDS: Final = 600.0
"""A worker that is idle for this long ends: it holds a copy of the cluster."""
_MOST_BYTES: Final = 32 << 20
"""The largest answer."""
_LOOK_SECONDS: Final = 1.0
"""Time between two checks that an idle worker still runs."""
_CLOSE_SECONDS: Final = 1.0


class ComputingError(ToposcopeError):
    """There is no answer; the message says why."""


class DeadlineError(ComputingError):
    """It took too long."""


class CrashError(ComputingError):
    """The worker ended, or could not be started."""


_CLOSING: Final = CrashError("the server is shutting down")


class NotReadyError(CrashError):
    """The worker does not start, or does not take what it is sent of the cluster."""


class MemoryLimitError(ComputingError):
    """It took too much memory."""


class DefectError(ComputingError):
    """The code that answers has a defect; the log says where."""


class Answerer(Protocol):
    """Something that answers questions."""

    def submit(self, question: Question, seconds: float | None = None) -> Future[bytes]:
        """The answer as JSON. Fails with NoPlanError, KubeError or ComputingError."""


class ComputingWorker:
    """A worker process and what it has been sent."""

    def __init__(self, main: str = "toposcope.ui.worker.main") -> None:
        """Start a process that runs this function. Raises OSError."""
        module, _, function = main.rpartition(".")
        ours, theirs = socket.socketpair()
        try:
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from {module} import {function}; {function}({os.getpid()}, {theirs.fileno()})"
            )
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                # Without site, which looks for packages in folders that sys.path already names.
                [sys.executable, "-S", "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()

        self._frames = Frames(ours)
        self._sent = Sent()
        self._is_ready = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it still runs; if not, its process id is free."""
        return self._process.poll() is None

    def answer(self, ask: Ask, cluster: KnownCluster) -> WorkerAnswer:
        """Send what the worker does not know of the cluster, then the question.

        Raises NotReadyError, EndedError, TimeoutError where the answer takes longer than it may,
        and ValueError where the worker sends something else.
        """
        try:
            self._prepare(cluster, time.monotonic() + READY_SECONDS)
        except TimeoutError:
            raise NotReadyError(
                f"the process that computes it was not ready within {READY_SECONDS:g} s"
            ) from None

        deadline = time.monotonic() + ask.seconds
        self._frames.send(encoded(ask), deadline)
        return _ANSWER.decode(self._frames.receive(_MOST_BYTES, deadline))

    def _prepare(self, cluster: KnownCluster, deadline: float) -> None:
        if not self._is_ready:
            self._frames.receive(len(READY), deadline)
            self._is_ready = True
        for message in self._sent.news(cluster):
            self._frames.send(encoded(message), deadline)

    def kill(self) -> None:
        """Kill the process; from any thread."""
        self._process.kill()

    def end(self) -> str:
        """Kill the process, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._frames.close()
        if code >= 0:
            return f"ended with code {code}"
        killed_by = signal.Signals(-code)
        return f"was killed by {killed_by.name}"


_ANSWER: Final = msgspec.json.Decoder(WorkerAnswer)


@dataclass(frozen=True, slots=True)
class _Job:
    question: Question
    seconds: float
    future: Future[bytes]


class Computing:
    """Answers questions one after the other, in a worker that the first question starts.

    It is given three functions: `snapshot` returns the cluster, `published` what schedulers read,
    and `required` what PodGangs and PodGroups require. The last two may raise KubeError.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        published: Callable[[], Snapshot],
        required: Callable[[], RequiredLevels],
        *,
        seconds: float = ANSWER_SECONDS,
        runtime: Runtime = REAL,
        start: Callable[[], ComputingWorker] = ComputingWorker,
    ) -> None:
        self._snapshot = snapshot
        self._published = published
        self._required = required
        self._seconds = seconds
        self._monotonic = runtime.monotonic
        self._start = start
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: ComputingWorker | None = None
        self._plans_sent_at = -inf
        """When the worker was last sent a cluster for plans."""
        self._last_used_at = 0.0
        self._is_closed = False
        self._lock = threading.Lock()
        # This thread starts the workers, and the kernel kills them when it ends: it lives until
        # `close`.
        self._thread = threading.Thread(target=self._run, name="computing", daemon=True)

    @property
    def worker(self) -> int | None:
        """Process id of the worker; None where there is none."""
        worker = self._worker
        return worker.pid if worker else None

    def submit(self, question: Question, seconds: float | None = None) -> Future[bytes]:
        """Ask a question; the future gets the answer as JSON within `seconds`.

        It fails with NoPlanError, KubeError or ComputingError.
        """
        future: Future[bytes] = Future()
        with self._lock:
            if self._is_closed:
                future.set_exception(_CLOSING)
            else:
                if not self._thread.is_alive():
                    self._thread.start()
                self._jobs.put(_Job(question, seconds or self._seconds, future))
        return future

    def close(self) -> None:
        """End the worker, whatever it is doing; later questions fail."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._jobs.put(None)

        if worker := self._worker:
            worker.kill()

        if self._thread.is_alive():
            # it may be waiting for an API server; the server need not wait for that
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(self._answer(job))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                job.future.set_exception(error)

        self._end()

    def _next(self) -> _Job | None:
        """Wait for the next job; None at the end.

        While waiting, remove a worker that has ended, and end one that is idle.
        """
        while True:
            try:
                return self._jobs.get(timeout=_LOOK_SECONDS if self._worker else None)
            except queue.Empty:
                is_idle = self._monotonic() - self._last_used_at > IDLE_SECONDS
                if self._worker and (is_idle or not self._worker.is_running):
                    self._end()

    def _answer(self, job: _Job) -> bytes:
        if self._is_closed:
            raise _CLOSING
        if self._worker and not self._worker.is_running:
            self._end()

        cluster = self._cluster(job.question)
        worker = self._worker or self._started()
        try:
            answer = worker.answer(Ask(job.question, job.seconds), cluster)
        except TimeoutError:
            self._end()
            raise DeadlineError(f"it took more than {job.seconds:g} s and was stopped") from None
        except EndedError:
            raise CrashError(f"the process that computed it {self._end()}") from None
        except ValueError as error:
            self._end()
            raise CrashError(f"the process that computed it sent no answer: {error}") from error
        except BaseException:
            self._end()  # it knows a part of the news
            raise

        self._last_used_at = self._monotonic()
        return self._body(answer)

    def _body(self, answer: WorkerAnswer) -> bytes:
        match answer.outcome:
            case QuestionOutcome.ANSWERED:
                return bytes(answer.body)
            case QuestionOutcome.NO_PLAN:
                raise NoPlanError(answer.error)
            case QuestionOutcome.OUT_OF_MEMORY:
                self._end()
                raise MemoryLimitError("it took too much memory and was stopped")
            case QuestionOutcome.FAILED:
                log.error("a request of the page failed: %s", answer.error)
                raise DefectError("it failed; the server's log says where")

    def _cluster(self, question: Question) -> KnownCluster:
        """What the worker has to know for this question. Raises KubeError."""
        if isinstance(question, CheckRequest):
            return KnownCluster(self._snapshot(), published=self._published())
        if isinstance(question, Metrics):
            return KnownCluster(self._snapshot(), required=self._required())

        now = self._monotonic()
        if self._worker and now - self._plans_sent_at < PLAN_SECONDS:
            return KnownCluster()

        required = self._required()
        self._plans_sent_at = now
        return KnownCluster(self._snapshot(), required=required)

    def _started(self) -> ComputingWorker:
        try:
            self._worker = self._start()
        except OSError as error:
            raise CrashError(f"the process that computes it cannot be started: {error}") from error
        if self._is_closed:  # meanwhile, by another thread that saw no worker
            self._worker.kill()
        return self._worker

    def _end(self) -> str:
        """End the worker, and say how it ended. The next one has to be sent everything."""
        worker, self._worker = self._worker, None
        self._plans_sent_at = -inf
        return worker.end() if worker else "ended"
