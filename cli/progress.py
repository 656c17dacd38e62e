"""A line on standard error for whatever takes longer than a second; nothing where nobody looks."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

_PATIENCE: Final = 1.0
_PAUSE: Final = 0.2
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A context manager that is called with what is being read and how many objects there are so far."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = False
        self._next = clock() + _PATIENCE if stream.isatty() else None

    def __call__(self, what: str, count: int) -> None:
        """Show it, from the second second on and five times a second at most."""
        now = self._clock()
        if self._next is None or now < self._next:
            return
        self._next = now + _PAUSE
        self._shown = True
        self._stream.write(f"{_CLEAR}reading {what}: {count:,}")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
