"""Write the topology in another system's own form: Grove, KAI, Kueue, Run:ai, OSMO, Slurm, NCCL, Helm values."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.cli.catalogue import catalogue_of
from toposcope.cli.export_nodes import nccl, slurm
from toposcope.cli.exported import Exported, left_out
from toposcope.cli.failing import CommandError
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, look
from toposcope.cli.terminal import Screen, complain
from toposcope.cli.writing import deliver, json_text, split_output, yaml_text
from toposcope.integrations.framework.levels import ExportError, TopologyLevels, UnreadableDocumentError
from toposcope.integrations.grove import topology as grove
from toposcope.integrations.kai import topology as kai
from toposcope.integrations.kueue import topology as kueue
from toposcope.integrations.nccl.topology import SPEEDS
from toposcope.integrations.osmo import pool as osmo
from toposcope.integrations.runai import topology as runai
from toposcope.snapshot.scope import scope
from toposcope.topology.catalogue import BUILT_IN, Catalogue

Writer = Callable[[TopologyLevels, argparse.Namespace], Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a format of levels is written: each variant's writer (the first one is the default), and what to know."""

    variants: Mapping[str, Writer]
    text: Callable[[Any], str] = yaml_text
    note: str = ""


def _plain(write: Callable[[TopologyLevels], Any]) -> Writer:
    return lambda hierarchy, _: write(hierarchy)


def _kueue(version: str) -> Writer:
    return lambda hierarchy, _: kueue.write(hierarchy, version)


_NO_DOMAINS: Final = "label keys only: the names of the levels are not part of it"

_LEVELS: Final[dict[str, _Form]] = {
    "grove": _Form({"binding": _plain(grove.write), "clustertopology": _plain(grove.write_older)}),
    "kai": _Form({"plain": _plain(kai.write), "aliases": _plain(kai.write_aliases)}),
    "kueue": _Form({version: _kueue(version) for version in kueue.VERSIONS}, note=_NO_DOMAINS),
    "runai": _Form(
        {"v2": lambda hierarchy, arguments: runai.write(hierarchy, arguments.cluster_id)}, json_text, _NO_DOMAINS
    ),
    "osmo": _Form({"pool": _plain(osmo.write)}, json_text),
    "helm-grove": _Form({"alpha.9": _plain(grove.write_values), "alpha.4": _plain(grove.write_older_values)}),
}
_NODES: Final = {"slurm": ("topology.yaml", "tree", "block"), "nccl": ("xml",)}
FORMATS: Final = (*_LEVELS, *_NODES)

_NOTES: Final = {
    ("grove", "clustertopology"): "Grove's operator writes this object over from its Helm values: see helm-grove",
    ("kai", "plain"): _NO_DOMAINS + " (--variant aliases writes them, for KAI v0.17 and later)",
    ("helm-grove", "alpha.9"): "from v0.1.0-alpha.9 on the levels are in a ClusterTopologyBinding: --format grove",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope export`."""
    parser.add_argument("topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one")
    parser.add_argument("--format", required=True, choices=FORMATS, help="whose form to write")
    forms = "; ".join(f"{name}: {', '.join(variants)}" for name, variants in _all_variants().items())
    parser.add_argument(
        "--variant", metavar="VARIANT", help=f"which of a format's forms; the first is the default. {forms}"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="yaml|json|wide|name|FILE",
        help="print it as YAML or JSON, where it is one of both, or only its name (wide: in full, as ever); or a file "
        "to write instead. Default: print it as the other system likes it best",
    )
    parser.add_argument("--name", help="name of what is written; default: the ClusterTopology's, else cluster")
    parser.add_argument(
        "--without", action="append", default=[], metavar="LEVEL", help="leave a level out; may be given several times"
    )
    parser.add_argument(
        "--convert",
        metavar="FILE",
        help="take the levels from a file in another of these forms (or a ClusterTopology) instead of a cluster",
    )
    special = parser.add_argument_group("of one format")
    special.add_argument("--cluster-id", metavar="ID", help="runai: the cluster's id in Run:ai")
    special.add_argument("--level", help="slurm: the level that blocks are made of; default: the narrowest that can be")
    special.add_argument("--block-size", type=_positive, metavar="N", help="slurm: nodes in the smallest block")
    special.add_argument("--node", help="nccl: the node to write")
    special.add_argument("--pcie-gen", type=int, choices=tuple(SPEEDS), help="nccl: PCIe generation of all x16 links")
    add_source_arguments(parser, ())


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes; give 1 or more")
    return int(text)


def _all_variants() -> dict[str, tuple[str, ...]]:
    return {name: tuple(form.variants) for name, form in _LEVELS.items()} | _NODES


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Write it; 1 when the format cannot hold the topology."""
    variants = _all_variants()[arguments.format]
    arguments.variant = arguments.variant or variants[0]
    if arguments.variant not in variants:
        parser.error(f"--variant {arguments.variant}: {arguments.format} has {', '.join(variants)}")
    if arguments.format == "nccl" and not arguments.node:
        parser.error("--format nccl needs --node: the file describes the inside of one node")
    if arguments.convert and arguments.format in _NODES:
        parser.error(f"--convert holds levels only, and {arguments.format} needs the nodes; give --from or a cluster")
    if arguments.output in ("json", "yaml") and arguments.format in _NODES:
        file = f"for a file of that name write -o ./{arguments.output}"
        parser.error(f"-o {arguments.output}: {arguments.format} has a form of its own; {file}")
    return answer("export", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    try:
        exported = _exported(arguments)
    except ExportError as error:
        for problem in error.problems:
            complain(f"toposcope export: {problem}")
        return UNWELL
    form, file = split_output(arguments.output)
    deliver(screen, f"{exported.name}\n" if form == "name" else exported.text, file)
    for note in exported.notes:
        complain(f"note: {note}")
    return WELL


def _exported(arguments: argparse.Namespace) -> Exported:
    if arguments.format == "nccl":
        return nccl(look(arguments, pods=False, node=arguments.node), arguments.node, arguments.pcie_gen)
    if arguments.convert:
        hierarchy, notes = _converted(arguments.convert, catalogue_of(arguments) or BUILT_IN), tuple[str, ...]()
    else:
        found = scope(look(arguments, pods=False), arguments.topology)
        if arguments.format == "slurm":
            dropped = {found.level(name) for name in arguments.without}
            found = replace(found, levels=tuple(x for i, x in enumerate(found.levels) if i not in dropped))
            return slurm(found, arguments.variant, arguments.name, arguments.level, arguments.block_size)
        hierarchy, notes = TopologyLevels(found.name or "cluster", found.levels), left_out(found)
    hierarchy = _chosen(hierarchy, arguments)
    form = _LEVELS[arguments.format]
    document = form.variants[arguments.variant](hierarchy, arguments)
    text = _TEXTS.get(arguments.output, form.text)(document)
    note = _NOTES.get((arguments.format, arguments.variant), form.note)
    if arguments.format == "runai" and not arguments.cluster_id:
        note += "; clusterId is left out: give --cluster-id, or fill it in"
    return Exported(_called(document, hierarchy.name), text, (*notes, *((note,) if note else ())))


_TEXTS: Final[dict[str | None, Callable[[Any], str]]] = {"json": json_text, "yaml": yaml_text}


def _called(document: Any, name: str) -> str:
    """As kubectl names it, where it is an object of the Kubernetes API; else the name of the topology."""
    kind, version = document.get("kind"), document.get("apiVersion")
    return f"{kind.lower()}.{version.partition('/')[0]}/{name}" if kind and version else name


def _chosen(hierarchy: TopologyLevels, arguments: argparse.Namespace) -> TopologyLevels:
    """The hierarchy with the name and without the levels that the flags say. Raises Unanswerable."""
    for name in arguments.without:
        if all(name not in (level.domain, level.key) for level in hierarchy.levels):
            path = " > ".join(level.domain for level in hierarchy.levels)
            raise CommandError(f"--without {name}: there is no such level; the levels are: {path}")
    kept = tuple(x for x in hierarchy.levels if not {x.domain, x.key}.intersection(arguments.without))
    return TopologyLevels(arguments.name or hierarchy.name, kept)


def _converted(file: str, catalogue: Catalogue) -> TopologyLevels:
    from toposcope.cli.converting import read_file  # noqa: PLC0415 - only this flag needs it

    try:
        return read_file(file, catalogue)
    except UnreadableDocumentError as error:
        raise CommandError(f"--convert {file}: {error}") from error
    except OSError as error:
        raise CommandError(f"--convert {file}: {error.strerror}") from error
