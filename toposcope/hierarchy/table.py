"""Nodes grouped by what they have in common, so that 100,000 of them are counted in milliseconds.

Nodes with equal traits form a *group* with a weight: its number of nodes. A rack is mostly one
group, so a cluster has about as many groups as racks, and everything is computed on columns with
one label value per group. `OWN_NAME` or `OWN_HOSTNAME` in a column counts as many values as the
group has nodes, each of them on one node only.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import chain, compress, repeat
from operator import and_, attrgetter, eq, mul
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from toposcope.hierarchy.fault_domains import FAULT_DOMAINS
from toposcope.hierarchy.node import OWN_HOSTNAME, OWN_VALUES, Hardware, NodeFacts, Traits
from toposcope.hierarchy.platforms import PLACEHOLDERS

T = TypeVar("T")

_NOWHERE: Final = -1
_NAME_OF: Final = attrgetter("name")
_TRAITS_OF: Final = attrgetter("traits")
_HARDWARE_OF: Final = attrgetter("hardware")

Machines: TypeAlias = Collection[tuple[Hardware, int]]
"""Hardware, and how many nodes have it; equal hardware may occur several times."""
Path: TypeAlias = tuple[str, ...]
"""The values of a domain, from the broadest level down."""
Parents: TypeAlias = dict[str | None, str | None]
"""The value of a broad level that contains each value of a narrow one."""


@dataclass(frozen=True, slots=True)
class Column:
    """The domain values at one level, one per group."""

    values: list[str | None]
    """None where a group has none."""
    nodes: int
    distinct: int
    """Number of different values."""
    missing: int
    """Nodes without a value."""
    own: int
    """Nodes whose value is their own name or hostname."""

    @property
    def is_unique(self) -> bool:
        """Whether no two nodes share a value, as with host names."""
        return self.distinct == self.nodes - self.missing

    @property
    def is_uniform(self) -> bool:
        """Whether all nodes have the same value, as with the zone of a small cluster."""
        return self.distinct == 1 and not self.missing


class Crossing(NamedTuple):
    """The values of a narrow level that lie in several domains of a broad one."""

    parents: Mapping[str, Collection[Path]]
    """By narrow value: the domains."""
    domains: Collection[Path]
    """All domains of the broad level that have a narrow value."""
    total: int
    """Number of narrow values that lie in any domain."""


class Table:
    """Nodes with different names, in the given order.

    It never changes, and computes each column on first use. `placeholders` are values that mean
    "unknown". A node whose name or hostname is a placeholder or another node's value is a separate
    group, with both written out.
    """

    groups: list[Traits]
    weights: list[int]
    """Nodes of each group, at least one."""
    usable: list[int]
    """How many nodes of each group a scheduler would place a pod on."""
    key_sets: dict[tuple[str, ...], int]
    """How many nodes carry which label keys."""
    _kinds: list[int]
    """For each group the position of its keys among the sets; empty where all have the same.

    A tuple is hashed again on each lookup.
    """
    _rows: list[tuple[str, ...]]
    """The label values of each group."""
    _labels: dict[str, list[str | None]]
    """Each group's value of a label, by key; this and the next ones are filled on first use."""
    _distinct: dict[str, set[str | None]]
    _columns: dict[str, Column]
    _parents: dict[tuple[str, str], Parents | None]

    def __init__(
        self,
        nodes: dict[str, NodeFacts] | Iterable[NodeFacts],
        placeholders: frozenset[str] = PLACEHOLDERS,
    ) -> None:
        """`nodes` as a dictionary are by name; the table then owns it."""
        if not isinstance(nodes, dict):
            nodes = {node.name: node for node in nodes}
        self._nodes = nodes
        self.placeholders = placeholders
        self.no_places = placeholders | FAULT_DOMAINS
        """Placeholders: values with which a node lacks the level."""
        self._expanded_traits: dict[str, Traits] = {}
        """Traits of nodes that are separate groups, by name."""
        groups, weights = _weighed(self)
        counts = list(weights.values())
        self._set_groups(list(groups.values()), counts)

        ambiguous = self._ambiguous()
        if not ambiguous:
            return
        self._expand(ambiguous, groups, weights)
        if self._expanded_traits:
            counts = list(weights.values())
            occupied = compress(groups.values(), counts)
            self._set_groups(list(occupied), list(compress(counts, counts)))

    def _expand(
        self,
        ambiguous: Collection[str | None],
        groups: dict[int, Traits],
        weights: dict[int, int],
    ) -> None:
        """Make each node with an ambiguous name or hostname a separate group."""
        for node in self:
            is_named = node.name in ambiguous or (node.host and node.host in ambiguous)
            if not is_named or OWN_VALUES.isdisjoint(node.traits.values):
                continue
            shared = id(node.traits)
            weights[shared] -= 1
            expanded = node.expanded()
            self._expanded_traits[node.name] = expanded
            own = id(expanded)
            groups[own] = expanded
            weights[own] = 1

    def _ambiguous(self) -> Collection[str | None]:
        """The values that must not be a node's own name or hostname; empty if none is."""
        keys = set(chain.from_iterable(self.key_sets))
        values: list[Collection[str | None]] = [self.placeholders]
        hosts: list[str] = []
        for key in keys:
            distinct = self.distinct(key)
            values.append(distinct)
            if OWN_HOSTNAME in distinct and not hosts:
                hosts = [node.host for node in self if node.host]

        names = self._nodes.keys()
        repeated = _repeated(names, hosts)
        values.append(repeated)
        distinct_hosts = set(hosts)
        # There are fewer values than nodes: look each value up among the names, not the other way
        # round.
        for ambiguous in values:
            is_name = not names.isdisjoint(ambiguous)
            if is_name or not distinct_hosts.isdisjoint(ambiguous):
                return set().union(*values)
        return ()

    def _set_groups(self, groups: list[Traits], weights: list[int]) -> None:
        self.groups = groups
        self.weights = weights
        self._labels = {}
        self._distinct = {}
        self._columns = {}
        self._parents = {}
        # Traits are tuples, so all of them are transposed at once.
        columns = _transposed(groups) or [[], [], [], []]
        keys, rows, ready, schedulable, *_ = columns
        is_usable = map(and_, ready, schedulable)
        usable = map(mul, weights, is_usable)
        self.usable = list(usable)
        self._rows = rows
        self._set_key_sets(keys)

    def _set_key_sets(self, keys: list[tuple[str, ...]]) -> None:
        """Store which label keys each group has, and the labels too if all groups have the same."""
        if keys and keys.count(keys[0]) == len(keys):
            self.key_sets = {keys[0]: len(self)}
            self._kinds = []
            columns = _transposed(self._rows)
            labels = zip(keys[0], columns, strict=True)
            self._labels.update(labels)
            return
        counted = zip(keys, self.weights, strict=True)
        self.key_sets = totals(counted)
        numbers = range(len(self.key_sets))
        position = dict(zip(self.key_sets, numbers, strict=True))
        kinds = map(position.__getitem__, keys)
        self._kinds = list(kinds)

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    @cached_property
    def group_of_node(self) -> list[int]:
        """For each node the position of its group in `groups`."""
        places = range(len(self.groups))
        identities = map(id, self.groups)
        position = dict(zip(identities, places, strict=True))
        expanded = self._expanded_traits
        traits: Iterable[Traits]
        if expanded:
            traits = [expanded.get(node.name, node.traits) for node in self]
        else:
            traits = map(_TRAITS_OF, self)
        groups = map(id, traits)
        return list(map(position.__getitem__, groups))

    def names(self, chosen: Iterable[bool]) -> list[str]:
        """The names of the nodes whose group is `chosen` (one flag per group)."""
        flags = list(chosen)
        if not any(flags):
            return []
        if self._expanded_traits:
            is_chosen = map(flags.__getitem__, self.group_of_node)
            nodes = compress(self, is_chosen)
            return list(map(_NAME_OF, nodes))
        groups = compress(self.groups, flags)
        wanted = set(map(id, groups))
        return [node.name for node in self if id(node.traits) in wanted]

    def first_names(self, chosen: Iterable[bool], most: int) -> tuple[str, ...]:
        """The first of these names, sorted."""
        names = self.names(chosen)
        return tuple(nsmallest(most, names))

    def values(self, key: str) -> list[str | None]:
        """Each node's domain value at the level that `key` carries."""
        column = self.column(key)
        values = map(column.values.__getitem__, self.group_of_node)
        if not column.own:
            return list(values)
        return [
            node.own(value) if value in OWN_VALUES else value
            for node, value in zip(self, values, strict=True)
        ]

    @cached_property
    def usable_nodes(self) -> int:
        """How many nodes a scheduler would place a pod on."""
        return sum(self.usable)

    def labels(self, key: str) -> list[str | None]:
        """Each group's value of the label, placeholders included; None where there is none."""
        if key not in self._labels:
            self._labels[key] = self._label(key)
        return self._labels[key]

    def _label(self, key: str) -> list[str | None]:
        if not self._kinds:  # whose labels are all there already
            return [None] * len(self._rows)
        places = []
        for keys in self.key_sets:
            place = keys.index(key) if key in keys else _NOWHERE
            places.append(place)
        place_of_group = map(places.__getitem__, self._kinds)
        placed_rows = zip(place_of_group, self._rows, strict=True)
        return [None if place == _NOWHERE else row[place] for place, row in placed_rows]

    def distinct(self, key: str) -> set[str | None]:
        """The different values of the label, None where a node has none."""
        if key not in self._distinct:
            labels = self.labels(key)
            self._distinct[key] = set(labels)
        return self._distinct[key]

    @cached_property
    def machines(self) -> Machines:
        """The hardware of the nodes."""
        machines = list(map(_HARDWARE_OF, self.groups))
        # By identity: hashing the tuples would cost more.
        identities = list(map(id, machines))
        by_identity = dict(zip(identities, machines, strict=True))
        counted = zip(identities, self.weights, strict=True)
        counts = totals(counted)
        different = by_identity.values()
        return list(zip(different, counts.values(), strict=True))

    def column(self, key: str) -> Column:
        """Each group's domain value at the level that `key` carries.

        A placeholder counts as none.
        """
        if key not in self._columns:
            labels = self.labels(key)
            distinct = self.distinct(key)
            self._columns[key] = self._column(labels, distinct)
        return self._columns[key]

    def has_dots(self, key: str) -> bool:
        """Whether a value of the level that nodes can share contains a dot."""
        for value in self.distinct(key):
            if value and "." in value:
                return True
        return False

    def _column(self, values: list[str | None], distinct: set[str | None]) -> Column:
        if not distinct.isdisjoint(self.no_places):
            values = [None if value in self.no_places else value for value in values]
            distinct = set(values)
        own_values = OWN_VALUES & distinct
        shared = len(distinct) - len(own_values)
        own = 0
        for value in own_values:
            own += self._carrying(values, value)
        missing = 0
        if None in distinct:
            missing = self._carrying(values, None)
            shared -= 1
        return Column(
            values=values,
            nodes=len(self),
            distinct=shared + own,
            missing=missing,
            own=own,
        )

    def _carrying(self, values: Sequence[str | None], value: str | None) -> int:
        carries = map(eq, values, repeat(value))
        return sum(compress(self.weights, carries))

    def expanded_for_levels(self, keys: Sequence[str]) -> "Table":
        """This table, or one with a group per node if own values stand above shared ones.

        `keys` from the broadest level down. Then no group lies in several domains of any level,
        except where every node is a domain of its own.
        """
        has_own_above = False
        for key in keys:
            column = self.column(key)
            is_shared = column.missing or not column.is_unique
            if is_shared and has_own_above:
                return self._expanded
            has_own_above = has_own_above or column.own > 0
        return self

    def expanded_for_labels(
        self, keys: Iterable[str], values: Collection[str] | None = None
    ) -> "Table":
        """This table, or one with a group per node if a label is a node's own name or host.

        Where `values` are given, only a name or host among them counts.
        """
        has_own = False
        for key in keys:
            distinct = self.distinct(key)
            has_own = has_own or not OWN_VALUES.isdisjoint(distinct)
        if not has_own:
            return self
        if values is None:
            return self._expanded
        for node in self:
            if node.name in values or node.host in values:
                return self._expanded
        return self

    @cached_property
    def _expanded(self) -> "Table":
        nodes = []
        for node in self:
            expanded = NodeFacts(node.name, node.uid, node.expanded())
            nodes.append(expanded)
        return Table(nodes, self.placeholders)

    def nests(self, broad: str, narrow: str) -> bool:
        """Whether all nodes with equal values of `narrow` have equal values of `broad`.

        None counts as a value.
        """
        return self.parents(broad, narrow) is not None

    def parents(self, broad: str, narrow: str) -> Mapping[str | None, str | None] | None:
        """The value of `broad` that contains each value of `narrow`; None if one lies in two.

        Narrow values that are a node's own are left out, as they lie in one. A broad value that is
        a node's own may contain the values of one node.
        """
        pair = broad, narrow
        if pair not in self._parents:
            outer = self.column(broad)
            inner = self.column(narrow)
            self._parents[pair] = _parents(outer, inner, self.weights)
        return self._parents[pair]

    def crossing(self, path: Sequence[str], narrow: str) -> Crossing:
        """The values of `narrow` that lie in several domains of the last level of `path`.

        A domain is the whole path of values; `path` has the keys from the broadest level down. No
        value of its last level may be a node's own.
        """
        parents: dict[str, set[Path]] = {}
        own = 0
        columns = [self.column(key).values for key in path]
        domains = zip(*columns, strict=True)
        inner_values = self.column(narrow).values
        for inner, domain, nodes in zip(inner_values, domains, self.weights, strict=True):
            if inner is None or None in domain:
                continue
            if inner in OWN_VALUES:
                own += nodes
            else:
                values = cast(Path, domain)
                parents.setdefault(inner, set()).add(values)

        several = {}
        for inner, around in parents.items():
            if len(around) > 1:
                several[inner] = around
        every = set(chain.from_iterable(parents.values()))
        total = len(parents) + own
        return Crossing(several, every, total)

    def domains(self, keys: Sequence[str]) -> list[int]:
        """The number of domains at each level; `keys` from the broadest level down.

        Where the levels nest, and where every node is a domain of its own, those are the distinct
        values; else the distinct paths that end in a value.
        """
        counts = []
        is_nested = True
        for depth, key in enumerate(keys):
            column = self.column(key)
            is_shared = column.missing or not column.is_unique
            if is_nested and depth and is_shared:
                above = keys[depth - 1]
                is_nested = self.nests(above, key)
            if is_nested or column.is_unique:
                counts.append(column.distinct)
                continue
            path = keys[: depth + 1]
            counts.append(self._paths(path))
        return counts

    def _paths(self, keys: Sequence[str]) -> int:
        """The number of different paths that end in a value, from the broadest key down."""
        table = self.expanded_for_levels(keys)
        columns = []
        own = 0
        for key in keys:
            column = table.column(key)
            columns.append(column.values)
            own = column.own
        paths = set(zip(*columns, strict=True))
        shared = 0
        for path in paths:
            value = path[-1]
            if value is not None and value not in OWN_VALUES:
                shared += 1
        return shared + own


def _repeated(names: KeysView[str], hosts: Sequence[str]) -> set[str]:
    """Host names that several nodes have, or that are other nodes' names."""
    distinct_hosts = set(hosts)
    if len(distinct_hosts) == len(hosts) and names.isdisjoint(distinct_hosts):
        return set()
    times = Counter(chain(names, hosts))
    repeated = set()
    for name, count in times.items():
        if count > 1:
            repeated.add(name)
    return repeated


def table_of(nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> Table:
    """The nodes as a table; a table is returned as it is, with all that it has computed."""
    if isinstance(nodes, Table):
        return nodes
    return Table(nodes, placeholders)


def _weighed(nodes: Iterable[NodeFacts]) -> tuple[dict[int, Traits], dict[int, int]]:
    """The groups and their numbers of nodes, by identity.

    Hashing values would cost more than everything else.
    """
    groups: dict[int, Traits] = {}
    weights: dict[int, int] = {}
    group: Traits | None = None
    in_a_row = 0
    for node in nodes:
        if node.traits is group:
            in_a_row += 1
            continue
        if group is not None:
            weights[id(group)] += in_a_row
        group = node.traits
        in_a_row = 1
        groups[id(group)] = group
        weights.setdefault(id(group), 0)
    if group is not None:
        weights[id(group)] += in_a_row
    return groups, weights


def _transposed(rows: Sequence[Iterable[Any]]) -> list[list[Any]]:
    """The columns of equally long rows; none if there is no row."""
    columns = zip(*rows, strict=True)
    return list(map(list, columns))


def totals(counted: Iterable[tuple[T, int]]) -> dict[T, int]:
    """The sum of the counts of each thing."""
    sums: dict[T, int] = {}
    for thing, count in counted:
        sums[thing] = sums.get(thing, 0) + count
    return sums


def _parents(broad: Column, narrow: Column, weights: Sequence[int]) -> Parents | None:
    inner = narrow.values
    outer = broad.values
    if broad.is_uniform:
        return dict.fromkeys(inner, outer[0])
    if narrow.own:
        is_shared = [value not in OWN_VALUES for value in inner]
        inner = list(compress(inner, is_shared))
        outer = list(compress(outer, is_shared))
        weights = list(compress(weights, is_shared))
    if broad.own and _spans_own_values(inner, outer, weights):
        return None

    parents = dict(zip(inner, outer, strict=True))
    if len(parents) == len(inner):
        return parents
    last_parents = list(map(parents.__getitem__, inner))
    if last_parents == outer:
        return parents
    return None


def _spans_own_values(
    inner: Sequence[str | None], outer: Sequence[str | None], weights: Sequence[int]
) -> bool:
    """Whether an inner value lies in several nodes' own values, which all look the same here."""
    values = set()
    nodes = 0
    for value, parent, weight in zip(inner, outer, weights, strict=True):
        if parent in OWN_VALUES:
            values.add(value)
            nodes += weight
    return nodes > len(values)
