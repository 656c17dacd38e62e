"""Threads that outlive the test that began them."""

import sys
import threading
import traceback
from collections.abc import Iterable

PATIENCE_SECONDS = 30.0


def still_running(threads: Iterable[threading.Thread]) -> list[str]:
    """Name and stack of each one that does not end."""
    alive = []
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        if not thread.is_alive():
            continue
        frame = sys._current_frames().get(thread.ident or 0)
        if frame:
            stack = "".join(traceback.format_stack(frame))
            alive.append(f"{thread.name}:\n{stack}")
    return alive
