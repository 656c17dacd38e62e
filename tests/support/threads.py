"""Threads that outlive the test that began them."""

import sys
import threading
import traceback
from collections.abc import Iterable

PATIENCE = 30.0


def still_running(threads: Iterable[threading.Thread]) -> list[str]:
    """Name and stack of each one that does not end."""
    alive = []
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive() and (frame := sys._current_frames().get(thread.ident or 0)):
            alive.append(f"{thread.name}:\n{''.join(traceback.format_stack(frame))}")
    return alive
