"""Which NICs are a GPU's rails: the nearest ones that can carry a job's traffic. Pure."""

from collections.abc import Sequence
from typing import Final

from topology.hardware import Nic
from topology.matrix import LinkMatrix, near_cards, rail_aligned
from topology.pci import PIX, PXB, card

_NEAR: Final = (PIX, PXB)
_INFINIBAND: Final = "InfiniBand"


def rails(matrix: LinkMatrix, nics: Sequence[Nic]) -> list[tuple[str, ...]]:
    """For each GPU the names of the rails nearest to it: all at PIX, else all at PXB; beyond that nothing is a rail."""
    usable = _usable(matrix, nics)
    return [_nearest(row[matrix.gpus :], nics, usable) for row in matrix.cells[: matrix.gpus]]


def aligned(matrix: LinkMatrix, nics: Sequence[Nic]) -> bool:
    """Whether every GPU can have a rail of its own, on a card of its own: two ports of one card are one rail."""
    usable = _usable(matrix, nics)
    kept = [*range(matrix.gpus), *(matrix.gpus + i for i, nic in enumerate(nics) if nic.name in usable)]
    small = LinkMatrix(
        tuple(matrix.devices[i] for i in kept), tuple(tuple(matrix.cells[i][j] for j in kept) for i in kept)
    )
    cards = [card(nic.pci) for nic in nics if nic.name in usable]
    return matrix.gpus > 0 and rail_aligned(near_cards(small, cards))


def _usable(matrix: LinkMatrix, nics: Sequence[Nic]) -> frozenset[str]:
    """The NICs that can be a rail: up, and of the compute network.

    A port that is down carries nothing. Where InfiniBand is near a GPU, Ethernet beside it is for storage or
    management; where there is Ethernet only, that is RoCE.
    """
    up = [(i, nic) for i, nic in enumerate(nics) if not nic.down]
    near = [nic for i, nic in up if any(row[matrix.gpus + i] in _NEAR for row in matrix.cells[: matrix.gpus])]
    infiniband = [nic for nic in near if any(port.link_layer == _INFINIBAND and port.up for port in nic.ports)]
    return frozenset(nic.name for nic in infiniband or near)


def _nearest(row: Sequence[str], nics: Sequence[Nic], usable: frozenset[str]) -> tuple[str, ...]:
    for level in _NEAR:
        near = tuple(nic.name for nic, cell in zip(nics, row, strict=True) if cell == level and nic.name in usable)
        if near:
            return near
    return ()
