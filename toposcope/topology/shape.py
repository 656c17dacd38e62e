"""A short name for a node's wiring, equal for equally wired nodes whatever order their devices are counted in."""

import hashlib
from collections.abc import Sequence
from typing import Final

from toposcope.topology.matrix import LinkMatrix

_DIGITS: Final = 10


def shape(matrix: LinkMatrix, numa: Sequence[int | None]) -> str:
    """Ten hex digits over the link matrix and the NUMA layout; `numa[i]` is the NUMA node of device i, None: unknown.

    Device order must not matter (GPU indices and NIC names can change at a reboot), so the matrix is
    reduced by colour refinement (Weisfeiler-Leman): each device starts as its kind, then takes a name from the sorted
    multiset of (path, NUMA relation, other's name) until the names split the devices no further. NUMA *numbers* do
    not enter, only which devices share a node: firmware numbers equal boards differently.
    """
    names = ["gpu" if i < matrix.gpus else "nic" for i in range(len(matrix.devices))]
    everyone = range(len(names))
    while True:
        refined = [
            _digest(
                names[i],
                *sorted(
                    f"{matrix.cells[i][j]} {numa[i] is not None and numa[i] == numa[j]} {names[j]}"
                    for j in everyone
                    if j != i
                ),
            )
            for i in everyone
        ]
        if len(set(refined)) == len(set(names)):
            return _digest(*sorted(refined))
        names = refined


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
