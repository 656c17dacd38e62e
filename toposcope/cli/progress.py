"""A line on standard error for whatever takes longer than a second; nothing where nobody looks."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from toposcope.cli.terminal import safe, shortened, transient

_PATIENCE: Final = 1.0
_PAUSE: Final = 0.2
_CLEAR: Final = "\r\x1b[K"
_LONGEST: Final = 36
"""Characters of a name: a line that wraps could not be taken away."""
_LONG: Final = 100
"""Seconds from which on minutes say more."""


class Progress:
    """A context manager that is called with what is being read (or else done) and how many objects there are so far.

    Where nothing is heard for a while (a server that does not answer), the time goes on to be shown.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        doing: str = "reading",
        *,
        ticking: bool = True,
    ) -> None:
        """`ticking`: `tick` is called five times a second, from a thread."""
        self._stream = stream
        self._doing = doing
        self._ticking = ticking
        self._clock = clock
        self._shown = False
        self._what = ""
        self._count = 0
        self._share: float | None = None
        self._began = clock()
        self._next = self._began + _PATIENCE if stream.isatty() else None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """Show it, from the second second on and five times a second at most; with `share` also what is left."""
        if self._next is None:
            return
        with self._lock:
            if what != self._what:
                self._began = self._began if not self._what else self._clock()
                self._what = what
            self._count, self._share = count, share
            self._show(self._clock())

    def tick(self) -> None:
        """Show how long it takes by now, where nobody has told anything for a while."""
        if self._next is None:
            return
        with self._lock:
            now = self._clock()
            # Where something is told all the time, the line comes from there.
            if not self._shown or now >= self._next + _PATIENCE - _PAUSE:
                self._show(now)

    def _show(self, now: float) -> None:
        if self._next is None or now < self._next:
            return
        self._next = now + _PAUSE
        self._shown = True
        doing = f"{self._doing} {shortened(safe(self._what), _LONGEST)}".rstrip()
        elapsed = now - self._began
        waited = f", {elapsed:.0f} s" if elapsed >= 1 else ""
        text = f": {self._count:,}{_pace(self._count, elapsed, self._share)}" if self._count else waited
        self._write(f"{_CLEAR}{doing}{text}")

    def clear(self) -> None:
        """Take the line away, for something else that is to be said."""
        with self._lock:
            if self._shown:
                self._write(_CLEAR)
                self._shown = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone: what is to be answered may go elsewhere
            self._next = None

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE):
            self.tick()

    def __enter__(self) -> Self:
        if self._next is not None:
            transient.append(self.clear)
            if self._ticking:
                threading.Thread(target=self._watch, name="progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self.clear in transient:
            transient.remove(self.clear)
        self._next = None
        self.clear()


def _pace(count: int, elapsed: float, share: float | None) -> str:
    """`, 12,000/s, 34 %, 20 s left`, as far as it can be told."""
    text = f", {count / elapsed:,.0f}/s" if elapsed > 0 else ""
    if share is None or not 0 < share <= 1:
        return text
    left = elapsed * (1 - share) / share
    when = f"{left / 60:.0f} min" if left > _LONG else f"{left:.0f} s"
    return f"{text}, {share:.0%}, {when} left"
