"""Nodes turned on their side: one column of label values per key, so that 100,000 nodes are counted in milliseconds.

A loop in Python costs some 0.1 µs for each thing it does to each node. What is here runs over whole columns in the
interpreter's own loops (`set`, `zip`, `map`), and makes no object per node: a tuple for each would cost as much again
in garbage collection.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

from topology.node import Hardware, NodeFacts
from topology.platforms import PLACEHOLDERS

_BATCH: Final = 1024
"""So few nodes stay in the processor's cache while one label after the other is taken from them."""

_Parents: TypeAlias = dict[str | None, str | None]


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
    """Nodes of different names, those that carry the same keys side by side.

    What a column is like is worked out when it is first asked for. `placeholders` are values that say "unknown".
    """

    def __init__(self, nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> None:
        segments = _segments(nodes if isinstance(nodes, list) else list(nodes))
        self.placeholders = placeholders
        self.segments = {segment.keys: segment.nodes[0] for segment in segments}
        """One node for each set of keys."""
        # Mostly there is one segment: copying its columns would touch every string once more.
        first = segments[0] if segments else _Segment(())
        self.nodes: Sequence[NodeFacts] = first.nodes
        self.idle: Collection[int] = first.idle
        """Places of the nodes that take no pods (not Ready, or cordoned)."""
        self.hardware = first.hardware
        """What each node's agent says of its machine."""
        self._names = first.names
        self._labels = dict(zip(first.keys, first.columns, strict=True))
        self._columns: dict[str, Column] = {}
        self._parents: dict[tuple[str, str], _Parents | None] = {}
        for segment in segments[1:]:
            first.append(segment)
            self._labels |= {key: [] for key in segment.keys if key not in self._labels}
            for key, values in zip(segment.keys, segment.columns, strict=True):
                labels = self._labels[key]
                labels += [None] * (len(self) - len(segment.nodes) - len(labels))
                labels += values

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def labels(self, key: str) -> list[str | None]:
        """Each node's value of the label, whatever it says; None where there is none."""
        labels = self._labels.setdefault(key, [])
        labels += [None] * (len(self) - len(labels))
        return labels

    def counts(self, key: str) -> Mapping[str | None, int]:
        """How many nodes have each value of the label, whatever it says; None where there is none."""
        return Counter(self.labels(key))

    def machines(self) -> Mapping[Hardware, int]:
        """How many nodes have which hardware."""
        return Counter(self.hardware)

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
        return self.column(broad).uniform or self.parents(broad, narrow) is not None

    def parents(self, broad: str, narrow: str) -> Mapping[str | None, str | None] | None:
        """The value of `broad` that lies around each value of `narrow`; None where one lies in two."""
        if (broad, narrow) not in self._parents:
            self._parents[broad, narrow] = _parents(self.column(broad), self.column(narrow))
        return self._parents[broad, narrow]

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
                counts.append(self.paths(keys[: depth + 1]))
        return counts

    def paths(self, keys: Sequence[str]) -> int:
        """How many different paths of values there are, from the broadest of `keys` down, that end in a value."""
        found = set(zip(*[self.column(key).values for key in keys], strict=True))
        return sum(path[-1] is not None for path in found)

    def pairs(self, broad: str, narrow: str) -> Iterable[tuple[str | None, str | None]]:
        """Each value of `narrow` with each value of `broad` found beside it.

        A value that only one node has may be left out where every node has a value of `broad`.
        """
        return set(zip(self.column(narrow).values, self.column(broad).values, strict=True))


def table_of(nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> Table:
    """The nodes as a table; a table is taken as it is, with all that was worked out before."""
    return nodes if isinstance(nodes, Table) else Table(nodes, placeholders)


class _Segment:
    """The nodes that carry the same keys, and their columns so far."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.nodes: list[NodeFacts] = []
        self.names: list[str] = []
        self.idle: list[int] = []
        self.hardware: list[Hardware] = []
        self.columns: tuple[list[str | None], ...] = tuple([] for _ in keys)

    def add(self, nodes: Sequence[NodeFacts]) -> None:
        """Add nodes that carry these keys."""
        start = len(self.nodes)
        self.nodes += nodes
        self.names += [node.name for node in nodes]
        self.hardware += [node.hardware for node in nodes]
        usable = [node.ready and node.schedulable for node in nodes]
        if not all(usable):
            self.idle += [i for i, takes_pods in enumerate(usable, start) if not takes_pods]
        rows = [node.values for node in nodes]
        for i, column in enumerate(self.columns):
            column.extend(map(itemgetter(i), rows))

    def append(self, other: "_Segment") -> None:
        """Add the nodes of another segment, without their columns."""
        start = len(self.nodes)
        self.nodes += other.nodes
        self.names += other.names
        self.hardware += other.hardware
        self.idle += [start + i for i in other.idle]


def _segments(nodes: Sequence[NodeFacts]) -> list[_Segment]:
    """The nodes by the keys that they carry, in the order in which the keys are met."""
    segments: dict[tuple[str, ...], _Segment] = {}
    for start in range(0, len(nodes), _BATCH):
        for keys, group in _alike(nodes[start : start + _BATCH]).items():
            if keys not in segments:
                segments[keys] = _Segment(keys)
            segments[keys].add(group)
    return list(segments.values())


def _alike(nodes: Sequence[NodeFacts]) -> dict[tuple[str, ...], Sequence[NodeFacts]]:
    """At least one node, by their keys. Neighbours mostly carry the same: comparing is cheaper than hashing."""
    keys = [node.keys for node in nodes]
    if keys.count(keys[0]) == len(keys):
        return {keys[0]: nodes}
    alike: dict[tuple[str, ...], list[NodeFacts]] = {}
    for same, run in groupby(nodes, attrgetter("keys")):
        alike.setdefault(same, []).extend(run)
    return {**alike}


def _parents(broad: Column, narrow: Column) -> _Parents | None:
    if broad.uniform:
        return dict.fromkeys(narrow.values, broad.values[0])
    parents = dict(zip(narrow.values, broad.values, strict=True))
    return parents if list(map(parents.__getitem__, narrow.values)) == broad.values else None
