"""List the levels of a topology: label key, coverage, domains and their sizes, and who requires them."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from toposcope.cli.documents import show_document
from toposcope.cli.failing import CommandError, nothing
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, look
from toposcope.cli.terminal import Screen, columns
from toposcope.snapshot.levels import LevelView, crossed, level_views
from toposcope.snapshot.scope import Scope, scope


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope levels`."""
    parser.add_argument("topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one")
    add_source_arguments(parser)


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the levels; 1 when one lacks nodes, is required and not there, or does not nest."""
    return answer("levels", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    snapshot = look(arguments, pods=False)
    found = scope(snapshot, arguments.topology)
    if not found.nodes:
        raise CommandError(nothing(snapshot, found))
    levels = level_views(found)
    tangled = crossed(found)
    problems = list(found.topology.problems) if found.topology else []
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(found, levels, tangled))
    elif arguments.output == "name":
        screen.show(level.domain for level in levels if level.in_topology)
    else:
        screen.show(_page(screen, levels, [*problems, *tangled], wide=arguments.output == "wide"))
    return UNWELL if tangled or problems or any(level.amiss for level in levels) else WELL


def document(found: Scope, levels: Sequence[LevelView], tangled: Sequence[str]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "topology": found.name or None,
        "origin": found.origin.value,
        "nodes": len(found.nodes),
        "levels": [_level(level) for level in levels],
        "problems": [*(found.topology.problems if found.topology else ()), *tangled],
    }


def _level(level: LevelView) -> dict[str, Any]:
    sizes = level.sizes
    return {
        "domain": level.domain,
        "key": level.key or None,
        "inTopology": level.in_topology,
        "nodes": level.nodes,
        "missing": level.missing,
        "missingNodes": list(level.missing_nodes),
        "usable": level.usable,
        "domains": level.domains,
        "sizes": sizes and {"smallest": sizes.smallest, "median": sizes.median, "largest": sizes.largest},
        "required": {"bySpec": level.by_spec, "workloads": level.workloads, "preferring": level.preferring},
        "amiss": level.amiss,
    }


def _page(screen: Screen, levels: Sequence[LevelView], problems: Sequence[str], *, wide: bool) -> Iterator[str]:
    header = ["LEVEL", "KEY", "NODES", "DOMAINS", "MIN", "MEDIAN", "MAX", "REQUIRED BY"]
    rows = []
    for level in levels:
        sizes = level.sizes
        row = [level.domain, level.key or "-", f"{level.nodes:,}/{level.nodes + level.missing:,}", f"{level.domains:,}"]
        row += [f"{n:,}" for n in (sizes.smallest, sizes.median, sizes.largest)] if sizes else ["-"] * 3
        rows.append([*row, _required(level)])
    yield from columns(screen, header, rows, right=range(2, 7))
    for level in levels:
        if level.amiss:
            few = level.missing_nodes if wide else level.missing_nodes[:3]
            more = ", ..." if len(few) < level.missing else ""
            names = f": {', '.join(few)}{more}" if few else ""
            yield screen.paint(f"! {level.domain}: {level.amiss}{names}", "yellow")
    yield from (screen.paint(f"! {problem}", "yellow") for problem in problems)


def _required(level: LevelView) -> str:
    told = ["spec"] if level.by_spec else []
    if level.workloads:
        told.append(f"{level.workloads:,} {'workload' if level.workloads == 1 else 'workloads'}")
    if level.preferring:
        told.append(f"{level.preferring:,} prefer it")
    return ", ".join(told) or "-"
