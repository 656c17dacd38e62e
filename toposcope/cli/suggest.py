"""Suggest ClusterTopologies for the kinds of nodes in the cluster: YAML ready to apply,
with comments that say why.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, GROUP, KIND
from toposcope.api.label_keys import GPUS
from toposcope.api.levels import LOSING_OWN_NAMES
from toposcope.cli import suggest_claim
from toposcope.cli.command import add_source_arguments, load_snapshot, on_screen
from toposcope.cli.errors import exit_code
from toposcope.cli.hints import hints_of
from toposcope.cli.output import (
    form_and_file,
    json_text,
    list_document,
    names_of,
    path_of,
    write_output,
    yaml_text,
)
from toposcope.cli.terminal import Screen, complain
from toposcope.controller.assess.diagnostics import OWN_NAME
from toposcope.integrations.registry import LEAVING_OUT_FROM_ADMISSION
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import MAIN, select_scope
from toposcope.snapshot.suggest import Suggestion, Suggestions, suggest
from toposcope.text import by_numbers, enumerated, first_few, plural

_MAX_NAMES: Final = 3
_SMALL_SHARE: Final = 0.02
"""A kind with a smaller share of the nodes more likely lacks a label than differs in hardware."""
_SCHEDULERS: Final = enumerated(LEAVING_OUT_FROM_ADMISSION)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope suggest`."""
    kinds = ("topologies", "claim", "taints")
    about = (
        "ClusterTopologies; a ResourceClaimTemplate (DRA) for linked GPUs; "
        "DeviceTaintRules for degraded ones"
    )
    parser.add_argument(
        "what", nargs="?", choices=kinds, default=kinds[0], help=f"{about}; default: {kinds[0]}"
    )
    suggest_claim.add_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="yaml|json|wide|name|FILE",
        help="how to print it (wide: with the name of every node); "
        "or a file to write instead. Default: yaml",
    )
    add_source_arguments(parser, ())


@on_screen("suggest")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the suggestions; 1 when there are none, or some nodes are in none."""
    if arguments.what != "topologies":
        if arguments.what == "claim":
            return suggest_claim.run_claim(screen, arguments)
        return suggest_claim.run_taints(screen, arguments)

    snapshot = load_snapshot(arguments, has_pods=False)
    suggested = suggest(snapshot)
    suggestions, reasons = suggested.suggestions, suggested.reasons
    if suggestions:
        form, file = form_and_file(arguments.output)
        write_output(screen, _text(suggestions, form), file)

    about = "warning" if suggestions else "toposcope suggest"
    for reason in reasons:
        complain(f"{about}: {reason}")
    for note in _notes(snapshot, suggested):
        complain(f"note: {note}")
    for hint in hints_of(select_scope(snapshot, _hinted(snapshot))):
        if hint.reason != OWN_NAME:  # a comment says that
            complain(f"hint: {hint.message}")
    return exit_code(is_ok=bool(suggestions) and not reasons)


def _hinted(snapshot: Snapshot) -> str | None:
    """The ClusterTopology whose nodes' labels are read: `cluster`, or any; None: none."""
    names = [topology.name for topology in snapshot.topologies]
    if MAIN in names or not names:
        return None
    return min(names)


def _text(suggestions: Sequence[Suggestion], form: str) -> str:
    """The suggestions in the form that `-o` names; JSON has no comments."""
    if form == "name":
        kind = f"{KIND.lower()}.{GROUP}"
        return "".join(f"{kind}/{suggestion.name}\n" for suggestion in suggestions)

    if form == "json":
        documents = [_document(suggestion) for suggestion in suggestions]
        return json_text(list_document(documents))

    is_wide = form == "wide"
    total = sum(len(suggestion.nodes) for suggestion in suggestions)
    texts = []
    for suggestion in suggestions:
        comments = _why(suggestion, total, is_wide=is_wide)
        texts.append(yaml_text(_document(suggestion), comments))
    return "---\n".join(texts)


def _document(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": suggestion.name},
        "spec": suggestion.document(),
    }


def _why(suggestion: Suggestion, total: int, *, is_wide: bool) -> Iterator[str]:
    count = len(suggestion.nodes)
    most = count if is_wide else _MAX_NAMES
    yield _nodes_of(suggestion, most)
    path = path_of(suggestion.levels)
    lacking = sorted(suggestion.lacking, key=by_numbers)
    if not lacking:
        yield f"All of them have {path}, and each level is nested in the one before."
    else:
        have = f"{count - len(lacking)} of {count}"
        them = plural(len(lacking), "it", "them")
        yield f"{have} have {path}, and each level is nested in the one before."
        yield (
            f"A level is missing on {first_few(lacking, most)}: {_SCHEDULERS} leave {them} out. "
            f"Label {them} (toposcope nodes --state left-out), "
            "or take the level out of spec.levels, which takes it from all."
        )

    if suggestion.own:
        own = ", ".join(level.key for level in suggestion.own)
        yield f"Other nodes lack {own}: in one topology with these, schedulers would ignore them."

    yield from _left_out(suggestion)
    for level in suggestion.idle:
        yield (
            f"Left out: {level.domain} ({level.key}) is each node's own name and adds nothing to "
            f"host; {LOSING_OWN_NAMES} leaves out nodes that are called like a first level. "
            "Where workloads ask for it by name, list it first."
        )
    if count < total * _SMALL_SHARE:
        yield (
            "So few nodes may just be missing a label. "
            "Check them before you apply this: toposcope nodes -o wide"
        )


def _nodes_of(suggestion: Suggestion, most: int) -> str:
    names = sorted(names_of(suggestion.nodes), key=by_numbers)
    count = len(names)
    nodes = f"{count} {plural(count, 'node')}"
    gpus = f"{suggestion.gpus} {plural(suggestion.gpus, 'GPU')}"
    shown = first_few(names, most)
    return f"{nodes}, {gpus}: {shown}"


def _left_out(suggestion: Suggestion) -> Iterator[str]:
    """The levels that do not nest."""
    for crossing in suggestion.crossings:
        level = f"{crossing.level.domain} ({crossing.level.key})"
        first, second, *_ = crossing.parents
        yield (
            f"Left out: {level} and {crossing.crossed.domain} do not nest: "
            f"{crossing.value!r} lies under {first!r} and {second!r}."
        )


def _notes(snapshot: Snapshot, suggested: Suggestions) -> Iterator[str]:
    suggestions = suggested.suggestions
    if suggested.is_before_agents and suggestions:
        yield (
            f"no agent has labelled the nodes with {GPUS} yet: install the agent, "
            "which adds the levels that it finds on the nodes; then run this again"
        )
    outside = sorted(suggested.outside, key=by_numbers)
    if outside:
        are = plural(len(outside), "1 node is", f"{len(outside)} nodes are")
        yield f"{are} outside ClusterTopology {MAIN}, and in none of these: {first_few(outside)}"
    yield from _notes_on_lacking(suggestions)
    yield from _notes_on_existing(snapshot, suggestions)


def _notes_on_existing(snapshot: Snapshot, suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """What applying the suggestions does to the ClusterTopologies that exist."""
    names = {suggestion.name for suggestion in suggestions}
    for topology in snapshot.topologies:
        if topology.name in names and topology.owner:
            yield f"ClusterTopology {topology.name} is kept up to date by the controller"
        elif topology.name in names:
            yield f"ClusterTopology {topology.name} already exists; applying this changes it"
        elif topology.name == MAIN and len(suggestions) > 1 and not topology.is_divided:
            yield (
                f"ClusterTopology {MAIN} has the same nodes and is not changed: "
                "it publishes the levels that all of them have; delete it if nothing uses it, or, "
                "instead of these, set its spec.segments to Auto, and the controller keeps "
                "a topology for each kind"
            )


def _notes_on_lacking(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """A note on the nodes of each suggestion that lack one of its levels."""
    for suggestion in suggestions:
        lacking = sorted(suggestion.lacking, key=by_numbers)
        if lacking:
            lack = plural(len(lacking), "1 node lacks", f"{len(lacking)} nodes lack")
            yield (
                f"{lack} a level of {suggestion.name}, "
                f"and {_SCHEDULERS} leave such a node out: {first_few(lacking)}"
            )
