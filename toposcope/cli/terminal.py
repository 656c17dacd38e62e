"""Colours, width and pager of a terminal; files and pipes have none of them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from toposcope.cli.streams import say
from toposcope.text import escaped

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
_MIN_COLUMN_CHARACTERS: Final = 8
"""No column becomes narrower."""
_UNLIMITED_CHARACTERS: Final = 1 << 20
"""The width of what is no terminal."""


class UnfoldedLine(str):
    """A line that is never folded: a command to copy, or part of a document."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Screen:
    """An output; `width` and `height` are in characters, None for a file or a pipe.

    It isn't rich's console, which would take four seconds to print 100,000 nodes and is imported
    for progress alone.
    """

    stream: TextIO
    has_colour: bool
    width: int | None
    height: int | None
    pager: tuple[str, ...] = ()
    """Command and arguments; empty: none."""

    @property
    def limit(self) -> int:
        """The most characters of a line; a file or a pipe takes any number."""
        return self.width or _UNLIMITED_CHARACTERS

    def paint(self, text: str, style: str) -> str:
        """The text in a style, where colours are on; colour alone never carries meaning."""
        if not (self.has_colour and style and text):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def show(self, lines: Iterable[str]) -> None:
        """Print lines, through the pager when there are more than the screen is high.

        Lines that are wider than the screen are folded between words. Raises BrokenPipeError.
        """
        shown: list[str] = []
        for line in lines:
            shown += self._folded(line)
        text = "".join(f"{line}\n" for line in shown)
        if self.pager and self.height is not None and len(shown) >= self.height:
            self._page(text)
            return

        self.stream.write(text)
        self.stream.flush()

    def _folded(self, line: str) -> Iterator[str]:
        """The line, escaped, in pieces that fit."""
        styles = _STYLES if self.has_colour else ""
        for part in below(line) if "\n" in line else (line,):
            safe = escaped(part, styles)
            if self.width is None or isinstance(line, UnfoldedLine):
                yield safe
            else:
                yield from fitted(safe, self.width)

    def _page(self, text: str) -> None:
        # -F -R -X: quit if it fits, keep colours, leave the output on the screen.
        environ = {"LESS": "FRX"} | dict(os.environ)
        try:
            subprocess.run(  # noqa: S603 - the user's own pager
                self.pager, input=text, encoding="utf-8", env=environ, check=False
            )
        except FileNotFoundError:
            self.stream.write(text)
            self.stream.flush()


def screen(
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    can_page: bool = True,
    is_wide: bool = False,
) -> Screen:
    """The screen of this process.

    `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`, `COLUMNS` and `PAGER` decide what it is like.
    Where it `is_wide`, no line is folded or cut.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        has_colour = wants_colour(is_terminal=False, environ=environ)
        return Screen(stream, has_colour=has_colour, width=None, height=None)

    size = shutil.get_terminal_size()
    pager = shlex.split(environ.get("PAGER", "less")) if can_page else []
    if pager == ["cat"]:
        pager = []
    return Screen(
        stream,
        has_colour=wants_colour(is_terminal=True, environ=environ),
        width=None if is_wide else size.columns,
        height=size.lines,
        pager=tuple(pager),
    )


def wants_colour(is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """Whether to use colours: https://no-color.org before https://bixense.com/clicolors."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    if not is_terminal or environ.get("TERM") == "dumb":
        return False
    return environ.get("CLICOLOR", "1") != "0"


_STYLES: Final = "\x1b\\[(?:" + "|".join(["0", *sorted(set(_CODES.values()))]) + ")m"
_STYLE: Final = re.compile(_STYLES)  # linear: a few literal codes


def fitted(line: str, width: int) -> Iterator[str]:
    """The line in pieces of at most `width` characters.

    All but the first are indented to where the line's last column begins.
    """
    if len(line) <= width:  # with styles, which take no room
        yield line
        return

    hang = _hang(_STYLE.sub("", line), width)
    piece = ""
    length = 0
    for word in re.split(r"(?<=\S)(?= )", line):
        plain = _STYLE.sub("", word)
        if length and length + len(plain) > width:
            yield piece
            piece = hang + word.lstrip(" ")
            length = len(hang) + len(plain.lstrip(" "))
        else:
            piece += word
            length += len(plain)
    yield piece


def _hang(plain: str, width: int) -> str:
    """The indent of the later pieces of a line, which is given without styles."""
    if plain.startswith("# "):
        return "#   "

    starts = []
    for gap in re.finditer(r"(?<=\S)  +", plain):
        if gap.end() <= width // 2:
            starts.append(gap.end())
    indent = len(plain) - len(plain.lstrip())
    return " " * max(starts, default=indent + 2)


def below(text: str) -> Iterator[str]:
    """The lines of a text such as a condition's message, those after the first indented more.

    That way no line from outside can pass for one of ours.
    """
    indent = ""
    for line in re.split(r"\r?\n", text):
        if line:
            yield indent + line
            indent = " " * (len(text) - len(text.lstrip(" ")) + 4)
    if not indent:
        yield ""


def complain(text: object) -> None:
    """Print it to standard error, if anything still reads it, folded to the terminal's width."""
    width = _UNLIMITED_CHARACTERS
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
    pieces: list[str] = []
    for line in below(str(text)):
        pieces += fitted(line, width)
    say("\n".join(pieces))


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, cut in the middle: names often differ at the end."""
    if len(text) <= width:
        return text
    if width <= 1:
        return text[:width]
    front = width // 2
    return text[:front] + _ELLIPSIS + text[len(text) - (width - front - 1) :]


def columns(
    screen: Screen,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Iterable[int] = (),
    spare: Iterable[int] = (),
) -> Iterable[str]:
    """The lines of a table with aligned columns, those in `right` to the right.

    A narrow screen leaves out as many of the `spare` columns as it must, the first ones first.
    Then the widest of the others are cut, but not the first column, which has the names.
    """
    numeric = frozenset(right)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    shown = _fit(widths, numeric, spare, limit=screen.limit)
    for number, row in enumerate((header, *rows)):
        cells = []
        for column in shown:
            cell = row[column]
            width = widths[column]
            if column in numeric:
                cells.append(cell.rjust(width))
            elif column == 0:
                cells.append(cell.ljust(width))
            else:
                cells.append(shortened(cell, width).ljust(width))
        line = "  ".join(cells).rstrip()
        if number == 0:
            line = screen.paint(line, "head")
        yield line


def _fit(
    widths: list[int], numeric: Container[int], spare: Iterable[int], *, limit: int
) -> list[int]:
    """The columns that are shown; lowers `widths` where a column is cut."""
    shown = list(range(len(widths)))

    def is_too_wide() -> bool:
        return sum(widths[column] + 2 for column in shown) > limit + 2

    for column in spare:
        if is_too_wide():
            shown.remove(column)

    texts = []
    for column in shown[1:]:
        if column not in numeric:
            texts.append(column)
    while texts and is_too_wide():
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= _MIN_COLUMN_CHARACTERS:
            break
        widths[widest] -= 1
    return shown
