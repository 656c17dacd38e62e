"""Reading what people paste of `nvidia-smi topo -m`: the text becomes cells, nothing is concluded yet.

Understood: tabs or aligned columns, terminal escapes, cells and device names that a lost tab has glued together, NICs
under their own name or as `NICn` with a legend, missing NUMA columns (before driver 450), empty and `N/A` cells, lists
and ranges, comment lines, the legend, and after it `nvidia-smi nvlink -s`, `nvidia-smi -L`, lists of PCI bus ids and
the NUMA lines of `lscpu`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.topology.ranges import parse_list
from toposcope.topology.text import printable

_ESCAPE: Final = re.compile(r"(?:\x1b|\^\[)?\[[0-9;]*m")
_LONGEST_MESSAGE: Final = 2000
_TAB: Final = 8
_TAIL_COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_TAIL: Final = re.compile("|".join(_TAIL_COLUMNS))
_WORD: Final = r"X|NV\d{1,4}|PIX|PXB|PHB|NODE|SYS|SOC"
_CELL: Final = re.compile(rf"\s*({_WORD})(?=\s|$|{_WORD})")
_NUMBERED: Final = r"GPU\d+|NIC\d+"
_LEGEND_NIC: Final = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")
_GPU_LINE: Final = re.compile(r"GPU (\d{1,9}): ([^(]*[^(\s])(?:\s*\(UUID: ([^)]*)\))?\s*")
_LINK_LINE: Final = re.compile(r"\s*Link (\d{1,9}): (?:(\d{1,9}(?:\.\d{1,9})?) GB/s|<inactive>)\s*")
_BUS_LINE: Final = re.compile(r"(\d{1,9}),\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_NODE_LINE: Final = re.compile(r"\s*NUMA node(\d{1,9}) CPU\(s\):\s*((?:\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?)?)")
_SOCKET_LINE: Final = re.compile(r"\s*Socket\(s\):\s*(\d{1,9})\s*")
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CaptureError(ToposcopeError, ValueError):
    """A capture that no machine can be built from; the message names the rows or cells."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, _LONGEST_MESSAGE))


@dataclass(slots=True)
class Tail:
    """What stands behind the cells of a GPU's row. None: nothing there, or no such column."""

    cpus: frozenset[int] | None = None
    numa: tuple[int, ...] | None = None
    """NUMA nodes, in the order of the text; () for `N/A`."""
    memory_node: int | None = None


@dataclass(slots=True)
class Capture:
    """The text as data. Devices are named as in the header; `cells` holds rows as they were, by row and column."""

    devices: tuple[str, ...] = ()
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    tails: dict[str, Tail] = field(default_factory=dict)
    legend: dict[str, str] = field(default_factory=dict)
    products: dict[int, str] = field(default_factory=dict)
    uuids: dict[int, str] = field(default_factory=dict)
    links: dict[int, list[int | None]] = field(default_factory=dict)
    """GPU to the speed of its links in MB/s, None for an inactive one."""
    addresses: dict[int, str] = field(default_factory=dict)
    node_cpus: dict[int, frozenset[int]] = field(default_factory=dict)
    sockets: int | None = None

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs among the devices."""
        return tuple(device for device in self.devices if _is_gpu(device))

    @property
    def nics(self) -> tuple[str, ...]:
        """The other devices."""
        return tuple(device for device in self.devices if not _is_gpu(device))


def read_capture(text: str) -> Capture:
    """Parse a capture. Raises CaptureError when there is no matrix in it or a row cannot be read."""
    lines = [_ESCAPE.sub("", line.replace("\r", "")) for line in text.splitlines()]
    lines = [line for line in lines if not re.match(r"#(?!#)", line.lstrip())]
    start = next((i for i, line in enumerate(lines) if re.match(r"\s*GPU0\s*(?:GPU|NIC|\w+_|CPU)", line)), None)
    if start is None:
        raise CaptureError("no matrix: paste the text of `nvidia-smi topo -m` with its header line (GPU0 GPU1 ...)")
    end = next((i for i in range(start, len(lines)) if not lines[i].strip() or lines[i].startswith("##")), len(lines))
    capture = Capture()
    header = lines[start]
    first_words = [line.split(maxsplit=1)[0] for line in lines[start + 1 : end]]
    tail = _TAIL.search(header)
    capture.devices = tuple(_split_names(header[: tail.start() if tail else None].split(), set(first_words)))
    if len(set(capture.devices)) < len(capture.devices):
        raise CaptureError("the header names a device twice")
    columns = tuple(name for name in _TAIL_COLUMNS if name in header)
    for line in lines[start + 1 : end]:
        _read_row(capture, line, columns)
    for line in lines:
        _read_extra(capture, line)
    return capture


def _is_gpu(device: str) -> bool:
    return re.fullmatch(r"GPU\d+", device) is not None


def _split_names(words: list[str], rows: set[str]) -> Iterator[str]:
    """The device names of a header, glued ones taken apart by the names that head rows."""
    known = "|".join(sorted(map(re.escape, rows), key=len, reverse=True))
    # linear: names, and numbers that nothing follows
    glued = re.compile(f"({_NUMBERED}" + (f"|{known}" if known else "") + ")")
    for word in words:
        parts = [part for part in glued.split(word) if part]
        whole = word in rows or not all(glued.fullmatch(part) for part in parts)
        yield from [word] if whole else parts


def _read_row(capture: Capture, line: str, columns: tuple[str, ...]) -> None:
    row = line.lstrip()
    name = row.split(maxsplit=1)[0]
    if name not in capture.devices:
        return
    if (name, name) in capture.cells:
        raise CaptureError(f"{name} has two rows; paste one matrix")
    position = len(name)
    for column in capture.devices:
        match = _CELL.match(row, position)
        if match is None:
            words = row[position:].split()[:1] or ["the end of the line"]
            raise CaptureError(
                f"row {name}, column {column}: {words[0]!r} is not a cell (X, NV#, PIX, PXB, PHB, NODE, SYS)"
            )
        # Old drivers wrote SOC for what has been SYS since.
        capture.cells[name, column] = match[1].replace("SOC", "SYS")
        position = match.end()
    if _is_gpu(name):
        capture.tails[name] = _read_tail(name, dict(zip(columns, _tail_cells(row, position, columns), strict=False)))


def _tail_cells(row: str, position: int, columns: tuple[str, ...]) -> list[str]:
    """The cells behind the matrix, in column order."""
    if "\t" in row:
        cells = [cell.strip() for cell in row[position:].split("\t")[1:]]
        return _without_double_tab(cells, columns)
    expanded = _expanded_tail(row, position)
    if expanded is None or len(expanded) < len(columns):
        # No tab stops to go by. The cell that goes empty is the first: a job without a CPU near that GPU.
        words = row[position:].split()
        return [""] * (len(columns) - len(words)) + words
    return _without_double_tab(expanded, columns)


def _without_double_tab(cells: list[str], columns: tuple[str, ...]) -> list[str]:
    """The driver writes two tabs before its last column: an empty cell that stands under no heading."""
    surplus = len(cells) > max(1, len(columns)) and not cells[-2]
    return [*cells[:-2], cells[-1]] if surplus else cells


def _expanded_tail(row: str, position: int) -> list[str] | None:
    """Cells of a text whose tabs became blanks up to every eighth column; None when that is not what was done."""
    cells: list[str] = []
    stop = (position // _TAB + 1) * _TAB
    while stop < len(row.rstrip()):
        if row[stop - 1] != " ":
            return None
        word = row[stop:].split(" ", 1)[0]
        if not word and row[stop : stop + _TAB].strip():
            return None
        cells.append(word)
        stop = ((stop + len(word)) // _TAB + 1) * _TAB
    return cells


def _read_tail(name: str, cells: dict[str, str]) -> Tail:
    cpus, numa, memory = (cells.get(column, "") for column in _TAIL_COLUMNS)
    tail = Tail()
    try:
        if cpus and cpus != "N/A":
            tail.cpus = parse_list(cpus)
        if numa:
            parts = [] if numa == "N/A" else numa.split(",")
            tail.numa = tuple(node for part in parts for node in sorted(parse_list(part)))
        if memory and memory != "N/A":
            tail.memory_node = int(memory)
    except ValueError as error:
        raise CaptureError(f"row {name}: affinity columns {cells}: {error}") from error
    return tail


def _read_extra(capture: Capture, line: str) -> None:
    """A line of the legend or of another command's output."""
    if match := _LEGEND_NIC.fullmatch(line):
        capture.legend[match[1]] = match[2]
    elif match := _GPU_LINE.fullmatch(line):
        gpu = int(match[1])
        capture.products[gpu] = match[2]
        if match[3] and _UUID.fullmatch(match[3]):
            capture.uuids[gpu] = match[3]
    elif (match := _LINK_LINE.fullmatch(line)) and capture.products:
        latest = next(reversed(capture.products))
        capture.links.setdefault(latest, []).append(round(float(match[2]) * 1000) if match[2] else None)
    elif match := _BUS_LINE.fullmatch(line):
        capture.addresses[int(match[1])] = match[2]
    elif match := _NODE_LINE.fullmatch(line.rstrip()):
        try:
            capture.node_cpus[int(match[1])] = parse_list(match[2])
        except ValueError as error:
            raise CaptureError(f"NUMA node{match[1]} CPU(s): {error}") from error
    elif match := _SOCKET_LINE.fullmatch(line):
        capture.sockets = int(match[1])
