"""A line on standard error for whatever takes longer than a second; nothing where nobody looks."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

_PATIENCE: Final = 1.0
_PAUSE: Final = 0.2
_CLEAR: Final = "\r\x1b[K"
_LONG: Final = 100
"""Seconds from which on minutes say more."""


class Progress:
    """A context manager that is called with what is being read (or else done) and how many objects there are so far."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, doing: str = "reading") -> None:
        self._stream = stream
        self._doing = doing
        self._clock = clock
        self._shown = False
        self._what = ""
        self._began = clock()
        self._next = self._began + _PATIENCE if stream.isatty() else None

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """Show it, from the second second on and five times a second at most; with `share` also what is left."""
        if self._next is None:
            return
        now = self._clock()
        if what != self._what:
            self._began = self._began if not self._what else now
            self._what = what
        if now < self._next:
            return
        self._next = now + _PAUSE
        self._shown = True
        self._stream.write(f"{_CLEAR}{self._doing} {what}: {count:,}{_pace(count, now - self._began, share)}")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()


def _pace(count: int, elapsed: float, share: float | None) -> str:
    """`, 12,000/s, 34 %, 20 s left`, as far as it can be told."""
    text = f", {count / elapsed:,.0f}/s" if elapsed > 0 else ""
    if share is None or not 0 < share <= 1:
        return text
    left = elapsed * (1 - share) / share
    when = f"{left / 60:.0f} min" if left > _LONG else f"{left:.0f} s"
    return f"{text}, {share:.0%}, {when} left"
