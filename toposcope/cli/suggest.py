"""Suggest ClusterTopologies for the kinds of nodes that there are: YAML ready to apply, with comments that say why."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, GROUP, KIND
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, look
from toposcope.cli.terminal import Screen, complain
from toposcope.cli.writing import deliver, json_text, some, split_output, yaml_text
from toposcope.integrations.slurm.hostlist import natural
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import MAIN
from toposcope.snapshot.suggest import Suggestion, suggest
from toposcope.topology.text import plural

_NAMES: Final = 3
_FEW: Final = 0.02
"""A kind with a smaller part of the nodes is more likely a label that is late than hardware of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope suggest`."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="yaml|json|wide|name|FILE",
        help="how to print it (wide: with the name of every node); or a file to write instead. Default: yaml",
    )
    add_source_arguments(parser, ())


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the suggestions; 1 when there is none, or some nodes are in none."""
    return answer("suggest", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    snapshot = look(arguments, pods=False)
    found = suggest(snapshot.nodes, snapshot.catalogue)
    if found.found:
        form, file = split_output(arguments.output)
        deliver(screen, _text(found.found, form), file)
    for reason in found.reasons:
        complain(f"warning: {reason}" if found.found else f"toposcope suggest: {reason}")
    for note in _notes(snapshot, found.found):
        complain(f"note: {note}")
    return WELL if found.found and not found.reasons else UNWELL


def _text(found: Sequence[Suggestion], form: str) -> str:
    """All of them in the form that `-o` names; JSON has no place for the comments."""
    if form == "name":
        return "".join(f"{KIND.lower()}.{GROUP}/{each.name}\n" for each in found)
    if form == "json":
        return json_text({"apiVersion": "v1", "kind": "List", "items": [_document(each) for each in found]})
    total = sum(len(each.nodes) for each in found)
    return "---\n".join(yaml_text(_document(each), _why(each, total, wide=form == "wide")) for each in found)


def _document(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": suggestion.name},
        "spec": suggestion.document(),
    }


def _why(suggestion: Suggestion, total: int, *, wide: bool) -> Iterator[str]:
    names = sorted((node.name for node in suggestion.nodes), key=natural)
    count = len(names)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    yield f"{nodes}, {suggestion.gpus} {plural(suggestion.gpus, 'GPU')}: {some(names, count if wide else _NAMES)}"
    path = " > ".join(level.domain for level in suggestion.levels)
    yield f"Every one of them carries {path}, and each level lies within the one before."
    if suggestion.own:
        own = ", ".join(level.key for level in suggestion.own)
        yield f"Other nodes lack {own}: in one topology with these, schedulers would leave them out."
    for crossing in suggestion.crossings:
        yield (
            f"Left out: {crossing.level.domain} ({crossing.level.key}) and {crossing.other.domain} do not nest: "
            f"{crossing.value!r} lies under {crossing.parents[0]!r} and {crossing.parents[1]!r}."
        )
    if count < total * _FEW:
        yield "So few nodes may only wait for a label. Look at them before you apply this: toposcope nodes -o wide"


def _notes(snapshot: Snapshot, found: tuple[Suggestion, ...]) -> Iterator[str]:
    names = {each.name for each in found}
    for topology in snapshot.topologies:
        if topology.name in names:
            yield f"there is a ClusterTopology {topology.name} already; applying this changes it"
        elif topology.name == MAIN and len(found) > 1 and not topology.divided:
            yield (
                f"ClusterTopology {MAIN} is about the same nodes and stays as it is: it publishes what all of them "
                "carry; delete it if nothing uses it, or leave these and set its spec.segments to Auto, and the "
                "controller keeps a topology for each kind"
            )
