"""Counts that are kept while kinds come and go, so that a change costs what it touches and not what there is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from toposcope.topology.node import OWN
from toposcope.topology.table import Column, Crossing, Parents

T = TypeVar("T")


def add(counts: dict[T, int], thing: T, step: int) -> None:
    """Count so many more of a thing, or fewer; what there is none of is not in `counts`."""
    count = counts.get(thing, 0) + step
    if count:
        counts[thing] = count
    else:
        counts.pop(thing, None)


class Tally:
    """How many nodes have which value at one level; `values` are the kinds', in an order that its owner keeps."""

    def __init__(self, values: Sequence[str | None], weights: Iterable[int]) -> None:
        self.values = list(values)
        self._nodes: dict[str | None, int] = {}
        for value, nodes in zip(values, weights, strict=True):
            self._nodes[value] = self._nodes.get(value, 0) + nodes

    def shift(self, value: str | None, step: int) -> None:
        """So many nodes more have this value, or fewer."""
        add(self._nodes, value, step)

    def column(self, nodes: int) -> Column:
        """The column of the moment, of a table with so many nodes."""
        counts = self._nodes
        alone = [counts[each] for each in OWN if each in counts]
        different = len(counts) - (None in counts) - len(alone) + sum(alone)
        return Column(self.values, nodes, different, counts.get(None, 0), sum(alone))


class Pairs:
    """How many nodes have which value of a broad level and which of a narrow one."""

    def __init__(self, outer: Iterable[str | None], inner: Iterable[str | None], weights: Iterable[int]) -> None:
        self._around: dict[str | None, dict[str | None, int]] = {}
        self._one: dict[str | None, str | None] = {}
        self._several: set[str | None] = set()
        """The narrow values that lie in two domains or more."""
        self._placed = 0
        """How many narrow values lie under a broad one; what a node has alone counts for each node."""
        for broad, narrow, nodes in zip(outer, inner, weights, strict=True):
            self.shift(broad, narrow, nodes)

    def shift(self, broad: str | None, narrow: str | None, step: int) -> None:
        """So many nodes more have these values, or fewer. What a node has alone lies in one domain."""
        if narrow in OWN:
            self._placed += step if broad is not None else 0
            return
        around = self._around.setdefault(narrow, {})
        before = _placed(around)
        add(around, broad, step)
        if narrow is not None:
            self._placed += _placed(around) - before
        if _several(around):
            self._several.add(narrow)
        else:
            self._several.discard(narrow)
        if around:
            self._one[narrow] = next(iter(around))
        else:
            del self._around[narrow], self._one[narrow]

    def parents(self) -> Parents | None:
        """The value of the broad level around each of the narrow one; None where one lies in two."""
        return None if self._several else self._one

    def crossing(self) -> Crossing:
        """See `Table.crossing`."""
        parents = {
            inner: [outer for outer in self._around[inner] if outer is not None]
            for inner in self._several
            if inner is not None
        }
        return Crossing({inner: outer for inner, outer in parents.items() if len(outer) > 1}, self._placed)


class Paths:
    """How many nodes have which values at several levels, from the broadest down; see `Table.shared_paths`."""

    def __init__(self, columns: Iterable[Iterable[str | None]], weights: Iterable[int]) -> None:
        self._nodes: dict[tuple[str | None, ...], int] = {}
        self.different = 0
        """How many different paths end in a value that nodes can share."""
        for path, nodes in zip(zip(*columns, strict=True), weights, strict=True):
            self.shift(path, nodes)

    def shift(self, path: tuple[str | None, ...], step: int) -> None:
        """So many nodes more have these values, or fewer."""
        before = path in self._nodes
        add(self._nodes, path, step)
        if path[-1] is not None and path[-1] not in OWN:
            self.different += (path in self._nodes) - before


def _placed(around: Iterable[str | None]) -> bool:
    """Whether one of these is a value."""
    return any(value is not None for value in around)


def _several(around: Mapping[str | None, int]) -> bool:
    """Whether these are two domains or more."""
    if len(around) > 1:
        return True
    return any(value in OWN and nodes > 1 for value, nodes in around.items())
