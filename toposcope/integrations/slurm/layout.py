"""What Slurm's topology plugins are told: switches down to their nodes (tree), groups of nodes (block)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from toposcope.integrations.framework.export import ExportError
from toposcope.integrations.slurm.hostlist import natural
from toposcope.integrations.slurm.names import Path, unique_names
from toposcope.topology.levels import Level
from toposcope.topology.table import Table

ROOT: Final = "root"
_MOST_DOUBLINGS: Final = 15
"""Slurm has 16 sizes of blocks at most."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch of topology/tree: it has either other switches or nodes below it."""

    name: str
    children: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One block of topology/block."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """The switches, broadest first."""

    switches: tuple[Switch, ...]
    left_out: tuple[str, ...]
    """Nodes that lack one of the levels."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks in an order in which neighbours are near each other, and the sizes that Slurm may plan with."""

    level: Level
    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    """In nodes: the smallest block, then as many doublings as all lie in one domain of the level above."""
    left_out: tuple[str, ...]
    """Nodes that are in no block."""


def telling(levels: Sequence[Level], table: Table) -> tuple[Level, ...]:
    """The levels that put some nodes together: a level of single nodes is no switch."""
    return tuple(level for level in levels if not table.column(level.key).singular)


def tree(levels: Sequence[Level], table: Table) -> Tree:
    """The hierarchy as switches, with a root where there would be several. Raises Unwritable when there is no node."""
    inner = telling(levels, table)
    members, left_out = _members(inner, table)
    if not members:
        raise ExportError(_no_nodes(inner))
    children: dict[Path, dict[Path, None]] = {}
    for path in sorted(members, key=_order):
        for depth in range(1, len(path) + 1):
            children.setdefault(path[: depth - 1], {})[path[:depth]] = None
    paths = sorted({path[:depth] for path in members for depth in range(1, len(path) + 1)}, key=_by_depth)
    names = unique_names(paths, [level.domain for level in inner], {node.name for node in table} | {ROOT})
    switches = [
        Switch(names[path], tuple(names[child] for child in children.get(path, ())), tuple(members.get(path, ())))
        for path in paths
    ]
    tops = tuple(names[path] for path in children.get((), ()))
    if len(tops) != 1:
        switches.insert(0, Switch(ROOT, tops, tuple(members.get((), ()))))
    return Tree(tuple(switches), tuple(left_out))


def block_level(levels: Sequence[Level], table: Table) -> int:
    """The position of the level that blocks are made of: the narrowest that puts nodes together. Raises Unwritable."""
    inner = telling(levels, table)
    if not inner:
        raise ExportError("no level puts two nodes together, so there are no blocks; topology/tree needs none")
    return list(levels).index(inner[-1])


def blocks(levels: Sequence[Level], table: Table, size: int | None = None) -> Blocks:
    """Blocks of the last of `levels`, without those of fewer than `size` nodes (default: two). Raises Unwritable."""
    members, left_out = _members(levels, table)
    least = size or 2
    paths = sorted((path for path, nodes in members.items() if len(nodes) >= least), key=_order)
    if not paths:
        raise ExportError(
            f"no {levels[-1].domain} has {least} nodes, so there is no block; choose another --level or --block-size"
        )
    left_out += [name for path, nodes in members.items() if len(nodes) < least for name in nodes]
    names = unique_names(paths, [level.domain for level in levels], {node.name for node in table})
    base = size or min(len(members[path]) for path in paths)
    return Blocks(
        levels[-1],
        tuple(Block(names[path], tuple(members[path])) for path in paths),
        tuple(base * count for count in _doublings(paths)),
        tuple(sorted(left_out, key=natural)),
    )


def _members(levels: Sequence[Level], table: Table) -> tuple[dict[Path, list[str]], list[str]]:
    """The nodes of each narrowest domain, and those that lack a level."""
    columns = [table.values(level.key) for level in levels]
    rows: Iterable[tuple[str | None, ...]] = zip(*columns, strict=True) if columns else ((),) * len(table)
    members: dict[Path, list[str]] = {}
    left_out = []
    for node, row in zip(table, rows, strict=True):
        path = tuple(value for value in row if value is not None)
        if len(path) < len(levels):
            left_out.append(node.name)
        else:
            members.setdefault(path, []).append(node.name)
    return members, left_out


def _doublings(paths: Sequence[Path]) -> list[int]:
    """How many neighbouring blocks make a larger one: powers of two, as long as each such group has one parent."""
    sizes = [1]
    while (count := sizes[-1] * 2) <= len(paths) and len(sizes) < _MOST_DOUBLINGS:
        groups = [paths[start : start + count] for start in range(0, len(paths), count)]
        if any(a[:-1] != b[:-1] for group in groups for a, b in pairwise(group)):
            break
        sizes.append(count)
    return sizes


def _order(path: Path) -> list[tuple[tuple[str, ...], tuple[int, ...], str]]:
    return [natural(value) for value in path]


def _by_depth(path: Path) -> tuple[int, list[tuple[tuple[str, ...], tuple[int, ...], str]]]:
    return len(path), _order(path)


def _no_nodes(levels: Sequence[Level]) -> str:
    names = ", ".join(level.domain for level in levels)
    return (
        f"no node carries all levels ({names}); toposcope levels shows which are missing where"
        if names
        else ("there is no node; look with toposcope nodes")
    )
