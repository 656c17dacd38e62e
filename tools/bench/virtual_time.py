"""A clock that moves on order, for a whole process: days pass as fast as the work in them is done.

It takes the place of `time.monotonic`, `time.time`, the boot clock and `threading.Event`; everything in between runs as
it is. Time that is spent in the system (sockets, CPU clocks) stays real.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

_GLANCE: Final = 0.002


class VirtualTime:
    """Seconds that `advance` adds to; threads that wait on its events wake when their time has come."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._changed = threading.Condition()
        self._now = start
        self._waiting: dict[int, tuple[VirtualEvent, float]] = {}
        """Thread to what it waits for, and until when."""

    def now(self) -> float:
        """The time."""
        return self._now

    def install(self) -> None:
        """Take the place of the clocks and of `threading.Event`; to be called before the program is imported."""
        real = time.clock_gettime

        def clock_gettime(clock: int) -> float:
            return self._now if clock == time.CLOCK_BOOTTIME else real(clock)

        def event() -> VirtualEvent:
            return VirtualEvent(self)

        patched: Any = time
        patched.monotonic = patched.time = self.now
        patched.clock_gettime = clock_gettime
        threads: Any = threading
        threads.Event = event

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._changed:
            self._now += seconds
            self._changed.notify_all()

    def settled(self, thread: int, patience: float, clock: Callable[[], float], pause: Callable[[float], None]) -> bool:
        """Wait until a thread rests, and still does after a moment; False when it does not within `patience`.

        `clock` and `pause` are of the real time.
        """
        deadline = clock() + patience
        calm = 0
        while calm < 2:  # noqa: PLR2004 - seen at rest twice
            if clock() > deadline:
                return False
            calm = calm + 1 if self._rests(thread) else 0
            pause(_GLANCE)
        return True

    def _rests(self, thread: int) -> bool:
        with self._changed:
            event, until = self._waiting.get(thread, (None, 0.0))
            return event is not None and not event.is_set() and until > self._now

    def wait(self, event: "VirtualEvent", timeout: float | None) -> bool:
        """Wait for an event; whether it is set."""
        me = threading.get_ident()
        with self._changed:
            until = float("inf") if timeout is None else self._now + timeout
            self._waiting[me] = event, until
            self._changed.wait_for(lambda: event.is_set() or self._now >= until)
            del self._waiting[me]
            return event.is_set()

    def tell(self) -> None:
        """Have everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()


class VirtualEvent:
    """`threading.Event` under a virtual clock."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._flag = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._flag

    def set(self) -> None:
        """Wake everybody who waits for it."""
        self._flag = True
        self._time.tell()

    def clear(self) -> None:
        """Make them wait again."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds for it; whether it is set."""
        return self._time.wait(self, timeout)
