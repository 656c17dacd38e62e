"""Nodes by what they have in common, so that 100,000 of them are counted in milliseconds.

Nodes that share their traits are one *kind*, with a weight: how many they are. A rack is mostly one kind, so a cluster
has as many kinds as racks, and everything is derived from columns with one label value a kind. `ITS_NAME` or `ITS_HOST`
in a column stands for as many values as the kind has nodes, each of them on that node only.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, compress, repeat
from operator import and_, attrgetter, eq, itemgetter, mul
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from toposcope.topology.node import ITS_HOST, OWN, Hardware, NodeFacts, Traits
from toposcope.topology.platforms import PLACEHOLDERS

T = TypeVar("T")

_NOWHERE: Final = -1

Machines: TypeAlias = Collection[tuple[Hardware, int]]
"""Hardware, and how many nodes have it; what is equal may come several times."""
Parents: TypeAlias = dict[str | None, str | None]
"""The value of a broad level around each value of a narrow one."""


@dataclass(frozen=True, slots=True)
class Column:
    """The domain values at one level: one a kind, None where there is none; the numbers are those of nodes."""

    values: list[str | None]
    nodes: int
    different: int
    """How many different values there are."""
    missing: int
    own: int
    """How many nodes have a value that stands for one of their own."""

    @property
    def singular(self) -> bool:
        """Whether no two nodes share a value, as with host names."""
        return self.different == self.nodes - self.missing

    @property
    def uniform(self) -> bool:
        """Whether all nodes have the same value, as with the zone of a small cluster."""
        return self.different == 1 and not self.missing


class Crossing(NamedTuple):
    """The values of a narrow level that lie under several of a broad one."""

    parents: Mapping[str, Collection[str]]
    """Those of each such value."""
    total: int
    """How many values lie under some."""


class Table:
    """Nodes of different names, in the order in which they are given.

    What a column is like is worked out when it is first asked for. `placeholders` are values that say "unknown". A node
    whose name or host is a placeholder or another node's value is a kind of its own, in which both are spelled out.
    """

    def __init__(
        self, nodes: dict[str, NodeFacts] | Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS
    ) -> None:
        """A dictionary has the nodes by name, and is the table's from now on."""
        self._nodes = nodes if isinstance(nodes, dict) else {node.name: node for node in nodes}
        self.placeholders = placeholders
        self._spelled: dict[str, Traits] = {}
        kinds, weights = _weighed(self)
        self._take([*kinds.values()], [*weights.values()])
        told = self._ambiguous()
        for node in self if told else ():
            if (node.name in told or (node.host and node.host in told)) and not OWN.isdisjoint(node.traits.values):
                weights[id(node.traits)] -= 1
                own = self._spelled[node.name] = node.spelled_out()
                weights[id(own)], kinds[id(own)] = 1, own
        if self._spelled:
            self._take([kind for number, kind in kinds.items() if weights[number]], [*filter(None, weights.values())])

    def _ambiguous(self) -> Collection[str | None]:
        """What a node with its name or host unsaid may not be called; empty where no node is."""
        words = [self.placeholders, *map(self.distinct, {key for keys in self.segments for key in keys})]
        names = self._nodes.keys()
        hosts = [node.host for node in self if node.host] if any(ITS_HOST in word for word in words) else []
        different = set(hosts)
        if len(different) < len(hosts) or not names.isdisjoint(different):
            words.append({value for value, times in Counter(chain(names, hosts)).items() if times > 1})
        # There are fewer words than nodes: each is looked up among the names, and not the other way round.
        apart = all(names.isdisjoint(word) and different.isdisjoint(word) for word in words)
        return () if apart else set().union(*words)

    def _take(self, kinds: list[Traits], weights: list[int]) -> None:
        """Have these kinds from now on, of which nothing is worked out yet."""
        self.kinds = kinds
        self.weights = weights
        """How many nodes of each kind there are, at least one."""
        # Each is a tuple, so all of them are taken apart at once.
        keys, rows, ready, schedulable, _, _ = _transposed(kinds) or ([], [], [], [], [], [])
        self._rows: list[tuple[str, ...]] = rows
        self.usable = list(map(mul, weights, map(and_, ready, schedulable)))
        """How many of them a scheduler would place a pod on."""
        alike = bool(keys) and keys.count(keys[0]) == len(keys)
        self.segments: dict[tuple[str, ...], int] = (
            {keys[0]: len(self)} if alike else sums(zip(keys, weights, strict=True))
        )
        """How many nodes carry which keys."""
        self._labels: dict[str, list[str | None]] = (
            dict(zip(keys[0], _transposed(self._rows), strict=True)) if alike else {}
        )
        self._columns: dict[str, Column] = {}
        self._dotted: dict[str, bool] = {}
        self._parents: dict[tuple[str, str], Parents | None] = {}
        self._notes: dict[Hashable, object] = {}
        self._moved()

    def _moved(self) -> None:
        """Forget what depends on every single node, and what is quickly made anew."""
        self._distinct: dict[str, set[str | None]] = {}
        self._places: list[int] | None = None
        self._usable_nodes: int | None = None
        self._by_node: Table | None = None

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def places(self) -> list[int]:
        """For each node where its kind is among `kinds`."""
        if self._places is None:
            place = {id(kind): i for i, kind in enumerate(self.kinds)}
            spelled = self._spelled
            traits = (
                [spelled.get(node.name, node.traits) for node in self] if spelled else map(attrgetter("traits"), self)
            )
            self._places = list(map(place.__getitem__, map(id, traits)))
        return self._places

    def names(self, chosen: Iterable[bool]) -> list[str]:
        """The names of the nodes whose kind is `chosen` (one word a kind)."""
        each = list(chosen)
        return [node.name for node in compress(self, map(each.__getitem__, self.places()))] if any(each) else []

    def first_names(self, chosen: Iterable[bool], most: int) -> tuple[str, ...]:
        """The first of these names, sorted."""
        return tuple(nsmallest(most, self.names(chosen)))

    def values(self, key: str) -> list[str | None]:
        """Each node's domain value at the level that `key` carries."""
        column = self.column(key)
        found = map(column.values.__getitem__, self.places())
        if not column.own:
            return list(found)
        return [node.own(value) if value in OWN else value for node, value in zip(self, found, strict=True)]

    @property
    def usable_nodes(self) -> int:
        """How many nodes a scheduler would place a pod on."""
        if self._usable_nodes is None:
            self._usable_nodes = sum(self.usable)
        return self._usable_nodes

    def labels(self, key: str) -> list[str | None]:
        """Each kind's value of the label, whatever it says; None where there is none."""
        if key not in self._labels:
            self._labels[key] = self._label(key)
        return self._labels[key]

    def _label(self, key: str) -> list[str | None]:
        place = {keys: keys.index(key) if key in keys else _NOWHERE for keys in self.segments}
        rows = self._rows
        if len(place) > 1:
            where = map(place.__getitem__, [kind.keys for kind in self.kinds])
            return [None if i == _NOWHERE else row[i] for i, row in zip(where, rows, strict=True)]
        (only,) = place.values() or (_NOWHERE,)
        return [None] * len(rows) if only == _NOWHERE else list(map(itemgetter(only), rows))

    def distinct(self, key: str) -> set[str | None]:
        """The different values of the label, None where a node has none."""
        if key not in self._distinct:
            self._distinct[key] = set(self.labels(key))
        return self._distinct[key]

    def machines(self) -> Machines:
        """The hardware of the nodes."""
        machines = list(map(attrgetter("hardware"), self.kinds))
        numbers = list(map(id, machines))
        counts = sums(zip(numbers, self.weights, strict=True))
        return list(zip(dict(zip(numbers, machines, strict=True)).values(), counts.values(), strict=True))

    def of_machines(self, work: Callable[[Machines], T]) -> T:
        """What `work` makes of the machines; remembered, so give a function of the module and not one made for it."""
        if work not in self._notes:
            self._notes[work] = work(self.machines())
        return cast("T", self._notes[work])

    def column(self, key: str) -> Column:
        """Each kind's domain value at the level that `key` carries: a placeholder for "unknown" is none."""
        if key not in self._columns:
            self._columns[key] = self._column(self.labels(key), self.distinct(key))
        return self._columns[key]

    def dotted(self, key: str) -> bool:
        """Whether some value of the level that nodes can share has a dot in it, or had one a while ago."""
        if key not in self._dotted:
            self._dotted[key] = "." in "".join(filter(None, self.distinct(key)))
        return self._dotted[key]

    def real(self, label: str | None) -> str | None:
        """The domain value that a label stands for."""
        return None if label in self.placeholders else label

    def _column(self, values: list[str | None], distinct: set[str | None]) -> Column:
        if not distinct.isdisjoint(self.placeholders):
            values = list(map(self.real, values))
            distinct = set(values)
        missing = self._carrying(values, None) if None in distinct else 0
        alone = OWN & distinct
        own = sum(self._carrying(values, each) for each in alone)
        different = len(distinct) - (None in distinct) - len(alone) + own
        return Column(values, len(self), different, missing, own)

    def _carrying(self, values: Sequence[str | None], this: str | None) -> int:
        return sum(compress(self.weights, map(eq, values, repeat(this))))

    def readable(self, keys: Sequence[str]) -> "Table":
        """This table, or one in which each node is a kind, where names stand above values that nodes share.

        `keys` from the broadest level down. Then no kind lies in several domains of any level, but where every node is
        a domain of its own.
        """
        columns = [self.column(key) for key in keys]
        shared = [i for i, column in enumerate(columns) if column.missing or not column.singular]
        return self._spelled_out() if shared and any(column.own for column in columns[: shared[-1]]) else self

    def told_by(self, keys: Iterable[str], values: Collection[str] | None = None) -> "Table":
        """This table, or one in which each node is a kind, where one of the labels is some node's own.

        `values` are those that matter, if not all do.
        """
        if not any(map(self._tells_apart, keys)):
            return self
        if values is not None and not any(node.name in values or node.host in values for node in self):
            return self
        return self._spelled_out()

    def _tells_apart(self, key: str) -> bool:
        """Whether the label is some node's own."""
        column = self._columns.get(key)
        return column.own > 0 if column else not OWN.isdisjoint(self.labels(key))

    def _spelled_out(self) -> "Table":
        if self._by_node is None:
            spelled = [NodeFacts(node.name, node.uid, node.spelled_out()) for node in self]
            self._by_node = Table(spelled, self.placeholders)
        return self._by_node

    def nests(self, broad: str, narrow: str) -> bool:
        """Whether all nodes with equal values of `narrow` have equal values of `broad` (none is a value here)."""
        inner = self.column(narrow)
        alone = inner.singular and not inner.missing
        return alone or self.column(broad).uniform or self.parents(broad, narrow) is not None

    def parents(self, broad: str, narrow: str) -> Mapping[str | None, str | None] | None:
        """The value of `broad` that lies around each value of `narrow`; None where one lies in two.

        A value that its node has alone is left out: it lies in one. Around the values of one node such a value may
        stand as it does in a column.
        """
        if (broad, narrow) not in self._parents:
            self._parents[broad, narrow] = _parents(self.column(broad), self.column(narrow), self.weights)
        return self._parents[broad, narrow]

    def crossing(self, broad: str, narrow: str) -> Crossing:
        """The values of `narrow` that lie under several of `broad`; no value of `broad` may be a node's own."""
        parents: dict[str, set[str]] = {}
        alone = 0
        for inner, outer, nodes in zip(
            self.column(narrow).values, self.column(broad).values, self.weights, strict=True
        ):
            if outer is None or inner is None:
                continue
            if inner in OWN:
                alone += nodes
            else:
                parents.setdefault(inner, set()).add(outer)
        several = {inner: outer for inner, outer in parents.items() if len(outer) > 1}
        return Crossing(several, len(parents) + alone)

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
                counts.append(self._paths(keys[: depth + 1]))
        return counts

    def _paths(self, keys: Sequence[str]) -> int:
        """How many different paths of values there are, from the broadest of `keys` down, that end in a value."""
        readable = self.readable(keys)
        return readable.shared_paths(tuple(keys)) + readable.column(keys[-1]).own

    def shared_paths(self, keys: tuple[str, ...]) -> int:
        """How many of these paths there are whose last value nodes can share."""
        found = set(zip(*[self.column(key).values for key in keys], strict=True))
        return sum(path[-1] is not None and path[-1] not in OWN for path in found)


def table_of(nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> Table:
    """The nodes as a table; a table is taken as it is, with all that was worked out before."""
    return nodes if isinstance(nodes, Table) else Table(nodes, placeholders)


def words_of(kinds: Iterable[Traits], placeholders: frozenset[str]) -> set[str]:
    """What no node that leaves its name unsaid may be called."""
    return set(placeholders).union(*[kind.values for kind in kinds])


def _weighed(nodes: Iterable[NodeFacts]) -> tuple[dict[int, Traits], dict[int, int]]:
    """The kinds that these are, and how many of each there are, by identity.

    To hash each node's values would cost more than everything else. Neighbours are mostly alike, and counted at once.
    """
    kinds: dict[int, Traits] = {}
    weights: dict[int, int] = {}
    kind: Traits | None = None
    alike = 0
    for node in nodes:
        if node.traits is kind:
            alike += 1
            continue
        if kind is not None:
            weights[id(kind)] += alike
        kind = node.traits
        alike = 1
        kinds[id(kind)] = kind
        weights.setdefault(id(kind), 0)
    if kind is not None:
        weights[id(kind)] += alike
    return kinds, weights


def _transposed(rows: Sequence[Iterable[Any]]) -> list[list[Any]]:
    """The columns of rows that are equally long; none where there is no row."""
    return list(map(list, zip(*rows, strict=True)))


def sums(things: Iterable[tuple[T, int]]) -> dict[T, int]:
    """How many nodes there are of each thing."""
    found: dict[T, int] = {}
    for thing, weight in things:
        found[thing] = found.get(thing, 0) + weight
    return found


def _parents(broad: Column, narrow: Column, weights: Sequence[int]) -> Parents | None:
    if broad.uniform:
        return dict.fromkeys(narrow.values, broad.values[0])
    inner, outer = narrow.values, broad.values
    if narrow.own:
        shared = [value not in OWN for value in inner]
        inner, outer, weights = (
            list(compress(inner, shared)),
            list(compress(outer, shared)),
            [*compress(weights, shared)],
        )
    if broad.own:
        # Different values of different nodes, which all look alike here.
        around = [(value, nodes) for value, parent, nodes in zip(inner, outer, weights, strict=True) if parent in OWN]
        if sum(nodes for _, nodes in around) > len({value for value, _ in around}):
            return None
    parents = dict(zip(inner, outer, strict=True))
    return parents if len(parents) == len(inner) or list(map(parents.__getitem__, inner)) == outer else None
