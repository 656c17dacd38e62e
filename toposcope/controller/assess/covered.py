"""Whether nodes carry the levels: the condition `LevelsCovered`. Pure."""

from collections.abc import Collection, Sequence
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
from toposcope.text import listing, plural

_MOST_LEVELS: Final = 2
"""Labels of each kind that are no level and are described: a message is read by people."""
_NAMES_LENGTH: Final = 1200
_LEFT_OUT: Final = (
    "Kueue and KAI leave a node without one of the levels out of the whole topology, kube-scheduler leaves it out of "
    "gangs that ask for that level; label it, or select other nodes (spec.nodeSelector)"
)


def covered_condition(
    topology: Topology,
    nodes: Table,
    coverage: Sequence[Coverage],
    catalogue: Catalogue,
    elsewhere: Collection[str],
) -> Condition:
    """The condition over at least one node; `elsewhere` are keys of levels that segments have."""
    total = len(nodes)
    missing = [c for c in coverage if c.missing]
    gaps = [
        f"{c.missing} of {total} nodes {plural(c.missing, 'lacks', 'lack')} level '{c.level.domain}' "
        f"({c.level.key}): {_names(c.missing_nodes, c.missing, len(missing))}{c.placeholders}"
        for c in missing
    ]
    covered = (
        "The only node carries every level"
        if total == 1
        else f"All {total} nodes carry every level"
    )
    usual, odd = [], []
    if topology.levels is None:
        for level in partly_carried([c.level for c in coverage], nodes, catalogue):
            if level.key in elsewhere:
                continue
            carrying, lacking = _lacking(nodes, level, catalogue)
            if len(lacking) > carrying:
                odd.append(_odd(nodes, level, carrying))
            elif lacking:
                usual.append(
                    _below(
                        topology,
                        level,
                        carrying,
                        total,
                        lacking,
                        placeholder_words(nodes, level.key),
                    )
                )
    if not gaps and not usual:
        return Condition(
            LEVELS_COVERED, "True", "AllNodesCovered", "; ".join([covered, *_few(odd)])
        )
    text = "; ".join([*gaps, *([_LEFT_OUT] if gaps else []), *_few(usual), *_few(odd)])
    return Condition(LEVELS_COVERED, "False", "NodesMissingLevels", text)


def _few(sentences: Sequence[str]) -> list[str]:
    """The first ones, and how many more there are."""
    more = len(sentences) - _MOST_LEVELS
    return [
        *sentences[:_MOST_LEVELS],
        *([f"and {more} more such labels: toposcope levels"] if more > 0 else []),
    ]


def _names(names: Sequence[str], total: int, parts: int) -> str:
    """The first names, as many as have room in one of so many parts of a message; at least one."""
    most = MOST_NAMES
    while most > 1 and len(listing(names, most, total)) > _NAMES_LENGTH // parts:
        most -= 1
    return listing(names, most, total)


def _below(
    topology: Topology, level: Level, carrying: int, total: int, lacking: Sequence[str], words: str
) -> str:
    """About a key that too few nodes carry; `words` are those about placeholders."""
    needed = nodes_needed(total, topology.min_coverage)
    enough = f"all {total}" if needed == total else f"at least {needed}"
    who, names = plural(len(lacking), "it", "them"), _names(lacking, len(lacking), _MOST_LEVELS)
    return (
        f"'{level.domain}' ({level.key}) is on {carrying} of {total} nodes and not a level, because {enough} must "
        f"carry it (spec.minCoveragePercent {topology.min_coverage}); lacking: {names}{words}; label {who}, or lower "
        f"the percentage, and schedulers leave {who} out"
    )


def _odd(nodes: Table, level: Level, carrying: int) -> str:
    """About a key that only a minority carries, which makes nobody wait."""
    column = nodes.column(level.key)
    names = nodes.first_names([value is not None for value in column.values], MOST_NAMES)
    text = _names(names, carrying, _MOST_LEVELS)
    return f"only {carrying} of {len(nodes)} carry '{level.domain}' ({level.key}), which is not a level: {text}"


def _lacking(nodes: Table, level: Level, catalogue: Catalogue) -> tuple[int, list[str]]:
    """How many nodes carry the level, and the names of those that lack it though they are of the same kind, sorted.

    Nodes are of another kind if no node with the level is of their product, or carries all their level keys.
    """
    there = [value is not None for value in nodes.column(level.key).values]
    carrying = [group for group, carries in zip(nodes.groups, there, strict=True) if carries]
    products = {product for group in carrying if (product := group.label(GPU_PRODUCT))}
    known = frozenset().union(*{group.keys for group in carrying})

    def alike(group: Traits) -> bool:
        product = group.label(GPU_PRODUCT)
        return (not product or not products or product in products) and known.issuperset(
            catalogue.level_keys.intersection(group.keys)
        )

    lacking = [
        not carries and alike(group) for group, carries in zip(nodes.groups, there, strict=True)
    ]
    return sum(nodes.weights[i] for i, carries in enumerate(there) if carries), sorted(
        nodes.names(lacking)
    )
