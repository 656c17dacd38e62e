"""Packs different pods onto nodes: exactly, if all combinations can be tried."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import le
from typing import Final

from toposcope.integrations.framework.packing import times

STEPS: Final = 50_000
"""The search gives up after this many combinations."""

_COMPARED: Final = 4
"""How many comparisons of remainders cost as much as one step."""

Counts = tuple[int, ...]
"""How many pods of each kind."""

Size = tuple[int, ...]
"""What one pod takes, by resource."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A node: its number, its free amounts, and which kinds of pods may use it."""

    number: int
    free: tuple[int, ...]
    allowed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """How many pods of each kind go to which node number; `placed` is None when none was found."""

    placed: dict[int, Counts] | None
    is_exact: bool
    """False: not everything was tried, so a missing result proves nothing."""
    steps: int
    """How many it took."""

    @property
    def is_impossible(self) -> bool:
        """Whether it is proven that the pods do not fit."""
        return self.placed is None and self.is_exact


_Reached = dict[Counts, tuple[Counts, Counts]]
"""By what is unplaced after a node: what was unplaced before it, and what the node takes."""


def pack(bins: Sequence[Bin], sizes: Sequence[Size], counts: Counts, steps: int = STEPS) -> Packing:
    """Put `counts[i]` pods of size `sizes[i]` into `bins`.

    It goes from node to node and keeps what may be unplaced after each. A remainder that has no
    less of anything than another one is dropped.
    """
    steps_left = steps
    trail: list[_Reached] = []
    remainders: list[Counts] = [counts]
    for bin_ in bins:
        reached: _Reached = {}
        for missing in remainders:
            for filling in _fillings(bin_, sizes, missing):
                steps_left -= 1
                if steps_left < 0:
                    return Packing(None, is_exact=False, steps=steps)
                remainder = tuple([a - b for a, b in zip(missing, filling, strict=True)])
                reached.setdefault(remainder, (missing, filling))
        trail.append(reached)
        remainders, compared = _smallest(reached, steps_left * _COMPARED)
        steps_left -= -(-compared // _COMPARED)
        if steps_left < 0:
            return Packing(None, is_exact=False, steps=steps)
        if not any(remainders[0]):
            placed = _way_back(trail, bins, remainders[0])
            return Packing(placed, is_exact=True, steps=steps - steps_left)
    return Packing(None, is_exact=True, steps=steps - steps_left)


def _fillings(bin_: Bin, sizes: Sequence[Size], missing: Counts) -> Iterator[Counts]:
    """The ways to fill a node so that nothing can be added.

    Pods of the last kind fill up what is left.
    """

    def fill(kind: int, free: tuple[int, ...]) -> Iterator[Counts]:
        if kind == len(sizes):
            yield ()
            return
        size = sizes[kind]
        most = times(free, size, missing[kind]) if bin_.allowed[kind] else 0
        least = most if kind == len(sizes) - 1 else 0
        for count in range(most, least - 1, -1):
            remaining = tuple([have - count * take for have, take in zip(free, size, strict=True)])
            for further_counts in fill(kind + 1, remaining):
                yield (count, *further_counts)

    return fill(0, bin_.free)


def _smallest(reached: Iterable[Counts], most: int) -> tuple[list[Counts], int]:
    """The remainders that no other undercuts, and how many comparisons it took.

    The one with the fewest pods comes first. It stops after `most` comparisons.
    """
    kept: list[Counts] = []
    compared = 0
    for remainder in sorted(reached, key=sum):
        compared += len(kept)
        if compared > most:
            break
        if not _is_undercut(remainder, kept):
            kept.append(remainder)
    return kept, compared


def _is_undercut(remainder: Counts, kept: Sequence[Counts]) -> bool:
    """Whether a kept remainder has no more of anything."""
    for smaller in kept:
        if all(map(le, smaller, remainder)):
            return True
    return False


def _way_back(trail: Sequence[_Reached], bins: Sequence[Bin], end: Counts) -> dict[int, Counts]:
    """What each node takes on the way to this remainder."""
    placed = {}
    used = bins[: len(trail)]
    for bin_, reached in zip(reversed(used), reversed(trail), strict=True):
        end, filling = reached[end]
        if any(filling):
            placed[bin_.number] = filling
    return placed
