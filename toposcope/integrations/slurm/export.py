"""Slurm's `topology.yaml` (25.05 and later) and `topology.conf`, for the plugins topology/tree and topology/block.

Source of the forms: topology.yaml(5) and topology.conf(5).
"""

from collections.abc import Sequence
from typing import Any

from toposcope.integrations.slurm.hostlist import hostlist
from toposcope.integrations.slurm.layout import Block, Blocks, Switch, Tree


def topology_yaml(name: str, tree: Tree, blocks: Blocks | None) -> list[dict[str, Any]]:
    """The document of `topology.yaml`: the tree as the cluster's default, beside it the blocks if there are any."""
    found: list[dict[str, Any]] = [
        {"topology": f"{name}-tree", "cluster_default": True, "tree": {"switches": list(map(_switch, tree.switches))}}
    ]
    if blocks:
        inside = {"block_sizes": list(blocks.sizes), "blocks": list(map(_block, blocks.blocks))}
        found.append({"topology": f"{name}-block", "cluster_default": False, "block": inside})
    return found


def _switch(switch: Switch) -> dict[str, str]:
    below = {"children": hostlist(switch.children), "nodes": hostlist(switch.nodes)}
    return {"switch": switch.name} | {field: text for field, text in below.items() if text}


def _block(block: Block) -> dict[str, str]:
    return {"block": block.name, "nodes": hostlist(block.nodes)}


def tree_conf(tree: Tree) -> list[str]:
    """The lines of `topology.conf` for topology/tree, leaves first."""
    lines = []
    for switch in reversed(tree.switches):
        below = (("Switches", switch.children), ("Nodes", switch.nodes))
        lines.append(f"SwitchName={switch.name} " + " ".join(_list(field, names) for field, names in below if names))
    return lines


def block_conf(blocks: Blocks) -> list[str]:
    """The lines of `topology.conf` for topology/block; neighbouring lines make the larger blocks."""
    lines = [f"BlockName={block.name} {_list('Nodes', block.nodes)}" for block in blocks.blocks]
    return [*lines, "BlockSizes=" + ",".join(map(str, blocks.sizes))]


def _list(field: str, names: Sequence[str]) -> str:
    return f"{field}={hostlist(names)}"
