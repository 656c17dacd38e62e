"""Where PCI switches must be, told from the link matrix: the matrix names no switch, only how far devices are apart."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from toposcope.api.matrix_annotation import Device
from toposcope.topology.matrix import LinkMatrix
from toposcope.topology.pci import PIX, PXB


@dataclass(frozen=True, slots=True)
class Group:
    """Devices below one port of a CPU, by their position in the matrix."""

    numa: int
    """-1: not known, as NCCL writes it."""
    switches: tuple[tuple[int, ...], ...]
    """Those that share a switch; several such switches hang from one above them."""


def groups_of(devices: Sequence[Device], links: LinkMatrix) -> list[Group]:
    """The devices by the switches that they share (PIX) and those above these (PXB)."""
    found = []
    for members in _joined(range(len(devices)), links, {PIX, PXB}):
        switches = _joined(members, links, {PIX})
        # Firmware may not tell a card's NUMA node; its neighbours behind the same switch share it.
        numa = next((n for n in (devices[position].numa for position in members) if n is not None), -1)
        found.append(Group(numa, tuple(map(tuple, switches))))
    return found


def _joined(positions: Sequence[int], links: LinkMatrix, near: Collection[str]) -> list[list[int]]:
    """The positions in groups: each reaches the others of its group over cells in `near`."""
    left = dict.fromkeys(positions)
    groups = []
    while left:
        first = next(iter(left))
        del left[first]
        found, frontier = [first], [first]
        while frontier:
            row = links.cells[frontier.pop()]
            reached = [other for other in left if row[other] in near]
            for other in reached:
                del left[other]
            found += reached
            frontier += reached
        groups.append(sorted(found))
    return groups
