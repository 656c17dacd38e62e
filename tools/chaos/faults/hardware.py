"""Faults of a machine and of the process that asks it."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
from typing import TYPE_CHECKING

import psutil

from tools.chaos.faults.model import Fault, Scope

if TYPE_CHECKING:
    from tools.chaos.world import World

_PIDFD_GETFD = 438
"""The number of that system call on every architecture; Python does not have it."""
_NOISE = b"\xff\xfe\x00garbage\n\x00\x00\x00\x7f" * 64


def _suffer(faults: str, world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        machine.now.silent = True  # until a new worker has looked, nobody can vouch for anything
        machine.set_faults(faults, answers=not faults.startswith("calls:"))


def _heal(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        machine.set_faults("")


def _signal_worker(number: signal.Signals, world: World, target: str) -> None:
    actor = world.actors[target]
    if actor.machine:
        actor.machine.now.silent = True
    for child in actor.program.children():
        child.send_signal(number)


def _continue_worker(world: World, target: str) -> None:
    for child in world.actors[target].program.children():
        child.send_signal(signal.SIGCONT)


def _feed(world: World, target: str) -> None:
    """Write noise into the worker's end of the socket, as a driver that has overwritten its memory might."""
    actor = world.actors[target]
    if actor.machine:
        actor.machine.now.silent = True
    for child in actor.program.children():
        for descriptor in _sockets(child):
            with _stolen(child.pid, descriptor) as end:
                end.setblocking(False)
                end.send(_NOISE)


def _sockets(process: psutil.Process) -> list[int]:
    folder = f"/proc/{process.pid}/fd"
    return [
        int(name)
        for name in os.listdir(folder)  # noqa: PTH208 - names are numbers here
        if os.readlink(f"{folder}/{name}").startswith("socket:")  # noqa: PTH115 - same
    ]


def _stolen(pid: int, descriptor: int) -> socket.socket:
    """A copy of another process' socket. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(pid)
    try:
        copy = libc.syscall(_PIDFD_GETFD, handle, descriptor, 0)
    finally:
        os.close(handle)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=copy)


def _may_steal() -> str:
    """Whether a child's descriptors may be taken: it takes the rights of a debugger."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        end, other = socket.socketpair()
        with end, other, _stolen(pid, end.fileno()):
            return ""
    except OSError as error:
        # The child was forked before the sockets were made: EBADF means that the right is there.
        return "" if error.errno == 9 else f"descriptors of other processes cannot be had: {error}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _machine(name: str, what: str, faults: str) -> Fault:
    return Fault(name, what, Scope.AGENT, (4.0, 14.0), functools.partial(_suffer, faults), _heal)


FAULTS = (
    _machine("nvml-hung", "an NVML call never returns", "calls: [{call: nvmlDeviceGetCount, hang: true}]"),
    _machine("nvml-crashed", "an NVML call aborts its process", "calls: [{call: nvmlDeviceGetCount, crash: true}]"),
    _machine("nvml-failing", "NVML answers errors to everything", "calls: [{call: nvmlDeviceGetCount, error: 999}]"),
    _machine("gpu-lost", "a GPU is lost, and returns", "lost: [1]"),
    _machine("gpu-vanished", "a GPU leaves the bus, and returns", "vanished: [1]"),
    _machine("links-down", "every NVLink of a GPU goes down, and comes back", "links_down: {1: all}"),
    Fault(
        "worker-segfault",
        "the process that asks NVML dies of SIGSEGV",
        Scope.AGENT,
        (0.5, 1.0),
        functools.partial(_signal_worker, signal.SIGSEGV),
    ),
    Fault(
        "worker-stopped",
        "the process that asks NVML stands still (SIGSTOP)",
        Scope.AGENT,
        (4.0, 14.0),
        functools.partial(_signal_worker, signal.SIGSTOP),
        _continue_worker,
    ),
    Fault("worker-garbage", "noise on the socket to the worker", Scope.AGENT, (0.5, 1.0), _feed, missing=_may_steal),
)
