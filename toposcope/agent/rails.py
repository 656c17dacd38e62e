"""Which NICs are a GPU's rails: the nearest ones that can carry a job's traffic. Pure."""

from collections.abc import Sequence
from typing import Final

from toposcope.topology.hardware import Nic
from toposcope.topology.matrix import LinkMatrix, near_cards, rail_aligned
from toposcope.topology.pci import PIX, PXB, card

_NEAR: Final = (PIX, PXB)
_INFINIBAND: Final = "InfiniBand"


def rails(matrix: LinkMatrix, nics: Sequence[Nic]) -> list[tuple[str, ...]]:
    """For each GPU the names of the rails nearest to it: all at PIX, else all at PXB; beyond that nothing is a rail."""
    rows = _to_nics(matrix)
    usable = _usable(rows, nics)
    return [_nearest(row, nics, usable) for row in rows]


def aligned(matrix: LinkMatrix, nics: Sequence[Nic]) -> bool:
    """Whether every GPU can have a rail of its own, on a card of its own: two ports of one card are one rail."""
    usable = _usable(_to_nics(matrix), nics)
    cards = [card(nic.pci) if nic.name in usable else None for nic in nics]
    return matrix.gpus > 0 and rail_aligned(near_cards(matrix, cards))


def _to_nics(matrix: LinkMatrix) -> list[tuple[str, ...]]:
    """For each GPU its cells to all NICs."""
    gpus = matrix.gpus
    return [row[gpus:] for row in matrix.cells[:gpus]]


def _usable(rows: Sequence[Sequence[str]], nics: Sequence[Nic]) -> frozenset[str]:
    """The NICs that can be a rail: near a GPU, up, and of the compute network.

    A port that is down carries nothing. Where InfiniBand is near a GPU, Ethernet beside it is for storage or
    management; where there is Ethernet only, that is RoCE.
    """
    near = [nic for i, nic in enumerate(nics) if not nic.down and any(row[i] in _NEAR for row in rows)]
    infiniband = [nic for nic in near if any(port.link_layer == _INFINIBAND and port.up for port in nic.ports)]
    return frozenset(nic.name for nic in infiniband or near)


def _nearest(row: Sequence[str], nics: Sequence[Nic], usable: frozenset[str]) -> tuple[str, ...]:
    for level in _NEAR:
        near = tuple(nic.name for nic, cell in zip(nics, row, strict=True) if cell == level and nic.name in usable)
        if near:
            return near
    return ()
