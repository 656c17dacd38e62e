"""The link matrix of a node: for every pair of its GPUs and NICs the best path between them."""

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
        return sum(device.startswith("GPU") for device in self.devices)

    def rows(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each device with its row of cells."""
        return zip(self.devices, self.cells, strict=True)


def nv_cell(links: int) -> str:
    """The cell of a pair that `links` active NVLinks connect."""
    return f"{_NV}{links}"


def nv_links(cell: str) -> int:
    """The number of active NVLinks in a cell; 0 for other paths."""
    return int(cell[len(_NV) :]) if cell.startswith(_NV) else 0


def nvlink_domains(matrix: LinkMatrix) -> tuple[tuple[int, ...], ...]:
    """Connected components of the NV cells as GPU positions, largest first.

    A GPU without links is one by itself.
    """
    left = dict.fromkeys(range(matrix.gpus))
    domains: list[tuple[int, ...]] = []
    while left:
        first = next(iter(left))
        del left[first]
        members, frontier = [first], [first]
        while frontier:
            row = matrix.cells[frontier.pop()]
            reached = [other for other in left if nv_links(row[other])]
            for other in reached:
                del left[other]
            members += reached
            frontier += reached
        domains.append(tuple(sorted(members)))
    return tuple(sorted(domains, key=lambda domain: (-len(domain), domain)))


def rail_aligned(near: Sequence[Sequence[int]]) -> bool:
    """Whether every GPU can have a NIC card of its own among the cards near it.

    `near[g]` holds the numbers of the cards no further than PXB from GPU g. Alignment is a matching
    of GPUs to distinct cards (augmenting paths): two GPUs that share their only card are not
    aligned.
    """
    owner: dict[int, int] = {}

    def place(gpu: int, tried: set[int]) -> bool:
        for nic in near[gpu]:
            if nic in tried:
                continue
            tried.add(nic)
            if nic not in owner or place(owner[nic], tried):
                owner[nic] = gpu
                return True
        return False

    return all(place(gpu, set()) for gpu in range(len(near)))


def table(matrix: LinkMatrix) -> str:
    """The matrix as aligned text, header first, columns as wide as their longest cell."""
    lines = [("", *matrix.devices)]
    lines += [(name, *row) for name, row in matrix.rows()]
    columns = zip(*lines, strict=True)
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(_padded(line, widths) for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
    return "  ".join(cells).rstrip()


_DIGITS: Final = 10


def shape(matrix: LinkMatrix, numa: Sequence[int | None]) -> str:
    """Ten hex digits over the link matrix and the NUMA layout.

    `numa[i]` is the NUMA node of device i, None: unknown. Device order must not matter (GPU indices
    and NIC names can change at a reboot), so the matrix is reduced by colour refinement
    (Weisfeiler-Leman): each device starts as its kind, then takes a name from the sorted multiset
    of (path, NUMA relation, other's name) until the names split the devices no further. NUMA
    *numbers* do not enter, only which devices share a node: firmware numbers equal boards
    differently.
    """
    names = [_kind(device) for device in matrix.devices]
    everyone = range(len(names))
    while True:
        refined = [_refined(matrix, numa, names, at) for at in everyone]
        different = len(set(refined))
        if different == len(set(names)):
            break
        names = refined
    return _digest(*sorted(refined))


def _refined(matrix: LinkMatrix, numa: Sequence[int | None], names: Sequence[str], at: int) -> str:
    """A device's next name: its own, and the paths to all others with theirs."""
    node = numa[at]
    relations = []
    for other, path in enumerate(matrix.cells[at]):
        if other == at:
            continue
        same_node = node is not None and numa[other] == node
        relations.append(f"{path} {same_node} {names[other]}")
    relations.sort()
    return _digest(names[at], *relations)


def _kind(device: str) -> str:
    if device.startswith("GPU"):
        return "gpu"
    return "dd" if device.startswith("DD") else "nic"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
