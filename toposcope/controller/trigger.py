"""What wakes the reconcile loop: an event that remembers since when there is something to do."""

import threading
from collections.abc import Callable


class Wake:
    """Set by those who follow collections, from their threads; waited for and cleared by the loop.

    `monotonic` tells seconds. The time of the first change stays until the work on it is `done`, through failures.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._new: float | None = None
        self._taken: float | None = None

    def set(self) -> None:
        """Something has changed."""
        with self._lock:
            if self._new is None:
                self._new = self._monotonic()
            self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds for a change; whether there is one."""
        return self._event.wait(timeout)

    def clear(self) -> None:
        """Take on all changes so far."""
        with self._lock:
            if self._taken is None:
                self._taken = self._new
            self._new = None
            self._event.clear()

    def done(self) -> float | None:
        """The changes taken on are dealt with; seconds since the first of them came, None when there was none."""
        taken, self._taken = self._taken, None
        return None if taken is None else self._monotonic() - taken
