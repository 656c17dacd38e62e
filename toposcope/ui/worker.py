"""The process that computes for the page's server, with limits that the kernel enforces.

It holds a copy of the cluster and answers one question after the other. Whatever a question does
to it (a regular expression without end, memory without bound, a crash), the server kills it and
starts another. That is why it reads no files and talks to the server alone.
"""

import ctypes
import os
import resource
import signal
import socket
from typing import Final, NoReturn

import msgspec

from toposcope.ui.answers import Answers
from toposcope.ui.frames import READY, EndedError, Frames
from toposcope.ui.known import WorkerCopy, decoded
from toposcope.ui.questions import Ask, QuestionOutcome, WorkerAnswer

MEMORY_BYTES: Final = 512 << 20
"""Address space that a question may use, besides that of the copy of the cluster."""
_UNBOUNDED_BYTES: Final = 1 << 62
"""Of a message from our own server, and of memory between two questions."""
_GRACE_SECONDS: Final = 5.0
"""After a question's deadline: the server kills this process before that, else the kernel does."""
_NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1
_ENDS_FIRST: Final = "1000"
"""The kernel's score: where memory runs out, it kills this process before the server."""


def main(parent: int, descriptor: int) -> NoReturn:
    """Answer the server, process `parent`, over the socket that it passed on, until it ends."""
    _confine()
    # otherwise the server ended before the kernel knew that this process should end with it
    if os.getppid() == parent:
        _serve(Frames(socket.socket(fileno=descriptor)))
    os._exit(0)


def _confine() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold the cluster
    os.nice(_NICENESS)
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - the kernel's
            file.write(_ENDS_FIRST)
    except OSError:
        pass  # a system without it: the server may then be ended first


def _serve(server: Frames) -> None:
    copy = WorkerCopy()
    answers = Answers(copy)
    at_start = _address_space()
    try:
        server.send(READY)
        while True:
            message = decoded(server.receive(_UNBOUNDED_BYTES))
            if not isinstance(message, Ask):
                copy.take(message)
                continue
            answer = _answer(answers, message, _address_space() - at_start)
            server.send(msgspec.json.encode(answer))
            if answer.outcome is QuestionOutcome.OUT_OF_MEMORY:
                return  # its state may be inconsistent now
    except EndedError:
        return


def _answer(answers: Answers, ask: Ask, of_cluster: int) -> WorkerAnswer:
    """The answer, within bounds of time and memory; the cluster's copy takes `of_cluster` bytes."""
    # SIGALRM ends a process that does not handle it
    signal.setitimer(signal.ITIMER_REAL, ask.seconds + _GRACE_SECONDS)
    _limit_memory(_address_space() + MEMORY_BYTES + max(of_cluster, 0))
    try:
        return answers.answer(ask.question)
    finally:
        _limit_memory(_UNBOUNDED_BYTES)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory(most: int) -> None:
    """Limit the address space, as far as the limit that this process was started with allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _address_space() -> int:
    """Bytes that this process has reserved; not all of them are in use."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        pages = int(file.read().split()[0])
    return pages * resource.getpagesize()
