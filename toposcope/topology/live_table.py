"""A table that is kept while nodes come, change and go: a change costs as much as the kinds it touches.

What was asked of it once is kept up to date with every change. The table says what a new one of the same nodes says.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from toposcope.topology.node import OWN, Hardware, NodeFacts, Traits
from toposcope.topology.platforms import PLACEHOLDERS
from toposcope.topology.table import Crossing, Machines, Table, sums, words_of
from toposcope.topology.tally import Pairs, Paths, Tally, add

Changes: TypeAlias = Mapping[str, NodeFacts | None]
"""Nodes by name; None: it is gone."""

_WORDS_A_KIND: Final = 32
"""When more words than this have been met, most of them are on no node any longer."""
_MANY: Final = 16
"""When one kind in so many has changed, everything is derived anew."""


class LiveTable(Table):
    """Nodes of different names, in an order of its own. What was taken from it is valid until the next `update`."""

    def __init__(
        self, nodes: dict[str, NodeFacts] | Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS
    ) -> None:
        super().__init__(nodes, placeholders)
        self.keeps_count = False
        """Whether it has been updated before."""
        self._counts: dict[int, tuple[Traits, int]] = {}
        """Every kind by its identity, with its weight."""
        self._touched: dict[int, tuple[Traits, int]] = {}
        """Those that an update touches, with the weight before it."""
        self._place: dict[int, int] = {}
        """Where each kind is among `kinds`, by its identity."""
        self._tallies: dict[str, Tally] = {}
        self._pairs: dict[tuple[str, str], Pairs] = {}
        self._path_counts: dict[tuple[str, ...], Paths | None] = {}
        """None where it is only known that somebody asked."""
        self._machines: dict[Hardware, int] | None = None
        self._words: set[str] = set()
        """What a node with its name unsaid may not be called: everything that nodes say, or said a while ago."""
        self._hosts: dict[str, str] = {}
        """A node of each host, where that is not its name."""
        self._parts: dict[Hashable, tuple[LiveTable | None, Callable[[NodeFacts], bool]]] = {}
        self._asked: set[Hashable] = set()

    def update(self, changes: Changes) -> None:
        """Take over what changed."""
        if not self.keeps_count:
            self._begin()
        self._keep()
        nodes = self._nodes
        for name, new in changes.items():
            old = nodes.pop(name, None) if new is None else nodes.get(name)
            if old is not None:
                self._count(self._spelled.pop(name, old.traits), -1)
                if self._hosts.get(old.host) == name:
                    del self._hosts[old.host]
            if new is not None:
                nodes[name] = new
                self._count(new.traits, 1)
        if changes:
            self._tell_apart(nodes, changes)
            self._shift()
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

    def machines(self) -> Machines:
        """The hardware of the nodes."""
        if not self.keeps_count:
            return super().machines()
        if self._machines is None:
            self._machines = sums(super().machines())
        return self._machines.items()

    def shared_paths(self, keys: tuple[str, ...]) -> int:
        """How many paths there are whose last value nodes can share."""
        paths = self._path_counts.setdefault(keys, None)
        return super().shared_paths(keys) if paths is None else paths.different

    def crossing(self, broad: str, narrow: str) -> Crossing:
        """The values of `narrow` that lie under several of `broad`; no value of `broad` may be a node's own."""
        pairs = self._pairs.get((broad, narrow))
        return super().crossing(broad, narrow) if pairs is None else pairs.crossing()

    def _begin(self) -> None:
        """Start to keep count."""
        self.keeps_count = True
        self._counts = {id(kind): (kind, n) for kind, n in zip(self.kinds, self.weights, strict=True)}
        self._place = {id(kind): i for i, kind in enumerate(self.kinds)}
        self._words = words_of(self.kinds, self.placeholders)
        self._hosts = {node.host: node.name for node in self if node.host}

    def _keep(self) -> None:
        """From now on keep up to date what has been asked for so far."""
        for key in self._columns.keys() - self._tallies.keys():
            tally = self._tallies[key] = Tally(self._columns[key].values, self.weights)
            self._columns[key] = tally.column(len(self))
        for broad, narrow in self._parents.keys() - self._pairs.keys():
            outer, inner = self.column(broad).values, self.column(narrow).values
            self._pairs[broad, narrow] = Pairs(outer, inner, self.weights)
        for keys in [keys for keys, paths in self._path_counts.items() if paths is None]:
            self._path_counts[keys] = Paths([self.column(key).values for key in keys], self.weights)

    def _count(self, kind: Traits, step: int) -> None:
        """Count one node in or out of its kind."""
        before = self._counts.pop(id(kind), (kind, 0))
        self._touched.setdefault(id(kind), before)
        if before[1] + step:
            self._counts[id(kind)] = kind, before[1] + step

    def _shift(self) -> None:
        """Take over the weights of the kinds that were touched."""
        touched, self._touched = self._touched, {}
        if _MANY * len(touched) > len(self._counts):
            self._anew()
            return
        machines: dict[Hardware, int] = {}
        for number, (kind, before) in touched.items():
            after = self._counts.get(number, (kind, 0))[1]
            if after != before:
                self._weigh(kind, before, after)
                machines[kind.hardware] = machines.get(kind.hardware, 0) + after - before
        self._refit(machines)
        self._columns = {key: tally.column(len(self)) for key, tally in self._tallies.items()}
        self._parents = {keys: pairs.parents() for keys, pairs in self._pairs.items()}
        self._moved()

    def _anew(self) -> None:
        """Forget what is kept of the kinds, and take them as they are."""
        self._tallies, self._pairs, self._path_counts, self._machines = {}, {}, {}, None
        counts = self._counts.values()
        self._take([kind for kind, _ in counts], [weight for _, weight in counts])
        self._place = {id(kind): i for i, kind in enumerate(self.kinds)}

    def _weigh(self, kind: Traits, before: int, after: int) -> None:
        """Take over the weight of one kind."""
        step = after - before
        values = {key: self.real(kind.label(key)) for key in self._tallies}
        for key, tally in self._tallies.items():
            tally.shift(values[key], step)
        for (broad, narrow), pairs in self._pairs.items():
            pairs.shift(values[broad], values[narrow], step)
        for keys, paths in self._path_counts.items():
            if paths is not None:
                paths.shift(tuple([values[key] for key in keys]), step)
        add(self.segments, kind.keys, step)
        if not before:
            self._append(kind, values)
        place = self._place[id(kind)]
        self.weights[place] = after
        self.usable[place] = after if kind.usable else 0
        if not after:
            self._drop(place)

    def _append(self, kind: Traits, values: Mapping[str, str | None]) -> None:
        self._place[id(kind)] = len(self.kinds)
        self.kinds.append(kind)
        self.weights.append(0)
        self.usable.append(0)
        self._rows.append(kind.values)
        for key, labels in self._labels.items():
            labels.append(kind.label(key))
        for key in self._dotted:
            self._dotted[key] = self._dotted[key] or "." in (kind.label(key) or "")
        for key, tally in self._tallies.items():
            tally.values.append(values[key])

    def _drop(self, place: int) -> None:
        """Let the last kind take this place."""
        self._place[id(self.kinds[-1])] = place
        gone = self.kinds[place]
        values = [tally.values for tally in self._tallies.values()]
        columns: list[list[Any]] = [self.kinds, self.weights, self.usable, self._rows, *self._labels.values(), *values]
        for column in columns:
            column[place] = column[-1]
            column.pop()
        del self._place[id(gone)]

    def _refit(self, steps: Mapping[Hardware, int]) -> None:
        """So many nodes more have this hardware, or fewer."""
        for hardware, step in steps.items():
            if step:
                self._notes.clear()
                if self._machines is not None:
                    add(self._machines, hardware, step)

    def _tell_apart(self, nodes: Mapping[str, NodeFacts], changes: Changes) -> None:
        """Spell out the names that what is new makes ambiguous. Once spelled out they stay so, which is right too."""
        changed = [nodes[name] for name in changes if name in nodes]
        said = {value for node in changed for value in node.traits.values}
        suspects = {*(said & nodes.keys()), *(self._hosts[value] for value in said & self._hosts.keys())}
        for node in changed:
            if node.name in self._words or (node.host and (node.host in self._words or node.host in said)):
                suspects.add(node.name)
            for one in ({node.name, node.host} & self._hosts.keys()) - {""}:  # another's host
                suspects |= {node.name, self._hosts[one]}
            if node.host:
                if node.host in nodes:  # another's name
                    suspects |= {node.name, node.host}
                self._hosts[node.host] = node.name
        self._words |= said
        if len(self._words) > _WORDS_A_KIND * len(self._counts):
            self._words = words_of((kind for kind, _ in self._counts.values()), self.placeholders)
        for name in suspects - self._spelled.keys():
            node = nodes[name]
            if not OWN.isdisjoint(node.traits.values):
                own = self._spelled[name] = node.spelled_out()
                self._count(node.traits, -1)
                self._count(own, 1)
                self._words |= set(own.values)
