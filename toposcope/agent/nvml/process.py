"""How workers start and end: the first one is forked, a replacement is a fresh interpreter.

A fork is the cheapest start, and shares memory with the agent as long as little is loaded: of what
both write to, be it only a reference count, each gets a copy. So `fork_early` comes before what
only the agent needs, even the parser of its flags. But by the time a worker is replaced the agent
has threads, and a fork copies the locks that they hold, which nothing releases in the copy. A fresh
interpreter inherits nothing but the descriptors that it is given. `multiprocessing` has neither:
its fresh interpreters come with a process that tracks resources, and when the agent exits it waits
for every child, for ever if the driver holds one.
"""

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from toposcope.agent.gc_tuning import loading
from toposcope.agent.nvml.channel import START, Channel, ChannelError
from toposcope.agent.nvml.gateway import open_pynvml

_PR_SET_PDEATHSIG: Final = 1


class ProbeWorker(NamedTuple):
    """A worker's process id, and the agent's end of the channel."""

    pid: int
    channel: Channel


_early: list[ProbeWorker] = []
"""The worker, which waits for its first request."""


def fork_early() -> None:
    """Fork the worker that the next `fork` hands out; call it before anything else is loaded.

    Raises OSError.
    """
    _early.append(_forked(_told))


class ProbeTarget(NamedTuple):
    """Which machine to probe."""

    open_nvml: Callable[[], Any]
    sysfs: str
    """The root of /sys."""
    has_vf_rails: bool
    """Whether virtual functions are NICs too."""


def fork(machine: ProbeTarget) -> ProbeWorker:
    """The first worker.

    Call it before the first thread starts, and before what only the agent needs is loaded.
    """
    if not _early:
        return _forked(lambda _: machine)
    worker = _early.pop()
    _tell(worker.channel, machine)
    return worker


def spawn(machine: ProbeTarget) -> ProbeWorker:
    """A replacement. Raises OSError when the system has no room for it."""
    ours, theirs = Channel.pair()
    theirs.announce("start")
    try:
        _tell(ours, machine)
        inherited = theirs.descriptors
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from toposcope.agent.nvml.process import main; main({os.getpid()}, *{inherited})"
        )
        # Duplicated onto itself, a descriptor stays open in the new program.
        keep = [(os.POSIX_SPAWN_DUP2, descriptor, descriptor) for descriptor in inherited]
        # Without site, which looks for packages in folders that sys.path already names.
        command = [sys.executable, "-S", "-c", program]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=keep)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ProbeWorker(pid, ours)


def main(parent: int, connection: int, memory: int) -> NoReturn:
    """A replacement's main program; the last two are the descriptors of its end of the channel."""
    _work(parent, Channel(socket.socket(fileno=connection), memory), _told)


_VF_RAILS: Final = "vf-rails:"
_NO_VF_RAILS: Final = ":"


def _tell(channel: Channel, machine: ProbeTarget) -> None:
    """Tell a worker that was started without it which machine to probe.

    A path for this one, else a pickle.
    """
    if machine.open_nvml is open_pynvml:
        channel.send(START, (_VF_RAILS if machine.has_vf_rails else _NO_VF_RAILS) + machine.sysfs)
        return
    import pickle  # noqa: PLC0415 - only for machines that are simulated

    channel.store(pickle.dumps(tuple(machine)))
    channel.send(START)


def _told(channel: Channel) -> ProbeTarget:
    """What `_tell` tells. Raises ChannelError when the agent ended instead."""
    _, words = channel.receive()
    if words:
        flag, _, sysfs = words.partition(":")
        return ProbeTarget(open_pynvml, sysfs, has_vf_rails=bool(flag))
    import pickle  # noqa: PLC0415 - only for machines that are simulated

    content = channel.load()
    return ProbeTarget(*pickle.loads(content))  # noqa: S301 - our own parent wrote it


def _forked(told: Callable[[Channel], ProbeTarget]) -> ProbeWorker:
    ours, theirs = Channel.pair()
    theirs.announce("start")
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
        finally:  # this copy of the agent must not go on, whatever happens
            _work(parent, theirs, told)
    theirs.close()
    return ProbeWorker(pid, ours)


def _work(parent: int, channel: Channel, told: Callable[[Channel], ProbeTarget]) -> NoReturn:
    """Be the worker until the agent (process id `parent`) closes its end; then end this process."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the agent decides; its end closes the channel
        with loading():
            from toposcope.agent.nvml import worker  # noqa: PLC0415 - the worker alone
        if _tied_to(parent):
            with contextlib.suppress(ChannelError):
                worker.work(channel, *told(channel))
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it has to be readable
        import traceback  # noqa: PLC0415 - it brings a tokenizer, and most workers never need it

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _tied_to(parent: int) -> bool:
    """Have the kernel kill this process when the agent dies, even in a call that hangs.

    False if the agent is gone.
    """
    import ctypes  # noqa: PLC0415 - the binding's, in the worker alone

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def ended(pid: int, seconds: float = 0.0) -> str:
    """How the process ended; empty when it has not within `seconds`.

    Once it has, its pid is free.
    """
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], seconds)
    finally:
        os.close(handle)
    if not ready:
        return ""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
