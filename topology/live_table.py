"""A table that is kept while nodes come, change and go: a change costs as much as the kinds it touches.

What is derived from the kinds is worked out anew after each change, because there are few. The table says what a new
one of the same nodes says.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, TypeAlias

from topology.node import OWN, NodeFacts, Traits
from topology.platforms import PLACEHOLDERS
from topology.table import Table, words_of

Changes: TypeAlias = Mapping[str, NodeFacts | None]
"""Nodes by name; None: it is gone."""

_WORDS_A_KIND: Final = 32
"""When more words than this have been met, most of them are on no node any longer."""


class LiveTable(Table):
    """Nodes of different names, in an order of its own. What was taken from it is valid until the next `update`."""

    def __init__(self, nodes: Iterable[NodeFacts], placeholders: frozenset[str] = PLACEHOLDERS) -> None:
        super().__init__(nodes, placeholders)
        self._nodes: dict[str, NodeFacts] | None = None
        """By name; None: nothing has changed yet."""
        self._counts: dict[int, tuple[Traits, int]] = {}
        """Every kind by its identity, with its weight."""
        self._words: set[str] = set()
        """What a node with its name unsaid may not be called: everything that nodes say, or said a while ago."""
        self._hosts: dict[str, str] = {}
        """A node of each host, where that is not its name."""
        self._parts: dict[Hashable, tuple[LiveTable | None, Callable[[NodeFacts], bool]]] = {}
        self._asked: set[Hashable] = set()

    @property
    def keeps_count(self) -> bool:
        """Whether it has been updated before."""
        return self._nodes is not None

    def update(self, changes: Changes) -> None:
        """Take over what changed."""
        nodes = self._begin() if self._nodes is None else self._nodes
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
            kinds, weights = zip(*self._counts.values(), strict=True) if self._counts else ((), ())
            self._take(kinds, weights)
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

    def _begin(self) -> dict[str, NodeFacts]:
        """Start to keep count."""
        self._nodes = {node.name: node for node in self}
        self._members = self._nodes.values()
        self._counts = {id(kind): (kind, n) for kind, n in zip(self.kinds, self.weights, strict=True)}
        self._words = words_of(self.kinds, self.placeholders)
        self._hosts = {node.host: node.name for node in self if node.host}
        return self._nodes

    def _count(self, kind: Traits, step: int) -> None:
        """Count one node in or out of its kind."""
        weight = self._counts.pop(id(kind), (kind, 0))[1] + step
        if weight:
            self._counts[id(kind)] = kind, weight

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
