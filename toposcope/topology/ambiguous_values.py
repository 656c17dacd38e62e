"""Domains that become one where somebody joins the values of a path by dots, as KAI does: counted apart here, and told.

("a.b", "c") and ("a", "b.c") are two racks to Toposcope, Grove and Kueue, and the one domain "a.b.c" to KAI, which then
packs one workload across both. It takes dots at two levels, and every NVLink domain that spans nodes has one.
"""

from collections.abc import Iterable, Sequence

from toposcope.topology.levels import Level
from toposcope.topology.node import OWN, NodeFacts
from toposcope.topology.table import table_of


def aliases(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> list[str]:
    """A sentence about the broadest level at which paths of different values read alike; none where none do.

    Values that a node has alone are left out: what is merged with a node's own domain is no larger for it.
    """
    table = table_of(nodes)
    dotted = [depth for depth, level in enumerate(levels) if table.dotted(level.key)]
    for depth in range(dotted[1], len(levels)) if len(dotted) > 1 else ():
        columns = [table.column(level.key).values for level in levels[: depth + 1]]
        read: dict[str, set[tuple[str, ...]]] = {}
        for path in set(zip(*columns, strict=True)):
            values = tuple(value for value in path if value is not None)
            if len(values) == len(path) and OWN.isdisjoint(values):
                read.setdefault(".".join(values), set()).add(values)
        merged = sorted(joined for joined, paths in read.items() if len(paths) > 1)
        if merged:
            return [_sentence(levels[: depth + 1], sorted(read[merged[0]])[:2], merged)]
    return []


def _sentence(levels: Sequence[Level], paths: Sequence[tuple[str, ...]], merged: Sequence[str]) -> str:
    apart = [level for level, one, other in zip(levels, *paths, strict=True) if one != other]
    one, other = (
        " > ".join(f"{level.domain} {value!r}" for level, value in zip(levels, path, strict=True) if level in apart)
        for path in paths
    )
    many = f" ({len(merged)} such names in all)" if len(merged) > 1 else ""
    return (
        f"{one} and {other} are one {levels[-1].domain} domain to KAI, which joins values by dots: "
        f"{merged[0]!r}{many}; write one of {apart[0].key} and {apart[-1].key} without dots, or leave one of these "
        "levels out of spec.levels"
    )
