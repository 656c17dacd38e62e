"""Which NICs near a GPU belong to the compute network, and how near they are.

Servers have InfiniBand or RoCE for their GPUs, and Ethernet for storage and management. A single
InfiniBand port does not show that RoCE is for storage: the kind that most GPUs have near them
decides.
"""

from collections.abc import Collection, Iterator, Sequence
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

    Data goes through a NIC's Data Direct function where it has one; the nearest of several counts.
    """
    first_nic = matrix.gpus
    first_direct = first_nic + len(nics)
    gpu_rows = matrix.cells[:first_nic]
    paths = []
    for row in gpu_rows:
        to_nics = row[first_nic:first_direct]
        to_direct = row[first_direct:]
        cells = []
        for nic, own_path in zip(nics, to_nics, strict=True):
            ways = _ways(nic, data_direct, to_direct)
            best = min(ways, key=NEAREST_FIRST.index, default=own_path)
            cells.append(best)
        paths.append(cells)
    return paths


def _ways(nic: Nic, data_direct: Sequence[DataDirect], cells: Sequence[str]) -> list[str]:
    """The cells of a NIC's Data Direct functions."""
    ways = []
    for function, cell in zip(data_direct, cells, strict=True):
        if nic.name in function.nics:
            ways.append(cell)
    return ways


def compute_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """For each GPU the positions of the NICs near it that belong to the compute network.

    NICs whose ports are down count too.
    """
    infiniband = _infiniband_nics(nics)
    return _of_one_kind(paths, infiniband)


def usable_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """As `compute_nics`, without NICs that are down.

    Where no InfiniBand near a GPU is up, Ethernet is RoCE.
    """
    infiniband = _infiniband_nics(nics)
    if not _is_any_up_near(paths, nics, infiniband):
        infiniband = set()
    usable = []
    for chosen in _of_one_kind(paths, infiniband):
        up = [at for at in chosen if not nics[at].is_down]
        usable.append(up)
    return usable


def _is_any_up_near(paths: Paths, nics: Sequence[Nic], chosen: Collection[int]) -> bool:
    """Whether one of the chosen NICs that is near a GPU is up."""
    for row in paths:
        for at in _near(row):
            if at in chosen and not nics[at].is_down:
                return True
    return False


def nearest(row: Sequence[str], chosen: Collection[int]) -> list[int]:
    """The chosen NICs nearest to the GPU of the row: all at PIX, else all at PXB."""
    for level in NEAR:
        nics = [at for at in chosen if row[at] == level]
        if nics:
            return sorted(nics)
    return []


def is_infiniband(nic: Nic) -> bool:
    """Whether its ports are InfiniBand: those that are up, or all of a NIC that is down."""
    every = set()
    up = set()
    for port in nic.ports:
        every.add(port.link_layer)
        if port.is_up:
            up.add(port.link_layer)
    counted = up or every
    return _INFINIBAND in counted


class _Near(NamedTuple):
    """The NICs near one GPU, by kind."""

    infiniband: list[int]
    ethernet: list[int]


def _of_one_kind(paths: Paths, infiniband: Collection[int]) -> list[list[int]]:
    """The NICs near each GPU that are of the kind which more GPUs have near them.

    If as many GPUs have each kind, a GPU uses InfiniBand if it has it near, else Ethernet. If more
    GPUs have Ethernet, only a GPU without Ethernet uses InfiniBand.
    """
    near_gpus = []
    with_infiniband = 0
    with_ethernet = 0
    for row in paths:
        near = _by_kind(row, infiniband)
        near_gpus.append(near)
        if near.infiniband:
            with_infiniband += 1
        if near.ethernet:
            with_ethernet += 1

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
    near = _Near([], [])
    for at in _near(row):
        if at in infiniband:
            near.infiniband.append(at)
        else:
            near.ethernet.append(at)
    return near


def _infiniband_nics(nics: Sequence[Nic]) -> set[int]:
    positions = set()
    for at, nic in enumerate(nics):
        if is_infiniband(nic):
            positions.add(at)
    return positions


def _near(row: Sequence[str]) -> Iterator[int]:
    """The positions of the NICs near the GPU of the row."""
    for at, cell in enumerate(row):
        if cell in NEAR:
            yield at
