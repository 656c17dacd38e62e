"""Slurm's `topology.yaml` (25.05 and later) and `topology.conf`.

For the plugins topology/tree and topology/block. Source of the forms: topology.yaml(5) and
topology.conf(5).
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.label_values import is_label_value
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.hostlist import hostlist
from toposcope.integrations.slurm.names import (
    ROOT,
    NamedLevel,
    Path,
    SlurmNames,
    named_levels,
    names_of,
)
from toposcope.text import by_numbers, printable

_MAX_DOUBLINGS: Final = 15
"""Slurm has 16 sizes of blocks at most."""
_Order = list[tuple[tuple[str, ...], tuple[int, ...], str]]


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
    """The blocks in an order in which neighbours are near each other.

    And the sizes that Slurm may plan with.
    """

    level: Level
    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    """In nodes: the smallest block, then as many doublings as all lie in one domain of the level
    above.
    """
    left_out: tuple[str, ...]
    """Nodes that are in no block."""
    too_small: tuple[str, ...] = ()
    """Blocks with too few nodes.

    Slinky's annotation may name one, because an agent does not know who else is there.
    """


def inner_levels(levels: Sequence[Level], table: Table) -> tuple[Level, ...]:
    """The levels with several nodes in a domain: a level of single nodes is no switch."""
    return tuple(level for level in levels if not table.column(level.key).unique)


def tree(levels: Sequence[Level], table: Table) -> Tree:
    """The hierarchy as switches, with a root where there would be several.

    Raises ExportError when there is no node.
    """
    inner = inner_levels(levels, table)
    members, left_out = _members(inner, table)
    if not members:
        raise ExportError(_no_nodes(inner))
    children: dict[Path, dict[Path, None]] = {}
    for path in sorted(members, key=_order):
        for depth in range(1, len(path) + 1):
            children.setdefault(path[: depth - 1], {})[path[:depth]] = None
    domains = _domains(members)
    taken = {node.name for node in table} | {ROOT}
    names = names_of(domains, named_levels(inner, domains, taken))
    switches = []
    for path in sorted(domains, key=_broadest_first):
        below = [names[child] for child in children.get(path, ())]
        switches.append(Switch(names[path], tuple(below), tuple(members.get(path, ()))))
    tops = [names[path] for path in children.get((), ())]
    if len(tops) != 1:
        switches.insert(0, Switch(ROOT, tuple(tops), tuple(members.get((), ()))))
    return Tree(tuple(switches), tuple(left_out))


def _broadest_first(path: Path) -> tuple[int, _Order]:
    return len(path), _order(path)


def block_level(levels: Sequence[Level], table: Table) -> int:
    """The position of the level that blocks are made of: the narrowest that puts nodes together.

    Raises ExportError.
    """
    inner = inner_levels(levels, table)
    if not inner:
        raise ExportError(
            "no level puts two nodes together, so there are no blocks; topology/tree needs none"
        )
    return list(levels).index(inner[-1])


def blocks(levels: Sequence[Level], table: Table, size: int | None = None) -> Blocks:
    """Blocks of the last of `levels`, without those of fewer than `size` nodes (default: two).

    Raises ExportError.
    """
    members, left_out = _members(levels, table)
    least = size or 2
    paths, small = [], []
    for path in sorted(members, key=_order):
        if len(members[path]) >= least:
            paths.append(path)
        else:
            small.append(path)
    if not paths:
        raise ExportError(
            f"no {levels[-1].domain} has {least} nodes, so there is no block; "
            "choose another --level or --block-size"
        )
    domains = {path: _only(nodes) for path, nodes in members.items()}
    named = named_levels(levels, domains, {node.name for node in table})
    names = names_of(domains, named)
    too_small = []
    for path in small:
        left_out += members[path]
        if not _lone(path, members[path], named[-1]):
            too_small.append(names[path])
    base = size or min(len(members[path]) for path in paths)
    return Blocks(
        level=levels[-1],
        blocks=tuple([Block(names[path], tuple(members[path])) for path in paths]),
        sizes=tuple([base * count for count in _doublings(paths)]),
        left_out=tuple(sorted(left_out, key=by_numbers)),
        too_small=tuple(too_small),
    )


def _only(nodes: Sequence[str]) -> str | None:
    """The node that is alone in a domain; None if there are several."""
    return nodes[0] if len(nodes) == 1 else None


def _lone(path: Path, nodes: Sequence[str], level: NamedLevel) -> bool:
    only = _only(nodes)
    return only is not None and level.lone(path[-1], only)


def slurm_names(levels: Sequence[Level], table: Table) -> SlurmNames:
    """How domains are named in the topologies of `topology_yaml`."""
    inner = inner_levels(levels, table)
    members, _ = _members(inner, table)
    domains = _domains(members)
    tree = named_levels(inner, domains, {node.name for node in table} | {ROOT})
    if not members:
        return SlurmNames(tree)
    with contextlib.suppress(ExportError):
        above = levels[: block_level(levels, table) + 1]
        blocks(above, table)  # raises if the file has no blocks
        return SlurmNames(tree, tuple(above[:-1]), _named_block(above, table))
    return SlurmNames(tree)


def _named_block(levels: Sequence[Level], table: Table) -> NamedLevel:
    members, _ = _members(levels, table)
    domains = {path: _only(nodes) for path, nodes in members.items()}
    return named_levels(levels, domains, {node.name for node in table})[-1]


def _domains(members: Mapping[Path, Sequence[str]]) -> dict[Path, str | None]:
    """Each domain of any level, and the node that is alone in it; None if there are several."""
    nodes: dict[Path, list[str]] = {}
    for path, names in members.items():
        for depth in range(1, len(path) + 1):
            nodes.setdefault(path[:depth], []).extend(names[:2])
    return {path: _only(names) for path, names in nodes.items()}


def _members(levels: Sequence[Level], table: Table) -> tuple[dict[Path, list[str]], list[str]]:
    """The nodes of each narrowest domain, and those that lack a level."""
    columns = [table.values(level.key) for level in levels]
    rows: Iterable[tuple[str | None, ...]] = (
        zip(*columns, strict=True) if columns else ((),) * len(table)
    )
    members: dict[Path, list[str]] = {}
    left_out = []
    for node, row in zip(table, rows, strict=True):
        path = tuple(value for value in row if value is not None)
        if len(path) < len(levels):
            left_out.append(node.name)
        else:
            members.setdefault(path, []).append(node.name)
    _refuse_unfit(members)
    return members, left_out


def _refuse_unfit(paths: Iterable[Path]) -> None:
    """Refuse values that no label can have.

    In a line of topology.conf their blanks and `=` would add parameters. A saved file may hold
    them, an API server does not. Raises ExportError.
    """
    unfit: set[str] = set()
    for path in paths:
        unfit.update(value for value in path if not is_label_value(value))
    if unfit:
        raise ExportError(
            f"{printable(min(unfit))!r} cannot be the value of a label, "
            "so no switch or block gets its name; correct "
            "the node labels in the file"
        )


def _doublings(paths: Sequence[Path]) -> list[int]:
    """How many neighbouring blocks make a larger one.

    Powers of two, as long as each such group has one parent.
    """
    sizes = [1]
    while len(sizes) < _MAX_DOUBLINGS:
        count = sizes[-1] * 2
        if count > len(paths) or not _have_one_parent(paths, count):
            break
        sizes.append(count)
    return sizes


def _have_one_parent(paths: Sequence[Path], count: int) -> bool:
    """Whether each run of so many neighbours is within one domain above."""
    for start in range(0, len(paths), count):
        parents = {path[:-1] for path in paths[start : start + count]}
        if len(parents) > 1:
            return False
    return True


def _order(path: Path) -> _Order:
    return [by_numbers(value) for value in path]


def _no_nodes(levels: Sequence[Level]) -> str:
    if not levels:
        return "there is no node; look with toposcope nodes"
    names = ", ".join(level.domain for level in levels)
    return f"no node carries all levels ({names}); toposcope levels shows which are missing where"


def topology_yaml(name: str, tree: Tree, blocks: Blocks | None) -> list[dict[str, Any]]:
    """The document of `topology.yaml`.

    The tree as the cluster's default, beside it the blocks if there are any.
    """
    documents: list[dict[str, Any]] = [
        {
            "topology": f"{name}-tree",
            "cluster_default": True,
            "tree": {"switches": list(map(_switch, tree.switches))},
        }
    ]
    if blocks:
        listed = [{"block": block.name, "nodes": hostlist(block.nodes)} for block in blocks.blocks]
        listed += [{"block": name} for name in blocks.too_small]
        plan = {"block_sizes": list(blocks.sizes), "blocks": listed}
        documents.append({"topology": f"{name}-block", "cluster_default": False, "block": plan})
    return documents


def _switch(switch: Switch) -> dict[str, str]:
    below = {"children": hostlist(switch.children), "nodes": hostlist(switch.nodes)}
    return {"switch": switch.name} | {field: text for field, text in below.items() if text}


def tree_conf(tree: Tree) -> list[str]:
    """The lines of `topology.conf` for topology/tree, leaves first."""
    lines = []
    for switch in reversed(tree.switches):
        below = (("Switches", switch.children), ("Nodes", switch.nodes))
        lines.append(
            f"SwitchName={switch.name} "
            + " ".join(_list(field, names) for field, names in below if names)
        )
    return lines


def block_conf(blocks: Blocks) -> list[str]:
    """The lines of `topology.conf` for topology/block.

    Neighbouring lines make the larger blocks.
    """
    lines = [f"BlockName={block.name} {_list('Nodes', block.nodes)}" for block in blocks.blocks]
    return [*lines, "BlockSizes=" + ",".join(map(str, blocks.sizes))]


def _list(field: str, names: Sequence[str]) -> str:
    return f"{field}={hostlist(names)}"
