"""What the screen can show: colours, width, a pager; all of it off where the output goes into a file or a pipe."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from toposcope.cli.streams import say

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "alarm": "1;31",
    "head": "1",
}
_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class Screen:
    """One output: `width` and `height` in characters, None where there is no end (a file, a pipe)."""

    stream: TextIO
    colour: bool
    width: int | None
    height: int | None
    pager: tuple[str, ...] = ()
    """Command and arguments; empty: none."""

    def paint(self, text: str, style: str) -> str:
        """The text in a style, where there are colours; no meaning is in the colour alone."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def show(self, lines: Iterable[str]) -> None:
        """Print lines, through the pager when there are more than the screen is high. Raises BrokenPipeError."""
        lines = (safe(line, colours=self.colour, people=self.width is not None) for line in lines)
        if not self.pager or self.height is None:
            self.stream.writelines(f"{line}\n" for line in lines)
            self.stream.flush()
            return
        found = list(lines)
        if len(found) < self.height:
            self.stream.writelines(f"{line}\n" for line in found)
            self.stream.flush()
            return
        self._page("\n".join(found) + "\n")

    def _page(self, text: str) -> None:
        # -F -R -X: colours as they are, no screen of its own that vanishes at the end.
        environ = {"LESS": "FRX"} | dict(os.environ)
        try:
            subprocess.run(self.pager, input=text, encoding="utf-8", env=environ, check=False)  # noqa: S603 - the user's own pager
        except FileNotFoundError:
            self.stream.write(text)
            self.stream.flush()


def screen(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ, *, paging: bool = True) -> Screen:
    """The screen of this process. `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`, `COLUMNS` and `PAGER` count."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    size = shutil.get_terminal_size() if terminal else None
    pager = shlex.split(environ.get("PAGER", "less")) if terminal and paging else []
    return Screen(
        stream,
        colour=wants_colour(terminal, environ),
        width=size.columns if size else None,
        height=size.lines if size else None,
        pager=() if pager == ["cat"] else tuple(pager),
    )


def wants_colour(terminal: bool, environ: Mapping[str, str]) -> bool:
    """Whether to use colours: https://no-color.org before https://bixense.com/clicolors."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return terminal and environ.get("CLICOLOR", "1") != "0" and environ.get("TERM") != "dumb"


_STEERING: Final = "[\x00-\x08\x0a-\x1f\x7f-\x9f]"
_TURNING: Final = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""What turns the direction of writing, so that a name looks like another."""
_OURS: Final = "\x1b\\[(?:" + "|".join(["0", *sorted(set(_CODES.values()))]) + ")m"
_UNSAFE: Final = re.compile(_STEERING)
_UNSAFE_FOR_PEOPLE: Final = re.compile(f"{_STEERING}|{_TURNING}")
_UNSAFE_COLOURED: Final = re.compile(f"(?!{_OURS})(?:{_STEERING}|{_TURNING})")


def safe(line: str, *, colours: bool = False, people: bool = True) -> str:
    r"""The line without anything that would steer a terminal: labels and messages are other people's words.

    Control characters are written as `\u001b`, which JSON understands; `colours` leaves those of `Screen.paint`.
    `people` also shows what turns the direction of writing, which programs want as it is.
    """
    unsafe = _UNSAFE_COLOURED if colours else _UNSAFE_FOR_PEOPLE if people else _UNSAFE
    return unsafe.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


transient: Final[list[Callable[[], None]]] = []
"""What clears a line that is shown on standard error for a moment."""


def complain(text: object) -> None:
    """Say it on standard error; nothing where nobody reads it."""
    for clear in transient:
        clear()
    say("\n".join(safe(line) for line in str(text).split("\n")))


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, its middle left out: ends tell domains apart as often as beginnings."""
    if len(text) <= width:
        return text
    if width <= 1:
        return text[:width]
    front = width // 2
    return text[:front] + _ELLIPSIS + text[len(text) - (width - front - 1) :]


def columns(
    screen: Screen, header: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()
) -> Iterable[str]:
    """Aligned columns, those in `right` to the right; on a narrow screen the last column is cut."""
    numeric = frozenset(right)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    last = len(header) - 1
    if screen.width is not None and last not in numeric:
        widths[last] = max(8, min(widths[last], screen.width - sum(widths[:last]) - 2 * last))
    for number, row in enumerate((header, *rows)):
        cells = [
            text.rjust(widths[i])
            if i in numeric
            else (shortened(text, widths[i]) if i == last else text.ljust(widths[i]))
            for i, text in enumerate(row)
        ]
        line = "  ".join(cells).rstrip()
        yield screen.paint(line, "head") if number == 0 else line
