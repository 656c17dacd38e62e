"""Whether nodes carry the levels: the condition `LevelsCovered`. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import LEVELS_COVERED, Condition
from toposcope.api.label_keys import GPU_PRODUCT
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.coverage import (
    MOST_NAMES,
    Coverage,
    nodes_needed,
    partly_carried,
    placeholder_words,
)
from toposcope.hierarchy.node import Traits
from toposcope.hierarchy.table import Table
from toposcope.integrations.registry import LEAVING_OUT_FROM_ADMISSION
from toposcope.text import enumerated, listing, plural

_MOST_NAMED_LEVELS: Final = 2
"""Labels that a message describes of each kind, so that people can read it."""
_NAMES_CHARACTERS: Final = 1200
_LEFT_OUT: Final = (
    f"{enumerated(LEAVING_OUT_FROM_ADMISSION)} skip a node that lacks a level, "
    "kube-scheduler skips it for gangs that ask for that level; "
    "label the node, or exclude it with spec.nodeSelector"
)


def covered_condition(
    topology: Topology,
    nodes: Table,
    coverage: Sequence[Coverage],
    catalogue: Catalogue,
    elsewhere: Collection[str],
) -> Condition:
    """The condition over at least one node; `elsewhere` are keys of levels that segments have."""
    gaps = _gaps(coverage, len(nodes))
    partly = _Partly()
    if topology.levels is None:
        used = [cover.level for cover in coverage]
        partly = _partly(topology, nodes, used, catalogue, elsewhere=elsewhere)
    odd = _few(partly.odd)
    if not gaps and not partly.below:
        texts = [_all_carry(len(nodes), coverage), *odd]
        return Condition(LEVELS_COVERED, "True", "AllNodesCovered", "; ".join(texts))
    if gaps:
        gaps.append(_LEFT_OUT)
    below = _few(partly.below)
    texts = [*gaps, *below, *odd]
    return Condition(LEVELS_COVERED, "False", "NodesMissingLevels", "; ".join(texts))


def _all_carry(total: int, coverage: Sequence[Coverage]) -> str:
    """All nodes carry all levels, which are named: one may have been dropped a moment ago."""
    levels = " > ".join(cover.level.domain for cover in coverage)
    who = f"All {total} nodes carry"
    if total == 1:
        who = "The only node carries"
    return f"{who} every level: {levels or 'none'}"


@dataclass(frozen=True, slots=True)
class _Partly:
    """A sentence about each level that could be one if more nodes carried its label."""

    below: list[str] = field(default_factory=list)
    """Too few nodes carry it."""
    odd: list[str] = field(default_factory=list)
    """Only a minority carries it, which blocks no workload."""


def _partly(
    topology: Topology,
    nodes: Table,
    used: Sequence[Level],
    catalogue: Catalogue,
    *,
    elsewhere: Collection[str],
) -> _Partly:
    """What is said of the levels that only some nodes carry, beside the `used` ones."""
    partly = _Partly()
    for level in partly_carried(used, nodes, catalogue):
        if level.key in elsewhere:
            continue
        carriers = _carriers(nodes, level, catalogue)
        if len(carriers.lacking) > carriers.nodes:
            text = _odd(nodes, level, carriers.nodes)
            partly.odd.append(text)
        elif carriers.lacking:
            text = _below(topology, level, carriers, nodes)
            partly.below.append(text)
    return partly


def _gaps(coverage: Sequence[Coverage], total: int) -> list[str]:
    """About each level in effect that some of the `total` nodes lack."""
    incomplete = [cover for cover in coverage if cover.missing]
    gaps = []
    for cover in incomplete:
        level = cover.level
        missing = cover.missing
        lack = plural(missing, "lacks", "lack")
        names = _names(cover.missing_nodes, missing, parts=len(incomplete))
        gaps.append(
            f"{missing} of {total} nodes {lack} "
            f"level '{level.domain}' ({level.key}): "
            f"{names}{cover.placeholders}"
        )
    return gaps


def _few(sentences: Sequence[str]) -> list[str]:
    """The first ones, and how many more there are."""
    few = list(sentences[:_MOST_NAMED_LEVELS])
    more = len(sentences) - len(few)
    if more:
        few.append(f"and {more} more such labels: toposcope levels")
    return few


def _names(names: Sequence[str], total: int, parts: int) -> str:
    """The first names that fit into one of the `parts` of a message; at least one."""
    longest = _NAMES_CHARACTERS // parts
    most = MOST_NAMES
    text = listing(names, most, total)
    while most > 1 and len(text) > longest:
        most -= 1
        text = listing(names, most, total)
    return text


@dataclass(frozen=True, slots=True)
class _Carriers:
    """The nodes that carry a level, and the names of those that should and don't."""

    nodes: int
    lacking: list[str]
    """Nodes of the same kind that lack the level, sorted."""


def _below(topology: Topology, level: Level, carriers: _Carriers, nodes: Table) -> str:
    """About a key that too few nodes carry."""
    total = len(nodes)
    percent = topology.min_coverage_percent
    needed = nodes_needed(total, percent)
    enough = f"at least {needed}"
    if needed == total:
        enough = f"all {total}"
    lacking = carriers.lacking
    names = _names(lacking, len(lacking), _MOST_NAMED_LEVELS)
    placeholders = placeholder_words(nodes, level.key)
    who = plural(len(lacking), "it", "them")
    return (
        f"'{level.domain}' ({level.key}) "
        f"is on {carriers.nodes} of {total} nodes "
        f"and not a level, because {enough} must carry it "
        f"(spec.minCoveragePercent {percent}); "
        f"lacking: {names}{placeholders}; "
        f"label {who}, or lower the percentage to have schedulers skip {who}"
    )


def _odd(nodes: Table, level: Level, carrying: int) -> str:
    """About a key that only a minority carries, which blocks no workload."""
    column = nodes.column(level.key)
    is_carrying = [value is not None for value in column.values]
    first = nodes.first_names(is_carrying, MOST_NAMES)
    names = _names(first, carrying, _MOST_NAMED_LEVELS)
    return (
        f"'{level.domain}' ({level.key}) is not a level, "
        f"because only {carrying} of {len(nodes)} nodes carry it: {names}"
    )


def _carriers(nodes: Table, level: Level, catalogue: Catalogue) -> _Carriers:
    """How many nodes carry the level, and who lacks it though they are of the same kind.

    Nodes are of another kind if no node with the level is of their product, or carries all their
    level keys.
    """
    values = nodes.column(level.key).values
    carrying = 0
    products: set[str | None] = set()
    keys: set[str] = set()
    for group, value, weight in zip(nodes.groups, values, nodes.weights, strict=True):
        if value is not None:
            carrying += weight
            products.add(group.label(GPU_PRODUCT))
            keys.update(group.keys)
    products -= {None, ""}

    def is_alike(group: Traits) -> bool:
        product = group.label(GPU_PRODUCT)
        if product and products and product not in products:
            return False
        return keys.issuperset(catalogue.level_keys.intersection(group.keys))

    lacking = []
    for group, value in zip(nodes.groups, values, strict=True):
        lacking.append(value is None and is_alike(group))
    return _Carriers(carrying, sorted(nodes.names(lacking)))
