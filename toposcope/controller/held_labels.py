"""Labels whose writer removes them when it stops.

For a while, a node counts as still carrying them.

NVIDIA's DRA driver removes `nvidia.com/gpu.clique` from its node when it stops, and reads the
fabric again every ten minutes; GPU Feature Discovery removes its labels for as long as it restarts.
Neither changes the machine. A label that stays away for longer than the grace period of a
ClusterTopology is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from toposcope.hierarchy.node import NodeFacts, Traits
from toposcope.hierarchy.platforms import REMOVED_BY_WRITER
from toposcope.hierarchy.table import Table, totals

_SharedTraits: TypeAlias = dict[tuple[int, tuple[tuple[str, str], ...]], Traits]
"""Traits with more labels, by the identity of those without them, and the labels."""


class HeldLabels:
    """Remembers the values of such labels by node.

    One for all topologies; losing it only ends a hold early.
    """

    def __init__(self, keys: Iterable[str] = REMOVED_BY_WRITER) -> None:
        self._memories = [_Memory(key) for key in keys]
        self._now = 0.0
        self._tables: dict[float, Table] = {}
        """What `table` has answered since the last look, by grace period."""

    def observe(self, nodes: Table, now: float) -> None:
        """Look at all nodes, at `now` (monotonic seconds)."""
        self._now = now
        self._tables.clear()
        for memory in self._memories:
            memory.look(nodes, now)

    def table(self, nodes: Table, grace: float) -> Table:
        """The observed nodes with the labels that have been away for up to `grace` seconds."""
        table = self._tables.get(grace)
        if table is None:
            table = self._restored(nodes, grace)
            self._tables[grace] = table
        return table

    def next_deadline(self, graces: Iterable[float], now: float) -> float | None:
        """Seconds until the next label has been away for one of these grace periods.

        None when none will.
        """
        since: set[float] = set()
        for memory in self._memories:
            since.update(memory.away.values())
        waits = []
        for grace in set(graces):
            for moment in since:
                wait = moment + grace - now
                if wait >= 0:
                    waits.append(wait)
        return min(waits, default=None)

    def _restored(self, nodes: Table, grace: float) -> Table:
        held: dict[str, dict[str, str]] = {}
        for memory in self._memories:
            for name, value in memory.held(self._now, grace):
                labels = held.setdefault(name, {})
                labels[memory.key] = value
        if not held:
            return nodes
        shared: _SharedTraits = {}
        restored = []
        for node in nodes:
            if node.name in held:
                restored.append(_with_labels(node, held[node.name], shared))
            else:
                restored.append(node)
        return Table(restored, nodes.placeholders)


class _Memory:
    """The values of one label."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.away: dict[str, float] = {}
        """Since when nodes that carried the label have lacked it."""
        self._values: dict[str, str] = {}
        """By node, the last value."""
        self._counts: Mapping[str | None, int] = {}
        """Nodes by value in the last look: while they are equal and no label is away, no node is
        looked at."""

    def look(self, nodes: Table, now: float) -> None:
        """Note which nodes carry the label, and which of the others carried it before."""
        labels = zip(nodes.labels(self.key), nodes.weights, strict=True)
        counts = totals(labels)
        if counts == self._counts and not self.away:
            return
        self._counts = counts
        carried = counts.keys() - {None}
        if self._values or carried:
            self._look_at(nodes, now)

    def _look_at(self, nodes: Table, now: float) -> None:
        """Look at each node."""
        values: dict[str, str] = {}
        away: dict[str, float] = {}
        for node in nodes:
            name = node.name
            value = node.label(self.key)
            if value is not None:
                values[name] = value
            elif name in self._values:
                values[name] = self._values[name]
                away[name] = self.away.get(name, now)
        self._values, self.away = values, away

    def held(self, now: float, grace: float) -> Iterator[tuple[str, str]]:
        """The nodes that count as carrying the label, and its value."""
        if not grace:
            return
        for name, since in self.away.items():
            if now - since <= grace:
                yield name, self._values[name]


def _with_labels(node: NodeFacts, labels: Mapping[str, str], shared: _SharedTraits) -> NodeFacts:
    """The node with more labels; nodes that were alike stay so."""
    identity = id(node.traits), tuple(labels.items())
    traits = shared.get(identity)
    if traits is None:
        traits = _traits_with(node.traits, labels)
        shared[identity] = traits
    return replace(node, traits=traits)


def _traits_with(traits: Traits, labels: Mapping[str, str]) -> Traits:
    carried = dict(zip(traits.keys, traits.values, strict=True))
    carried.update(labels)
    in_order = sorted(carried.items())
    keys, values = zip(*in_order, strict=True)
    return traits._replace(keys=keys, values=values)
