"""Counts that are kept while kinds come and go, so that a change costs what it touches and not what there is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from topology.node import OWN
from topology.table import Column, Parents

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
        self._crossing = 0
        for broad, narrow, nodes in zip(outer, inner, weights, strict=True):
            self.shift(broad, narrow, nodes)

    def shift(self, broad: str | None, narrow: str | None, step: int) -> None:
        """So many nodes more have these values, or fewer. What a node has alone lies in one domain."""
        if narrow in OWN:
            return
        around = self._around.setdefault(narrow, {})
        before = _several(around)
        add(around, broad, step)
        self._crossing += _several(around) - before
        if around:
            self._one[narrow] = next(iter(around))
        else:
            del self._around[narrow], self._one[narrow]

    def parents(self) -> Parents | None:
        """The value of the broad level around each of the narrow one; None where one lies in two."""
        return None if self._crossing else self._one


def _several(around: Mapping[str | None, int]) -> bool:
    """Whether these are two domains or more."""
    if len(around) > 1:
        return True
    return any(value in OWN and nodes > 1 for value, nodes in around.items())
