"""Slurm's topology, as topology.yaml or as topology.conf of one of two plugins."""

from collections.abc import Sequence
from typing import Final

from toposcope.integrations.framework.export import (
    ExportedFile,
    ExportFlag,
    ExportOptions,
    Hierarchy,
    NodesFormat,
)
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.topology import (
    Blocks,
    block_conf,
    block_level,
    blocks,
    topology_yaml,
    tree,
    tree_conf,
)
from toposcope.text import by_numbers, first_few

_YAML: Final = "topology.yaml"
_TREE: Final = "tree"
_BLOCK: Final = "block"
_NAMES: Final = (
    "nodes have their Kubernetes names: use the same ones in slurm.conf, "
    "or under Slinky its annotation"
)


def _write(hierarchy: Hierarchy, variant: str, options: ExportOptions) -> ExportedFile:
    """The file in one variant. Raises ExportError, and what `Hierarchy.level` raises."""
    name = options.name or hierarchy.name or "cluster"
    if variant == _TREE:
        return _tree_conf(hierarchy, name)
    if variant == _BLOCK:
        return _block_conf(hierarchy, name, options)
    return _topology_yaml(hierarchy, name, options)


def _tree_conf(hierarchy: Hierarchy, name: str) -> ExportedFile:
    switches = tree(hierarchy.levels, hierarchy.table())
    lines = tree_conf(switches)
    text = _conf(name, _TREE, lines)
    notes = [_NAMES]
    notes += _left_out(switches.left_out, "lacks a level")
    return ExportedFile(text, tuple(notes))


def _block_conf(hierarchy: Hierarchy, name: str, options: ExportOptions) -> ExportedFile:
    groups = _blocks(hierarchy, options)
    lines = block_conf(groups)
    text = _conf(name, _BLOCK, lines)
    notes = [_NAMES]
    notes += _about(groups)
    return ExportedFile(text, tuple(notes))


def _topology_yaml(hierarchy: Hierarchy, name: str, options: ExportOptions) -> ExportedFile:
    """The tree, and blocks where there are any."""
    notes = [_NAMES]
    groups = None
    try:
        groups = _blocks(hierarchy, options)
    except ExportError as error:
        if options.level is not None or options.block_size is not None:
            raise
        for problem in error.problems:
            notes.append(f"no topology/block: {problem}")
    else:
        notes += _about(groups)

    switches = tree(hierarchy.levels, hierarchy.table())
    notes += _left_out(switches.left_out, "not in the tree: lacks a level")
    if groups:
        notes += _without_nodes(groups.too_small)

    text = topology_yaml(name, switches, groups)
    return ExportedFile(text, tuple(notes))


def _blocks(hierarchy: Hierarchy, options: ExportOptions) -> Blocks:
    """The blocks at the level of the flag, else at the narrowest possible."""
    table = hierarchy.table()
    if options.level is None:
        place = block_level(hierarchy.levels, table)
    else:
        place = hierarchy.level(options.level)
    levels = hierarchy.levels[: place + 1]
    return blocks(levels, table, options.block_size)


def _about(groups: Blocks) -> list[str]:
    domain = groups.level.domain
    sizes = ", ".join(map(str, groups.sizes))
    notes = [f"blocks are {domain} domains, planned in sizes of {sizes} nodes"]
    why = "in no block: lacks a level, or its domain has too few nodes"
    notes += _left_out(groups.left_out, why)
    return notes


def _conf(name: str, plugin: str, lines: Sequence[str]) -> str:
    head = f"# Topology {name}; slurm.conf needs TopologyPlugin=topology/{plugin}"
    text = "\n".join([head, *lines])
    return f"{text}\n"


def _left_out(names: Sequence[str], why: str) -> list[str]:
    if not names:
        return []

    count = f"{len(names)} nodes are"
    if len(names) == 1:
        count = "1 node is"
    some = first_few(sorted(names, key=by_numbers))
    return [f"{count} left out ({why}): {some}"]


def _without_nodes(names: Sequence[str]) -> list[str]:
    if not names:
        return []

    count = f"{len(names)} blocks are"
    if len(names) == 1:
        count = "1 block is"
    why = "for Slinky's annotations (too few nodes)"
    some = first_few(names)
    return [f"{count} listed without nodes, {why}: {some}"]


FORMATS: Final = (
    NodesFormat(
        name="slurm",
        variants=(_YAML, _TREE, _BLOCK),
        write=_write,
        flags=(
            ExportFlag(
                field="level",
                help="the level whose domains become blocks; default: the narrowest possible",
            ),
            ExportFlag(
                field="block_size",
                metavar="N",
                number="a number of nodes",
                help="nodes in the smallest block",
            ),
        ),
    ),
)
