"""How many GPUs lie in each domain, counted by columns (see `topology.table`)."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import eq, mul
from typing import Any, TypeAlias

from topology.levels import Level
from topology.table import Table

GpuCounts: TypeAlias = Sequence[tuple[int, list[bool]]]
"""The different numbers of GPUs that nodes have, each with a column that says which nodes have it."""


@dataclass(frozen=True, slots=True)
class LevelSize:
    """GPUs on the nodes that carry a level, and in the largest of its domains."""

    level: Level
    gpus: int
    largest: int


def gpu_counts(nodes: Table) -> GpuCounts:
    """How the nodes differ in their GPUs."""
    gpus = [hardware.gpus for hardware in nodes.hardware]
    different = set(gpus)
    return [
        (each, list(map(eq, gpus, repeat(each))) if len(different) > 1 else [True] * len(gpus)) for each in different
    ]


def gpus_by(domains: Sequence[Hashable], counts: GpuCounts) -> dict[Any, int]:
    """GPUs of each domain; `domains` has one entry a node."""
    found: dict[Any, int] = {}
    for gpus, having in counts:
        nodes = Counter(domains if len(counts) == 1 else compress(domains, having))
        here = zip(nodes, map(mul, nodes.values(), repeat(gpus)), strict=True)
        if not found:
            found = dict(here)
            continue
        for domain, more in here:
            found[domain] = found.get(domain, 0) + more
    return found


def level_sizes(levels: Sequence[Level], nodes: Table) -> tuple[LevelSize, ...]:
    """The size of each level (broadest first), in its order. A domain is a whole path, as everywhere.

    From the narrowest level up: where a level lies in the one above, its domains are added up instead of its nodes.
    """
    counts = gpu_counts(nodes)
    sizes: list[LevelSize] = []
    below: tuple[str, Mapping[Any, int]] | None = None
    for depth in range(len(levels) - 1, -1, -1):
        key = levels[depth].key
        column = nodes.column(key)
        paths = not _told_apart_by_value(levels, depth, nodes)
        if column.singular:
            carried = [(gpus, sum(compress(map(_is_there, column.values), having))) for gpus, having in counts]
            largest = max((gpus for gpus, carrying in carried if carrying), default=0)
            sizes.append(LevelSize(levels[depth], sum(gpus * carrying for gpus, carrying in carried), largest))
            continue
        parents = nodes.parents(key, below[0]) if below and not paths else None
        if below and parents is not None:
            found: dict[Any, int] = {}
            for domain, gpus in below[1].items():
                found[parents[domain]] = found.get(parents[domain], 0) + gpus
        elif paths:
            rows = zip(*[nodes.column(level.key).values for level in levels[: depth + 1]], strict=True)
            found = gpus_by(list(rows), counts)
        else:
            found = gpus_by(column.values, counts)
        real = [gpus for domain, gpus in found.items() if (domain[-1] if paths else domain) is not None]
        sizes.append(LevelSize(levels[depth], sum(real), max(real, default=0)))
        below = None if paths else (key, found)
    return tuple(reversed(sizes))


def _is_there(value: str | None) -> bool:
    return value is not None


def _told_apart_by_value(levels: Sequence[Level], depth: int, nodes: Table) -> bool:
    """Whether no value at this depth stands in two paths."""
    return nodes.column(levels[depth].key).singular or all(
        nodes.nests(levels[i].key, levels[i + 1].key) for i in range(depth)
    )
