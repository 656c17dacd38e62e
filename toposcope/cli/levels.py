"""List the levels of a topology: label key, coverage, domains and their sizes,
and who requires them.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.cli import command, errors
from toposcope.cli.hints import hint_lines, hints_field
from toposcope.cli.output import (
    NO_TOPOLOGY,
    counted,
    level_notes,
    names_of,
    show_document,
    without_agent,
)
from toposcope.cli.terminal import Screen, columns
from toposcope.snapshot.levels import LevelView, crossings_of, level_views
from toposcope.snapshot.scope import Scope, select_scope

_HEADER: Final = ("LEVEL", "KEY", "NODES", "DOMAINS", "MIN", "MEDIAN", "MAX", "REQUIRED BY")
_MAX_NAMES: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope levels`."""
    command.add_topology(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser, is_without_pods=True)


@command.on_screen("levels")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the levels; 1 when one lacks nodes, is required but missing, or does not nest.

    Also 1 when there is no ClusterTopology, as `toposcope status` says.
    """
    snapshot = command.load_snapshot(arguments, has_pods=False)
    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise command.no_nodes(snapshot, scope)

    levels = level_views(scope)
    crossings = crossings_of(scope)
    problems = [*_spec_problems(scope), *crossings.problems]
    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, document(scope, levels, problems))
    elif output == "name":
        screen.show(level.domain for level in levels if level.is_in_topology)
    else:
        remarks = [*problems, *_remarks(scope)]
        is_wide = output == "wide"
        notes = [*level_notes(scope).values(), *crossings.notes]
        lines = list(_page(screen, levels, remarks, notes, is_wide=is_wide))
        lines += hint_lines(screen, scope)
        screen.show(lines)

    has_problems = bool(problems) or any(level.problem for level in levels)
    is_known = not scope.without_agent and not scope.lacks_topology
    return errors.exit_code(is_ok=is_known and not has_problems)


def _remarks(scope: Scope) -> Iterator[str]:
    """What is wrong besides the levels."""
    if scope.lacks_topology:
        yield NO_TOPOLOGY
    if scope.without_agent:
        yield without_agent(scope)


def _spec_problems(scope: Scope) -> Sequence[str]:
    return scope.topology.problems if scope.topology else ()


def document(scope: Scope, levels: Sequence[LevelView], problems: Sequence[str]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    return {
        "topology": scope.name or None,
        "origin": scope.origin.value,
        **level_notes(scope),
        "nodes": len(scope.nodes),
        "withoutAgent": names_of(scope.without_agent),
        "levels": [_level(level) for level in levels],
        "problems": list(problems),
        **hints_field(scope),
    }


def _level(level: LevelView) -> dict[str, Any]:
    sizes = None
    if level.sizes:
        sizes = {
            "smallest": level.sizes.smallest,
            "median": level.sizes.median,
            "largest": level.sizes.largest,
        }
    return {
        "domain": level.domain,
        "key": level.key or None,
        "inTopology": level.is_in_topology,
        "nodes": level.nodes,
        "missing": level.missing,
        "missingNodes": list(level.missing_nodes),
        "usable": level.usable,
        "domains": level.domains,
        "sizes": sizes,
        "required": {
            "bySpec": level.is_required_by_spec,
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
    is_wide: bool,
) -> Iterator[str]:
    rows = [_row(level) for level in levels]
    spare = () if is_wide else (5, 4, 6)
    yield from columns(screen, _HEADER, rows, right=range(2, 7), spare=spare)
    for level in levels:
        if level.problem:
            nodes = _missing(level, is_wide=is_wide)
            text = f"! {level.domain}: {level.problem}{nodes}"
            yield screen.paint(text, "yellow")
    for problem in problems:
        yield screen.paint(f"! {problem}", "yellow")
    for note in notes:
        yield screen.paint(f"note: {note}", "dim")


def _row(level: LevelView) -> list[str]:
    smallest = median = largest = "-"
    if level.sizes:
        smallest = f"{level.sizes.smallest:,}"
        median = f"{level.sizes.median:,}"
        largest = f"{level.sizes.largest:,}"

    return [
        level.domain,
        level.key or "-",
        f"{level.nodes:,}/{level.nodes + level.missing:,}",
        f"{level.domains:,}",
        smallest,
        median,
        largest,
        _required(level),
    ]


def _missing(level: LevelView, *, is_wide: bool) -> str:
    """The nodes that lack the level, or the first few."""
    names = level.missing_nodes if is_wide else level.missing_nodes[:_MAX_NAMES]
    if not names:
        return ""
    more = ", ..." if len(names) < level.missing else ""
    return f": {', '.join(names)}{more}"


def _required(level: LevelView) -> str:
    requirers = ["spec"] if level.is_required_by_spec else []
    if level.workloads:
        requirers.append(counted(level.workloads, "workload"))
    if level.preferring:
        requirers.append(f"{level.preferring:,} prefer it")
    return ", ".join(requirers) or "-"
