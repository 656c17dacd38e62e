"""The header and rows of a matrix as one line each, where something has wrapped them."""

import re
from collections.abc import Sequence
from typing import Final

TAIL_COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
CELL: Final = r"X|NV\d{1,4}|PIX|PXB|PHB|NODE|SYS|SOC"
NUMBERED: Final = r"GPU\d+|NIC\d+|DD\d+"

_CELLS: Final = re.compile(rf"\s*({CELL})(?=\s|$|{CELL})")
_CELL_WORD: Final = re.compile(rf"(?:{CELL}|OK|CNS|GNS|TNS|NS|DR|U)+")
_HEAD: Final = re.compile(
    rf"\s*(?P<name>\S+)\s+(?=(?:{CELL}|OK|CNS|GNS|TNS|NS|DR|U)(?:\s|$|{CELL}))"
)
_WIDE_COLUMN: Final = re.compile(r"(?:CPU|NUMA)\s+Affinity|GPU\s+NUMA\s+ID")
"""A column's name of several words, which some programs set apart."""
_HEADER_WORD: Final = re.compile(rf"(?:{NUMBERED})+|CPU|Affinity|NUMA|GPU|ID")


def unwrapped(lines: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """The header (the first line, from GPU0 on), and the rows below by the device at their head.

    Blank lines between rows do no harm; after one, prose that begins with the name of a device is
    no row.
    """
    heads = [_head(line) for line in lines]
    first = _first_row(heads)
    top = lines[0]
    start = max(0, top.find("GPU0"))
    header = top[start:]
    is_wrapped = False
    if first < len(lines):
        names = set(heads)
        for line in lines[1:first]:
            if line.strip():
                header = _header_joined(header, line, names)
                is_wrapped = True
    header = _WIDE_COLUMN.sub(lambda column: " ".join(column[0].split()), header)

    rows = _Rows(header, is_wrapped=is_wrapped)
    for line in lines[first:]:
        if line.startswith("##"):
            break
        rows.take(line)
    return header, rows.rows


def _first_row(heads: Sequence[str]) -> int:
    """The number of the first line below the header that a device heads."""
    for number, head in enumerate(heads):
        if number > 0 and head:
            return number
    return len(heads)


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
    if match is None:
        return ""
    name = match["name"]
    return "" if _CELL_WORD.fullmatch(name) else name


def _header_joined(header: str, line: str, heads: set[str]) -> str:
    """The header and its next line, which may begin in the middle of a word."""
    apart = f"{header} {line.strip()}"
    together = header + line
    if _strange(apart, heads) <= _strange(together, heads):
        return apart
    return together


def _strange(header: str, heads: set[str]) -> int:
    """How many words no header has."""
    count = 0
    for word in header.split():
        is_usual = _HEADER_WORD.fullmatch(word) or word in heads
        if not is_usual:
            count += 1
    return count


class _Rows:
    """Collects rows line by line."""

    def __init__(self, header: str, *, is_wrapped: bool) -> None:
        self._devices: set[str] = set()
        self._width = 0
        """Cells of a row."""
        self._tail = 0
        """Columns behind the cells."""
        self._is_wrapped = is_wrapped
        """Whether some line was wrapped: the columns behind the cells may be, too."""
        self._is_after_blank = False
        self.rows: list[tuple[str, str]] = []

        devices_only = re.sub("|".join(TAIL_COLUMNS), " ", header)
        for word in devices_only.split():
            glued = re.findall(NUMBERED, word)
            self._devices |= {word, *glued}
            self._width += len(glued) or 1
        for column in TAIL_COLUMNS:
            if column in header:
                self._tail += 1

    def take(self, line: str) -> None:
        """The next line below the header."""
        if not line.strip():
            self._is_after_blank = True
            return
        name = line.split(maxsplit=1)[0]
        if self._continues(name, line):
            return
        if self._begins(name, line):
            self.rows.append((name, line.lstrip()))
            self._is_after_blank = False

    def _begins(self, name: str, line: str) -> bool:
        """Whether a row begins here.

        Inside the matrix a device's name is enough, because its cells may be damaged.
        """
        if not self._is_after_blank and name in self._devices:
            return True
        head = _head(line)
        seen = {other for other, _ in self.rows}
        return bool(head) and not (self._is_after_blank and head in seen)

    def _continues(self, name: str, line: str) -> bool:
        """Whether the line is the rest of the last row, which is then joined."""
        if name in self._devices or self._is_after_blank or not self.rows:
            return False
        device, row = self.rows[-1]
        if not self._is_open(device, row):
            return False
        joined = self._joined(device, row, line)
        if joined is None:
            return False
        self.rows[-1] = device, joined
        self._is_wrapped = True
        return True

    def _is_open(self, device: str, row: str) -> bool:
        """Whether something is missing at the end of a row."""
        cells, end = leading_cells(row, len(device))
        if len(cells) < self._width:
            return bool(cells)
        behind = row[end:].split()
        return self._is_wrapped and len(behind) < self._tail

    def _joined(self, device: str, row: str, line: str) -> str | None:
        """Both as one row; None where that makes none. A break may be in the middle of a word."""
        gap = "\t" if "\t" in row else " "
        between_words = f"{row.rstrip()}{gap}{line.strip()}"
        within_a_word = row + line
        ways = [between_words, within_a_word]
        if row[-1:].isspace() or line[:1].isspace():
            ways.reverse()
        for way in ways:
            if self._is_row(device, way):
                return way
        return None

    def _is_row(self, device: str, row: str) -> bool:
        """Whether it is a row, or the beginning of one."""
        cells, end = leading_cells(row, len(device))
        behind = row[end:].split()
        if len(cells) < self._width:
            return not behind
        return len(behind) <= self._tail
