"""How workers start and end: the first one is forked, a replacement is a fresh interpreter.

A fork is the cheapest start, and shares memory with the agent as long as little is loaded. But by the time a worker is
replaced the agent has threads, and a fork copies the locks that they hold, which nothing releases in the copy. A fresh
interpreter inherits nothing but the descriptors that it is given. `multiprocessing` has neither: its fresh interpreters
come with a process that tracks resources, and when the agent exits it waits for every child, for ever if the driver
holds one.
"""

import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.channel import START, Channel

_SHARED: Final = ("random", "string", "threading", "weakref")
"""What both load, the worker for NVIDIA's binding: before the fork that is done once, and the pages stay shared."""
_PR_SET_PDEATHSIG: Final = 1


class Worker(NamedTuple):
    """A worker's process id, and the agent's end of the channel."""

    pid: int
    channel: Channel


def fork(open_nvml: Callable[[], Any], sysfs: Path) -> Worker:
    """The first worker; call it before the first thread starts, and before what only the agent needs is loaded."""
    ours, theirs = Channel.pair()
    theirs.announce("start")
    with loading():
        for module in _SHARED:
            importlib.import_module(module)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
        finally:  # this copy of the agent must not go on, whatever happens
            _work(parent, theirs, open_nvml, sysfs)
    theirs.close()
    return Worker(pid, ours)


def spawn(open_nvml: Callable[[], Any], sysfs: Path) -> Worker:
    """A replacement. Raises OSError when the system has no room for it."""
    import pickle  # noqa: PLC0415 - loaded only where something went wrong

    ours, theirs = Channel.pair()
    theirs.announce("start")
    try:
        ours.store(pickle.dumps((open_nvml, sysfs)))
        ours.send(START)
        inherited = theirs.descriptors
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from toposcope.agent.nvml.process import main; main({os.getpid()}, *{inherited})"
        )
        # Duplicated onto itself, a descriptor stays open in the new program.
        keep = [(os.POSIX_SPAWN_DUP2, descriptor, descriptor) for descriptor in inherited]
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ, file_actions=keep)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Worker(pid, ours)


def main(parent: int, connection: int, memory: int) -> NoReturn:
    """A replacement's main program; the last two are the descriptors of its end of the channel."""
    import pickle  # noqa: PLC0415 - a forked worker does without

    channel = Channel(socket.socket(fileno=connection), memory)
    channel.receive()
    open_nvml, sysfs = pickle.loads(channel.load())  # noqa: S301 - our own parent wrote it, into memory that only we share
    _work(parent, channel, open_nvml, sysfs)


def _work(parent: int, channel: Channel, open_nvml: Callable[[], Any], sysfs: Path) -> NoReturn:
    """Be the worker until the agent, whose process id is `parent`, closes its end; then end this process."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the agent decides; its end closes the channel
        with loading():
            from toposcope.agent.nvml import worker  # noqa: PLC0415 - what the worker loads, the agent never pays for
        if _tied_to(parent):
            worker.work(channel, open_nvml, sysfs)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it has to be readable
        import traceback  # noqa: PLC0415 - it brings a tokenizer, and most workers never need it

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _tied_to(parent: int) -> bool:
    """Have the kernel kill this process when the agent dies, even in a call that hangs; False if the agent is gone."""
    import ctypes  # noqa: PLC0415 - the binding's, in the worker alone

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def ended(pid: int, seconds: float = 0.0) -> str:
    """How the process ended; empty when it has not within `seconds`. Once it has, its pid is free."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            return ""
    finally:
        os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
