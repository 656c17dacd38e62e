"""Colours, width and pager of a terminal; none of them where the output goes into a file or a pipe."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_NARROWEST: Final = 8
"""No column becomes narrower."""


class Whole(str):
    """A line that is never folded: a command to copy, or part of a document."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Screen:
    """One output: `width` and `height` in characters, None for a file or a pipe.

    Not rich's console: it is imported only for progress, and printing 100,000 nodes with it would
    take four seconds.
    """

    stream: TextIO
    colour: bool
    width: int | None
    height: int | None
    pager: tuple[str, ...] = ()
    """Command and arguments; empty: none."""

    def paint(self, text: str, style: str) -> str:
        """The text in a style, where colours are on; colour alone never carries meaning."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def show(self, lines: Iterable[str]) -> None:
        """Print lines, through the pager when there are more than the screen is high.

        Raises BrokenPipeError.

        Lines that are wider than the screen are folded between words.
        """
        safe_lines: list[str] = []
        for line in lines:
            for part in below(line) if "\n" in line else (line,):
                safe = escaped(part, _STYLES if self.colour else "")
                safe_lines += (
                    [safe]
                    if self.width is None or isinstance(line, Whole)
                    else fitted(safe, self.width)
                )
        text = "".join(f"{line}\n" for line in safe_lines)
        if self.pager and self.height is not None and len(safe_lines) >= self.height:
            self._page(text)
            return
        self.stream.write(text)
        self.stream.flush()

    def _page(self, text: str) -> None:
        # -F -R -X: quit if it fits, keep colours, leave the output on the screen.
        environ = {"LESS": "FRX"} | dict(os.environ)
        try:
            subprocess.run(self.pager, input=text, encoding="utf-8", env=environ, check=False)  # noqa: S603 - the user's own pager
        except FileNotFoundError:
            self.stream.write(text)
            self.stream.flush()


def screen(
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    paging: bool = True,
    wide: bool = False,
) -> Screen:
    """The screen of this process, by `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`, `COLUMNS` and `PAGER`.

    `wide`: lines are as long as they come.
    """
    stream = stream or sys.stdout
    terminal = stream.isatty()
    size = shutil.get_terminal_size() if terminal else None
    pager = shlex.split(environ.get("PAGER", "less")) if terminal and paging else []
    return Screen(
        stream,
        colour=wants_colour(terminal, environ),
        width=size.columns if size and not wide else None,
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


_STYLES: Final = "\x1b\\[(?:" + "|".join(["0", *sorted(set(_CODES.values()))]) + ")m"
_STYLE: Final = re.compile(_STYLES)  # linear: a few literal codes


def fitted(line: str, width: int) -> Iterator[str]:
    """The line in pieces of at most `width` characters; later ones begin where its last column begins."""
    if len(line) <= width:  # with styles, which take no room
        yield line
        return
    plain = _STYLE.sub("", line)
    starts = (gap.end() for gap in re.finditer(r"(?<=\S)  +", plain) if gap.end() <= width // 2)
    hang = (
        "#   "
        if plain.startswith("# ")
        else " " * max(starts, default=len(plain) - len(plain.lstrip()) + 2)
    )
    here, length = "", 0
    for word in re.split(r"(?<=\S)(?= )", line):
        size = len(_STYLE.sub("", word))
        if length and length + size > width:
            yield here
            here, length = (
                hang + word.lstrip(" "),
                len(hang) + len(_STYLE.sub("", word).lstrip(" ")),
            )
        else:
            here, length = here + word, length + size
    yield here


def below(text: str) -> Iterator[str]:
    """A text of several lines, such as a condition's message: what follows the first is indented more than it is.

    So no line that somebody else wrote looks like one of ours.
    """
    first, *others = [line for line in re.split(r"\r?\n", text) if line] or [""]
    yield first
    indent = " " * (len(text) - len(text.lstrip(" ")) + 4)
    yield from (indent + line for line in others)


def complain(text: object) -> None:
    """Print it to standard error, where somebody still reads it."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else 1 << 20
    say("\n".join(piece for line in below(str(text)) for piece in fitted(line, width)))


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, cut in the middle: names of domains often differ at the end."""
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
    """Aligned columns, those in `right` to the right.

    A narrow screen goes without the `spare` ones, first to last as far as need be; then the widest
    of the others are cut, but not the first, which has the names.
    """
    numeric = frozenset(right)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    shown = [*range(len(header))]
    limit = (screen.width or 1 << 20) + 2
    for i in spare:
        if sum(widths[i] + 2 for i in shown) > limit:
            shown.remove(i)
    texts = [i for i in shown[1:] if i not in numeric]
    while texts and sum(widths[i] + 2 for i in shown) > limit:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    for number, row in enumerate((header, *rows)):
        cells = [
            row[i].rjust(widths[i])
            if i in numeric
            else (row[i] if i == 0 else shortened(row[i], widths[i])).ljust(widths[i])
            for i in shown
        ]
        line = "  ".join(cells).rstrip()
        yield screen.paint(line, "head") if number == 0 else line
