"""The link matrix of a node: the best path between each pair of its GPUs and NICs."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SELF: Final = "X"
_NV: Final = "NV"


class LinkMatrix(NamedTuple):
    """The best path between each two devices, as `nvidia-smi topo -m` prints it.

    Rows and columns are `devices`: `GPU0`..., then `NIC0`..., then `DD0`... for Data Direct
    functions.

    A cell is `X` (the device itself), `NV<n>` (n active NVLinks), `PIX`, `PXB`, `PHB`, `NODE` or
    `SYS`.
    """

    devices: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    @property
    def gpus(self) -> int:
        """How many of the devices are GPUs: they come first."""
        is_gpu = [device.startswith("GPU") for device in self.devices]
        return sum(is_gpu)

    def rows(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each device with its row of cells."""
        return zip(self.devices, self.cells, strict=True)


def nv_cell(links: int) -> str:
    """The cell of a pair that `links` active NVLinks connect."""
    return f"{_NV}{links}"


def nv_links(cell: str) -> int:
    """The number of active NVLinks in a cell; 0 for other paths."""
    if not cell.startswith(_NV):
        return 0
    return int(cell.removeprefix(_NV))


def nvlink_domains(matrix: LinkMatrix) -> tuple[tuple[int, ...], ...]:
    """Connected components of the NV cells as GPU positions, largest first.

    A GPU without links is a component by itself.
    """
    unassigned = dict.fromkeys(range(matrix.gpus))
    domains: list[tuple[int, ...]] = []
    while unassigned:
        first = next(iter(unassigned))
        del unassigned[first]
        members = [first]
        frontier = [first]
        while frontier:
            gpu = frontier.pop()
            row = matrix.cells[gpu]
            reached = [peer for peer in unassigned if nv_links(row[peer])]
            for peer in reached:
                del unassigned[peer]
            members += reached
            frontier += reached
        members.sort()
        domains.append(tuple(members))
    domains.sort(key=_largest_first)
    return tuple(domains)


def _largest_first(domain: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return -len(domain), domain


def is_rail_aligned(near: Sequence[Sequence[int]]) -> bool:
    """Whether every GPU can have a NIC card of its own among the cards near it.

    `near[g]` holds the numbers of the cards no further than PXB from GPU g. Alignment is a matching
    of GPUs to distinct cards (augmenting paths): two GPUs that share their only card are not
    aligned.
    """
    owner: dict[int, int] = {}

    def can_place(gpu: int, tried: set[int]) -> bool:
        for nic in near[gpu]:
            if nic in tried:
                continue
            tried.add(nic)
            if nic not in owner or can_place(owner[nic], tried):
                owner[nic] = gpu
                return True
        return False

    for gpu in range(len(near)):
        if not can_place(gpu, set()):
            return False
    return True


def table(matrix: LinkMatrix) -> str:
    """The matrix as aligned text, header first, columns as wide as their longest cell."""
    rows = [("", *matrix.devices)]
    for name, row in matrix.rows():
        rows.append((name, *row))
    widths = []
    for column in zip(*rows, strict=True):
        longest = max(column, key=len)
        widths.append(len(longest))
    lines = [_padded(row, widths) for row in rows]
    return "\n".join(lines)


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = []
    for cell, width in zip(row, widths, strict=True):
        padded = cell.ljust(width)
        cells.append(padded)
    return "  ".join(cells).rstrip()


_SHAPE_DIGITS: Final = 10


def shape(matrix: LinkMatrix, numa: Sequence[int | None]) -> str:
    """Ten hex digits that identify the link matrix and the NUMA layout.

    `numa[i]` is the NUMA node of device i, None: unknown. Device order must not matter (GPU indices
    and NIC names can change at a reboot), so the matrix is reduced by colour refinement
    (Weisfeiler-Leman): each device starts as its kind, then takes a name from the sorted multiset
    of (path, NUMA relation, other's name) until the names split the devices no further. NUMA
    *numbers* do not count, only which devices share a node: firmware numbers equal boards
    differently.
    """
    names = list(map(_kind, matrix.devices))
    everyone = range(len(names))
    while True:
        refined = [_refined(matrix, numa, names, at) for at in everyone]
        names_before = set(names)
        if len(set(refined)) == len(names_before):
            break
        names = refined
    refined.sort()
    return _digest(*refined)


def _refined(matrix: LinkMatrix, numa: Sequence[int | None], names: Sequence[str], at: int) -> str:
    """A device's next name: a digest of its own name, and of the paths and names of all others."""
    node = numa[at]
    row = matrix.cells[at]
    relations = []
    for other, path in enumerate(row):
        if other == at:
            continue
        is_same_node = node is not None and numa[other] == node
        relation = f"{path} {is_same_node} {names[other]}"
        relations.append(relation)
    relations.sort()
    own_name = names[at]
    return _digest(own_name, *relations)


def _kind(device: str) -> str:
    if device.startswith("GPU"):
        return "gpu"
    return "dd" if device.startswith("DD") else "nic"


def _digest(*parts: str) -> str:
    text = "\n".join(parts)
    digest = hashlib.sha256(text.encode())
    return digest.hexdigest()[:_SHAPE_DIGITS]
