"""Reads what people paste of `nvidia-smi topo -m` into cells, and concludes nothing yet.

`paste` undoes what happened to the text and finds the matrices in it; `wrapped` joins lines.
Understood here: tabs or aligned columns, cells and device names that a lost tab has glued together,
NICs under their own name or as `NICn` with a legend, missing NUMA columns (before driver 450),
empty and `N/A` cells, lists and ranges, and beside the matrix `nvidia-smi nvlink -s`, `nvidia-smi
-L`, lists of PCI bus ids and the NUMA lines of `lscpu`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.hardware.ranges import parse_list
from toposcope.simulator.paste import Matrix, Shows, cleaned, matrices
from toposcope.simulator.wrapped import CELL, NUMBERED, TAIL_COLUMNS, leading_cells, unwrapped
from toposcope.text import listing, printable

_MOST_MESSAGE_CHARACTERS: Final = 2000
_TAB_COLUMNS: Final = 8
_NOTHING: Final = ("", "N/A")
_MOST_HOSTS: Final = 10
"""How many hosts an error message names."""
_TAIL: Final = re.compile("|".join(TAIL_COLUMNS))
_CUT_TAIL: Final = re.compile(r"(?<=\s)C(?:PU?(?: A\w*)?)?\s*$")
"""The first of the tail columns; a header that ends there is of a text whose lines are cut off."""
_CELL: Final = re.compile(rf"\s*({CELL})(?=\s|$|{CELL})")
_NV: Final = re.compile(r"NV\d{1,4}")
_LEGEND_NIC: Final = re.compile(r"\s*(NIC\d+)\s*[:=]\s*([^\s(,;]+)([\s(,;].*)?")
_LEGEND_DIRECT: Final = re.compile(r"\s*(DD\d+):\s*(\S+)(?:\s.*)?")
"""A Data Direct function, by the name of its NIC: `DD0: mlx5_0 data-direct function`."""
_RDMA_NAME: Final = re.compile(r"(?:mlx\d|bnxt_re|irdma|qedr|hfi1|efa|rdmap|roce|ibp|ibs)[\w-]*")
_NO_LINKS: Final = ("all links are inactive", "not have or support nvlink")
"""What the matrix, or `nvidia-smi nvlink -s`, says of GPUs without a link, in lower case."""
_GPU_LINE: Final = re.compile(r"GPU (\d{1,9}): ([^(]*[^(\s])(?:\s*\(UUID: ([^)]*)\))?\s*")
_LINK_LINE: Final = re.compile(r"\s*Link (\d{1,9}): (?:(\d{1,9}(?:\.\d{1,9})?) GB/s|<inactive>)\s*")
_BUS_LINE: Final = re.compile(
    r"(\d{1,9}),\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*"
)
_NODE_LINE: Final = re.compile(
    r"\s*NUMA node(\d{1,9}) CPU\(s\):\s*((?:\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?)?)"
)
_SOCKET_LINE: Final = re.compile(r"\s*Socket\(s\):\s*(\d{1,9})\s*")
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CaptureError(ToposcopeError, ValueError):
    """A capture that no machine can be built from; the message names the rows or cells."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, _MOST_MESSAGE_CHARACTERS))


@dataclass(slots=True)
class Tail:
    """What stands behind the cells of a GPU's row. None: nothing there, or no such column."""

    cpus: frozenset[int] | None = None
    numa: tuple[int, ...] | None = None
    """NUMA nodes, in the order of the text; () for `N/A`."""
    memory_node: int | None = None


@dataclass(slots=True)
class Capture:
    """The text as data.

    Devices are named as in the header; `cells` holds rows as they were, by row and column.
    """

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
    shows: Shows = Shows.UNSAID
    has_no_links: bool = False
    """Whether `nvlink -s` says that no GPU has a link that is up."""
    notes: tuple[str, ...] = ()
    """What to say about the text."""

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs among the devices."""
        return tuple(device for device in self.devices if _is_gpu(device))

    @property
    def nics(self) -> tuple[str, ...]:
        """The NICs among the devices."""
        return tuple(
            device for device in self.devices if not (_is_gpu(device) or _is_direct(device))
        )

    @property
    def data_direct(self) -> tuple[str, ...]:
        """The Data Direct functions among the devices; the legend has the names of their NICs."""
        return tuple(device for device in self.devices if _is_direct(device))

    def device_name(self, nic: str) -> str:
        """What the legend calls a NIC; without one, the matrix has the name itself."""
        return self.legend.get(nic, nic)


def read_capture(text: str, host: str | None = None) -> Capture:
    """Parse a capture; `host` chooses one of several.

    Raises CaptureError when there is no matrix that can be read.

    Where one host has several matrices, that of `nvidia-smi topo -m` is read, and those of `-p2p`
    and `-mp` are not.
    """
    lines = cleaned(text)
    choice = _chosen(lines, host)
    matrix = choice.matrix
    capture = Capture(shows=matrix.shows, notes=choice.notes)
    header, rows = unwrapped(matrix.lines[matrix.header :])

    names = _header_names(header)
    heads = {name for name, _ in rows}
    devices = tuple(_split_names(names, heads))
    capture.devices = devices
    different = set(devices)
    if len(different) < len(devices):
        raise CaptureError("the header names a device twice")

    columns = tuple(name for name in TAIL_COLUMNS if name in header)
    for name, row in rows:
        if name in different:
            _read_row(capture, name, row, columns)
    for line in choice.lines:
        _read_extra(capture, line)
    return capture


def _header_names(header: str) -> list[str]:
    """The words of a header before the columns behind the matrix."""
    tail = _TAIL.search(header) or _CUT_TAIL.search(header)
    if tail is None:
        return header.split()
    before = header[: tail.start()]
    return before.split()


@dataclass(frozen=True, slots=True)
class _Choice:
    """The matrix to read, and what belongs to the same machine."""

    matrix: Matrix
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()


def _chosen(lines: Sequence[str], host: str | None) -> _Choice:
    """The matrix to read. Raises CaptureError where there is none, or several to choose from."""
    all_matrices = matrices(lines)
    readable = _readable(lines, all_matrices)
    if host is not None:
        readable = [matrix for matrix in readable if matrix.host == host]
        if not readable:
            raise CaptureError(
                f"no matrix of {host!r} in the text, which has: {_named(all_matrices)}"
            )

    best = _one_of(readable)
    if best is None:
        raise CaptureError(
            f"{len(readable)} different matrices in the text: {_named(readable)}; "
            "choose one with --capture-host HOST, or paste one"
        )

    own_lines: list[str] = []
    for matrix in all_matrices:
        if host is None or matrix.host == host:
            own_lines += matrix.lines
    notes: tuple[str, ...] = ()
    if len(readable) > 1:
        note = f"{len(readable)} matrices in the text, which agree: {_named(readable)}"
        notes = (note,)
    return _Choice(best, tuple(own_lines), notes)


def _readable(lines: Sequence[str], all_matrices: Sequence[Matrix]) -> list[Matrix]:
    """The matrices that say how GPUs are connected; raises CaptureError where there are none."""
    readable = []
    for matrix in all_matrices:
        if matrix.shows is not Shows.PEER_ACCESS:
            readable.append(matrix)
    if not readable:
        why = _no_matrix(lines, is_peer_access=bool(all_matrices))
        raise CaptureError(why)

    text = "\n".join(lines)
    if not _AMD.search(text):
        return readable
    for matrix in readable:
        if _cells_of(matrix):
            return readable
    why = _no_matrix(lines, is_peer_access=False)
    raise CaptureError(why)


def _named(shown: Sequence[Matrix]) -> str:
    return listing([f"{matrix.host} (line {matrix.line})" for matrix in shown], _MOST_HOSTS)


def _one_of(candidates: Sequence[Matrix]) -> Matrix | None:
    """The matrix that says most, where the cells of all are of one machine.

    None where they differ.
    """
    best = candidates[0]
    for matrix in candidates:
        if matrix.shows is Shows.NVLINKS:
            best = matrix
            break
    cells = _cells_of(best)
    for matrix in candidates:
        if not _agrees(matrix, cells):
            return None
    return best


def _agrees(matrix: Matrix, cells: Mapping[tuple[str, int], str]) -> bool:
    """Whether a matrix has these cells, or hides NVLinks in one of them."""
    others = _cells_of(matrix)
    if others.keys() != cells.keys():
        return False
    for place, cell in others.items():
        is_hidden = matrix.shows is Shows.PCI_ONLY and _NV.fullmatch(cells[place])
        if cell != cells[place] and not is_hidden:
            return False
    return True


def _cells_of(matrix: Matrix) -> dict[tuple[str, int], str]:
    """The cells by row and column, as far as they can be read."""
    cells: dict[tuple[str, int], str] = {}
    lines = matrix.lines[matrix.header :]
    _, rows = unwrapped(lines)
    for name, row in rows:
        begins = len(name)
        row_cells, _ = leading_cells(row, begins)
        for column, cell in enumerate(row_cells):
            cells[name, column] = cell
    return cells


def _no_matrix(lines: Sequence[str], *, is_peer_access: bool) -> str:
    """What to paste, and what the text seems to be instead."""
    wanted = (
        "no matrix: paste the text of `nvidia-smi topo -m` with its header line (GPU0 GPU1 ...)"
    )
    if is_peer_access:
        return (
            f"{wanted}; this is `-p2p`, which says who may access whom, "
            "and not how GPUs are connected"
        )
    text = "\n".join(lines)
    for what, pattern in _OTHERS:
        if pattern.search(text):
            return f"{wanted}; this is the text of {what}"
    return wanted


_AMD: Final = re.compile(r"\bXGMI\b|ROCm|(?i:rocm-smi|amd-smi)")
_OTHERS: Final = (
    ("AMD's rocm-smi or amd-smi, and only NVIDIA's is read", _AMD),
    ("`nvidia-smi nvlink -s`", re.compile(r"^[ \t]{0,64}Link \d{1,9}: ", re.MULTILINE)),
    (
        "`nvidia-smi -L`",
        re.compile(r"^[ \t]{0,64}GPU \d{1,9}: [^\n(]{0,256}\(UUID: ", re.MULTILINE),
    ),
    ("`nvidia-smi` without `topo -m`", re.compile(r"NVIDIA-SMI \d|Driver Version\s*:")),
    ("lspci", re.compile(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ", re.MULTILINE)),
)


def _is_gpu(device: str) -> bool:
    return re.fullmatch(r"GPU\d+", device) is not None


def _is_direct(device: str) -> bool:
    return re.fullmatch(r"DD\d+", device) is not None


def _split_names(words: list[str], rows: set[str]) -> Iterator[str]:
    """The device names of a header, glued ones taken apart by the names that head rows."""
    longest_first = sorted(rows, key=len, reverse=True)
    alternatives = [NUMBERED]
    for row in longest_first:
        alternatives.append(re.escape(row))
    # linear: names, and numbers that nothing follows
    glued = re.compile("(" + "|".join(alternatives) + ")")
    for word in words:
        parts = [part for part in glued.split(word) if part]
        is_glued = all(glued.fullmatch(part) for part in parts)
        if is_glued and word not in rows:
            yield from parts
        else:
            yield word


def _read_row(capture: Capture, name: str, row: str, columns: tuple[str, ...]) -> None:
    if (name, name) in capture.cells:
        raise CaptureError(f"{name} has two rows; paste one matrix")

    position = len(name)
    for column in capture.devices:
        match = _CELL.match(row, position)
        if match is None:
            rest = row[position:]
            problem = _no_cell(rest.split())
            raise CaptureError(f"row {name}, column {column}: {problem}")
        # Old drivers wrote SOC for what has been SYS since.
        cell = match[1].replace("SOC", "SYS")
        capture.cells[name, column] = cell
        position = match.end()

    if _is_gpu(name):
        cells = _tail_cells(row, position, columns)
        by_column = dict(zip(columns, cells, strict=False))
        capture.tails[name] = _read_tail(name, by_column)


def _rdma_name(first: str, more_words: str) -> str:
    """The RDMA device of a line of the legend.

    Some scripts write its network interface beside or before it.
    """
    words: list[str] = re.findall(r"[\w.-]+", more_words)
    for word in (first, *words):
        if _RDMA_NAME.fullmatch(word):
            return word
    return first


def _no_cell(words: Sequence[str]) -> str:
    """Why the rest of a row does not begin with a cell."""
    what = "is not a cell (X, NV#, PIX, PXB, PHB, NODE, SYS)"
    if words:
        return f"{words[0]!r} {what}"
    return (
        f"'the end of the line' {what}: it is cut off; paste whole lines (nvidia-smi topo -m | cat)"
    )


def _tail_cells(row: str, position: int, columns: tuple[str, ...]) -> list[str]:
    """The cells behind the matrix, in column order."""
    behind = row[position:]
    if "\t" in row:
        _, *cells = behind.split("\t")
        stripped = [cell.strip() for cell in cells]
        return _without_double_tab(stripped, columns)

    expanded = _expanded_tail(row, position)
    if expanded is not None and len(expanded) >= len(columns):
        return _without_double_tab(expanded, columns)

    # No tab stops to go by. The cell that goes empty is the first: a job without a CPU near
    # that GPU.
    words = behind.split()
    missing = len(columns) - len(words)
    return [""] * missing + words


def _without_double_tab(cells: list[str], columns: tuple[str, ...]) -> list[str]:
    """The cells without the one that stands under no heading.

    The driver writes two tabs before its last column, which leaves an empty cell.
    """
    headings = max(1, len(columns))
    if len(cells) <= headings or cells[-2]:
        return cells
    return [*cells[:-2], cells[-1]]


def _expanded_tail(row: str, position: int) -> list[str] | None:
    """Cells of a text whose tabs became blanks up to every eighth column; None for others."""
    cells: list[str] = []
    length = len(row.rstrip())
    stop = _next_stop(position)
    while stop < length:
        if row[stop - 1] != " ":
            return None
        word, _, _ = row[stop:].partition(" ")
        between_stops = row[stop : stop + _TAB_COLUMNS]
        if not word and between_stops.strip():
            return None
        cells.append(word)
        stop = _next_stop(stop + len(word))
    return cells


def _next_stop(position: int) -> int:
    """The first tab stop behind a position."""
    return (position // _TAB_COLUMNS + 1) * _TAB_COLUMNS


def _read_tail(name: str, cells: dict[str, str]) -> Tail:
    cpus, numa, memory = (cells.get(column, "") for column in TAIL_COLUMNS)
    tail = Tail()
    try:
        if cpus not in _NOTHING:
            tail.cpus = parse_list(cpus)
        if numa:
            tail.numa = _numa_list(numa)
        if memory not in _NOTHING:
            tail.memory_node = int(memory)
    except ValueError as error:
        raise CaptureError(f"row {name}: affinity columns {cells}: {error}") from error
    return tail


def _numa_list(text: str) -> tuple[int, ...]:
    """The nodes in the order in which the text names them."""
    nodes: list[int] = []
    if text not in _NOTHING:
        for part in text.split(","):
            nodes += sorted(parse_list(part))
    return tuple(nodes)


def _legend_name(line: str) -> tuple[str, str] | None:
    """A device of the matrix and its name, in a line of the legend."""
    nic = _LEGEND_NIC.fullmatch(line)
    if nic:
        return nic[1], _rdma_name(nic[2], nic[3] or "")
    direct = _LEGEND_DIRECT.fullmatch(line)
    if direct:
        return direct[1], direct[2]
    return None


def _read_extra(capture: Capture, line: str) -> None:
    """A line of the legend or of another command's output."""
    name = _legend_name(line)
    if name is not None:
        device, known_as = name
        capture.legend[device] = known_as
        return
    lower = line.lower()
    if any(text in lower for text in _NO_LINKS):
        capture.has_no_links = True
        return
    _read_other_command(capture, line)


def _read_other_command(capture: Capture, line: str) -> None:
    if match := _GPU_LINE.fullmatch(line):
        _read_gpu(capture, match)
    elif match := _LINK_LINE.fullmatch(line):
        _read_link(capture, match)
    elif match := _BUS_LINE.fullmatch(line):
        capture.addresses[int(match[1])] = match[2]
    elif match := _NODE_LINE.fullmatch(line.rstrip()):
        _read_node_cpus(capture, match)
    elif match := _SOCKET_LINE.fullmatch(line):
        capture.sockets = int(match[1])


def _read_gpu(capture: Capture, match: re.Match[str]) -> None:
    gpu = int(match[1])
    capture.products[gpu] = match[2]
    uuid = match[3]
    if uuid and _UUID.fullmatch(uuid):
        capture.uuids[gpu] = uuid


def _read_link(capture: Capture, match: re.Match[str]) -> None:
    if not capture.products:
        return
    latest = next(reversed(capture.products))
    gb_per_second = match[2]
    mbps = round(float(gb_per_second) * 1000) if gb_per_second else None
    capture.links.setdefault(latest, []).append(mbps)


def _read_node_cpus(capture: Capture, match: re.Match[str]) -> None:
    try:
        capture.node_cpus[int(match[1])] = parse_list(match[2])
    except ValueError as error:
        raise CaptureError(f"NUMA node{match[1]} CPU(s): {error}") from error
