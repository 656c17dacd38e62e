"""Nodes turned on their side: one column of label values per key, so that 100,000 nodes are counted in milliseconds.

A loop in Python costs some 0.1 µs for each thing it does to each node. What is here runs over whole columns in the
interpreter's own loops (`set`, `zip`, `map`), and makes no object per node: a tuple for each would cost as much again
in garbage collection.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, TypeAlias

from topology.node import NodeFacts
from topology.platforms import PLACEHOLDERS

_BATCH: Final = 1024
"""So few nodes stay in the processor's cache while one label after the other is taken from them."""

_Row: TypeAlias = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """The domain values at one level: one per node, None where the node carries none."""

    values: list[str | None]
    different: int
    """How many different values there are."""
    missing: int

    @property
    def singular(self) -> bool:
        """Whether no two nodes share a value, as with host names."""
        return self.different == len(self.values) - self.missing

    @property
    def uniform(self) -> bool:
        """Whether all nodes have the same value, as with the zone of a small cluster."""
        return self.different == 1 and not self.missing


class Table:
    """Nodes of different names, in the order given; what a column is like is worked out when it is first asked for.

    `placeholders` are values that say "unknown".
    """

    def __init__(self, nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> None:
        self.nodes = tuple(nodes)
        self.placeholders = placeholders
        self.segments: dict[tuple[str, ...], NodeFacts] = {}
        """One node for each set of keys."""
        self.idle: list[int] = []
        """Places of the nodes that take no pods (not Ready, or cordoned)."""
        self._names: list[str] = []
        self._labels: dict[str, list[str | None]] = {}
        self._columns: dict[str, Column] = {}
        self._nests: dict[tuple[str, str], bool] = {}
        for start in range(0, len(self.nodes), _BATCH):
            self._add(start, self.nodes[start : start + _BATCH])

    def _add(self, start: int, nodes: Sequence[NodeFacts]) -> None:
        keys = [node.keys for node in nodes]
        # Neighbours mostly carry the same keys: comparing them is cheaper than hashing each node's.
        same = keys.count(keys[0]) == len(keys)
        segments = {keys[0]: nodes[0]} if same else dict(zip(keys, nodes, strict=True))
        self.segments |= segments
        self._names += [node.name for node in nodes]
        usable = [node.ready and node.schedulable for node in nodes]
        if not all(usable):
            self.idle += [i for i, takes_pods in enumerate(usable, start) if not takes_pods]
        order, rows = _rows(tuple(segments), nodes)
        for i, key in enumerate(order):
            labels = self._labels.setdefault(key, [])
            labels += [None] * (start - len(labels))
            labels += map(itemgetter(i), rows)

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def labels(self, key: str) -> list[str | None]:
        """Each node's value of the label, whatever it says; None where there is none."""
        labels = self._labels.setdefault(key, [])
        labels += [None] * (len(self) - len(labels))
        return labels

    def column(self, key: str) -> Column:
        """Each node's domain value at the level that `key` carries: a placeholder for "unknown" is none."""
        if key not in self._columns:
            self._columns[key] = self._column(self.labels(key))
        return self._columns[key]

    def _column(self, values: list[str | None]) -> Column:
        if values == self._names and self.placeholders.isdisjoint(values):
            # As kubelets label themselves; names are known to differ, and a set of this size takes time.
            return Column(values, len(values), missing=0)
        distinct = set(values)
        if not distinct.isdisjoint(self.placeholders):
            values = [None if value in self.placeholders else value for value in values]
        nothing = len(distinct & self.placeholders) + (None in distinct)
        return Column(values, len(distinct) - nothing, values.count(None) if nothing else 0)

    def nests(self, broad: str, narrow: str) -> bool:
        """Whether all nodes with equal values of `narrow` have equal values of `broad` (none is a value here)."""
        if (broad, narrow) not in self._nests:
            self._nests[broad, narrow] = _nests(self.column(broad), self.column(narrow))
        return self._nests[broad, narrow]

    def domains(self, keys: Sequence[str]) -> list[int]:
        """How many domains each level has; `keys` from the broadest level down.

        Where the levels nest, and where every node is a domain of its own, those are the distinct values; else the
        distinct paths that end in a value.
        """
        counts = []
        nested = True
        for depth, key in enumerate(keys):
            column = self.column(key)
            if depth and (column.missing or not column.singular):
                nested = nested and self.nests(keys[depth - 1], key)
            if nested or column.singular:
                counts.append(column.different)
            else:
                paths = set(zip(*[self.column(above).values for above in keys[: depth + 1]], strict=True))
                counts.append(sum(path[-1] is not None for path in paths))
        return counts


def table_of(nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> Table:
    """The nodes as a table; a table is taken as it is, with all that was worked out before."""
    return nodes if isinstance(nodes, Table) else Table(nodes, placeholders)


def _rows(segments: Sequence[tuple[str, ...]], nodes: Sequence[NodeFacts]) -> tuple[Sequence[str], Sequence[_Row]]:
    """The keys of all nodes, and for each node its values in the order of these keys."""
    if len(segments) == 1:
        return segments[0], [node.values for node in nodes]
    everything = sorted(set[str]().union(*segments))
    # Behind its own values each row gets a None; the places of absent keys point there, and so does one place more,
    # because itemgetter gives a tuple for two places and up only.
    arrange = {
        keys: itemgetter(*(keys.index(key) if key in keys else -1 for key in everything), -1) for keys in segments
    }
    return everything, [arrange[node.keys]((*node.values, None)) for node in nodes]


def _nests(broad: Column, narrow: Column) -> bool:
    if broad.uniform:
        return True
    parent = dict(zip(narrow.values, broad.values, strict=True))
    return list(map(parent.__getitem__, narrow.values)) == broad.values
