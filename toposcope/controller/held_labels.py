"""Labels whose writer removes them when it stops: for a while, a node counts as carrying what it carried before.

NVIDIA's DRA driver removes `nvidia.com/gpu.clique` from its node when it stops, and reads the fabric again every ten
minutes; GPU Feature Discovery removes its labels for as long as it restarts. Neither changes the machine. A label that
stays away for longer than the grace period of a ClusterTopology is gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from toposcope.hierarchy.node import NodeFacts, Traits
from toposcope.hierarchy.platforms import REMOVED_BY_WRITER
from toposcope.hierarchy.table import Table

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
        """The observed nodes with the labels that have been away for no more than `grace` seconds."""
        if grace not in self._tables:
            self._tables[grace] = self._restored(nodes, grace)
        return self._tables[grace]

    def next_deadline(self, graces: Iterable[float], now: float) -> float | None:
        """Seconds until the next label has been away for one of these grace periods; None when none will."""
        since = {moment for memory in self._memories for moment in memory.away.values()}
        waits = []
        for grace in set(graces):
            waits += [moment + grace - now for moment in since]
        return min((wait for wait in waits if wait >= 0), default=None)

    def _restored(self, nodes: Table, grace: float) -> Table:
        labels: dict[str, dict[str, str]] = {}
        for memory in self._memories:
            for name, value in memory.held(self._now, grace):
                labels.setdefault(name, {})[memory.key] = value
        if not labels:
            return nodes
        shared: _SharedTraits = {}
        restored = []
        for node in nodes:
            away = labels.get(node.name)
            restored.append(_with_labels(node, away, shared) if away else node)
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
        """Nodes by value in the last look: while they are equal and no label is away, no node is looked at."""

    def look(self, nodes: Table, now: float) -> None:
        """Note which nodes carry the label, and which of the others carried it before."""
        counts: dict[str | None, int] = {}
        for value, count in zip(nodes.labels(self.key), nodes.weights, strict=True):
            counts[value] = counts.get(value, 0) + count
        if counts == self._counts and not self.away:
            return
        self._counts = counts
        values: dict[str, str] = {}
        away: dict[str, float] = {}
        if self._values or counts.keys() - {None}:
            for node in nodes:
                value = node.label(self.key)
                if value is not None:
                    values[node.name] = value
                elif node.name in self._values:
                    values[node.name] = self._values[node.name]
                    away[node.name] = self.away.get(node.name, now)
        self._values, self.away = values, away

    def held(self, now: float, grace: float) -> Iterator[tuple[str, str]]:
        """The nodes that count as carrying the label, and its value."""
        for name, since in self.away.items():
            if grace and now - since <= grace:
                yield name, self._values[name]


def _with_labels(node: NodeFacts, labels: Mapping[str, str], shared: _SharedTraits) -> NodeFacts:
    """The node with more labels; nodes that were alike stay so."""
    alike = id(node.traits), tuple(labels.items())
    if alike not in shared:
        carried = dict(zip(node.traits.keys, node.traits.values, strict=True))
        carried.update(labels)
        keys = tuple(sorted(carried))
        values = tuple([carried[key] for key in keys])
        shared[alike] = node.traits._replace(keys=keys, values=values)
    return replace(node, traits=shared[alike])
