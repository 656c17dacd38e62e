"""Which NICs near a GPU belong to the compute network, and how near they are.

Servers have InfiniBand or RoCE for their GPUs, and Ethernet for storage and management beside it. A
single InfiniBand port is not enough to tell that RoCE is for storage: what most GPUs have near them
counts.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.pci import NEAREST_FIRST, PIX, PXB
from toposcope.hardware.topology import DataDirect, Nic

NEAR: Final = (PIX, PXB)
_INFINIBAND: Final = "InfiniBand"

Paths = Sequence[Sequence[str]]
"""A row for each GPU, with the cell of each NIC."""


def nic_paths(
    matrix: LinkMatrix, nics: Sequence[Nic], data_direct: Sequence[DataDirect]
) -> list[list[str]]:
    """The path from each GPU to each NIC.

    By the NIC's Data Direct function where it has one, as data goes that way. With several such
    functions the nearest counts.
    """
    first_nic = matrix.gpus
    first_direct = first_nic + len(nics)
    paths = []
    for row in matrix.cells[:first_nic]:
        to_nics = row[first_nic:first_direct]
        to_direct = row[first_direct:]
        cells = []
        for nic, own_path in zip(nics, to_nics, strict=True):
            ways = _ways(nic, data_direct, to_direct)
            cells.append(min(ways, key=NEAREST_FIRST.index, default=own_path))
        paths.append(cells)
    return paths


def _ways(nic: Nic, data_direct: Sequence[DataDirect], cells: Sequence[str]) -> list[str]:
    """The cells of a NIC's Data Direct functions."""
    found = []
    for function, cell in zip(data_direct, cells, strict=True):
        if nic.name in function.nics:
            found.append(cell)
    return found


def compute_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """For each GPU the positions of the NICs near it that belong to the compute network.

    Be their ports up or down.
    """
    return _of_one_kind(paths, _infiniband_nics(nics))


def usable_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """As `compute_nics`, without NICs that are down.

    Where no InfiniBand near a GPU is up, Ethernet is RoCE.
    """
    infiniband = _infiniband_nics(nics)
    near: set[int] = set()
    for row in paths:
        near.update(_near(row))
    if all(nics[at].down for at in near & infiniband):
        infiniband = set()
    return [_without_down(chosen, nics) for chosen in _of_one_kind(paths, infiniband)]


def nearest(row: Sequence[str], chosen: Collection[int]) -> list[int]:
    """Of the chosen NICs those nearest to the GPU of the row: all at PIX, else all at PXB."""
    for level in NEAR:
        found = [at for at in chosen if row[at] == level]
        if found:
            return sorted(found)
    return []


def is_infiniband(nic: Nic) -> bool:
    """Whether its ports are InfiniBand: those that are up, or all of a NIC that is down."""
    up = {port.link_layer for port in nic.ports if port.up}
    every = {port.link_layer for port in nic.ports}
    return _INFINIBAND in (up or every)


class _Near(NamedTuple):
    """The NICs near one GPU, by kind."""

    infiniband: list[int]
    ethernet: list[int]


def _of_one_kind(paths: Paths, infiniband: Collection[int]) -> list[list[int]]:
    """Of the NICs near each GPU those of the kind that more GPUs have near them.

    As many: InfiniBand for a GPU that has it near, else Ethernet. More have Ethernet: InfiniBand
    for a GPU without it.
    """
    near_gpus = [_by_kind(row, infiniband) for row in paths]
    with_infiniband = [bool(near.infiniband) for near in near_gpus].count(True)
    with_ethernet = [bool(near.ethernet) for near in near_gpus].count(True)
    chosen = []
    for near in near_gpus:
        if with_infiniband > with_ethernet:
            chosen.append(near.infiniband)
        elif with_infiniband == with_ethernet:
            chosen.append(near.infiniband or near.ethernet)
        else:
            chosen.append(near.ethernet or near.infiniband)
    return chosen


def _by_kind(row: Sequence[str], infiniband: Collection[int]) -> _Near:
    found = _Near([], [])
    for at in _near(row):
        kind = found.infiniband if at in infiniband else found.ethernet
        kind.append(at)
    return found


def _without_down(chosen: Sequence[int], nics: Sequence[Nic]) -> list[int]:
    return [at for at in chosen if not nics[at].down]


def _infiniband_nics(nics: Sequence[Nic]) -> set[int]:
    return {at for at, nic in enumerate(nics) if is_infiniband(nic)}


def _near(row: Sequence[str]) -> list[int]:
    return [at for at, cell in enumerate(row) if cell in NEAR]
