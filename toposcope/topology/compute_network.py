"""Which NICs near a GPU belong to the compute network, and how near they are.

Servers have InfiniBand or RoCE for their GPUs, and Ethernet for storage and management beside it. A single InfiniBand
port is not enough to tell that RoCE is for storage: what most GPUs have near them counts.
"""

from collections.abc import Collection, Sequence
from typing import Final

from toposcope.topology.hardware import DataDirect, Nic
from toposcope.topology.matrix import LinkMatrix
from toposcope.topology.pci import NEAREST_FIRST, PIX, PXB

NEAR: Final = (PIX, PXB)
_INFINIBAND: Final = "InfiniBand"

Paths = Sequence[Sequence[str]]
"""A row for each GPU, with the cell of each NIC."""


def nic_paths(matrix: LinkMatrix, nics: Sequence[Nic], data_direct: Sequence[DataDirect]) -> list[list[str]]:
    """The path from each GPU to each NIC: by the NIC's Data Direct function where it has one, as data goes that way.

    With several such functions the nearest counts.
    """
    first_direct = matrix.gpus + len(nics)
    paths = []
    for row in matrix.cells[: matrix.gpus]:
        to_direct = row[first_direct:]
        cells = []
        for nic, cell in zip(nics, row[matrix.gpus : first_direct], strict=True):
            direct = [to_direct[at] for at, function in enumerate(data_direct) if nic.name in function.nics]
            cells.append(min(direct, key=NEAREST_FIRST.index, default=cell))
        paths.append(cells)
    return paths


def compute_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """For each GPU the positions of the NICs near it that belong to the compute network, be their ports up or down."""
    infiniband = {at for at, nic in enumerate(nics) if is_infiniband(nic)}
    return _of_one_kind(paths, infiniband)


def usable_nics(paths: Paths, nics: Sequence[Nic]) -> list[list[int]]:
    """As `compute_nics`, without NICs that are down. Where no InfiniBand near a GPU is up, Ethernet is RoCE."""
    infiniband = {at for at, nic in enumerate(nics) if is_infiniband(nic)}
    near = {at for row in paths for at in _near(row)}
    if all(nics[at].down for at in near & infiniband):
        infiniband = set()
    return [[at for at in chosen if not nics[at].down] for chosen in _of_one_kind(paths, infiniband)]


def nearest(row: Sequence[str], chosen: Collection[int]) -> list[int]:
    """Of the chosen NICs those nearest to the GPU of the row: all at PIX, else all at PXB."""
    for level in NEAR:
        found = [at for at, cell in enumerate(row) if cell == level and at in chosen]
        if found:
            return found
    return []


def _of_one_kind(paths: Paths, infiniband: Collection[int]) -> list[list[int]]:
    """Of the NICs near each GPU those of the kind that more GPUs have near them.

    As many: InfiniBand for a GPU that has it near, else Ethernet. More have Ethernet: InfiniBand for a GPU without it.
    """
    with_infiniband: list[list[int]] = []
    with_ethernet: list[list[int]] = []
    for row in paths:
        near = _near(row)
        with_infiniband.append([at for at in near if at in infiniband])
        with_ethernet.append([at for at in near if at not in infiniband])
    balance = sum(map(bool, with_infiniband)) - sum(map(bool, with_ethernet))
    if balance > 0:
        return with_infiniband
    first, second = (with_infiniband, with_ethernet) if balance == 0 else (with_ethernet, with_infiniband)
    return [preferred or other for preferred, other in zip(first, second, strict=True)]


def _near(row: Sequence[str]) -> list[int]:
    return [at for at, cell in enumerate(row) if cell in NEAR]


def is_infiniband(nic: Nic) -> bool:
    """Whether its ports are InfiniBand: those that are up, or all of a NIC that is down."""
    up = {port.link_layer for port in nic.ports if port.up}
    return _INFINIBAND in (up or {port.link_layer for port in nic.ports})
