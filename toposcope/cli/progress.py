"""Progress on standard error for whatever takes longer than a second; only on a terminal."""

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from toposcope.cli.terminal import shortened
from toposcope.kube.runtime import REAL, Runtime
from toposcope.text import escaped

if TYPE_CHECKING:
    from rich.text import Text

_DELAY_SECONDS: Final = 1.0
_REDRAW_SECONDS: Final = 0.2
_MAX_NAME_CHARACTERS: Final = 36
_MAX_SHOWN_SECONDS: Final = 100
"""More than these are shown as minutes."""


class ProgressLine:
    """A context manager that is called with what is being read, and how many objects so far.

    A thread redraws the line, so that its time goes on while a server does not answer.
    """

    def __init__(
        self,
        stream: TextIO,
        doing: str = "reading",
        runtime: Runtime = REAL,
        delay_seconds: float = _DELAY_SECONDS,
    ) -> None:
        """Nothing is shown within the first `delay_seconds`."""
        self._stream = stream
        self._doing = doing
        self._runtime = runtime
        self._delay_seconds = delay_seconds
        self._began = runtime.monotonic()
        self._what = ""
        self._count = 0
        self._share: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """`count` objects so far; `share` of the work is done (0 to 1), None where not known."""
        if what != self._what:
            if self._what:
                self._began = self._runtime.monotonic()
            self._what = what
        self._count, self._share = count, share

    def text(self) -> str:
        """`reading nodes: 12,000, 8,000/s, 34%, 3 s left`, as far as it is known."""
        what = shortened(escaped(self._what), _MAX_NAME_CHARACTERS)
        text = f"{self._doing} {what}".rstrip()
        elapsed = self._runtime.monotonic() - self._began
        if not self._count:
            if elapsed < 1:
                return text
            return f"{text}, {elapsed:.0f} s"

        text += f": {self._count:,}"
        if elapsed > 0:
            rate = self._count / elapsed
            text += f", {rate:,.0f}/s"
        if self._share:
            remaining = elapsed * (1 - self._share) / self._share
            text += f", {self._share:.0%}, {_duration(remaining)} left"
        return text

    def _show(self) -> None:
        """Redraw the line until the work is done; the thread runs this."""
        if self._ended.wait(self._delay_seconds):
            return

        from rich.console import Console  # noqa: PLC0415 - most commands end within a second
        from rich.live import Live  # noqa: PLC0415 - same

        console = Console(file=self._stream)
        try:
            # What is written to standard error meanwhile appears above the line.
            with Live(
                console=console,
                get_renderable=self._line,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
            ) as live:
                while not self._ended.wait(_REDRAW_SECONDS):
                    live.refresh()
        except OSError:
            pass  # the terminal is gone; the output may go elsewhere

    def _line(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415 - as above

        return Text(self.text(), no_wrap=True, overflow="ellipsis")

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread.ident:
            self._thread.join()


def _duration(seconds: float) -> str:
    """`34 s`, `12 min`."""
    if seconds > _MAX_SHOWN_SECONDS:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s"
