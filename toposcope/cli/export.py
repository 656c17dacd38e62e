"""Write the topology in another system's format: Grove, KAI, Kueue, Run:ai, OSMO, Slurm, NCCL, Helm values."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import INTERCONNECT
from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.cli import command, errors
from toposcope.cli.catalogue import of_flags
from toposcope.cli.output import first_few, form_and_file, json_text, write_output, yaml_text
from toposcope.cli.streams import read_small
from toposcope.cli.terminal import Screen, complain
from toposcope.hardware.matrix_annotation import MatrixError, parse
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.coverage import cover
from toposcope.integrations.documents import read_topology
from toposcope.integrations.framework.levels import (
    ExportError,
    TopologyLevels,
    UnreadableDocumentError,
)
from toposcope.integrations.grove import topology as grove
from toposcope.integrations.kai import topology as kai
from toposcope.integrations.kueue import topology as kueue
from toposcope.integrations.nccl import topology as nccl_format
from toposcope.integrations.nccl.topology import SPEEDS
from toposcope.integrations.osmo import topology as osmo
from toposcope.integrations.runai import topology as runai
from toposcope.integrations.slurm import topology as slurm_format
from toposcope.integrations.slurm.hostlist import natural
from toposcope.integrations.slurm.topology import Blocks, block_level, blocks, tree
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.text import plural

Writer = Callable[[TopologyLevels, argparse.Namespace], Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a format of levels is written: each variant's writer (the first is the default), and a note."""

    variants: Mapping[str, Writer]
    text: Callable[[Any], str] = yaml_text
    note: str = ""


def _plain(write: Callable[[TopologyLevels], Any]) -> Writer:
    return lambda hierarchy, _: write(hierarchy)


def _kueue(version: str) -> Writer:
    return lambda hierarchy, _: kueue.write(hierarchy, version)


_NO_DOMAINS: Final = "label keys only: this format has no names of levels"

_LEVELS: Final[dict[str, _Form]] = {
    "grove": _Form({"binding": _plain(grove.write), "clustertopology": _plain(grove.write_older)}),
    "kai": _Form({"plain": _plain(kai.write), "aliases": _plain(kai.write_aliases)}),
    "kueue": _Form({version: _kueue(version) for version in kueue.VERSIONS}, note=_NO_DOMAINS),
    "runai": _Form(
        {"v2": lambda hierarchy, arguments: runai.write(hierarchy, arguments.cluster_id)},
        json_text,
        _NO_DOMAINS,
    ),
    "osmo": _Form({"pool": _plain(osmo.write)}, json_text),
    "helm-grove": _Form(
        {"alpha.9": _plain(grove.write_values), "alpha.4": _plain(grove.write_older_values)}
    ),
}
_NODES: Final = {"slurm": ("topology.yaml", "tree", "block"), "nccl": ("xml",)}
FORMATS: Final = (*_LEVELS, *_NODES)

_IN_BINDING: Final = (
    "from v0.1.0-alpha.9 on the levels are in a ClusterTopologyBinding: --format grove; cliques without schedulerName "
    "go to KAI, in the queue of the label kai.scheduler/queue"
)
_NOTES: Final = {
    (
        "grove",
        "clustertopology",
    ): "Grove's operator overwrites this object from its Helm values: see helm-grove",
    ("kai", "plain"): _NO_DOMAINS + " (--variant aliases writes them, for KAI v0.17 and later)",
    ("helm-grove", "alpha.9"): _IN_BINDING,
    (
        "helm-grove",
        "alpha.4",
    ): "alpha.4 to alpha.7 know no default scheduler: set schedulerName in each clique",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope export`."""
    command.add_topology(parser)
    parser.add_argument("--format", required=True, choices=FORMATS, help="the format to write")
    forms = "; ".join(
        f"{name}: {', '.join(variants)}" for name, variants in _all_variants().items()
    )
    parser.add_argument(
        "--variant",
        metavar="VARIANT",
        help=f"variant of the format; the first is the default. {forms}",
    )
    about = (
        "print it as YAML or JSON, if the format is one of them, or only its name (wide: in full); or a file to write. "
        "Default: print it as the other system prefers"
    )
    parser.add_argument("-o", "--output", metavar="yaml|json|wide|name|FILE", help=about)
    parser.add_argument(
        "--name", help="name of the resource; default: the ClusterTopology's, else cluster"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="LEVEL",
        help="leave a level out; can be repeated",
    )
    about = "take the levels from a file in another of these formats, or a ClusterTopology"
    parser.add_argument("--convert", metavar="FILE", help=about)
    special = parser.add_argument_group("for single formats")
    special.add_argument("--cluster-id", metavar="ID", help="runai: the cluster's id in Run:ai")
    special.add_argument(
        "--level",
        help="slurm: the level whose domains become blocks; default: the narrowest possible",
    )
    about = "slurm: nodes in the smallest block"
    special.add_argument(
        "--block-size",
        type=command.whole("a number of nodes; give 1 or more"),
        metavar="N",
        help=about,
    )
    special.add_argument("--node", help="nccl: the node to write")
    special.add_argument(
        "--pcie-gen", type=int, choices=tuple(SPEEDS), help="nccl: PCIe generation of all x16 links"
    )
    command.add_source_arguments(parser, ())


def _all_variants() -> dict[str, tuple[str, ...]]:
    return {name: tuple(form.variants) for name, form in _LEVELS.items()} | _NODES


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Write it; 1 when the format cannot express the topology."""
    variants = _all_variants()[arguments.format]
    arguments.variant = arguments.variant or variants[0]
    if arguments.variant not in variants:
        parser.error(f"--variant {arguments.variant}: {arguments.format} has {', '.join(variants)}")
    if arguments.format == "nccl" and not arguments.node:
        parser.error("--format nccl needs --node: the file describes one node")
    if arguments.convert and arguments.format in _NODES:
        parser.error(
            f"--convert has levels only, and {arguments.format} needs nodes; give --from or a cluster"
        )
    if arguments.output in ("json", "yaml") and arguments.format in _NODES:
        file = f"for a file of that name write -o ./{arguments.output}"
        parser.error(f"-o {arguments.output}: {arguments.format} has its own format; {file}")
    return command.run_command("export", arguments, lambda screen: _run(screen, arguments))


def _run(screen: Screen, arguments: argparse.Namespace) -> int:
    try:
        exported = _exported(arguments)
    except ExportError as error:
        for problem in error.problems:
            complain(f"toposcope export: {problem}")
        return errors.EXIT_PROBLEMS
    form, file = form_and_file(arguments.output)
    write_output(screen, f"{exported.name}\n" if form == "name" else exported.text, file)
    for note in exported.notes:
        complain(f"note: {note}")
    return errors.EXIT_OK


@dataclass(frozen=True, slots=True)
class Exported:
    """The text to write, and notes for standard error."""

    name: str
    """Of the topology or the node."""
    text: str
    notes: tuple[str, ...]


def _exported(arguments: argparse.Namespace) -> Exported:
    if arguments.format == "nccl":
        return nccl(
            command.load_snapshot(arguments, pods=False, node=arguments.node),
            arguments.node,
            arguments.pcie_gen,
        )
    if arguments.convert:
        hierarchy, notes = (
            _converted(arguments.convert, of_flags(arguments) or BUILT_IN),
            tuple[str, ...](),
        )
    else:
        scope = select_scope(command.load_snapshot(arguments, pods=False), arguments.topology)
        if arguments.format == "slurm":
            dropped = {scope.level(name) for name in arguments.without}
            scope = replace(
                scope, levels=tuple(x for i, x in enumerate(scope.levels) if i not in dropped)
            )
            return slurm(
                scope, arguments.variant, arguments.name, arguments.level, arguments.block_size
            )
        hierarchy, notes = TopologyLevels(scope.name or "cluster", scope.levels), left_out(scope)
    hierarchy = _chosen(hierarchy, arguments)
    form = _LEVELS[arguments.format]
    document = form.variants[arguments.variant](hierarchy, arguments)
    text = _TEXTS.get(arguments.output, form.text)(document)
    note = _NOTES.get((arguments.format, arguments.variant), form.note)
    if arguments.format == "runai" and not arguments.cluster_id:
        note += "; clusterId is missing: give --cluster-id, or fill it in"
    return Exported(_called(document, hierarchy.name), text, (*notes, *((note,) if note else ())))


_TEXTS: Final[dict[str | None, Callable[[Any], str]]] = {"json": json_text, "yaml": yaml_text}


def _called(document: Any, name: str) -> str:
    """As kubectl names it, if it is a Kubernetes object; else the name of the topology."""
    kind, version = document.get("kind"), document.get("apiVersion")
    return f"{kind.lower()}.{version.partition('/')[0]}/{name}" if kind and version else name


def _chosen(hierarchy: TopologyLevels, arguments: argparse.Namespace) -> TopologyLevels:
    """With the name and without the levels that the flags say. Raises CommandError."""
    for name in arguments.without:
        if all(name not in (level.domain, level.key) for level in hierarchy.levels):
            path = " > ".join(level.domain for level in hierarchy.levels)
            raise errors.CommandError(f"--without {name}: no such level; the levels are: {path}")
    kept = tuple(
        x for x in hierarchy.levels if not {x.domain, x.key}.intersection(arguments.without)
    )
    return TopologyLevels(arguments.name or hierarchy.name, kept)


def _converted(file: str, catalogue: Catalogue) -> TopologyLevels:
    """The levels in a JSON or YAML file (`-`: standard input)."""
    try:
        text = read_small(file)
        return read_topology(_values(text), catalogue)
    except UnreadableDocumentError as error:
        raise errors.CommandError(f"--convert {file}: {error}") from error
    except OSError as error:
        raise errors.CommandError(f"--convert {file}: {error.strerror}") from error


def left_out(scope: Scope) -> tuple[str, ...]:
    """Which nodes lack a level that is written: schedulers ignore them."""
    nodes = f"{len(scope.nodes)} {plural(len(scope.nodes), 'node')}"
    return tuple(
        f"{level.missing} of {nodes} {plural(level.missing, 'lacks', 'lack')} level {level.level.domain} and "
        f"{plural(level.missing, 'falls', 'fall')} out of the topology: "
        f"{first_few(sorted(level.missing_nodes, key=natural))}"
        for level in cover(scope.levels, scope.table())
        if level.missing
    )


_ARCH = "kubernetes.io/arch"
_NAMES = "nodes have their Kubernetes names: use the same ones in slurm.conf, or under Slinky its annotation"


def slurm(
    scope: Scope, variant: str, name: str | None, level: str | None, size: int | None
) -> Exported:
    """Slurm's file. Raises ExportError, and LevelNotFoundError for an unknown `level`."""
    table = scope.table()
    name = name or scope.name or "cluster"
    notes = [_NAMES]
    if variant == "tree":
        switches = tree(scope.levels, table)
        notes += _left_out(switches.left_out, "lacks a level")
        return Exported(name, _conf(name, "tree", slurm_format.tree_conf(switches)), tuple(notes))
    groups: Blocks | None = None
    try:
        place = block_level(scope.levels, table) if level is None else scope.level(level)
        groups = blocks(scope.levels[: place + 1], table, size)
        sizes = ", ".join(map(str, groups.sizes))
        notes.append(f"blocks are {groups.level.domain} domains, planned in sizes of {sizes} nodes")
        notes += _left_out(
            groups.left_out, "in no block: lacks a level or shares its domain with too few"
        )
    except ExportError as error:
        if variant == "block" or level is not None or size is not None:
            raise
        notes += [f"no topology/block: {problem}" for problem in error.problems]
    if variant == "block" and groups:
        return Exported(name, _conf(name, "block", slurm_format.block_conf(groups)), tuple(notes))
    switches = tree(scope.levels, table)
    notes += _left_out(switches.left_out, "not in the tree: lacks a level")
    notes += _without_nodes(groups.too_small) if groups else []
    return Exported(
        name, yaml_text(slurm_format.topology_yaml(name, switches, groups)), tuple(notes)
    )


def _conf(name: str, plugin: str, lines: Sequence[str]) -> str:
    head = [f"# Topology {name}; slurm.conf needs TopologyPlugin=topology/{plugin}"]
    return "".join(f"{line}\n" for line in (*head, *lines))


def _left_out(names: Sequence[str], why: str) -> list[str]:
    count = "1 node is" if len(names) == 1 else f"{len(names)} nodes are"
    return [f"{count} left out ({why}): {first_few(sorted(names, key=natural))}"] if names else []


def _without_nodes(blocks: Sequence[str]) -> list[str]:
    if not blocks:
        return []
    count = "1 block is" if len(blocks) == 1 else f"{len(blocks)} blocks are"
    return [
        f"{count} listed without nodes, for Slinky's annotations (too few nodes): {first_few(blocks)}"
    ]


def nccl(snapshot: Snapshot, name: str, pcie: int | None) -> Exported:
    """NCCL's file of one node. Raises ExportError and CommandError."""
    node = snapshot.by_name.get(name)
    if node is None:
        raise errors.CommandError(f"there is no node {name!r} in {snapshot.source}")
    if node.matrix is None:
        raise ExportError(
            f"node {name} has no annotation gpu.topology/matrix: its agent has not run, or found no GPU; "
            f"see the agent's pod on {name}"
        )
    try:
        file = nccl_format.write(
            name, parse(node.matrix), node.label(INTERCONNECT), node.label(_ARCH), pcie
        )
    except MatrixError as error:
        raise ExportError(f"node {name}: {error}") from error
    return Exported(name, file.text, tuple(f"not known: {fact}" for fact in file.unknown))


def _values(text: bytes) -> Any:
    if text.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # YAML's own braces, or broken JSON: the YAML reader reports the line
    try:
        return load(text)
    except YamlSyntaxError as error:
        raise UnreadableDocumentError(f"line {error.line}: {error}") from error
