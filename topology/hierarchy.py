"""How nodes fall into the levels: coverage, domains, and whether the levels nest.

The identity of a domain is the tuple of values from the broadest level down: rack names are reused across blocks.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from topology.catalogue import PLACEHOLDERS
from topology.levels import Level
from topology.node import NodeFacts

MOST_NAMES: Final = 10
"""How many node names a message or status carries: a list of all of them would outgrow etcd's object limit."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where one level stands on the selected nodes."""

    level: Level
    domains: int
    nodes: int
    usable: int
    """Nodes that carry the level and take pods (Ready, not cordoned)."""
    missing: int
    missing_nodes: tuple[str, ...]
    """The first `MOST_NAMES` names, sorted."""


@dataclass(slots=True)
class Domain:
    """One domain value in the tree, with everything below it."""

    nodes: int = 0
    gpus: int = 0
    children: dict[str, "Domain"] = field(default_factory=dict)


def level_value(node: NodeFacts, key: str) -> str | None:
    """The node's domain value at a level; a placeholder that some tools write for "unknown" is none."""
    value = node.label(key)
    return None if value is None or value in PLACEHOLDERS else value


def cover(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> tuple[Coverage, ...]:
    """The coverage of each level over `nodes`, in the order of `levels`."""
    nodes = tuple(nodes)
    values = [[level_value(node, level.key) for node in nodes] for level in levels]
    paths: Sequence[tuple[str | None, ...]] = [()] * len(nodes)
    result = []
    for level, column in zip(levels, values, strict=True):
        paths = [(*path, value) for path, value in zip(paths, column, strict=True)]
        missing = sorted(node.name for node, value in zip(nodes, column, strict=True) if value is None)
        result.append(
            Coverage(
                level=level,
                domains=len({path for path in paths if path[-1] is not None}),
                nodes=len(nodes) - len(missing),
                usable=sum(node.usable for node, value in zip(nodes, column, strict=True) if value is not None),
                missing=len(missing),
                missing_nodes=tuple(missing[:MOST_NAMES]),
            )
        )
    return tuple(result)


def fully_covered(keys: Iterable[str], nodes: Sequence[NodeFacts]) -> frozenset[str]:
    """Those of `keys` that every node carries with a real value; none when there are no nodes."""
    if not nodes:
        return frozenset()
    carried: Counter[str] = Counter()
    for shared, count in Counter(node.keys for node in nodes).items():
        carried.update(dict.fromkeys(shared, count))
    everywhere = [key for key in keys if carried[key] == len(nodes)]
    return frozenset(key for key in everywhere if all(level_value(node, key) is not None for node in nodes))


def tree(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> Domain:
    """The domain tree; a node that lacks a level leaves the tree at that level's parent."""
    root = Domain()
    for node in nodes:
        root.nodes += 1
        root.gpus += node.gpus
        here = root
        for level in levels:
            value = level_value(node, level.key)
            if value is None:
                break
            here = here.children.setdefault(value, Domain())
            here.nodes += 1
            here.gpus += node.gpus
    return root


def crossings(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> list[str]:
    """Which values lie under two parents, one sentence each: the first found of each pair of neighbouring levels.

    Schedulers take such a value for two domains, so this is reported and not corrected: only an admin can tell a
    reused name from a cable in the wrong switch.
    """
    nodes = tuple(nodes)
    found = []
    for broad, narrow in pairwise(levels):
        parent: dict[str, str] = {}
        for node in nodes:
            inner, outer = level_value(node, narrow.key), level_value(node, broad.key)
            if inner is None or outer is None:
                continue
            first = parent.setdefault(inner, outer)
            if first != outer:
                a, b = sorted((first, outer))
                found.append(
                    f"{narrow.domain} {inner!r} lies under {broad.domain} {a!r} and {b!r}; "
                    f"schedulers treat it as two {narrow.domain} domains"
                )
                break
    return found
