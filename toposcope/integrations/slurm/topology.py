"""Slurm's `topology.yaml` (25.05 and later) and `topology.conf`.

For the plugins topology/tree and topology/block. Source: topology.yaml(5) and
topology.conf(5).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
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
    is_lone,
    named_levels,
    names_of,
)
from toposcope.text import by_numbers, printable

_MAX_DOUBLINGS: Final = 15
"""Slurm allows at most 16 block sizes."""
_Order = list[tuple[tuple[str, ...], tuple[int, ...], str]]


@dataclass(frozen=True, slots=True)
class SlurmSwitch:
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
class SwitchTree:
    """The switches, broadest first."""

    switches: tuple[SlurmSwitch, ...]
    left_out: tuple[str, ...]
    """Nodes that lack one of the levels."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks, neighbours near each other, and the sizes that Slurm may plan with."""

    level: Level
    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    """Sizes in nodes: the smallest block, then its doublings, each within one domain above."""
    left_out: tuple[str, ...]
    """Nodes that are in no block."""
    too_small: tuple[str, ...] = ()
    """Blocks with too few nodes.

    Slinky's annotation may name one, because an agent does not know the other nodes.
    """


def inner_levels(levels: Sequence[Level], table: Table) -> tuple[Level, ...]:
    """The levels with several nodes in a domain; other levels need no switch."""
    inner = []
    for level in levels:
        if not table.column(level.key).is_unique:
            inner.append(level)
    return tuple(inner)


def tree(levels: Sequence[Level], table: Table) -> SwitchTree:
    """The hierarchy as switches, with a root if there would be several at the top.

    Raises ExportError if there are no nodes.
    """
    inner = inner_levels(levels, table)
    members, left_out = _members(inner, table)
    if not members:
        raise ExportError(_no_nodes(inner))

    children = _children(members)
    domains = _domains(members)
    used_names = _node_names(table) | {ROOT}
    names = names_of(domains, named_levels(inner, domains, used_names))

    def switch(name: str, path: Path) -> SlurmSwitch:
        below = children.get(path, ())
        nodes = members.get(path, ())
        return SlurmSwitch(
            name=name,
            children=tuple([names[child] for child in below]),
            nodes=tuple(nodes),
        )

    switches = []
    root = switch(ROOT, ())
    if len(root.children) != 1:
        switches.append(root)
    for path in sorted(domains, key=_broadest_first):
        switches.append(switch(names[path], path))

    return SwitchTree(tuple(switches), tuple(left_out))


def _children(paths: Iterable[Path]) -> dict[Path, dict[Path, None]]:
    """The domains right below each domain, in natural order; `()` is above all."""
    children: dict[Path, dict[Path, None]] = {}
    for path in sorted(paths, key=_order):
        parent: Path = ()
        for depth in range(1, len(path) + 1):
            domain = path[:depth]
            below = children.setdefault(parent, {})
            below[domain] = None
            parent = domain
    return children


def _node_names(table: Table) -> set[str]:
    return {node.name for node in table}


def _broadest_first(path: Path) -> tuple[int, _Order]:
    return len(path), _order(path)


def block_level(levels: Sequence[Level], table: Table) -> int:
    """The index of the narrowest level with several nodes in a domain. Raises ExportError."""
    inner = inner_levels(levels, table)
    if not inner:
        raise ExportError(
            "no level has two nodes in a domain, so there are no blocks; use topology/tree, "
            "which needs none"
        )
    return list(levels).index(inner[-1])


def blocks(levels: Sequence[Level], table: Table, size: int | None = None) -> Blocks:
    """Blocks of the last of `levels`, without those of fewer than `size` nodes (default: two).

    Raises ExportError.
    """
    members, left_out = _members(levels, table)
    least = size or 2
    paths, small = _by_size(members, least)
    if not paths:
        raise ExportError(
            f"no {levels[-1].domain} has {least} nodes, so there is no block; "
            "choose another --level or --block-size"
        )

    domains = _with_only_node(members)
    named = named_levels(levels, domains, _node_names(table))
    names = names_of(domains, named)
    large = []
    for path in paths:
        large.append(Block(names[path], tuple(members[path])))

    too_small = []
    for path in small:
        left_out += members[path]
        if not is_lone(path, domains[path], named[-1]):
            too_small.append(names[path])

    base = size or min(len(block.nodes) for block in large)
    return Blocks(
        level=levels[-1],
        blocks=tuple(large),
        sizes=_sizes(base, paths),
        left_out=tuple(sorted(left_out, key=by_numbers)),
        too_small=tuple(too_small),
    )


def _by_size(members: Mapping[Path, Sequence[str]], least: int) -> tuple[list[Path], list[Path]]:
    """The domains with at least `size` nodes, and the others, both in natural order."""
    large = []
    small = []
    for path in sorted(members, key=_order):
        if len(members[path]) >= least:
            large.append(path)
        else:
            small.append(path)

    return large, small


def _with_only_node(members: Mapping[Path, Sequence[str]]) -> dict[Path, str | None]:
    """The only node of each domain; None if it has several."""
    domains: dict[Path, str | None] = {}
    for path, nodes in members.items():
        domains[path] = None
        if len(nodes) == 1:
            domains[path] = nodes[0]
    return domains


def slurm_names(levels: Sequence[Level], table: Table) -> SlurmNames:
    """How domains are named in the topologies of `topology_yaml`."""
    inner = inner_levels(levels, table)
    members, _ = _members(inner, table)
    domains = _domains(members)
    used_names = _node_names(table) | {ROOT}
    tree = named_levels(inner, domains, used_names)
    if not members:
        return SlurmNames(tree)

    try:
        narrowest = block_level(levels, table)
        with_block = levels[: narrowest + 1]
        blocks(with_block, table)
    except ExportError:  # the file has no blocks
        return SlurmNames(tree)

    *above, _ = with_block
    return SlurmNames(tree, tuple(above), _named_block(with_block, table))


def _named_block(levels: Sequence[Level], table: Table) -> NamedLevel:
    """How blocks of the last level are named."""
    members, _ = _members(levels, table)
    domains = _with_only_node(members)
    used_names = _node_names(table)
    named = named_levels(levels, domains, used_names)
    return named[-1]


def _domains(members: Mapping[Path, Sequence[str]]) -> dict[Path, str | None]:
    """The only node of each domain of any level; None if it has several."""
    nodes: dict[Path, list[str]] = {}
    for path, names in members.items():
        first_two = names[:2]  # enough to tell that no node is alone
        for depth in range(1, len(path) + 1):
            domain = path[:depth]
            in_domain = nodes.setdefault(domain, [])
            in_domain.extend(first_two)
    return _with_only_node(nodes)


def _members(levels: Sequence[Level], table: Table) -> tuple[dict[Path, list[str]], list[str]]:
    """The nodes of each narrowest domain, and those that lack a level."""
    columns = [table.values(level.key) for level in levels]
    rows: Iterable[tuple[Any, ...]] = repeat((), len(table))
    if columns:
        rows = zip(*columns, strict=True)

    members: dict[Path, list[str]] = {}
    left_out = []
    for node, path in zip(table, rows, strict=True):
        if None in path:
            left_out.append(node.name)
        else:
            members.setdefault(path, []).append(node.name)

    _refuse_unfit(members)
    return members, left_out


def _refuse_unfit(paths: Iterable[Path]) -> None:
    """Raise ExportError for values that no label can have.

    In a line of topology.conf their blanks and `=` would add parameters. A saved file may contain
    them; an API server does not.
    """
    unfit: set[str] = set()
    for path in paths:
        for value in path:
            if not is_label_value(value):
                unfit.add(value)
    if not unfit:
        return

    shown = printable(min(unfit))
    raise ExportError(
        f"{shown!r} is not a valid label value, so it cannot name a switch or block; correct the "
        "node labels in the file"
    )


def _sizes(base: int, paths: Sequence[Path]) -> tuple[int, ...]:
    """The smallest size, then its doublings as long as the neighbours in each have one parent."""
    sizes = [base]
    count = 2
    while len(sizes) < _MAX_DOUBLINGS:
        if count > len(paths) or not _have_one_parent(paths, count):
            break
        sizes.append(base * count)
        count *= 2
    return tuple(sizes)


def _have_one_parent(paths: Sequence[Path], count: int) -> bool:
    """Whether each run of `count` neighbours is within one domain above."""
    for start in range(0, len(paths), count):
        neighbours = paths[start : start + count]
        parents = {path[:-1] for path in neighbours}
        if len(parents) > 1:
            return False
    return True


def _order(path: Path) -> _Order:
    return [by_numbers(value) for value in path]


def _no_nodes(levels: Sequence[Level]) -> str:
    if not levels:
        return "there are no nodes; toposcope nodes lists them"

    names = ", ".join([level.domain for level in levels])
    return f"no node carries all levels ({names}); toposcope levels shows which are missing"


def topology_yaml(name: str, tree: SwitchTree, blocks: Blocks | None) -> list[dict[str, Any]]:
    """The document of `topology.yaml`.

    The tree is the cluster's default topology; the blocks, if any, are a second one.
    """
    switches = [_switch(switch) for switch in tree.switches]
    documents: list[dict[str, Any]] = [
        {
            "topology": f"{name}-tree",
            "cluster_default": True,
            "tree": {"switches": switches},
        }
    ]
    if blocks:
        documents.append(
            {
                "topology": f"{name}-block",
                "cluster_default": False,
                "block": _block_plan(blocks),
            }
        )
    return documents


def _switch(switch: SlurmSwitch) -> dict[str, str]:
    """A switch of `topology.yaml`."""
    entry = {"switch": switch.name}
    if switch.children:
        entry["children"] = hostlist(switch.children)
    if switch.nodes:
        entry["nodes"] = hostlist(switch.nodes)
    return entry


def _block_plan(blocks: Blocks) -> dict[str, Any]:
    """The sizes and blocks of `topology.yaml`; those with too few nodes have none."""
    listed = []
    for block in blocks.blocks:
        nodes = hostlist(block.nodes)
        listed.append({"block": block.name, "nodes": nodes})
    for name in blocks.too_small:
        listed.append({"block": name})
    return {"block_sizes": list(blocks.sizes), "blocks": listed}


def tree_conf(tree: SwitchTree) -> list[str]:
    """The lines of `topology.conf` for topology/tree, leaves first."""
    lines = []
    for switch in reversed(tree.switches):
        words = [f"SwitchName={switch.name}"]
        if switch.children:
            words.append(_list("Switches", switch.children))
        if switch.nodes:
            words.append(_list("Nodes", switch.nodes))
        lines.append(" ".join(words))
    return lines


def block_conf(blocks: Blocks) -> list[str]:
    """The lines of `topology.conf` for topology/block.

    Neighbouring lines make the larger blocks.
    """
    lines = []
    for block in blocks.blocks:
        nodes = _list("Nodes", block.nodes)
        lines.append(f"BlockName={block.name} {nodes}")

    sizes = ",".join([str(size) for size in blocks.sizes])
    lines.append(f"BlockSizes={sizes}")
    return lines


def _list(field: str, names: Sequence[str]) -> str:
    return f"{field}={hostlist(names)}"
