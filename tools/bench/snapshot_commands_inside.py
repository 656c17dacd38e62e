"""What a process says of itself when a soak looks at it."""

import os
import threading
from pathlib import Path
from typing import Any, Final

from tools.bench.reachable import process_roots, sizes

_OURS: Final = frozenset({"agent", "controller", "kube", "telemetry", "topology"})
_KIB: Final = 1024


def look() -> dict[str, Any]:
    """Resident bytes, open files, threads, and how full each container is; taken before looking costs anything."""
    resident = rss(os.getpid())
    return {
        "rss": resident,
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
        "threads": threading.active_count(),
        "sizes": sizes(process_roots(_OURS)),
    }


def rss(pid: int) -> int:
    """The resident size of a process in bytes. Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * _KIB for line in status.splitlines() if line.startswith("VmRSS:"))
