"""A worker of the page's server that does what a text tells it, instead of checking it: hang, crash, ..."""

import os
import re
import signal
from collections.abc import Collection, Iterable

from toposcope.snapshot.model import Snapshot
from toposcope.ui import answers, protocol, worker
from toposcope.ui.computing import ComputingWorker


def misbehaving() -> ComputingWorker:
    """A worker that obeys."""
    return ComputingWorker("tests.ui.workers.obey")


def forgotten() -> ComputingWorker:
    """A worker that obeys, and that the kernel ends at its deadline."""
    return ComputingWorker("tests.ui.workers.obey_in_time")


def obey(parent: int, descriptor: int) -> None:
    """As `worker.main`."""
    setattr(answers, "checked", _obeyed)  # noqa: B010 - its own type is that of the real one
    worker.main(parent, descriptor)


def obey_in_time(parent: int, descriptor: int) -> None:
    """The same, without grace after the deadline."""
    setattr(worker, "_GRACE_SECONDS", 0.0)  # noqa: B010 - it is final everywhere else
    obey(parent, descriptor)


def _obeyed(text: str, snapshot: Snapshot, _views: Collection[str], warnings: Iterable[str]) -> protocol.CheckAnswer:
    match text:
        case "hang":  # with the interpreter's lock held, for longer than the universe is old
            re.match("(a+)+b", "a" * 100)
        case "wait":
            signal.pause()
        case "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(3)
        case "overflow":
            return protocol.CheckAnswer([], ["x" * (33 << 20)], [])
        case "fill memory":
            bytearray(1 << 30)
        case "fail":
            raise ZeroDivisionError("a defect")
    return protocol.CheckAnswer([], [text], [*snapshot.warnings, *warnings])
