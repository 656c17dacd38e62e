"""What the agent's own processes use. Loaded by the first scrape, with psutil: 1 MB that the start does without."""

import contextlib
import os
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """Resident memory in bytes, pages shared with other processes included, and CPU seconds since the process began."""

    resident: int
    cpu: float


def usage(worker: int | None) -> dict[str, Usage]:
    """What `agent` (this process) and `worker` use; one that is not there, or that may not be looked at, is left out.

    `worker` is the worker's process id.
    """
    found = {}
    for name, pid in (("agent", os.getpid()), ("worker", worker)):
        if pid is None:
            continue
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            process = psutil.Process(pid)
            with process.oneshot():  # one read of /proc for both
                cpu = process.cpu_times()
                found[name] = Usage(process.memory_info().rss, cpu.user + cpu.system)
    return found
