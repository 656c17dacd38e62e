"""Packing different pods onto nodes: exactly, as long as there are few enough combinations to try all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

STEPS: Final = 50_000
"""After so many combinations the search gives up."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A node: its number, its free amounts, and which of the pods it may take."""

    number: int
    free: tuple[int, ...]
    allowed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """How many pods of each kind go to which node number; `placed` is None when none was found."""

    placed: dict[int, tuple[int, ...]] | None
    exact: bool
    """False: not everything was tried, so a missing result proves nothing."""


Counts = tuple[int, ...]


def pack(bins: Sequence[Bin], sizes: Sequence[tuple[int, ...]], counts: Counts, steps: int = STEPS) -> Packing:
    """Put `counts[i]` pods of size `sizes[i]` into `bins`.

    Goes from node to node and keeps what could still be missing after each; of two such remainders, one of which has
    no more of anything than the other, only the smaller one matters.
    """
    trail: list[dict[Counts, tuple[Counts, Counts]]] = []
    states: list[Counts] = [counts]
    for bin_ in bins:
        reached: dict[Counts, tuple[Counts, Counts]] = {}
        for left in states:
            for taken in _fillings(bin_, sizes, left):
                steps -= 1
                if steps < 0:
                    return Packing(None, exact=False)
                rest = tuple(a - b for a, b in zip(left, taken, strict=True))
                reached.setdefault(rest, (left, taken))
        trail.append(reached)
        states = _smallest(reached)
        if not any(states[0]):
            return Packing(_back(trail, bins, states[0]), exact=True)
    return Packing(None, exact=True)


def _fillings(bin_: Bin, sizes: Sequence[tuple[int, ...]], left: Counts) -> Iterator[Counts]:
    """The ways to fill a node to which nothing can be added; pods of the last kinds first fill what is left over."""

    def fill(kind: int, free: tuple[int, ...]) -> Iterator[Counts]:
        if kind == len(sizes):
            yield ()
            return
        size = sizes[kind]
        most = min((have // take for have, take in zip(free, size, strict=True) if take), default=left[kind])
        most = min(most, left[kind]) if bin_.allowed[kind] else 0
        least = most if kind == len(sizes) - 1 else 0
        for count in range(most, least - 1, -1):
            remaining = tuple(have - count * take for have, take in zip(free, size, strict=True))
            for others in fill(kind + 1, remaining):
                yield (count, *others)

    return fill(0, bin_.free)


def _smallest(reached: dict[Counts, tuple[Counts, Counts]]) -> list[Counts]:
    """The remainders that none of the others undercuts, the one with the least pods first."""
    kept: list[Counts] = []
    for rest in sorted(reached, key=sum):
        if not any(all(a <= b for a, b in zip(other, rest, strict=True)) for other in kept):
            kept.append(rest)
    return kept


def _back(
    trail: Sequence[dict[Counts, tuple[Counts, Counts]]], bins: Sequence[Bin], end: Counts
) -> dict[int, tuple[int, ...]]:
    placed = {}
    for bin_, reached in zip(reversed(bins[: len(trail)]), reversed(trail), strict=True):
        end, taken = reached[end]
        if any(taken):
            placed[bin_.number] = taken
    return placed
