"""How workers come to life and end: the first one is forked, each later one is a fresh interpreter.

A fork is the cheapest start, and shares memory with the agent as long as little is loaded. But when a worker has to be
replaced the agent has threads by then, and a fork copies locks that those hold and nobody will ever open in the copy.
A fresh interpreter inherits nothing but the descriptors it is given, and it is needed only after something went wrong.
"""

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.board import Board

_SHARED: Final = ("random", "string", "threading", "weakref")
"""What both load, the worker for NVIDIA's binding: before the fork that is done once, and the pages stay shared."""


class Worker(NamedTuple):
    """A worker's process, and the agent's end of the socket between them."""

    pid: int
    socket: socket.socket


def fork(open_nvml: Callable[[], Any], sysfs: Path, board: Board) -> Worker:
    """The first worker; call it before the first thread starts, and before what only the agent needs is loaded."""
    ours, theirs = socket.socketpair()
    with loading():
        for module in _SHARED:
            importlib.import_module(module)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            with loading():
                from toposcope.agent.nvml.process import be_worker  # noqa: PLC0415 - what the worker loads, the agent never pays for

            be_worker(parent, theirs, board, open_nvml, sysfs)
        except BaseException:  # noqa: BLE001 - this copy of the agent must not go on, whatever it is
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    theirs.close()
    return Worker(pid, ours)


def spawn(open_nvml: Callable[[], Any], sysfs: Path, board: Board) -> Worker:
    """A later worker. Raises OSError when the system has no room for it."""
    import pickle  # noqa: PLC0415 - loaded only where something went wrong

    with contextlib.ExitStack() as ends:
        ours, theirs = socket.socketpair()
        ends.callback(theirs.close)
        orders = ends.enter_context(open(os.memfd_create("toposcope-worker"), "w+b"))  # noqa: PTH123 - no path leads to it
        pickle.dump((open_nvml, sysfs), orders)
        orders.flush()
        given = (theirs.fileno(), board.descriptor, orders.fileno())
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from toposcope.agent.nvml.process import main; main({os.getpid()}, {', '.join(map(str, given))})"
        )
        try:
            with _inheritable(*given):
                pid = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ)
        except OSError:
            ours.close()
            raise
    return Worker(pid, ours)


@contextlib.contextmanager
def _inheritable(*descriptors: int) -> Iterator[None]:
    """Hand descriptors on to the next program; no other thread of the agent starts any."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)


def ended(pid: int, seconds: float = 0.0) -> str:
    """How the process ended, or nothing when it has not within `seconds`; once it has, its pid is free."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            return ""
    finally:
        os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
