"""Which domains hold nodes that are degraded: counts, and the worst of them by name."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from toposcope.topology.hardware import State
from toposcope.topology.levels import Level
from toposcope.topology.node import OWN
from toposcope.topology.table import Table

MOST_VALUES: Final = 10
"""How many domains of a level are told apart, in metrics; a status names fewer."""


@dataclass(frozen=True, slots=True)
class DegradedDomain:
    """One domain with degraded nodes: the values on its path, broadest first."""

    path: tuple[str, ...]
    degraded: int

    @property
    def name(self) -> str:
        """Its own value behind those that it takes to tell it from others; `/` is in no label value."""
        return "/".join(self.path)


@dataclass(frozen=True, slots=True)
class DegradedLevel:
    """The degraded nodes at one level."""

    level: Level
    domains: int
    """Domains with at least one degraded node."""
    nodes: int
    """Degraded nodes that carry the level."""
    worst: tuple[DegradedDomain, ...]
    """The first `MOST_VALUES` domains with several nodes, most degraded nodes first.

    A domain of one node is that node: it is counted, and not told by name.
    """


def degraded_levels(levels: Sequence[Level], nodes: Table) -> tuple[DegradedLevel, ...]:
    """The degraded nodes by level, for the levels (broadest first) that they carry."""
    nodes = nodes.readable([level.key for level in levels])
    places = [place for place, kind in enumerate(nodes.kinds) if kind.hardware.state == State.DEGRADED]
    columns = [nodes.column(level.key) for level in levels]
    found = []
    for depth, (level, column) in enumerate(zip(levels, columns, strict=True)):
        nests = all(nodes.nests(levels[i].key, levels[i + 1].key) for i in range(depth))
        around = columns[depth : depth + 1] if nests else columns[: depth + 1]
        counts: Counter[tuple[str, ...]] = Counter()
        named = 0
        for place in places:
            if column.values[place] in OWN:
                named += nodes.weights[place]
            elif column.values[place] is not None:
                counts[tuple([each.values[place] or "" for each in around])] += nodes.weights[place]
        if not counts and not named:
            continue
        alone = _of_one_node(column.values, nodes.weights, {path[-1] for path in counts})
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        several = (DegradedDomain(*entry) for entry in ranked if entry[0][-1] not in alone)
        worst = tuple(islice(several, MOST_VALUES))
        found.append(DegradedLevel(level, len(counts) + named, counts.total() + named, worst))
    return tuple(found)


def _of_one_node(values: Sequence[str | None], weights: Sequence[int], asked: set[str]) -> set[str]:
    """Those of the values that only one node carries."""
    counts = dict.fromkeys(asked, 0)
    for value, weight in zip(values, weights, strict=True):
        if value in counts:
            counts[value] += weight
    return {value for value, nodes in counts.items() if nodes == 1}
