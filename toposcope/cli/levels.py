"""List the levels of a topology: label key, coverage, domains and their sizes, and who requires them."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from toposcope.cli import command, errors
from toposcope.cli.output import counted, show_document, without_agent
from toposcope.cli.terminal import Screen, columns
from toposcope.snapshot.levels import LevelView, crossings_of, level_views
from toposcope.snapshot.scope import Scope, select_scope


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope levels`."""
    command.add_topology(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser, no_pods=True)


@command.on_screen("levels")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the levels; 1 when one lacks nodes, is required but missing, or does not nest."""
    snapshot = command.load_snapshot(arguments, pods=False)
    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise command.no_nodes(snapshot, scope)
    levels = level_views(scope)
    crossings = crossings_of(scope)
    problems = [*(scope.topology.problems if scope.topology else ()), *crossings.problems]
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(scope, levels, problems))
    elif arguments.output == "name":
        screen.show(level.domain for level in levels if level.in_topology)
    else:
        silent = [without_agent(scope)] if scope.without_agent else []
        screen.show(
            _page(
                screen,
                levels,
                [*problems, *silent],
                crossings.notes,
                wide=arguments.output == "wide",
            )
        )
    well = not (problems or any(level.problem for level in levels) or scope.without_agent)
    return errors.EXIT_OK if well else errors.EXIT_PROBLEMS


def document(scope: Scope, levels: Sequence[LevelView], problems: Sequence[str]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "topology": scope.name or None,
        "origin": scope.origin.value,
        "nodes": len(scope.nodes),
        "withoutAgent": [node.name for node in scope.without_agent],
        "levels": [_level(level) for level in levels],
        "problems": list(problems),
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
        "sizes": sizes
        and {"smallest": sizes.smallest, "median": sizes.median, "largest": sizes.largest},
        "required": {
            "bySpec": level.by_spec,
            "workloads": level.workloads,
            "preferring": level.preferring,
        },
        "problem": level.problem,
    }


def _page(
    screen: Screen,
    levels: Sequence[LevelView],
    problems: Sequence[str],
    notes: Sequence[str],
    *,
    wide: bool,
) -> Iterator[str]:
    header = ["LEVEL", "KEY", "NODES", "DOMAINS", "MIN", "MEDIAN", "MAX", "REQUIRED BY"]
    rows = []
    for level in levels:
        sizes = level.sizes
        row = [
            level.domain,
            level.key or "-",
            f"{level.nodes:,}/{level.nodes + level.missing:,}",
            f"{level.domains:,}",
        ]
        row += (
            [f"{n:,}" for n in (sizes.smallest, sizes.median, sizes.largest)]
            if sizes
            else ["-"] * 3
        )
        rows.append([*row, _required(level)])
    yield from columns(screen, header, rows, right=range(2, 7), spare=() if wide else (5, 4, 6))
    for level in levels:
        if level.problem:
            few = level.missing_nodes if wide else level.missing_nodes[:3]
            more = ", ..." if len(few) < level.missing else ""
            names = f": {', '.join(few)}{more}" if few else ""
            yield screen.paint(f"! {level.domain}: {level.problem}{names}", "yellow")
    for problem in problems:
        yield screen.paint(f"! {problem}", "yellow")
    for note in notes:
        yield screen.paint(f"note: {note}", "dim")


def _required(level: LevelView) -> str:
    requirers = ["spec"] if level.by_spec else []
    if level.workloads:
        requirers.append(counted(level.workloads, "workload"))
    if level.preferring:
        requirers.append(f"{level.preferring:,} prefer it")
    return ", ".join(requirers) or "-"
