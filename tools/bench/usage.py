"""What processes use, seen from outside: CPU to the nanosecond, and memory counted once."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_SCHEDULED: Final = 2
_KIB: Final = 1024
_MOMENT_SECONDS: Final = 0.05
_GLANCE_SECONDS: Final = 0.002
_NOTHING_SECONDS: Final = 0.001
"""Seconds of CPU in a moment that are no work: a timer that went off."""


def cpu_seconds(pid: int) -> float:
    """User and system CPU of a process since it was forked, the threads that ended included.

    /proc counts in ticks of 10 ms; the process' own clock (`clock_getcpuclockid`) does not. Raises
    OSError when the process is gone.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def idle(*pids: int, moment: float = _MOMENT_SECONDS, nothing: float = _NOTHING_SECONDS) -> float:
    """Wait until processes have nothing more to do; return the CPU that they have used.

    Raises OSError when one is gone.
    """
    before = -1.0
    now = _cpu_of(pids)
    while now - before > nothing:
        time.sleep(moment)
        before = now
        now = _cpu_of(pids)
    return now


def _cpu_of(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes have used together."""
    used = 0.0
    for pid in pids:
        used += cpu_seconds(pid)
    return used


def busy(pid: int, patience: float) -> None:
    """Wait until a process begins to work. Raises TimeoutError."""
    deadline = time.monotonic() + patience
    rest = cpu_seconds(pid)
    while cpu_seconds(pid) - rest < _NOTHING_SECONDS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} has had nothing to do for {patience:.0f} s")
        time.sleep(_GLANCE_SECONDS)


def tree(pid: int) -> list[psutil.Process]:
    """A process and everything below it, parents first."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


@dataclass(frozen=True, slots=True)
class Memory:
    """What some processes hold together, in bytes.

    `anonymous` is their heaps and stacks, pages that they share counted once. `files` is what they
    use of the interpreter and libraries, counted once and in full: PSS would give a part of that to
    every other Python on the machine (this benchmark has two), and a node has no other.
    """

    anonymous: int
    files: int

    @property
    def total(self) -> int:
        """Anonymous memory and files."""
        return self.anonymous + self.files


def memory(processes: Iterable[psutil.Process]) -> Memory:
    """The memory of processes that live.

    Of a file that several use, the one that uses most of it counts.
    """
    anonymous = 0
    files: dict[str, int] = {}
    for process in processes:
        anonymous += _anonymous(process.pid)
        for mapping in process.memory_maps(grouped=True):
            path = mapping.path
            if not path.startswith("/"):
                continue
            held = mapping.rss - mapping.anonymous
            before = files.get(path, 0)
            files[path] = max(before, held)

    return Memory(
        anonymous,
        sum(files.values()),
    )


def _anonymous(pid: int) -> int:
    """Bytes of heaps and stacks, with a part of those that it shares."""
    kib = _proc_field(f"/proc/{pid}/smaps_rollup", "Pss_Anon:")
    return kib * _KIB


def _proc_field(path: str, field: str) -> int:
    """The number in one line of a file of /proc. Raises LookupError."""
    text = Path(path).read_text()
    for line in text.splitlines():
        name, *values = line.split()
        if name == field:
            return int(values[0])
    raise LookupError(f"{path} has no {field.rstrip(':')}")


def peak_memory(pid: int) -> int:
    """The largest resident size that a process has had, in bytes."""
    kib = _proc_field(f"/proc/{pid}/status", "VmHWM:")
    return kib * _KIB
