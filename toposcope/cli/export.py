"""Write the topology in another system's format: Grove, KAI, Kueue, Run:ai, OSMO, Slurm, NCCL,
Helm values.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from toposcope.api.levels import LOSING_OWN_NAMES, Level
from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.cli import command, errors
from toposcope.cli.catalogue import of_flags
from toposcope.cli.output import form_and_file, json_text, path_of, write_output, yaml_text
from toposcope.cli.streams import read_small
from toposcope.cli.terminal import Screen, complain
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.coverage import cover
from toposcope.integrations.documents import read_topology
from toposcope.integrations.framework.export import (
    ExportedFile,
    ExportedNode,
    ExportFlag,
    ExportOptions,
    Format,
    LevelsFormat,
    NodeFormat,
    NodesFormat,
    Variant,
)
from toposcope.integrations.framework.levels import (
    ExportError,
    TopologyLevels,
    UnreadableDocumentError,
)
from toposcope.integrations.registry import formats
from toposcope.snapshot.levels import unpublished_of
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.text import by_numbers, first_few, plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope export`."""
    command.add_topology(parser)
    parser.add_argument(
        "--format", required=True, choices=tuple(formats()), help="the format to write"
    )
    variants = []
    for form in formats().values():
        names = ", ".join(_variants(form))
        variants.append(f"{form.name}: {names}")
    parser.add_argument(
        "--variant",
        metavar="VARIANT",
        help=f"variant of the format; the first is the default. {'; '.join(variants)}",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="yaml|json|wide|name|FILE",
        help="print it as YAML or JSON, if the format is one of them, or only its name "
        "(wide: in full); or a file to write. Default: print it as the other system prefers",
    )
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
    for form in formats().values():
        for flag in form.flags:
            _add_flag(special, form.name, flag)
        if isinstance(form, NodeFormat):
            special.add_argument("--node", help=f"{form.name}: the node to write")

    command.add_source_arguments(parser, ())


def _add_flag(group: argparse._ArgumentGroup, form: str, flag: ExportFlag) -> None:
    words = flag.field.replace("_", "-")
    name = f"--{words}"
    about = f"{form}: {flag.help}"
    if flag.choices:
        group.add_argument(name, type=int, choices=flag.choices, help=about)
    elif flag.number:
        number = command.whole_number(flag.number)
        group.add_argument(name, type=number, metavar=flag.metavar, help=about)
    else:
        group.add_argument(name, metavar=flag.metavar, help=about)


def _variants(form: Format) -> tuple[str, ...]:
    """The names of its variants; the first is the default."""
    if isinstance(form, LevelsFormat):
        return tuple(variant.name for variant in form.variants)
    return form.variants


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Write the topology; 1 when the format cannot express it."""
    form = formats()[arguments.format]
    variants = _variants(form)
    arguments.variant = arguments.variant or variants[0]
    if arguments.variant not in variants:
        names = ", ".join(variants)
        parser.error(f"--variant {arguments.variant}: {form.name} has {names}")
    if isinstance(form, NodeFormat) and not arguments.node:
        parser.error(f"--format {form.name} needs --node: the file describes one node")

    if not isinstance(form, LevelsFormat):
        if arguments.convert:
            parser.error(
                f"--convert has levels only, and {form.name} needs nodes; give --from or a cluster"
            )
        if arguments.output in ("json", "yaml"):
            file = f"for a file of that name write -o ./{arguments.output}"
            parser.error(f"-o {arguments.output}: {form.name} has its own format; {file}")

    def work(screen: Screen) -> int:
        return _run(screen, arguments, form)

    return command.run_command("export", arguments, work)


def _run(screen: Screen, arguments: argparse.Namespace, form: Format) -> int:
    try:
        exported = _exported(arguments, form)
    except ExportError as error:
        for problem in error.problems:
            complain(f"toposcope export: {problem}")
        return errors.EXIT_PROBLEMS

    output, file = form_and_file(arguments.output)
    text = f"{exported.name}\n" if output == "name" else exported.text
    write_output(screen, text, file)
    for note in exported.notes:
        complain(f"note: {note}")
    return errors.EXIT_OK


@dataclass(frozen=True, slots=True)
class _Exported:
    """The text to write, and notes for standard error."""

    name: str
    """The topology's or the node's."""
    text: str
    notes: tuple[str, ...]


def _exported(arguments: argparse.Namespace, form: Format) -> _Exported:
    """The topology in the format. Raises ExportError."""
    options = ExportOptions(
        name=arguments.name,
        cluster_id=arguments.cluster_id,
        level=arguments.level,
        block_size=arguments.block_size,
        pcie_gen=arguments.pcie_gen,
    )
    match form:
        case NodeFormat():
            return _of_node(arguments, form, options)
        case NodesFormat():
            return _of_nodes(arguments, form, options)
        case LevelsFormat():
            return _of_levels(arguments, form, options)


def _of_node(arguments: argparse.Namespace, form: NodeFormat, options: ExportOptions) -> _Exported:
    """A file of one node. Raises ExportError and CommandError."""
    name = arguments.node
    snapshot = command.load_snapshot(arguments, has_pods=False, node=name)
    node = snapshot.by_name.get(name)
    if node is None:
        raise command.no_node(snapshot, name)

    if node.matrix is None:
        raise ExportError(
            f"node {name} has no annotation gpu.topology/matrix: its agent has not run, "
            f"or found no GPU; see the agent's pod on {name}"
        )

    exported = ExportedNode(name=name, matrix=node.matrix, labels=node.labels)
    file = form.write(exported, options)
    return _of_file(name, file)


def _of_nodes(
    arguments: argparse.Namespace, form: NodesFormat, options: ExportOptions
) -> _Exported:
    """A file of all nodes. Raises ExportError."""
    snapshot = command.load_snapshot(arguments, has_pods=False)
    scope = select_scope(snapshot, arguments.topology)
    dropped = {scope.level(name) for name in arguments.without}
    levels = []
    for position, level in enumerate(scope.levels):
        if position not in dropped:
            levels.append(level)
    scope = replace(scope, levels=tuple(levels))
    file = form.write(scope, arguments.variant, options)
    name = arguments.name or scope.name or "cluster"
    return _of_file(name, file)


def _of_file(name: str, file: ExportedFile) -> _Exported:
    content = file.content
    text = content if isinstance(content, str) else yaml_text(content)
    return _Exported(name, text, file.notes)


def _of_levels(
    arguments: argparse.Namespace, form: LevelsFormat, options: ExportOptions
) -> _Exported:
    """A document that lists levels. Raises ExportError."""
    notes: tuple[str, ...] = ()
    if arguments.convert:
        catalogue = of_flags(arguments) or BUILT_IN
        levels = _converted(arguments.convert, catalogue)
    else:
        snapshot = command.load_snapshot(arguments, has_pods=False)
        scope = select_scope(snapshot, arguments.topology)
        unpublished = unpublished_of(scope) if form.loses_own_names else ()
        kept = [level for level in scope.levels if level not in unpublished]
        levels = TopologyLevels(scope.name or "cluster", tuple(kept))
        notes = (*_unpublished(unpublished), *_left_out(scope))

    levels = _chosen(levels, arguments)
    variant = _variant(form, arguments.variant)
    document = variant.write(levels, options)
    as_json = form.has_json_default
    if arguments.output in ("json", "yaml"):
        as_json = arguments.output == "json"
    return _Exported(
        name=_handle(document, levels.name),
        text=json_text(document) if as_json else yaml_text(document),
        notes=(*notes, *variant.notes(options)),
    )


def _variant(form: LevelsFormat, name: str) -> Variant:
    variants = {variant.name: variant for variant in form.variants}
    return variants[name]


def _handle(document: Mapping[str, Any], name: str) -> str:
    """The handle that kubectl uses for a Kubernetes object, else the name of the topology."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if not (kind and version):
        return name
    group, _, _ = version.partition("/")
    return f"{kind.lower()}.{group}/{name}"


def _chosen(topology: TopologyLevels, arguments: argparse.Namespace) -> TopologyLevels:
    """The levels that `--without` leaves, under the name of `--name`. Raises CommandError."""
    all_names = set()
    kept = []
    for level in topology.levels:
        names = {level.domain, level.key}
        all_names |= names
        if names.isdisjoint(arguments.without):
            kept.append(level)

    for name in arguments.without:
        if name not in all_names:
            path = path_of(topology.levels)
            raise errors.CommandError(f"--without {name}: no such level; the levels are: {path}")
    return TopologyLevels(arguments.name or topology.name, tuple(kept))


def _converted(file: str, catalogue: Catalogue) -> TopologyLevels:
    """The levels in a JSON or YAML file (`-`: standard input)."""
    try:
        text = read_small(file)
        return read_topology(_values(text), catalogue)
    except UnreadableDocumentError as error:
        raise errors.CommandError(f"--convert {file}: {error}") from error
    except OSError as error:
        raise errors.CommandError(f"--convert {file}: {error.strerror}") from error


def _unpublished(levels: Sequence[Level]) -> Iterator[str]:
    """A note on each level that is not written, as the controller does not publish it."""
    for level in levels:
        yield (
            f"level {level.domain} ({level.key}) is left out: it is each node's own name, "
            f"and {LOSING_OWN_NAMES} leaves such nodes out of a topology that begins with it"
        )


def _left_out(scope: Scope) -> Iterator[str]:
    """A note on the nodes that lack each level: schedulers ignore them."""
    count = len(scope.nodes)
    nodes = f"{count} {plural(count, 'node')}"
    for covered in cover(scope.levels, scope.table()):
        missing = covered.missing
        if missing:
            lacks = plural(missing, "lacks", "lack")
            falls = plural(missing, "falls", "fall")
            missing_nodes = sorted(covered.missing_nodes, key=by_numbers)
            names = first_few(missing_nodes)
            yield (
                f"{missing} of {nodes} {lacks} level {covered.level.domain} "
                f"and {falls} out of the topology: {names}"
            )


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
