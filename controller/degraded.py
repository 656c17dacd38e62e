"""Which domains hold nodes that are degraded: counts, and the worst of them by name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from topology.hardware import State
from topology.levels import Level
from topology.node import Hardware
from topology.table import Table

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


def degraded_places(nodes: Table, machines: Mapping[Hardware, int]) -> list[int]:
    """Places of the degraded nodes in the table; `machines` tells how many nodes have which hardware."""
    bad = {hardware for hardware in machines if hardware.state == State.DEGRADED}
    return list(compress(range(len(nodes)), map(bad.__contains__, nodes.hardware))) if bad else []


def degraded_levels(levels: Sequence[Level], nodes: Table, places: Sequence[int]) -> tuple[DegradedLevel, ...]:
    """The degraded nodes at `places` by level, for the levels (broadest first) that they carry."""
    if not places:
        return ()
    columns = [nodes.column(level.key) for level in levels]
    found = []
    for depth, (level, column) in enumerate(zip(levels, columns, strict=True)):
        nests = all(nodes.nests(levels[i].key, levels[i + 1].key) for i in range(depth))
        around = columns[depth : depth + 1] if nests else columns[: depth + 1]
        counts = Counter(
            tuple(each.values[place] or "" for each in around) for place in places if column.values[place] is not None
        )
        if not counts:
            continue
        alone = _of_one_node(column.values, {path[-1] for path in counts}) if not column.singular else None
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        several = (DegradedDomain(*entry) for entry in ranked if alone is not None and entry[0][-1] not in alone)
        worst = tuple(domain for domain, _ in zip(several, range(MOST_VALUES), strict=False))
        found.append(DegradedLevel(level, len(counts), sum(counts.values()), worst))
    return tuple(found)


def _of_one_node(values: Sequence[str | None], asked: set[str]) -> set[str]:
    """Those of the values that only one node carries."""
    counts = Counter(compress(values, map(asked.__contains__, values)))
    return {value for value, nodes in counts.items() if nodes == 1 and value is not None}
