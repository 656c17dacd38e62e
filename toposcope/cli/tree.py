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
from toposcope.cli.hints import hint_lines, hints_field
from toposcope.cli.output import (
    counted,
    gpus_of,
    level_notes,
    names_of,
    path_of,
    show_document,
    without_agent,
)
from toposcope.cli.reach import (
    add_like,
    add_tolerate,
    reach_document,
    reach_lines,
    shape_for,
)
from toposcope.cli.terminal import Screen, complain, screen, shortened
from toposcope.hardware.matrix_annotation import reasons
from toposcope.integrations.registry import LEAVING_OUT
from toposcope.snapshot.filters import FAULTS, Mark
from toposcope.snapshot.live import ForbiddenError
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.reach import Reach
from toposcope.snapshot.scope import (
    Origin,
    Scope,
    TopologyNotFoundError,
    choose_topology,
    select_scope,
)
from toposcope.snapshot.tree import (
    Line,
    SharedGpus,
    TreeDomain,
    left_out,
    outline,
    shared_gpus,
    tree,
)
from toposcope.text import enumerated, first_few, plural

_MAX_NAMES: Final = 3
_HEADER: Final = ("NODES", "GPUS", "FREE")
_BLOCKED: Final = "BLOCKED"
"""The column of free GPUs that a pod of typical shape cannot get; only where there are any."""
_MIN_OUTLINE_CHARACTERS: Final = 24
_MARKS: Final = sorted(Mark, key=lambda mark: mark not in FAULTS)
"""What is broken before what may be intended."""
_REMARK_INDENT_CHARACTERS: Final = 6
"""The indent of a remark that does not fit into its line."""
_MOST_LINES: Final = 40
"""A screen or two."""
_MANY_NODES: Final = 5_000
"""Reading them takes a while."""
_BRANCH: Final = "├─ "
_LAST: Final = "└─ "
_BELOW: Final = {"": "", _BRANCH: "│  ", _LAST: "   "}
"""What stands below a branch."""


@dataclass(frozen=True, slots=True)
class _Label:
    """The text of a line before its counts."""

    common: str
    """What the domains have in common, with branches before it."""
    names: str = ""
    """The names of the domains, behind the common part; empty where there are none."""

    @property
    def text(self) -> str:
        """The whole text, however wide it is."""
        if self.names:
            return f"{self.common}: {self.names}"
        return self.common

    def fitted(self, width: int) -> str:
        """The text in at most `width` characters: names are cut before what they have in common."""
        text = self.text
        if len(text) > width and self.names and len(self.common) < width:
            return text[: width - 1] + "…"
        return shortened(text, width)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the outline with its branches."""

    label: _Label
    line: Line
    is_repeated: bool
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
    add_like(parser)
    add_tolerate(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser)


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the tree; 1 when a node is unhealthy or lacks a level, or without ClusterTopology."""
    depth = arguments.depth
    if depth is not None and depth < 0:
        parser.error(f"--depth {depth}: must not be negative")

    def work(screen: Screen) -> int:
        return _run(screen, arguments)

    return command.run_command("tree", arguments, work)


def _run(screen: Screen, arguments: argparse.Namespace) -> int:
    if arguments.summary:
        return _summary(screen, arguments)

    def preview(topologies: Sequence[Topology]) -> None:
        _preview(topologies, arguments)

    # Names need no pods.
    has_pods = not arguments.no_pods and arguments.output != "name"
    try:
        snapshot = command.load_snapshot(
            arguments, has_pods=has_pods, has_published=bool(arguments.like), on_topologies=preview
        )
    except ForbiddenError as error:
        return _without_nodes(screen, arguments, error)

    scope = select_scope(snapshot, arguments.topology)
    if not scope.nodes:
        raise command.no_nodes(snapshot, scope)

    depth = arguments.depth
    if arguments.level:
        depth = scope.level(arguments.level) + 1

    reach = _reach(arguments, snapshot, scope)
    root = tree(snapshot, scope, reach)
    output = arguments.output
    if output in ("json", "yaml"):
        shared = shared_gpus(snapshot, scope)
        fields = document(scope, root, depth, shared=shared)
        if reach:
            fields |= reach_document(reach)
        show_document(screen, output, fields)
    elif output == "name":
        shown_depth = len(scope.levels) if depth is None else depth
        screen.show(_names(root, "", shown_depth))
    else:
        page = _whole_page(
            screen,
            snapshot,
            scope,
            root,
            depth=depth,
            arguments=arguments,
            reach=reach,
        )
        screen.show(page)

    return errors.exit_code(is_ok=_is_healthy(scope, root))


def _reach(arguments: argparse.Namespace, snapshot: Snapshot, scope: Scope) -> Reach | None:
    """What keeps pods from free GPUs; None where pods are not known."""
    if snapshot.pods is None:
        return None
    return Reach(snapshot, scope, shape_for(arguments, snapshot))


def _is_healthy(scope: Scope, root: TreeDomain) -> bool:
    """Whether no node is faulty, lacks a level or waits for its agent, in a ClusterTopology."""
    lacking, _ = left_out(root)
    if lacking or scope.without_agent or scope.lacks_topology:
        return False
    return not any(root.marks[mark] for mark in FAULTS)


def _whole_page(
    screen: Screen,
    snapshot: Snapshot,
    scope: Scope,
    root: TreeDomain,
    *,
    depth: int | None,
    arguments: argparse.Namespace,
    reach: Reach | None,
) -> list[str]:
    """The page for people; without `--depth` or `--level` it has as many levels as fit."""
    is_wide = arguments.output == "wide"
    everything = arguments.all or is_wide
    shown = None
    if depth is None and not everything:
        shown = _depth(root, scope)

    outline_depth = depth if shown is None else shown
    top = outline(root, scope.levels, outline_depth, everything=everything)
    why = _reasons(snapshot)
    lines = list(_page(screen, scope, root, top, why, is_wide=is_wide))
    for shares in _shared_lines(snapshot, scope):
        lines.append(screen.paint(shares, "dim"))
    if reach:
        lines += reach_lines(screen, reach, is_wide=is_wide)

    if shown is not None:
        hidden = path_of(scope.levels[shown:])
        flags = f"--depth {shown + 1} and more, or --all"
        text = f"below, and not shown: {hidden}; toposcope tree {flags}"
        lines.append(screen.paint(text, "dim"))
    return lines


def _depth(root: TreeDomain, scope: Scope) -> int | None:
    """How many levels fit on a screen or two; None: all of them."""
    every_level = len(scope.levels)
    for depth in range(every_level, 0, -1):
        top = outline(root, scope.levels, depth)
        rows = list(islice(_rows(top, root=""), _MOST_LINES + 1))
        if len(rows) <= _MOST_LINES:
            return depth if depth < every_level else None
    return 1


def _summary(screen: Screen, arguments: argparse.Namespace) -> int:
    """Show the counts in the ClusterTopology's status, without reading nodes."""
    snapshot = command.load_topologies_only(arguments)
    topology = choose_topology(snapshot.topologies, arguments.topology)
    if topology is None or not summary.has_counts(topology):
        raise errors.CommandError(
            "no controller has written its counts yet; run it without --summary"
        )

    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, summary.document(topology))
    elif output == "name":
        screen.show([topology.name])
    else:
        screen.show(summary.page(screen, topology))
    return errors.exit_code(is_ok=summary.is_healthy(topology))


def _without_nodes(screen: Screen, arguments: argparse.Namespace, error: ForbiddenError) -> int:
    """Show people the controller's last count where nodes cannot be listed.

    Raises ForbiddenError where the output is for programs.
    """
    topology = choose_topology(error.topologies, arguments.topology)
    is_for_people = arguments.output in ("table", "wide")
    if topology is None or not is_for_people or not summary.has_counts(topology):
        raise error

    screen.show(summary.page(screen, topology))
    complain(f"toposcope tree: {error}; this is the controller's last count, as with --summary")
    return errors.EXIT_ERROR


def _preview(topologies: Sequence[Topology], arguments: argparse.Namespace) -> None:
    """On a terminal, show the controller's last count before a large cluster's nodes are read."""
    terminal = screen(sys.stderr, can_page=False)
    if terminal.width is None:
        return
    try:
        topology = choose_topology(topologies, arguments.topology)
    except TopologyNotFoundError:
        return  # reported once everything is read

    if topology is None or not summary.has_counts(topology):
        return
    if topology.status["nodes"] >= _MANY_NODES:
        terminal.show(summary.page(terminal, topology))


def document(
    scope: Scope, root: TreeDomain, depth: int | None = None, shared: Sequence[SharedGpus] = ()
) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    levels = []
    for level in scope.levels:
        levels.append({"domain": level.domain, "key": level.key})

    entry: dict[str, Any] = {
        "topology": scope.name or None,
        "origin": scope.origin.value,
        **level_notes(scope),
        "levels": levels,
        **hints_field(scope),
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

    if depth is None:
        depth = len(scope.levels)
    return entry | _domain(scope, root, depth)


def _shared(shared: SharedGpus) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": shared.resource,
        "unit": shared.unit.value,
    }
    if shared.profile:
        entry["profile"] = shared.profile
    return entry | {
        "nodes": list(shared.nodes),
        "gpus": shared.gpus,
        "total": shared.total,
        "free": shared.free,
    }


def _shared_lines(snapshot: Snapshot, scope: Scope) -> Iterator[str]:
    """A line for each kind of shares, which FREE leaves out."""
    for shares in shared_gpus(snapshot, scope):
        total = f"{shares.total:,} {shares.described}"
        if shares.free is not None:
            total = f"{shares.free:,} of {total} free"
        nodes = counted(len(shares.nodes), "node")
        gpus = counted(shares.gpus, "GPU")
        names = first_few(shares.nodes)
        yield (
            f"not in FREE, because shares are not GPUs: {total} ({shares.resource}) "
            f"on {nodes} with {gpus}: {names}"
        )


def _domain(scope: Scope, domain: TreeDomain, depth: int) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if domain.depth:
        entry["level"] = scope.levels[domain.depth - 1].domain
        entry["value"] = domain.value
    entry["nodes"] = domain.nodes
    entry["gpus"] = domain.gpus
    entry["freeGpus"] = domain.free
    if domain.blocked:
        entry["blockedGpus"] = {why.value: gpus for why, gpus in domain.blocked.items()}
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
        children = domain.children.values()
        entry["domains"] = [_domain(scope, child, depth) for child in children]
    return entry


def _names(domain: TreeDomain, path: str, depth: int) -> Iterator[str]:
    """The paths of all domains below this one; no label value has a slash."""
    for child in domain.children.values():
        child_path = child.value
        if path:
            child_path = f"{path}/{child.value}"
        yield child_path
        if child.depth < depth:
            yield from _names(child, child_path, depth)


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
    why = _reasons(snapshot)
    yield from _page(screen, scope, root, top, why, is_wide=False)
    for shares in _shared_lines(snapshot, scope):
        yield screen.paint(shares, "dim")


def _page(
    screen: Screen,
    scope: Scope,
    root: TreeDomain,
    top: Line,
    why: Callable[[str], tuple[str, ...]],
    *,
    is_wide: bool,
) -> Iterator[str]:
    yield screen.paint(_heading(scope), "dim")
    rows = list(_rows(top, root=scope.name or "all nodes"))
    limit = None if is_wide else screen.width
    widths = _widths(rows, limit)
    indent = " " * widths.text
    header = _header(rows)
    yield screen.paint(indent + widths.cells(header), "head")
    for row in rows:
        text = row.label.fitted(widths.text).ljust(widths.text)
        counts = widths.cells(_counts(row)[: len(header)])
        yield from _with_remark(screen, text + counts, _remark(row.line, why))

    lacking_nodes, lacking_gpus = left_out(root)
    if lacking_nodes:
        nodes = counted(lacking_nodes, "node")
        gpus = counted(lacking_gpus, "GPU")
        lack = plural(lacking_nodes, "lacks", "lack")
        them = plural(lacking_nodes, "it", "them")
        schedulers = enumerated(LEAVING_OUT)
        text = f"! of these, {nodes} with {gpus} {lack} a level: {schedulers} leave {them} out"
        yield screen.paint(text, "yellow")

    if scope.without_agent:
        yield screen.paint(f"! {without_agent(scope)}", "yellow")

    for note in level_notes(scope).values():
        yield screen.paint(f"note: {note}", "dim")
    yield from hint_lines(screen, scope)


def _heading(scope: Scope) -> str:
    title = "no ClusterTopology; levels inferred from node labels"
    if scope.topology:
        title = f"ClusterTopology {scope.name}"
    if scope.origin is Origin.SPEC:
        title += ", levels from its spec"
    return f"{title}: {scope.path}"


def _header(rows: Sequence[_Row]) -> Sequence[str]:
    """The heads of the columns beside the outline."""
    if any(row.line.blocked_of_free for row in rows):
        return (*_HEADER, _BLOCKED)
    return _HEADER


def _widths(rows: Sequence[_Row], limit: int | None) -> _Widths:
    """The widths of a table of at most `limit` characters, if there is a limit."""
    text = 0
    counts = [len(head) for head in _header(rows)]
    for row in rows:
        text = max(text, len(row.label.text))
        cells = (
            f"{row.line.nodes:,}",
            f"{row.line.gpus:,}",
            _free(row.line),
            _blocked(row.line),
        )
        for column, cell in enumerate(cells[: len(counts)]):
            counts[column] = max(counts[column], len(cell))

    if limit is not None:
        gaps = 2 * len(counts)
        remaining = limit - sum(counts) - gaps - 1
        text = max(_MIN_OUTLINE_CHARACTERS, min(text, remaining))
    return _Widths(text, tuple(counts))


def _counts(row: _Row) -> Sequence[str]:
    """The cells of a row; one that stands for many has nothing in FREE, where they differ."""
    nodes = f"{row.line.nodes:,}"
    gpus = f"{row.line.gpus:,}"
    if row.is_repeated:
        return nodes, gpus, "", ""
    return nodes, gpus, _free(row.line), _blocked(row.line)


def _free(line: Line) -> str:
    if line.free is None:
        return "-"
    return f"{line.free:,}"


def _blocked(line: Line) -> str:
    """The free GPUs that are blocked; nothing where none are."""
    return f"{line.blocked_of_free:,}" if line.blocked_of_free else ""


def _with_remark(screen: Screen, text: str, remark: "_Remark | None") -> Iterator[str]:
    """The line with its remark, which stands below where it does not fit."""
    if remark is None:
        yield text
        return

    width = len(text) + 2 + len(remark.text)
    if screen.width is not None and width > screen.width:
        indent = " " * _REMARK_INDENT_CHARACTERS
        yield text.rstrip()
        yield screen.paint(indent + remark.text, remark.style)
    else:
        painted = screen.paint(remark.text, remark.style)
        yield f"{text}  {painted}"


@dataclass(frozen=True, slots=True)
class _Remark:
    """A remark on the domains of a line, and its style."""

    text: str
    style: str


def _remark(line: Line, why: Callable[[str], tuple[str, ...]]) -> _Remark | None:
    marks: Counter[Mark] = +Counter(line.marks)
    if not marks:
        return None
    in_order = [mark for mark in _MARKS if marks[mark]]
    style = "yellow" if FAULTS.isdisjoint(marks) else "alarm"
    if line.nodes > 1:
        counts = []
        for mark in in_order:
            counts.append(f"{marks[mark]} {mark}")
        text = ", ".join(counts)
        return _Remark(f"! {text}", style)

    text = ", ".join(in_order)
    if line.are_hosts:
        text += _complaints(why(line.names[0]))
    return _Remark(f"! {text}", style)


def _complaints(complaints: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    if not complaints:
        return ""
    text = f": {complaints[0]}"
    more = len(complaints) - 1
    if more:
        text += f" (and {more} more)"
    return text


def _rows(
    line: Line, indent: str = "", branch: str = "", *, is_repeated: bool = False, root: str
) -> Iterator[_Row]:
    """The rows of a line and of those below it."""
    label = _label(line, is_named=not is_repeated) if line.levels else _Label(root)
    common = indent + branch + label.common
    yield _Row(_Label(common, label.names), line, is_repeated)

    indent += _BELOW[branch]
    is_repeated = is_repeated or len(line.names) > 1
    for number, child in enumerate(line.below, 1):
        is_last = number == len(line.below) and not line.left_out
        branch = _LAST if is_last else _BRANCH
        yield from _rows(child, indent, branch, is_repeated=is_repeated, root="")

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
        lacking = _lacking(lost.nodes, line.lacking)
        label = _Label(f"{indent}{_LAST}! {lacking}", _span(lost.names))
        yield _Row(label, lost, is_repeated)


def _lacking(count: int, level: Level) -> str:
    nodes = plural(count, "1 node lacks", f"{count} nodes lack")
    return f"{nodes} {level.domain} ({level.key})"


def _label(line: Line, *, is_named: bool) -> _Label:
    """The label of a line; without names where it stands for many."""
    count = len(line.names)
    if count == 1:
        name = line.names[0]
        return _Label(f"{line.level} {name}" if is_named else f"1 {line.level}")

    domains = " = ".join(f"{level}s" for level in line.levels)
    names = _span(line.names)
    if not line.are_equal:
        return _Label(f"{count:,} more unhealthy {domains}", names)
    common = f"{count:,} {domains}, each {_holding(line)}"
    return _Label(common, names if is_named else "")


def _holding(line: Line) -> str:
    """What each of the line's equal domains holds."""
    domains = len(line.names)
    gpus = counted(line.gpus // domains, "GPU")
    if line.are_hosts:
        return gpus
    return f"{counted(line.nodes // domains, 'node')}, {gpus}"


def _span(names: tuple[str, ...]) -> str:
    if len(names) <= _MAX_NAMES:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]}"
