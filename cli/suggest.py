"""Suggest ClusterTopologies for the kinds of nodes that there are: YAML ready to apply, with comments that say why."""

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from cli.looking import UNWELL, WELL, add_source_arguments, answer, look
from cli.terminal import Screen
from cli.writing import deliver, some, yaml_text
from controller.spec import API_VERSION, KIND
from formats.hostlist import natural
from formats.segments import Suggestion, suggest
from survey.scope import MAIN
from survey.snapshot import Snapshot
from topology.words import plural

_FEW: Final = 0.02
"""A kind with a smaller part of the nodes is more likely a label that is late than hardware of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope suggest`."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of printing it")
    add_source_arguments(parser, ())


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the suggestions; 1 when there is none, or some nodes are in none."""
    return answer("suggest", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    snapshot = look(arguments, pods=False)
    found = suggest(snapshot.nodes, snapshot.catalogue)
    if found.found:
        total = sum(len(each.nodes) for each in found.found)
        documents = [_document(each, total) for each in found.found]
        deliver(screen, "---\n".join(documents), arguments.output)
    for reason in found.reasons:
        print(f"warning: {reason}" if found.found else f"toposcope suggest: {reason}", file=sys.stderr)
    for note in _notes(snapshot, found.found):
        print(f"note: {note}", file=sys.stderr)
    return WELL if found.found and not found.reasons else UNWELL


def _document(suggestion: Suggestion, total: int) -> str:
    values = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": suggestion.name},
        "spec": suggestion.document(),
    }
    return yaml_text(values, _why(suggestion, total))


def _why(suggestion: Suggestion, total: int) -> Iterator[str]:
    names = sorted((node.name for node in suggestion.nodes), key=natural)
    count = len(names)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    yield f"{nodes}, {suggestion.gpus} {plural(suggestion.gpus, 'GPU')}: {some(names)}"
    path = " > ".join(level.domain for level in suggestion.levels)
    yield f"Every one of them carries {path}, and each level lies within the one before."
    if suggestion.own:
        own = ", ".join(level.key for level in suggestion.own)
        yield f"Other nodes lack {own}: in one topology with these, schedulers would leave them out."
    for each in suggestion.crossings:
        yield (
            f"Left out: {each.level.domain} ({each.level.key}) and {each.other.domain} do not nest: "
            f"{each.value!r} lies under {each.parents[0]!r} and {each.parents[1]!r}."
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
