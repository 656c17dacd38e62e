"""What the agent's own processes use, from /proc.

Read here and not by psutil: on a node with 8 GPUs that would cost the agent 1.4 to 1.9 MB of memory (0.1 MB this way)
and 1.1 ms a scrape (0.1 ms), much of it to look through all of /proc for the keeper's child.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Resident memory in bytes, pages shared with other processes included, and CPU seconds since the process began."""

    resident: int
    cpu: float


def usage(keeper: int | None, proc: Path = Path("/proc")) -> dict[str, Usage]:
    """What `agent`, `keeper` and `worker` use; one that is not there, or that /proc does not tell of, is left out.

    `keeper` is the keeper's process id; it has at most one child, the worker. A kernel built without
    CONFIG_PROC_CHILDREN does not name it.
    """
    folders = {"agent": proc / "self"}
    if keeper is not None:
        folders["keeper"] = proc / str(keeper)
        with contextlib.suppress(OSError):
            for worker in (proc / f"{keeper}/task/{keeper}/children").read_text().split()[:1]:
                folders["worker"] = proc / worker
    found = {}
    for name, folder in folders.items():
        with contextlib.suppress(OSError):  # it ended meanwhile
            found[name] = _parse((folder / "stat").read_text(errors="replace"))
    return found


def _parse(stat: str) -> Usage:
    """Fields 14, 15 and 24 of proc(5)'s /proc/PID/stat; the name before them may hold anything, `)` and spaces too."""
    fields = stat.rpartition(")")[2].split()  # begins with field 3
    return Usage(resident=int(fields[21]) * _PAGE, cpu=(int(fields[11]) + int(fields[12])) / _TICKS)
