"""The header and rows of a matrix as one line each, where a terminal or a mail program has wrapped them."""

import re
from collections.abc import Sequence
from typing import Final

TAIL_COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
CELL: Final = r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC"
NUMBERED: Final = r"GPU\d+|NIC\d+|DD\d+"

_CELLS: Final = re.compile(rf"\s*({CELL})(?=\s|$|{CELL})")
_CELL_WORD: Final = re.compile(rf"(?:{CELL}|OK|CNS|GNS|TNS|NS|DR|U)+")
_HEAD: Final = re.compile(rf"\s*(?P<name>\S+)\s+(?=(?:{CELL}|OK|CNS|GNS|TNS|NS|DR|U)(?:\s|$|{CELL}))")
_WIDE_COLUMN: Final = re.compile(r"(?:CPU|NUMA)\s+Affinity|GPU\s+NUMA\s+ID")
"""A column's name of several words, which some programs set apart."""
_HEADER_WORD: Final = re.compile(rf"(?:{NUMBERED})+|CPU|Affinity|NUMA|GPU|ID")


def unwrapped(lines: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """The header, which is the first line from GPU0 on, and the rows below by the device at their head.

    Blank lines between rows do no harm; after one, prose that begins with the name of a device is no row.
    """
    heads = {name for line in lines[1:] if (name := _head(line))}
    first = next((number for number, line in enumerate(lines) if number and _head(line)), len(lines))
    header = lines[0][max(0, lines[0].find("GPU0")) :].rstrip("\r\n")
    for line in lines[1:first]:
        if line.strip() and first < len(lines):
            header = _header_joined(header, line, heads)
    header = _WIDE_COLUMN.sub(lambda column: " ".join(column[0].split()), header)
    rows = _Rows(header, wrapped=any(line.strip() for line in lines[1:first]))
    for line in lines[first:]:
        if line.startswith("##"):
            break
        rows.take(line)
    return header, rows.found


def leading_cells(row: str, position: int) -> tuple[list[str], int]:
    """The cells of a row from a position on, and where they end."""
    cells: list[str] = []
    while match := _CELLS.match(row, position):
        cells.append(match[1])
        position = match.end()
    return cells, position


def _head(line: str) -> str:
    """The device at the head of a row; empty where the line is none."""
    match = _HEAD.match(line)
    return match["name"] if match and not _CELL_WORD.fullmatch(match["name"]) else ""


def _header_joined(header: str, line: str, heads: set[str]) -> str:
    """The header and its next line, which may begin in the middle of a word."""
    apart, together = f"{header} {line.strip()}", header + line
    return apart if _strange(apart, heads) <= _strange(together, heads) else together


def _strange(header: str, heads: set[str]) -> int:
    """How many words no header has."""
    return sum(not _HEADER_WORD.fullmatch(word) and word not in heads for word in header.split())


class _Rows:
    """Collects rows line by line."""

    def __init__(self, header: str, *, wrapped: bool) -> None:
        words = re.sub("|".join(TAIL_COLUMNS), " ", header)
        self._devices = {name for word in words.split() for name in (word, *re.findall(NUMBERED, word))}
        named = [word for word in words.split() if not re.search(NUMBERED, word)]
        self._width = len(re.findall(NUMBERED, words)) + len(named)
        self._tail = sum(column in header for column in TAIL_COLUMNS)
        self._wrapped = wrapped
        self._after_blank = False
        self.found: list[tuple[str, str]] = []

    def take(self, line: str) -> None:
        """The next line below the header."""
        if not line.strip():
            self._after_blank = True
            return
        name = line.split(maxsplit=1)[0]
        known = name in self._devices
        if not known and not self._after_blank and self._continue(line):
            return
        head = _head(line)
        if (head and not self._seen(head)) or (known and not self._after_blank):
            self.found.append((name, line.lstrip()))
            self._after_blank = False

    def _seen(self, name: str) -> bool:
        return self._after_blank and any(name == other for other, _ in self.found)

    def _continue(self, line: str) -> bool:
        """Whether the line is the rest of the last row, which is then joined."""
        if not self.found:
            return False
        name, row = self.found[-1]
        cells, end = leading_cells(row, len(name))
        cut = len(cells) < self._width
        open_tail = self._wrapped and len(row[end:].split()) < self._tail
        if not (cut or open_tail) or (cut and not cells):
            return False
        joined = self._joined(name, row, line)
        if joined is None:
            return False
        self.found[-1] = name, joined
        self._wrapped = True
        return True

    def _joined(self, name: str, row: str, line: str) -> str | None:
        """Both as one row; None where that makes none. A break may be in the middle of a word."""
        gap = "\t" if "\t" in row else " "
        ways = [f"{row.rstrip()}{gap}{line.strip()}", row + line]
        if row[-1:].isspace() or line[:1].isspace():
            ways.reverse()
        return next((way for way in ways if self._is_row(name, way)), None)

    def _is_row(self, name: str, row: str) -> bool:
        cells, end = leading_cells(row, len(name))
        rest = row[end:].split()
        return not rest if len(cells) < self._width else len(rest) <= self._tail
