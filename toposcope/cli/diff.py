"""Show what changed since a saved snapshot: levels, domains, nodes, where they are,
their state and hardware.
"""  # noqa: D205 - a paragraph of --help

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from toposcope.cli.command import add_source_arguments, load_snapshot, on_screen
from toposcope.cli.errors import CommandError, exit_code
from toposcope.cli.output import counted, show_document
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import Screen
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.snapshot.changes import Change, ChangeKind, changes, words
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import SAVE, Snapshot
from toposcope.snapshot.scope import select_scope

_MAX_NAMES: Final = 3
_WORSE: Final = frozenset({ChangeKind.DOMAIN_GONE, ChangeKind.NODE_GONE})
_BETTER: Final = frozenset({ChangeKind.DOMAIN_NEW, ChangeKind.NODE_NEW})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope diff`."""
    about = f"files or directories saved before with: toposcope save FILE, or {SAVE}"
    parser.add_argument("before", nargs="+", metavar="SNAPSHOT", help=about)
    parser.add_argument(
        "--topology", metavar="NAME", help="a ClusterTopology; default: the only one"
    )
    add_source_arguments(parser)


@on_screen("diff")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the changes; 1 when there are some, like `diff`."""
    old = _saved(arguments)
    new = load_snapshot(arguments, has_pods=False, has_published=bool(old.published))
    if old.catalogue == BUILT_IN:  # the saved file may have its own
        old = replace(old, catalogue=new.catalogue)

    before = select_scope(old, arguments.topology)
    after = select_scope(new, arguments.topology)
    between = changes(before, after, old.published, new.published)
    output = arguments.output
    if output in ("json", "yaml"):
        documents = [document(change) for change in between]
        show_document(screen, output, {"changes": documents})
    elif output == "name":
        screen.show(f"node/{name}" for name in _changed_nodes(between))
    elif not between:
        nodes = counted(len(new.nodes), "node")
        screen.show([f"no changes: {nodes}"])
    else:
        is_wide = output == "wide"
        screen.show(_lines(screen, between, is_wide=is_wide))

    return exit_code(is_ok=not between)


def _saved(arguments: argparse.Namespace) -> Snapshot:
    """The saved snapshot. Raises InputError, and CommandError where it has no nodes."""
    with ProgressLine(sys.stderr) as progress:
        snapshot = load_files(arguments.before, progress=progress, limit=arguments.from_limit)
    if not snapshot.nodes:
        raise CommandError(f"there are no nodes in {snapshot.source}; save them with: {SAVE}")
    return snapshot


def _changed_nodes(between: list[Change]) -> list[str]:
    names: set[str] = set()
    for change in between:
        names.update(change.nodes)
    return sorted(names)


def document(change: Change) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one change; docs/check.md describes it."""
    return {
        "kind": change.kind.value,
        "subject": change.subject,
        "before": change.before or None,
        "after": change.after or None,
        "nodes": list(change.nodes),
    }


def _lines(screen: Screen, between: list[Change], *, is_wide: bool) -> Iterator[str]:
    for change in between:
        count = len(change.nodes)
        names = change.nodes if is_wide else change.nodes[:_MAX_NAMES]
        text = words(change)
        if names:
            text += f": {', '.join(names)}"
        if len(names) < count:
            text += f", ... ({count} in all)"
        sign = _sign(screen, change.kind)
        yield f"{sign} {text}"


def _sign(screen: Screen, kind: ChangeKind) -> str:
    if kind in _WORSE:
        return screen.paint("-", "red")
    if kind in _BETTER:
        return screen.paint("+", "green")
    return screen.paint("~", "yellow")
