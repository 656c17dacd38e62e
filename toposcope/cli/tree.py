"""Show the hierarchy with counts: nodes, GPUs, free GPUs, problems.

Domains of the same shape share a line.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.cli import command, errors, summary
from toposcope.cli.output import counted, first_few, show_document, without_agent
from toposcope.cli.terminal import Screen, complain, screen, shortened
from toposcope.hardware.matrix_annotation import reasons
from toposcope.snapshot.filters import FAULTS
from toposcope.snapshot.live import ForbiddenError
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import (
    Origin,
    Scope,
    TopologyNotFoundError,
    choose_topology,
    select_scope,
)
from toposcope.snapshot.tree import (
    HOST,
    Domain,
    Line,
    SharedGpus,
    left_out,
    outline,
    shared_gpus,
    tree,
)
from toposcope.text import plural

_FEW: Final = 3
_HEADER: Final = ("NODES", "GPUS", "FREE")
_NARROWEST: Final = 24
_REMARK: Final = 6
"""Where a remark begins that has no place in its line."""
_MOST_LINES: Final = 40
"""So many fit on a screen or two."""
_MANY: Final = 5_000
"""So many nodes take a while to read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope tree`."""
    command.add_topology(parser)
    deep = parser.add_mutually_exclusive_group()
    deep.add_argument("--depth", type=int, metavar="N", help="show N levels; default: all")
    deep.add_argument(
        "--level", metavar="NAME", help="show the levels down to this one, such as rack"
    )
    deep.add_argument(
        "--summary",
        action="store_true",
        help="show the controller's last count: one request, however many nodes",
    )
    parser.add_argument("--all", action="store_true", help="give each domain its own line")
    parser.add_argument(
        "--no-pods", action="store_true", help="do not read pods: faster, but free GPUs are unknown"
    )
    command.add_source_arguments(parser)
    command.add_watch(parser)


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the tree; 1 when a node is unhealthy or lacks a level."""
    if arguments.depth is not None and arguments.depth < 0:
        parser.error(f"--depth {arguments.depth}: must not be negative")
    return command.run_command("tree", arguments, lambda screen: _run(screen, arguments))


def _run(screen: Screen, arguments: argparse.Namespace) -> int:
    if arguments.summary:
        return _summary(screen, arguments)
    # Names need no pods.
    pods = not arguments.no_pods and arguments.output != "name"
    try:
        snapshot = command.load_snapshot(
            arguments, pods=pods, on_topologies=lambda topologies: _preview(topologies, arguments)
        )
    except ForbiddenError as error:
        return _without_nodes(screen, arguments, error)
    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise command.no_nodes(snapshot, scope)
    depth = scope.level(arguments.level) + 1 if arguments.level else arguments.depth
    root = tree(snapshot, scope)
    if arguments.output in ("json", "yaml"):
        shared = shared_gpus(snapshot, scope)
        show_document(screen, arguments.output, document(scope, root, depth, shared=shared))
    elif arguments.output == "name":
        screen.show(_names(root, "", len(scope.levels) if depth is None else depth))
    else:
        wide = arguments.output == "wide"
        everything = arguments.all or wide
        top = outline(root, scope.levels, depth, everything=everything)
        shown = None if everything or depth is not None else _depth(root, scope)
        if shown is not None:
            top = outline(root, scope.levels, shown)
        lines = [*_page(screen, scope, root, top, _reasons(snapshot), wide=wide)]
        lines += [screen.paint(line, "dim") for line in _shared_lines(snapshot, scope)]
        if shown is not None:
            below = " > ".join(level.domain for level in scope.levels[shown:])
            text = f"below, and not shown: {below}; toposcope tree --depth {shown + 1} and more, or --all"
            lines.append(screen.paint(text, "dim"))
        screen.show(lines)
    ill = any(left_out(root)) or scope.without_agent or any(root.marks[mark] for mark in FAULTS)
    return errors.EXIT_PROBLEMS if ill else errors.EXIT_OK


def _depth(root: Domain, scope: Scope) -> int | None:
    """How many levels to show so that nobody has to scroll far; None: all of them."""
    for depth in range(len(scope.levels), 0, -1):
        top = outline(root, scope.levels, depth)
        if (
            sum(1 for _ in islice(_rows(top, "", "", of_many=False, root=""), _MOST_LINES + 1))
            <= _MOST_LINES
        ):
            return depth if depth < len(scope.levels) else None
    return 1


def _summary(screen: Screen, arguments: argparse.Namespace) -> int:
    """What the status of the ClusterTopology says, without reading nodes."""
    topology = choose_topology(
        command.load_topologies_only(arguments).topologies, arguments.topology
    )
    if topology is None or not summary.has_counts(topology):
        raise errors.CommandError(
            "no controller has written its counts yet; run it without --summary"
        )
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, summary.document(topology))
    elif arguments.output == "name":
        screen.show([topology.name])
    else:
        screen.show(summary.page(screen, topology))
    return errors.EXIT_OK if summary.well(topology) else errors.EXIT_PROBLEMS


def _without_nodes(screen: Screen, arguments: argparse.Namespace, error: ForbiddenError) -> int:
    """Where nodes cannot be listed, show people the controller's last count.

    Raises ForbiddenError for programs.
    """
    topology = choose_topology(error.topologies, arguments.topology)
    if (
        topology is None
        or not summary.has_counts(topology)
        or arguments.output not in ("table", "wide")
    ):
        raise error
    screen.show(summary.page(screen, topology))
    complain(f"toposcope tree: {error}; this is the controller's last count, as with --summary")
    return errors.EXIT_ERROR


def _preview(topologies: Sequence[Topology], arguments: argparse.Namespace) -> None:
    """On a terminal, show the controller's last count before the nodes of a large cluster have been read."""
    waiting = screen(sys.stderr, paging=False)
    if waiting.width is None:
        return
    try:
        topology = choose_topology(topologies, arguments.topology)
    except TopologyNotFoundError:
        return  # reported once everything is read
    if topology and summary.has_counts(topology) and topology.status["nodes"] >= _MANY:
        waiting.show(summary.page(waiting, topology))


def document(
    scope: Scope, root: Domain, depth: int | None = None, shared: Sequence[SharedGpus] = ()
) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    nodes, gpus = left_out(root)
    silent = scope.without_agent
    return {
        "topology": scope.name or None,
        "origin": scope.origin.value,
        "levels": [{"domain": level.domain, "key": level.key} for level in scope.levels],
        **({"leftOut": {"nodes": nodes, "gpus": gpus}} if nodes else {}),
        **(
            {
                "withoutAgent": {
                    "nodes": [n.name for n in silent],
                    "gpus": sum(n.gpus for n in silent),
                }
            }
            if silent
            else {}
        ),
        **({"shares": [_shared(one) for one in shared]} if shared else {}),
        **_domain(scope, root, len(scope.levels) if depth is None else depth),
    }


def _shared(shared: SharedGpus) -> dict[str, Any]:
    entry: dict[str, Any] = {"resource": shared.resource, "unit": shared.unit.value}
    if shared.profile:
        entry["profile"] = shared.profile
    return entry | {
        "nodes": [*shared.nodes],
        "gpus": shared.gpus,
        "total": shared.total,
        "free": shared.free,
    }


def _shared_lines(snapshot: Snapshot, scope: Scope) -> Iterator[str]:
    """A line for each kind of shares: what FREE leaves out."""
    for shared in shared_gpus(snapshot, scope):
        free = "" if shared.free is None else f"{shared.free:,} of "
        left = "" if shared.free is None else " free"
        total = f"{free}{shared.total:,} {shared.described}{left}"
        nodes = f"{counted(len(shared.nodes), 'node')} with {counted(shared.gpus, 'GPU')}"
        yield f"not in FREE, as shares are no GPUs: {total} ({shared.resource}) on {nodes}: {first_few(shared.nodes)}"


def _domain(scope: Scope, domain: Domain, depth: int) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if domain.depth:
        entry |= {"level": scope.levels[domain.depth - 1].domain, "value": domain.value}
    entry |= {"nodes": domain.nodes, "gpus": domain.gpus, "freeGpus": domain.free}
    if domain.marks:
        entry["marks"] = {mark.value: domain.marks[mark] for mark in sorted(domain.marks)}
    if domain.left_out:
        level = scope.levels[domain.depth].domain
        entry["lacking"] = {
            "level": level,
            "nodes": sorted(domain.left_out),
            "gpus": domain.left_gpus,
        }
    if domain.depth < depth and domain.children:
        entry["domains"] = [_domain(scope, child, depth) for child in domain.children.values()]
    return entry


def _names(domain: Domain, path: str, depth: int) -> Iterator[str]:
    """Paths of values, one per line: no label value has a slash."""
    for child in domain.children.values():
        inner = f"{path}/{child.value}" if path else child.value
        yield inner
        if child.depth < depth:
            yield from _names(child, inner, depth)


def _reasons(snapshot: Snapshot) -> Callable[[str], tuple[str, ...]]:
    """Why a node is degraded, by its name: only those of nodes shown are parsed."""

    def why(name: str) -> tuple[str, ...]:
        node = snapshot.by_name.get(name)
        return reasons(node.matrix) if node else ()

    return why


def tree_lines(screen: Screen, snapshot: Snapshot) -> Iterator[str]:
    """The whole tree of a snapshot's topology, as `toposcope tree` prints it."""
    scope = select_scope(snapshot)
    root = tree(snapshot, scope)
    yield from _page(
        screen, scope, root, outline(root, scope.levels), _reasons(snapshot), wide=False
    )
    yield from (screen.paint(line, "dim") for line in _shared_lines(snapshot, scope))


def _page(
    screen: Screen,
    scope: Scope,
    root: Domain,
    top: Line,
    why: Callable[[str], tuple[str, ...]],
    *,
    wide: bool,
) -> Iterator[str]:
    title = (
        f"ClusterTopology {scope.name}"
        if scope.topology
        else "no ClusterTopology; levels inferred from node labels"
    )
    kept = ", levels from its spec" if scope.origin is Origin.SPEC else ""
    yield screen.paint(f"{title}{kept}: {scope.path}", "dim")
    rows = list(_rows(top, "", "", of_many=False, root=scope.name or "all nodes"))
    numbers = [
        [f"{line.nodes:,}", f"{line.gpus:,}", "-" if line.free is None else f"{line.free:,}"]
        for _, line, _ in rows
    ]
    widths = [max(len(head), *(len(row[i]) for row in numbers)) for i, head in enumerate(_HEADER)]
    beside = sum(widths) + 2 * len(widths)
    longest = max(len(text) for text, _, _ in rows)
    if screen.width is not None and not wide:
        longest = max(_NARROWEST, min(longest, screen.width - beside - 1))
    yield screen.paint(
        " " * longest
        + "".join(f"  {head:>{width}}" for head, width in zip(_HEADER, widths, strict=True)),
        "head",
    )
    for (text, line, of_many), row in zip(rows, numbers, strict=True):
        # One line stands for many: what is free differs between them.
        cells = [*row[:2], ""] if of_many else row
        counts = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        shown = _fitted(text, longest).ljust(longest) + counts
        remark, style = _remarks(line, why)
        if remark and screen.width is not None and len(shown) + 2 + len(remark) > screen.width:
            yield shown.rstrip()
            yield screen.paint(f"{'':{_REMARK}}{remark}", style)
        else:
            yield shown + (f"  {screen.paint(remark, style)}" if remark else "")
    nodes, gpus = left_out(root)
    if nodes:
        text = f"of these, {counted(nodes, 'node')} with {counted(gpus, 'GPU')} {plural(nodes, 'lacks', 'lack')} a level"
        yield screen.paint(
            f"! {text}: KAI and Kueue leave {plural(nodes, 'it', 'them')} out", "yellow"
        )
    if scope.without_agent:
        yield screen.paint(f"! {without_agent(scope)}", "yellow")


def _fitted(text: str, width: int) -> str:
    """The text in so many characters: names are cut before what they have in common."""
    common, colon, _ = text.partition(": ")
    if len(text) > width and colon and len(common) < width:
        return text[: width - 1] + "…"
    return shortened(text, width)


def _remarks(line: Line, why: Callable[[str], tuple[str, ...]]) -> tuple[str, str]:
    """What to know about the domains of a line, and in which style."""
    parts = [
        f"{count} {mark}" if line.nodes > 1 else mark.value
        for mark, count in line.marks.items()
        if count
    ]
    broken = any(line.marks.get(mark) for mark in FAULTS)
    text = ", ".join(parts)
    if (
        text
        and line.level.endswith(HOST)
        and line.nodes == 1
        and (complaints := why(line.names[0]))
    ):
        text += f": {complaints[0]}" + (
            f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
        )
    return f"! {text}" if text else "", "alarm" if broken else "yellow"


def _rows(
    line: Line, indent: str, branch: str, *, of_many: bool, root: str
) -> Iterator[tuple[str, Line, bool]]:
    """Each line's text, the line, and whether it stands for the same place in many domains."""
    yield indent + branch + (_text(line, named=not of_many) if line.level else root), line, of_many
    inner = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    of_many = of_many or len(line.names) > 1
    below = list(line.below)
    for number, child in enumerate(below, 1):
        last = number == len(below) and not line.left_out
        yield from _rows(child, inner, "└─ " if last else "├─ ", of_many=of_many, root="")
    if line.left_out and line.lacking:
        lost = Line(
            "", line.left_out, len(line.left_out), line.left_gpus, line.left_free, {}, alike=True
        )
        yield inner + "└─ ! " + _lost(line.left_out, line.lacking), lost, of_many


def _lost(names: tuple[str, ...], level: Level) -> str:
    count = "1 node lacks" if len(names) == 1 else f"{len(names)} nodes lack"
    return f"{count} {level.domain} ({level.key}): {_span(names)}"


def _text(line: Line, *, named: bool) -> str:
    """What the line is about; without names where it stands for many."""
    count = len(line.names)
    if count == 1:
        return f"{line.level} {line.names[0]}" if named else f"1 {line.level}"
    several = " = ".join(f"{name}s" for name in line.level.split(" = "))
    if not line.alike:
        return f"{count:,} more unhealthy {several}: {_span(line.names)}"
    text = f"{count:,} {several}, each {_holding(line)}"
    return f"{text}: {_span(line.names)}" if named else text


def _holding(line: Line) -> str:
    nodes, gpus = line.nodes // len(line.names), line.gpus // len(line.names)
    counts = [] if line.level.endswith(HOST) else [counted(nodes, "node")]
    return ", ".join([*counts, counted(gpus, "GPU")])


def _span(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} ... {names[-1]}"
