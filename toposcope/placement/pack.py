"""Packing different pods onto nodes: exactly, as long as all combinations can be tried."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import le
from typing import Final

from toposcope.integrations.framework.packing import times

STEPS: Final = 50_000
"""The search gives up after this many combinations."""

_COMPARED: Final = 4
"""How many comparisons of remainders cost as much as one combination."""

Counts = tuple[int, ...]
"""How many pods of each kind."""

Size = tuple[int, ...]
"""What one pod takes, by resource."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A node: its number, its free amounts, and which of the pods it may take."""

    number: int
    free: tuple[int, ...]
    allowed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """How many pods of each kind go to which node number; `placed` is None when none was found."""

    placed: dict[int, Counts] | None
    exact: bool
    """False: not everything was tried, so a missing result proves nothing."""
    steps: int
    """How many it took."""

    @property
    def impossible(self) -> bool:
        """Whether it is proven that the pods do not fit."""
        return self.placed is None and self.exact


_Reached = dict[Counts, tuple[Counts, Counts]]
"""What is missing after a node: what was missing before it, and what the node takes."""


def pack(bins: Sequence[Bin], sizes: Sequence[Size], counts: Counts, steps: int = STEPS) -> Packing:
    """Put `counts[i]` pods of size `sizes[i]` into `bins`.

    Goes from node to node and keeps what could still be missing after each; of two such remainders,
    one of which has no more of anything than the other, only the smaller one matters.
    """
    left = steps
    trail: list[_Reached] = []
    remainders: list[Counts] = [counts]
    for bin_ in bins:
        reached: _Reached = {}
        for missing in remainders:
            for taken in _fillings(bin_, sizes, missing):
                left -= 1
                if left < 0:
                    return Packing(None, exact=False, steps=steps)
                rest = tuple([a - b for a, b in zip(missing, taken, strict=True)])
                reached.setdefault(rest, (missing, taken))
        trail.append(reached)
        remainders, compared = _smallest(reached, left * _COMPARED)
        left -= -(-compared // _COMPARED)
        if left < 0:
            return Packing(None, exact=False, steps=steps)
        if not any(remainders[0]):
            placed = _way_back(trail, bins, remainders[0])
            return Packing(placed, exact=True, steps=steps - left)
    return Packing(None, exact=True, steps=steps - left)


def _fillings(bin_: Bin, sizes: Sequence[Size], missing: Counts) -> Iterator[Counts]:
    """The ways to fill a node to which nothing can be added.

    Pods of the last kinds first fill what is left over.
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
            for others in fill(kind + 1, remaining):
                yield (count, *others)

    return fill(0, bin_.free)


def _smallest(reached: Iterable[Counts], most: int) -> tuple[list[Counts], int]:
    """The remainders that none of the others undercuts, and how many comparisons it took.

    The one with the least pods comes first. After `most` comparisons it stops.
    """
    kept: list[Counts] = []
    compared = 0
    for rest in sorted(reached, key=sum):
        compared += len(kept)
        if compared > most:
            break
        if not _is_undercut(rest, kept):
            kept.append(rest)
    return kept, compared


def _is_undercut(rest: Counts, kept: Sequence[Counts]) -> bool:
    """Whether another remainder has no more of anything."""
    for smaller in kept:
        if all(map(le, smaller, rest)):
            return True
    return False


def _way_back(trail: Sequence[_Reached], bins: Sequence[Bin], end: Counts) -> dict[int, Counts]:
    """What each node takes on the way to this remainder."""
    placed = {}
    used = bins[: len(trail)]
    for bin_, reached in zip(reversed(used), reversed(trail), strict=True):
        end, taken = reached[end]
        if any(taken):
            placed[bin_.number] = taken
    return placed
