"""Show the hierarchy with counts: nodes, GPUs, free GPUs, problems.

Domains of the same shape share a line.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.cli import command, errors, summary
from toposcope.cli.output import (
    counted,
    gpus_of,
    level_notes,
    names_of,
    path_of,
    show_document,
    without_agent,
)
from toposcope.cli.terminal import Screen, complain, screen, shortened
from toposcope.hardware.matrix_annotation import reasons
from toposcope.integrations.registry import LEAVING_OUT
from toposcope.snapshot.filters import FAULTS, Mark
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
    Domain,
    Line,
    SharedGpus,
    left_out,
    outline,
    shared_gpus,
    tree,
)
from toposcope.text import enumerated, first_few, plural

_FEW: Final = 3
_HEADER: Final = ("NODES", "GPUS", "FREE")
_NARROWEST: Final = 24
_REMARK_INDENT: Final = 6
"""Where a remark begins that has no place in its line."""
_MOST_LINES: Final = 40
"""So many fit on a screen or two."""
_MANY_NODES: Final = 5_000
"""So many take a while to read."""
_BRANCH: Final = "├─ "
_LAST: Final = "└─ "
_BELOW: Final = {"": "", _BRANCH: "│  ", _LAST: "   "}
"""What stands below a branch."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the outline with its branches."""

    text: str
    line: Line
    of_many: bool
    """Whether it stands for the same place in many domains."""


@dataclass(frozen=True, slots=True)
class _Widths:
    """Widths of the outline's text, and of the counts beside it."""

    text: int
    counts: tuple[int, ...]

    def cells(self, counts: Sequence[str]) -> str:
        """The counts in their columns."""
        cells = []
        for count, width in zip(counts, self.counts, strict=True):
            cells.append(f"  {count:>{width}}")
        return "".join(cells)


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

    depth = arguments.depth
    if arguments.level:
        depth = scope.level(arguments.level) + 1

    root = tree(snapshot, scope)
    if arguments.output in ("json", "yaml"):
        shared = shared_gpus(snapshot, scope)
        show_document(screen, arguments.output, document(scope, root, depth, shared=shared))
    elif arguments.output == "name":
        screen.show(_names(root, "", len(scope.levels) if depth is None else depth))
    else:
        screen.show(_whole_page(screen, snapshot, scope, root, depth=depth, arguments=arguments))

    return errors.EXIT_OK if _is_healthy(scope, root) else errors.EXIT_PROBLEMS


def _is_healthy(scope: Scope, root: Domain) -> bool:
    """Whether no node is faulty, lacks a level or waits for its agent."""
    lacking, _ = left_out(root)
    if lacking or scope.without_agent:
        return False
    return not any(root.marks[mark] for mark in FAULTS)


def _whole_page(
    screen: Screen,
    snapshot: Snapshot,
    scope: Scope,
    root: Domain,
    *,
    depth: int | None,
    arguments: argparse.Namespace,
) -> list[str]:
    """What people see; where nobody asked for a depth, as many levels as fit."""
    wide = arguments.output == "wide"
    everything = arguments.all or wide
    shown = None
    if depth is None and not everything:
        shown = _depth(root, scope)

    top = outline(root, scope.levels, depth if shown is None else shown, everything=everything)
    lines = list(_page(screen, scope, root, top, _reasons(snapshot), wide=wide))
    lines.extend(screen.paint(shares, "dim") for shares in _shared_lines(snapshot, scope))
    if shown is not None:
        below = path_of(scope.levels[shown:])
        text = (
            f"below, and not shown: {below}; toposcope tree --depth {shown + 1} and more, or --all"
        )
        lines.append(screen.paint(text, "dim"))

    return lines


def _depth(root: Domain, scope: Scope) -> int | None:
    """How many levels to show so that nobody has to scroll far; None: all of them."""
    for depth in range(len(scope.levels), 0, -1):
        rows = _rows(outline(root, scope.levels, depth), root="")
        lines = sum(1 for _ in islice(rows, _MOST_LINES + 1))
        if lines <= _MOST_LINES:
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
    """On a terminal, show the controller's last count before a large cluster's nodes are read."""
    waiting = screen(sys.stderr, paging=False)
    if waiting.width is None:
        return

    try:
        topology = choose_topology(topologies, arguments.topology)
    except TopologyNotFoundError:
        return  # reported once everything is read

    if topology and summary.has_counts(topology) and topology.status["nodes"] >= _MANY_NODES:
        waiting.show(summary.page(waiting, topology))


def document(
    scope: Scope, root: Domain, depth: int | None = None, shared: Sequence[SharedGpus] = ()
) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    entry: dict[str, Any] = {
        "topology": scope.name or None,
        "origin": scope.origin.value,
        **level_notes(scope),
        "levels": [{"domain": level.domain, "key": level.key} for level in scope.levels],
    }
    lacking_nodes, lacking_gpus = left_out(root)
    if lacking_nodes:
        entry["leftOut"] = {"nodes": lacking_nodes, "gpus": lacking_gpus}

    if scope.without_agent:
        entry["withoutAgent"] = {
            "nodes": names_of(scope.without_agent),
            "gpus": gpus_of(scope.without_agent),
        }

    if shared:
        entry["shares"] = [_shared(shares) for shares in shared]

    return entry | _domain(scope, root, len(scope.levels) if depth is None else depth)


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
    for shares in shared_gpus(snapshot, scope):
        total = f"{shares.total:,} {shares.described}"
        if shares.free is not None:
            total = f"{shares.free:,} of {total} free"
        nodes = f"{counted(len(shares.nodes), 'node')} with {counted(shares.gpus, 'GPU')}"
        yield (
            f"not in FREE, as shares are no GPUs: {total} ({shares.resource}) "
            f"on {nodes}: {first_few(shares.nodes)}"
        )


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
    top = outline(root, scope.levels)
    yield from _page(screen, scope, root, top, _reasons(snapshot), wide=False)
    for shares in _shared_lines(snapshot, scope):
        yield screen.paint(shares, "dim")


def _page(
    screen: Screen,
    scope: Scope,
    root: Domain,
    top: Line,
    why: Callable[[str], tuple[str, ...]],
    *,
    wide: bool,
) -> Iterator[str]:
    yield screen.paint(_heading(scope), "dim")
    rows = list(_rows(top, root=scope.name or "all nodes"))
    widths = _widths(rows, None if wide else screen.width)
    yield screen.paint(" " * widths.text + widths.cells(_HEADER), "head")
    for row in rows:
        text = _fitted(row.text, widths.text).ljust(widths.text) + widths.cells(_counts(row))
        yield from _with_remark(screen, text, _remark(row.line, why))

    lacking_nodes, lacking_gpus = left_out(root)
    if lacking_nodes:
        nodes = f"{counted(lacking_nodes, 'node')} with {counted(lacking_gpus, 'GPU')}"
        lack, them = plural(lacking_nodes, "lacks", "lack"), plural(lacking_nodes, "it", "them")
        schedulers = enumerated(LEAVING_OUT)
        text = f"! of these, {nodes} {lack} a level: {schedulers} leave {them} out"
        yield screen.paint(text, "yellow")

    if scope.without_agent:
        yield screen.paint(f"! {without_agent(scope)}", "yellow")

    for note in level_notes(scope).values():
        yield screen.paint(f"note: {note}", "dim")


def _heading(scope: Scope) -> str:
    title = "no ClusterTopology; levels inferred from node labels"
    if scope.topology:
        title = f"ClusterTopology {scope.name}"
    if scope.origin is Origin.SPEC:
        title += ", levels from its spec"
    return f"{title}: {scope.path}"


def _widths(rows: Sequence[_Row], limit: int | None) -> _Widths:
    """The widths of a table of at most `limit` characters, if there is a limit."""
    text = nodes = gpus = free = 0
    for row in rows:
        text = max(text, len(row.text))
        nodes = max(nodes, len(f"{row.line.nodes:,}"))
        gpus = max(gpus, len(f"{row.line.gpus:,}"))
        free = max(free, len(_free(row.line)))

    counts = []
    for head, width in zip(_HEADER, (nodes, gpus, free), strict=True):
        counts.append(max(len(head), width))

    if limit is not None:
        beside = sum(counts) + 2 * len(counts)
        text = max(_NARROWEST, min(text, limit - beside - 1))

    return _Widths(text, tuple(counts))


def _counts(row: _Row) -> tuple[str, str, str]:
    """The cells of a row. One line stands for many: what is free differs between them."""
    line = row.line
    return f"{line.nodes:,}", f"{line.gpus:,}", "" if row.of_many else _free(line)


def _free(line: Line) -> str:
    return "-" if line.free is None else f"{line.free:,}"


def _with_remark(screen: Screen, text: str, remark: "_Remark | None") -> Iterator[str]:
    """The remark in the line that it is about, or below where it has no place there."""
    if remark is None:
        yield text
        return

    painted = screen.paint(remark.text, remark.style)
    if screen.width is not None and len(text) + 2 + len(remark.text) > screen.width:
        yield text.rstrip()
        yield screen.paint(" " * _REMARK_INDENT + remark.text, remark.style)
    else:
        yield f"{text}  {painted}"


@dataclass(frozen=True, slots=True)
class _Remark:
    """What to know about the domains of a line, and in which style."""

    text: str
    style: str


def _remark(line: Line, why: Callable[[str], tuple[str, ...]]) -> _Remark | None:
    marks: Counter[Mark] = +Counter(line.marks)
    if not marks:
        return None

    style = "yellow" if FAULTS.isdisjoint(marks) else "alarm"
    if line.nodes > 1:
        counts = ", ".join(f"{count} {mark}" for mark, count in marks.items())
        return _Remark(f"! {counts}", style)

    text = "! " + ", ".join(marks)
    if line.are_hosts:
        complaints = why(line.names[0])
        if complaints:
            text += f": {complaints[0]}"
        if len(complaints) > 1:
            text += f" (and {len(complaints) - 1} more)"

    return _Remark(text, style)


def _fitted(text: str, width: int) -> str:
    """The text in so many characters: names are cut before what they have in common."""
    common, colon, _ = text.partition(": ")
    if len(text) > width and colon and len(common) < width:
        return text[: width - 1] + "…"
    return shortened(text, width)


def _rows(
    line: Line, indent: str = "", branch: str = "", *, of_many: bool = False, root: str
) -> Iterator[_Row]:
    """The rows of a line and of those below it."""
    text = _text(line, named=not of_many) if line.levels else root
    yield _Row(indent + branch + text, line, of_many)
    indent += _BELOW[branch]
    of_many = of_many or len(line.names) > 1
    for number, child in enumerate(line.below, 1):
        last = number == len(line.below) and not line.left_out
        branch = _LAST if last else _BRANCH
        yield from _rows(child, indent, branch, of_many=of_many, root="")

    if line.left_out and line.lacking:
        lost = Line(
            levels=(),
            names=line.left_out,
            nodes=len(line.left_out),
            gpus=line.left_gpus,
            free=line.left_free,
            marks={},
            are_equal=True,
        )
        yield _Row(f"{indent}{_LAST}! {_lost(line.left_out, line.lacking)}", lost, of_many)


def _lost(names: tuple[str, ...], level: Level) -> str:
    count = "1 node lacks" if len(names) == 1 else f"{len(names)} nodes lack"
    return f"{count} {level.domain} ({level.key}): {_span(names)}"


def _text(line: Line, *, named: bool) -> str:
    """What the line is about; without names where it stands for many."""
    count = len(line.names)
    if count == 1:
        return f"{line.level} {line.names[0]}" if named else f"1 {line.level}"

    several = " = ".join(f"{name}s" for name in line.levels)
    if not line.are_equal:
        return f"{count:,} more unhealthy {several}: {_span(line.names)}"

    text = f"{count:,} {several}, each {_holding(line)}"
    return f"{text}: {_span(line.names)}" if named else text


def _holding(line: Line) -> str:
    """What each of the line's equal domains holds."""
    domains = len(line.names)
    gpus = counted(line.gpus // domains, "GPU")
    if line.are_hosts:
        return gpus
    return f"{counted(line.nodes // domains, 'node')}, {gpus}"


def _span(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= _FEW else f"{names[0]} ... {names[-1]}"
