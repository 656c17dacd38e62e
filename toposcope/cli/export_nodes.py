"""The formats that name nodes: Slurm's files for all of them, NCCL's for the inside of one."""

from collections.abc import Sequence

from toposcope.api.label_keys import INTERCONNECT
from toposcope.api.matrix_annotation import MatrixError, parse
from toposcope.cli.exported import Exported
from toposcope.cli.failing import CommandError
from toposcope.cli.writing import some, yaml_text
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.nccl import topology as nccl_format
from toposcope.integrations.slurm import topology as slurm_format
from toposcope.integrations.slurm.hostlist import natural
from toposcope.integrations.slurm.topology import Blocks, block_level, blocks, tree
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope

_ARCH = "kubernetes.io/arch"
_NAMES = "nodes have their Kubernetes names: see that slurm.conf calls them the same"


def slurm(found: Scope, variant: str, name: str | None, level: str | None, size: int | None) -> Exported:
    """Slurm's file. Raises Unwritable, and NoSuchLevel for a `level` that is not there."""
    table = found.table()
    name = name or found.name or "cluster"
    notes = [_NAMES]
    if variant == "tree":
        switches = tree(found.levels, table)
        notes += _left_out(switches.left_out, "lacks a level")
        return Exported(name, _conf(name, "tree", slurm_format.tree_conf(switches)), tuple(notes))
    groups: Blocks | None = None
    try:
        place = block_level(found.levels, table) if level is None else found.level(level)
        groups = blocks(found.levels[: place + 1], table, size)
        sizes = ", ".join(map(str, groups.sizes))
        notes.append(f"blocks are {groups.level.domain} domains, planned in sizes of {sizes} nodes")
        notes += _left_out(groups.left_out, "in no block: lacks a level or shares its domain with too few")
    except ExportError as error:
        if variant == "block" or level is not None or size is not None:
            raise
        notes += [f"no topology/block: {problem}" for problem in error.problems]
    if variant == "block" and groups:
        return Exported(name, _conf(name, "block", slurm_format.block_conf(groups)), tuple(notes))
    switches = tree(found.levels, table)
    notes += _left_out(switches.left_out, "not in the tree: lacks a level")
    return Exported(name, yaml_text(slurm_format.topology_yaml(name, switches, groups)), tuple(notes))


def _conf(name: str, plugin: str, lines: Sequence[str]) -> str:
    head = [f"# Topology {name}; slurm.conf needs TopologyPlugin=topology/{plugin}"]
    return "".join(f"{line}\n" for line in (*head, *lines))


def _left_out(names: Sequence[str], why: str) -> list[str]:
    count = "1 node is" if len(names) == 1 else f"{len(names)} nodes are"
    return [f"{count} left out ({why}): {some(sorted(names, key=natural))}"] if names else []


def nccl(snapshot: Snapshot, name: str, pcie: int | None) -> Exported:
    """NCCL's file of one node. Raises Unwritable and Unanswerable."""
    node = snapshot.by_name.get(name)
    if node is None:
        raise CommandError(f"there is no node {name!r} in {snapshot.source}")
    if node.matrix is None:
        raise ExportError(
            f"node {name} has no annotation gpu.topology/matrix: its agent has not run, or found no GPU; "
            f"look at the agent's pod on {name}"
        )
    try:
        found = nccl_format.write(name, parse(node.matrix), node.label(INTERCONNECT), node.label(_ARCH), pcie)
    except MatrixError as error:
        raise ExportError(f"node {name}: {error}") from error
    return Exported(name, found.text, tuple(f"not known: {each}" for each in found.unknown))
