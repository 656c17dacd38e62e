"""How many GPUs lie in each domain, counted by columns (see `topology.table`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import mul
from typing import Any

from topology.levels import Level
from topology.node import OWN
from topology.table import Table


@dataclass(frozen=True, slots=True)
class LevelSize:
    """GPUs on the nodes that carry a level, and in the largest of its domains."""

    level: Level
    gpus: int
    largest: int


def level_sizes(levels: Sequence[Level], nodes: Table) -> tuple[LevelSize, ...]:
    """The size of each level (broadest first), in its order. A domain is a whole path, as everywhere."""
    keys = [level.key for level in levels]
    nodes = nodes.readable(keys)
    gpus = [kind.hardware.gpus for kind in nodes.kinds]
    totals = list(map(mul, gpus, nodes.weights))
    sizes = []
    nested = True
    for depth, level in enumerate(levels):
        column = nodes.column(level.key)
        nested = nested and (not depth or nodes.nests(keys[depth - 1], level.key))
        if column.singular:
            carried = [value is not None for value in column.values]
            largest = max(compress(gpus, carried), default=0)
            sizes.append(LevelSize(level, sum(compress(totals, carried)), largest))
            continue
        domains: Iterable[Any] = column.values
        if not nested:
            domains = zip(*[nodes.column(key).values for key in keys[: depth + 1]], strict=True)
        found: dict[Any, int] = {}
        alone = [0]
        for domain, value, one, all_of_them in zip(domains, column.values, gpus, totals, strict=True):
            if value in OWN:
                alone.append(one)
            elif value is not None:
                found[domain] = found.get(domain, 0) + all_of_them
        total = sum(compress(totals, [value is not None for value in column.values]))
        sizes.append(LevelSize(level, total, max(*alone, *found.values())))
    return tuple(sizes)
