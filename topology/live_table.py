"""A table that is kept while nodes come, change and go, so that one changed label does not cost a look at all nodes.

The first change after it is made begins a tally of every column that is asked for; from then on a change costs as much
as the node has labels. What cannot be kept cheaply (columns with placeholders, or with another node's name) is computed
anew over whole columns, as in any table. It says what a new table of the same nodes says.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from topology.node import Hardware, NodeFacts
from topology.platforms import PLACEHOLDERS
from topology.table import Column, Table

T = TypeVar("T")

Changes: TypeAlias = Mapping[str, NodeFacts | None]
"""Nodes by name; None: it is gone."""


class LiveTable(Table):
    """Nodes of different names, in an order of its own. Columns taken from it are valid until the next `update`."""

    nodes: list[NodeFacts]
    idle: set[int]

    def __init__(self, nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> None:
        super().__init__(nodes, placeholders)
        self.nodes = list(self.nodes)
        self.idle = set(self.idle)
        self._places: dict[str, int] | None = None
        """Where each node is; None: nothing has changed yet."""
        self._sizes: Counter[tuple[str, ...]] = Counter()
        self._overlaps: dict[str, int] = {}
        self._nested: dict[tuple[str, str], bool] = {}
        self._machines: Counter[Hardware] = Counter()
        self._tallies: dict[str, _Tally] = {}
        self._pairs: dict[tuple[str, str], Counter[tuple[str | None, str | None]]] = {}
        self._paths: dict[tuple[str, ...], Counter[tuple[str | None, ...]]] = {}
        self._parts: dict[Hashable, tuple[LiveTable | None, Callable[[NodeFacts], bool]]] = {}
        self._asked: set[Hashable] = set()

    @property
    def keeps_count(self) -> bool:
        """Whether it has been updated before."""
        return self._places is not None

    def update(self, changes: Changes) -> None:
        """Take over what changed."""
        places = self._begin() if self._places is None else self._places
        touched: set[str] = set()
        for name, new in changes.items():
            place = places.get(name)
            if place is not None and new is not None:
                self._change(place, new, touched)
            elif new is not None:
                self._insert(places, new, touched)
            elif place is not None:
                self._remove(places, place, touched)
        self._overlaps = {key: count for key, count in self._overlaps.items() if key not in touched}
        self._columns = {key: column for key, column in self._columns.items() if key not in touched}
        self._parents = {pair: parents for pair, parents in self._parents.items() if touched.isdisjoint(pair)}
        self._nested = {pair: nests for pair, nests in self._nested.items() if touched.isdisjoint(pair)}
        self._update_parts(changes)

    def part(
        self, name: Hashable, takes: Callable[[NodeFacts], bool], choose: Callable[[Table], Iterable[NodeFacts]]
    ) -> Table:
        """The nodes that `takes` accepts, kept under `name` as long as it is asked for between updates.

        `choose` picks them out the first time, perhaps faster than one by one; all of them: the table itself.
        """
        self._asked.add(name)
        if name not in self._parts:
            chosen = choose(self)
            self._parts[name] = (None if chosen is self else LiveTable(chosen, self.placeholders)), takes
        part = self._parts[name][0]
        return self if part is None else part

    def _update_parts(self, changes: Changes) -> None:
        kept: dict[Hashable, tuple[LiveTable | None, Callable[[NodeFacts], bool]]] = {}
        for name in self._asked & self._parts.keys():
            part, takes = self._parts[name]
            taken = {who: node if node is not None and takes(node) else None for who, node in changes.items()}
            if part is not None:
                part.update(taken)
            elif any(taken[who] is None and node is not None for who, node in changes.items()):
                continue  # it took all nodes and no longer does: chosen anew when it is next asked for
            kept[name] = part, takes
        self._parts = kept
        self._asked = set()

    def counts(self, key: str) -> Mapping[str | None, int]:
        """How many nodes have each value of the label."""
        if self._places is None:
            return super().counts(key)
        tally = self._tally(key)
        return tally.others if not tally.own else Counter(self.labels(key))

    def column(self, key: str) -> Column:
        """Each node's domain value at the level that `key` carries."""
        if self._places is None or key in self._columns:
            return super().column(key)
        tally = self._tally(key)
        labels = self.labels(key)
        if not self.placeholders.isdisjoint(tally.others):
            self._columns[key] = self._column(labels)
        else:
            missing = tally.others[None]
            different = tally.own + len(tally.others) - (missing > 0) - self._overlap(key)
            self._columns[key] = Column(labels, different, missing)
        return self._columns[key]

    def nests(self, broad: str, narrow: str) -> bool:
        """Whether all nodes with equal values of `narrow` have equal values of `broad` (none is a value here)."""
        if self.column(broad).uniform or not self._is_plain(narrow):
            return super().nests(broad, narrow)
        if (broad, narrow) not in self._nested:
            pairs = self._paired(broad, narrow)
            self._nested[broad, narrow] = len(pairs) == len({inner for inner, _ in pairs})
        return self._nested[broad, narrow]

    def parents(self, broad: str, narrow: str) -> Mapping[str | None, str | None] | None:
        """The value of `broad` that lies around each value of `narrow`; None where one lies in two. To be looked up in.

        Values that only one node has are found at that node when they are asked for.
        """
        places = self._places
        if places is None or not self._is_plain(narrow):
            return super().parents(broad, narrow)
        if (broad, narrow) not in self._parents:
            around = self.column(broad).values
            found = _Parents(iter(self._paired(broad, narrow)))
            found.otherwise = lambda name: around[places[name]]
            self._parents[broad, narrow] = found if self.nests(broad, narrow) else None
        return self._parents[broad, narrow]

    def machines(self) -> Mapping[Hardware, int]:
        """How many nodes have which hardware."""
        return super().machines() if self._places is None else self._machines

    def pairs(self, broad: str, narrow: str) -> Iterable[tuple[str | None, str | None]]:
        """Each value of `narrow` that several nodes may share, with each value of `broad` found beside it."""
        if self._is_plain(narrow) and not self.column(broad).missing:
            return self._paired(broad, narrow)
        return super().pairs(broad, narrow)

    def paths(self, keys: Sequence[str]) -> int:
        """How many different paths of values there are that end in one."""
        if not self._is_plain(keys[-1]):
            return super().paths(keys)
        return self._tally(keys[-1]).own + len(self._counted_paths(tuple(keys)))

    def _is_plain(self, key: str) -> bool:
        """Whether count is kept and no placeholder is there, nor a name that is another node's value."""
        return self._places is not None and self.column(key).values is self.labels(key) and not self._overlap(key)

    def _begin(self) -> dict[str, int]:
        """Start to keep count."""
        self._places = {node.name: i for i, node in enumerate(self.nodes)}
        self._sizes = Counter(node.keys for node in self.nodes)
        self._machines = Counter(self.hardware)
        for key in self._labels:
            self.labels(key)  # in full length
        return self._places

    def _tally(self, key: str) -> "_Tally":
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(self.labels(key), self._names, self.placeholders)
        return tally

    def _overlap(self, key: str) -> int:
        """How many values are one node's own name and another's value too."""
        if key not in self._overlaps:
            tally, places, labels = self._tally(key), self._places or {}, self.labels(key)
            names = places.keys() & tally.others.keys() if tally.own else ()
            self._overlaps[key] = sum(labels[places[name]] == name for name in names)
        return self._overlaps[key]

    def _paired(self, broad: str, narrow: str) -> Counter[tuple[str | None, str | None]]:
        pairs = self._pairs.get((broad, narrow))
        if pairs is None:
            rows = zip(self.labels(narrow), self.column(broad).values, self._names, strict=True)
            pairs = Counter((inner, outer) for inner, outer, name in rows if inner != name)
            self._pairs[broad, narrow] = pairs
        return pairs

    def _is_own(self, label: str | None, name: str) -> bool:
        return label == name and label not in self.placeholders

    def _real(self, label: str | None) -> str | None:
        return None if label in self.placeholders else label

    def _counted_paths(self, keys: tuple[str, ...]) -> Counter[tuple[str | None, ...]]:
        paths = self._paths.get(keys)
        if paths is None:
            columns = [self.column(key).values for key in keys]
            rows = zip(self._names, *columns, strict=True)
            paths = self._paths[keys] = Counter(row[1:] for row in rows if row[-1] is not None and row[-1] != row[0])
        return paths

    def _path(self, keys: Sequence[str], place: int) -> tuple[str | None, ...]:
        """The node's values at these levels; empty where the last is none, or the node's own name."""
        last = self._labels[keys[-1]][place]
        if last is None or self._is_own(last, self._names[place]):
            return ()
        return (*(self._real(self._labels[key][place]) for key in keys[:-1]), last)

    def _change(self, place: int, new: NodeFacts, touched: set[str]) -> None:
        old = self.nodes[place]
        self.nodes[place] = new
        self._equip(place, new.hardware)
        self._mark(place, idle=not new.usable)
        before, after = old.labels, new.labels
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        for key in after.keys() - self._labels.keys():
            self._labels[key] = [None] * len(self.nodes)
        self._count(place, -1, changed)
        for key in changed:
            self._labels[key][place] = after.get(key)
        self._count(place, 1, changed)
        if old.keys != new.keys:
            self._resize(old, -1)
            self._resize(new, 1)
        touched.update(changed)

    def _insert(self, places: dict[str, int], new: NodeFacts, touched: set[str]) -> None:
        place = places[new.name] = len(self.nodes)
        after = new.labels
        for key in after.keys() - self._labels.keys():
            self._labels[key] = [None] * place
        self.nodes.append(new)
        self._names.append(new.name)
        self.hardware.append(new.hardware)
        self._machines[new.hardware] += 1
        for key, labels in self._labels.items():
            labels.append(after.get(key))
        self._mark(place, idle=not new.usable)
        self._count(place, 1, self._labels.keys())
        self._resize(new, 1)
        touched.update(self._labels)

    def _remove(self, places: dict[str, int], place: int, touched: set[str]) -> None:
        """Take a node out; the last one moves to its place."""
        old, last = self.nodes[place], len(self.nodes) - 1
        self._count(place, -1, self._labels.keys())
        self._resize(old, -1)
        self._mark(place, idle=last in self.idle)
        self._mark(last, idle=False)
        places[self.nodes[last].name] = place
        _add(self._machines, self.hardware[place], -1)
        self.hardware[place] = self.hardware[last]
        self.hardware.pop()
        self.nodes[place] = self.nodes[last]
        self.nodes.pop()
        self._names[place] = self._names[last]
        self._names.pop()
        for labels in self._labels.values():
            labels[place] = labels[last]
            labels.pop()
        del places[old.name]
        touched.update(self._labels)

    def _equip(self, place: int, new: Hardware) -> None:
        old = self.hardware[place]
        if old != new:
            _add(self._machines, old, -1)
            self._machines[new] += 1
            self.hardware[place] = new

    def _mark(self, place: int, *, idle: bool) -> None:
        (self.idle.add if idle else self.idle.discard)(place)

    def _resize(self, node: NodeFacts, step: int) -> None:
        """Note that a node came to its segment, or left it."""
        self._sizes[node.keys] += step
        if not self._sizes[node.keys]:
            del self._sizes[node.keys], self.segments[node.keys]
        elif step > 0:
            self.segments.setdefault(node.keys, node)

    def _count(self, place: int, step: int, keys: Iterable[str]) -> None:
        """Count one node in or out of what is kept about `keys`."""
        name, keys = self._names[place], set(keys)
        for key in keys & self._tallies.keys():
            self._tallies[key].count(self._labels[key][place], name, step)
        for (broad, narrow), pairs in self._pairs.items():
            inner = self._labels[narrow][place]
            if (broad in keys or narrow in keys) and not self._is_own(inner, name):
                _add(pairs, (inner, self._real(self._labels[broad][place])), step)
        for levels, paths in self._paths.items():
            path = () if keys.isdisjoint(levels) else self._path(levels, place)
            if path:
                _add(paths, path, step)


class _Parents(dict[str | None, str | None]):
    """What lies around values; `otherwise` finds it for those that are their node's own name."""

    otherwise: Callable[[str], str | None]

    def __missing__(self, value: str) -> str | None:
        return self.otherwise(value)


class _Tally:
    """How often each value of one label is there.

    Most host names, and many NVLink domains, are their node's own name: those are counted and not listed.
    """

    def __init__(self, labels: list[str | None], names: list[str], placeholders: frozenset[str]) -> None:
        self._placeholders = placeholders
        strange = [x for x, name in zip(labels, names, strict=True) if x != name or x in placeholders]
        self.own = len(labels) - len(strange)
        self.others: Counter[str | None] = Counter(strange)

    def count(self, label: str | None, name: str, step: int) -> None:
        if label == name and label not in self._placeholders:
            self.own += step
        else:
            _add(self.others, label, step)


def _add(counter: Counter[T], what: T, step: int) -> None:
    """Add to a count; what is no longer there leaves it."""
    counter[what] += step
    if not counter[what]:
        del counter[what]
