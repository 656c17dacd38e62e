"""What wakes the reconcile loop."""

from toposcope.kube.runtime import REAL, Runtime


class Trigger:
    """Wakes the reconcile loop, and remembers when there was first something to do.

    Informers `set` it from their threads; the loop waits for it and clears it. The time of the
    first change stays until the work on it is `done`, through failures.
    """

    def __init__(self, runtime: Runtime = REAL) -> None:
        self._runtime = runtime
        self._event = runtime.event()
        self._lock = runtime.lock()
        self._changed_at: float | None = None
        self._taken_on_at: float | None = None

    def set(self) -> None:
        """Something has changed."""
        with self._lock:
            if self._changed_at is None:
                self._changed_at = self._runtime.monotonic()
            self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a change; whether there is one."""
        return self._event.wait(timeout)

    def is_set(self) -> bool:
        """Whether there is a change that is not taken on yet."""
        return self._event.is_set()

    def clear(self) -> None:
        """Take on all changes so far."""
        with self._lock:
            if self._taken_on_at is None:
                self._taken_on_at = self._changed_at
            self._changed_at = None
            self._event.clear()

    def done(self) -> float | None:
        """The changes taken on are handled.

        Seconds since the first of them, None if there was none.
        """
        if self._taken_on_at is None:
            return None
        seconds = self._runtime.monotonic() - self._taken_on_at
        self._taken_on_at = None
        return seconds
