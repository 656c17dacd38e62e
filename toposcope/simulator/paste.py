"""Undoes what happens to a terminal's text in an issue, a mail or a log, and finds its matrices.

It removes byte order marks, UTF-16 (PowerShell's `>`), terminal escapes, Markdown fences and
tables, `> ` quotes, HTML, timestamps, and the prefix with a host or pod that pdsh, clush, srun,
kubectl, ansible and others write before each line. A paste may hold several matrices: of several
hosts, and of `nvidia-smi topo -p2p` or `-mp` beside `-m`.
"""

import codecs
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; that of UTF-16 begins that of UTF-32."""

_TYPOGRAPHY: Final = str.maketrans(
    dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " ")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
    | dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\u00ad\0")
)
"""Blanks and dashes that word processors and web pages put in place of plain ones.

Characters without width are dropped.
"""

_ESCAPE: Final = re.compile(
    r"(?:\x1b|\^\[)\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles of windows
    r"|(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]"
    r"|(?:\x1b|\^\[)[()][0-9A-B]"
    r"|\[[0-9;]*m"  # what is left where the first character was cut
)
_TAG: Final = re.compile(
    r"</?(?:pre|code|details|summary|blockquote|p|br|div|span)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE
)
_QUOTE: Final = re.compile(r"\s*(?:>\s?)+")
_FENCE: Final = re.compile(r"\s*(?:`{3,}|~{3,})[\w+-]*\s*")
_CODE: Final = re.compile(r"\s*`([^`]*)`\s*")
_TABLE_RULE: Final = frozenset(" \t:|+=-")
_TABLE_ROW: Final = re.compile(r"\s*\|(.*)\|\s*")
_TIME: Final = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?[+-]\d\d:?\d\d)?\]?\s"
    r"|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d "
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s"
)

_SPELT_TAB: Final = re.compile(r"(?:\\[tn]|\^I|#011)GPU0|GPU0(?:\\t|\^I|#011)")
_SPELT: Final = (
    ("\\r\\n", "\n"),
    ("\\n", "\n"),
    ("\\t", "\t"),
    ("\\u001b", "\x1b"),
    ("\\x1b", "\x1b"),
    ("^I", "\t"),
    ("$\n", "\n"),
    ("#011", "\t"),
    ("#033", "\x1b"),
)
"""How JSON, `cat -A` and rsyslog write what a terminal does not show."""
_NUMBER: Final = re.compile(r"^\s{0,10}(\d{1,9})(?:[:|] ?|\t| {2})")
_LEAST_NUMBERED_LINES: Final = 3
"""So many lines with numbers that follow each other are numbered."""

_FIRST_ROW: Final = re.compile(
    r"(?P<prefix>.*?)(?<![\w./-])GPU0\s+X(?=\s|$|NV|PIX|PXB|PHB|NODE|SYS|SOC)"
)
_FIRST_COLUMN: Final = re.compile(r"(?<![\w./-])GPU0(?!\d)(?!\s+X(?:\s|$))")
_HEADER: Final = re.compile(r"\s*GPU0\s*(?:GPU\d|NIC\d|\w+_|CPU)")
_MOST_GAP_LINES: Final = 12
"""The most lines between a header and the first row.

A header of 16 GPUs and 24 NICs takes so many on a narrow terminal.
"""
_COMMAND: Final = re.compile(
    r"nvidia-smi\s+topo\s+(?:-m\b|--matrix\b|-mp\b|--matrix_pci\b|-p2p\b|--p2p_?\w*)"
)
_NVLINK: Final = re.compile(r"NV\d+")
_P2P_CELL: Final = re.compile(r"OK|CNS|GNS|TNS|NS|DR|U")
_LEGEND: Final = re.compile(r"\s*(?P<key>X|SYS|SOC|NODE|PHB|PXB|PIX|NV#|OK|CNS|GNS|TNS|NS)\s+=\s.*")


class Shows(StrEnum):
    """What a matrix shows of the links between GPUs."""

    NVLINKS = "nvidia-smi topo -m"
    PCI_ONLY = "nvidia-smi topo -mp"
    """It leaves NVLink out."""
    PEER_ACCESS = "nvidia-smi topo -p2p"
    """Which GPUs may access each other, and no path."""
    UNSAID = ""
    """One that shows no NVLink, and nothing around it says by which command it was made."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix of a paste.

    It has its lines without quotes and prefixes, and the lines around that belong to the same host.
    """

    host: str
    """As the paste names it; `matrix 2` where it does not."""
    line: int
    """Of the header in the paste, from 1."""
    header: int
    """Its position in `lines`."""
    lines: tuple[str, ...]
    shows: Shows


class _Line(NamedTuple):
    number: int
    text: str


def text_of(content: bytes) -> str:
    """The text in a file, decoded by its byte order mark.

    Without a mark it is UTF-16 where every other byte is zero, else UTF-8.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    encoding = "utf-8"
    if _is_mostly_zero(content[1::2]):
        encoding = "utf-16-le"
    elif _is_mostly_zero(content[::2]):
        encoding = "utf-16-be"
    return content.decode(encoding, errors="replace")


def _is_mostly_zero(content: bytes) -> bool:
    return content.count(0) * 2 > len(content)


def cleaned(text: str) -> list[str]:
    """The lines of a paste as a terminal would show them; Markdown's own lines are empty."""
    if _SPELT_TAB.search(text):
        for spelt, meant in _SPELT:
            text = text.replace(spelt, meant)
    lines = re.sub(r"\r{1,8}\n", "\n", text).splitlines()
    return [_cleaned(line) for line in _without_numbers(lines)]


def _without_numbers(lines: list[str]) -> list[str]:
    """The lines without the numbers of `cat -n` or `grep -n`."""
    numbers = []
    for line in lines:
        match = _NUMBER.match(line)
        if match:
            numbers.append(int(match[1]))
        elif line.strip():
            return lines
    if len(numbers) < _LEAST_NUMBERED_LINES or numbers != list(
        range(numbers[0], numbers[0] + len(numbers))
    ):
        return lines
    return [_NUMBER.sub("", line, count=1) for line in lines]


def _cleaned(line: str) -> str:
    line = line.translate(_TYPOGRAPHY)
    line = _ESCAPE.sub("", line)
    if "<" in line:
        line = _TAG.sub("", line)
    if "&" in line:
        unescaped = html.unescape(line)
        line = unescaped.translate(_TYPOGRAPHY)

    quote = _QUOTE.match(line)
    if quote:
        line = line[quote.end() :]
    if _FENCE.fullmatch(line) or _is_rule(line):
        return ""

    code = _CODE.fullmatch(line)
    if code:
        line = code[1]
    row = _TABLE_ROW.fullmatch(line)
    if row:
        cells = row[1].split("|")
        line = "\t".join(map(str.strip, cells))
    return _untimed(line)


def _is_rule(line: str) -> bool:
    """Whether it is a line between the rows of a table."""
    return (
        line.lstrip()[:1] in ("|", "+")
        and ("--" in line or "==" in line)
        and _TABLE_RULE.issuperset(line)
    )


def matrices(lines: Sequence[str]) -> list[Matrix]:
    """The matrices in cleaned lines, in their order; those of `-p2p` too."""
    all_matrices: list[Matrix] = []
    for prefix, own in _by_prefix(lines).items():
        host = _host_of(prefix)
        for matrix in _in_lines(own, host):
            all_matrices.append(_with_command(matrix, lines))

    all_matrices.sort(key=lambda matrix: matrix.line)
    if len(all_matrices) > 1:
        return _numbered(all_matrices)
    return all_matrices


def _with_command(matrix: Matrix, lines: Sequence[str]) -> Matrix:
    """The matrix with the last command above it, perhaps above the prefixes of all hosts."""
    if matrix.shows is not Shows.UNSAID:
        return matrix
    return replace(matrix, shows=_by_command(lines[: matrix.line]))


def _numbered(all_matrices: Sequence[Matrix]) -> list[Matrix]:
    """The matrices; those without a host go by their number."""
    named = []
    for number, matrix in enumerate(all_matrices, 1):
        host = matrix.host or f"matrix {number}"
        named.append(replace(matrix, host=host))
    return named


def _host_of(prefix: str) -> str:
    return prefix.replace("<stdout>", "").strip(" \t:|>[](){}-*")


def _untimed(text: str) -> str:
    return _TIME.sub("", text, count=1) if _TIME.match(text) else text


def _prefixes(lines: Sequence[str]) -> set[str]:
    """What stands before each line of some host: before a first row and the header above it."""
    headed: set[str] = set()
    prefixes: set[str] = set()
    for line in lines:
        row = _FIRST_ROW.match(line)
        if row is not None:
            prefix = row["prefix"]
            if prefix.strip() and prefix.rstrip() in headed:
                prefixes.add(prefix)
            continue

        header = _FIRST_COLUMN.search(line)
        if header is not None:
            prefix = line[: header.start()]
            headed.add(prefix.rstrip())
    return prefixes


def _by_prefix(lines: Sequence[str]) -> dict[str, list[_Line]]:
    """The lines by their prefix, without it; those that have none by an empty one."""
    prefixes = _prefixes(lines)
    # An empty line may have lost the blanks at its end.
    bare = {prefix.rstrip(): prefix for prefix in prefixes}
    lengths = sorted(set(map(len, prefixes)), reverse=True)

    by_prefix: dict[str, list[_Line]] = {}
    for number, line in enumerate(lines, 1):
        prefix = bare.get(line, "")
        for length in lengths:
            beginning = line[:length]
            if not prefix and beginning in prefixes:
                prefix = beginning

        text = line[len(prefix) :]
        if prefix:
            text = _untimed(text)
        own = by_prefix.setdefault(prefix, [])
        own.append(_Line(number, text))
    return by_prefix


def _in_lines(lines: Sequence[_Line], host: str) -> Iterator[Matrix]:
    """The matrices in the lines of one host, or in lines that name none."""
    texts = [line.text for line in lines]
    headers = list(_headers(texts))
    edges = [0]
    for before, header in pairwise(headers):
        edge = _heading(lines, before, header)
        edges.append(edge)
    edges.append(len(lines))

    for position, header in enumerate(headers):
        start = edges[position]
        end = edges[position + 1]
        own = tuple(texts[start:end])
        inside = header - start
        yield Matrix(
            host=host or _host_above(own[:inside]),
            line=lines[header].number,
            header=inside,
            lines=own,
            shows=_shows(own, inside),
        )


def _headers(lines: Sequence[str]) -> Iterator[int]:
    """The positions of the header lines."""
    last = -1
    for number, line in enumerate(lines):
        if not _FIRST_ROW.match(line):
            continue
        for above in range(number - 1, max(last, number - 1 - _MOST_GAP_LINES), -1):
            if _FIRST_COLUMN.search(lines[above]):
                yield above
                break
        last = number
    if last < 0:
        # No first row: the row may be missing, or be cut.
        yield from (number for number, line in enumerate(lines) if _HEADER.match(line))


def _heading(lines: Sequence[_Line], before: int, header: int) -> int:
    """Where the part of a paste begins that belongs to this header, after the one `before`."""
    start = header
    for number in range(header - 1, before, -1):
        text = lines[number].text
        if (
            _FIRST_ROW.match(text)
            or _LEGEND.fullmatch(text)
            or _NIC.match(text)
            or _ROW.match(text)
        ):
            break
        if _host_in(text) or _COMMAND.search(text):
            start = number
    return start


_NIC: Final = re.compile(r"\s*(?:NIC|DD)\d+\s*:")
_ROW: Final = re.compile(r"\s*[\w.-]+\s+(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|OK|NS)(?:\s|$)")
_NAME: Final = r"(?P<host>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)"
_HOST_LINES: Final = tuple(
    # linear: `_host_in` applies it to lines of up to `_LONGEST_HOST_LINE` characters
    re.compile(pattern)
    for pattern in (
        rf"{_NAME} \| (?:SUCCESS|CHANGED|FAILED)\b.*",  # ansible
        rf".*\bssh (?:-\S+ )*(?:\S+@)?{_NAME}\s.*",
        rf"\[?(?:\([\w.-]+\)\s*)?[\w.-]+@{_NAME}[:\s~].*",  # a prompt
        rf"[-=#*\s]*(?:(?i:host(?:name)?|node|on|server|machine)\s*[:=]?\s+)?[`*]*{_NAME}[`*]*\s*(?:\(\d+\))?\s*:?[-=#*\s]*",
        rf"\[\d+\] \d\d:\d\d:\d\d \[SUCCESS\] {_NAME}\s*",  # parallel-ssh
    )
)
_MOST_HOST_LINE_CHARACTERS: Final = 200
_MOST_LINES_ABOVE: Final = 12
_NO_HOSTS: Final = frozenset(
    {"Legend", "NIC", "X", "Legend:", "bash", "text", "shell", "console", "output"}
)


def _host_in(line: str) -> str:
    """The host that a line above a matrix names; empty: it is no such line."""
    if len(line) > _MOST_HOST_LINE_CHARACTERS:
        return ""
    for pattern in _HOST_LINES:
        match = pattern.fullmatch(line.strip())
        if match and match["host"] not in _NO_HOSTS:
            return match["host"]
    return ""


def _host_above(lines: Sequence[str]) -> str:
    """The host that the last of these lines names, not far above the matrix."""
    for line in reversed(lines[-_MOST_LINES_ABOVE:]):
        if host := _host_in(line):
            return host
    return ""


def _shows(lines: Sequence[str], header: int) -> Shows:
    """What the matrix shows, by its cells, else by its legend, else by the command above it."""
    above = lines[:header]
    below = lines[header + 1 :]
    cells = _all_cells(below)
    if any(_P2P_CELL.fullmatch(cell) for cell in cells):
        return Shows.PEER_ACCESS
    if any(_NVLINK.fullmatch(cell) for cell in cells):
        return Shows.NVLINKS
    legend = _legend_keys(below)
    # One GPU alone has the same row in every matrix.
    is_peer_access = "OK" in legend or any("-p2p" in line for line in above)
    if cells <= {"X"} and is_peer_access:
        return Shows.PEER_ACCESS
    shows = _by_legend(legend)
    if shows is Shows.UNSAID:
        return _by_command(above)
    return shows


def _all_cells(lines: Sequence[str]) -> set[str]:
    cells: set[str] = set()
    for line in lines:
        if _ROW.match(line):
            cells.update(line.split()[1:])
    return cells


def _legend_keys(lines: Sequence[str]) -> set[str]:
    keys = set()
    for line in lines:
        match = _LEGEND.fullmatch(line)
        if match:
            keys.add(match["key"])
    return keys


def _by_legend(legend: set[str]) -> Shows:
    """What a matrix shows, by the keys of its legend.

    A legend with SOC is so old that its matrix may not have known NVLink.
    """
    if "NV#" in legend:
        return Shows.NVLINKS
    if not legend or "SOC" in legend:
        return Shows.UNSAID
    return Shows.PCI_ONLY


def _by_command(above: Sequence[str]) -> Shows:
    """What a matrix shows by the last command above it; one of `-p2p` made another matrix."""
    for line in reversed(above):
        commands = _COMMAND.findall(line)
        if commands:
            flag = commands[-1].split()[-1].lstrip("-")
            return _FLAGS.get(flag, Shows.UNSAID)
    return Shows.UNSAID


_FLAGS: Final = {
    "m": Shows.NVLINKS,
    "matrix": Shows.NVLINKS,
    "mp": Shows.PCI_ONLY,
    "matrix_pci": Shows.PCI_ONLY,
}
