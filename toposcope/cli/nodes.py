"""List nodes with their hardware, their place and what is wrong with them."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.api.levels import Level
from toposcope.cli import command, errors
from toposcope.cli.output import IS_IT_RUNNING, show_document
from toposcope.cli.planning import pair
from toposcope.cli.reach import add_like, add_tolerate, reach_document, reach_lines, shape_for
from toposcope.cli.terminal import Screen, columns
from toposcope.hardware.matrix_annotation import reasons
from toposcope.kube.gpu_shares import described
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot import filters
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.reach import TAKES_NO_PODS, Blocked, Reach
from toposcope.snapshot.scope import Scope, select_scope

_HARDWARE: Final = (("PRODUCT", label_keys.GPU_PRODUCT), ("INTERCONNECT", label_keys.INTERCONNECT))
_MORE: Final = (
    ("GB/S", label_keys.NVLINK_BANDWIDTH),
    ("NUMA", label_keys.GPUS_PER_NUMA),
    ("RAILS", label_keys.RAIL_ALIGNED),
    ("SHAPE", label_keys.SHAPE),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope nodes`."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="nodes, or a ClusterTopology; default: all nodes of the only one",
    )
    which = parser.add_argument_group("which nodes")
    which.add_argument(
        "-l", "--selector", default="", metavar="SELECTOR", help="by labels, as in kubectl"
    )
    about = "those in a domain, such as rack=rack-7; repeated: in all of them"
    which.add_argument(
        "--in",
        dest="domains",
        action="append",
        default=[],
        metavar="LEVEL=VALUE",
        type=pair,
        help=about,
    )
    about = f"those in a state; repeated: in any of them. One of {', '.join(filters.CONDITIONS)}"
    which.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        choices=filters.CONDITIONS,
        metavar="STATE",
        help=about,
    )
    parser.add_argument(
        "--no-pods", action="store_true", help="do not read pods: faster, but free GPUs are unknown"
    )
    add_like(parser)
    add_tolerate(parser)
    command.add_source_arguments(parser)
    command.add_watch(parser)


@command.on_screen("nodes")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the nodes; 1 when one of them is unhealthy or lacks a level."""
    selector = filters.parse(arguments.selector)
    snapshot = command.load_snapshot(
        arguments, has_pods=not arguments.no_pods, has_published=bool(arguments.like)
    )
    topology, names = _named(snapshot, arguments.names)
    scope = select_scope(snapshot, topology)
    if not snapshot.nodes:
        raise command.no_nodes(snapshot, scope)

    candidates = [*scope.nodes, *scope.without_agent]
    if names:
        candidates = [snapshot.by_name[name] for name in names]

    filters.check_domains(scope, arguments.domains)
    nodes = filters.filter_nodes(scope, candidates, selector, arguments.domains, arguments.states)
    shown = _Shown(snapshot, scope, nodes, _reach(arguments, snapshot, scope))
    is_for_people = arguments.output in ("table", "wide")
    if is_for_people and not nodes:
        screen.show([f"no matching nodes ({len(candidates):,} checked)"])
    else:
        _show(screen, arguments.output, shown)

    has_only_healthy_nodes = all(_is_healthy(scope, node) for node in nodes)
    return errors.exit_code(is_ok=has_only_healthy_nodes)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The nodes that are shown, and what is known of them."""

    snapshot: Snapshot
    scope: Scope
    nodes: Sequence[NodeView]
    reach: Reach | None
    """What keeps pods from idle GPUs; None where pods are not known."""

    def blocked(self, node: NodeView) -> Blocked | None:
        """What of the node's idle GPUs a pod cannot get; None: it can get all, as far as known."""
        return self.reach.blocked(node) if self.reach else None

    def blocked_of_free(self, node: NodeView) -> int:
        """How many of the node's free GPUs a pod cannot get."""
        blocked = self.blocked(node)
        if blocked is None or blocked.why in TAKES_NO_PODS:
            return 0
        return blocked.gpus

    @property
    def has_blocked(self) -> bool:
        """Whether a pod cannot get some free GPU."""
        return any(self.blocked_of_free(node) for node in self.nodes)


def _reach(arguments: argparse.Namespace, snapshot: Snapshot, scope: Scope) -> Reach | None:
    if snapshot.pods is None:
        return None
    return Reach(snapshot, scope, shape_for(arguments, snapshot))


def _show(screen: Screen, output: str, shown: _Shown) -> None:
    nodes = shown.nodes
    if output in ("json", "yaml"):
        documents = [document(shown, node) for node in nodes]
        fields: dict[str, Any] = {"nodes": documents}
        if shown.reach:
            fields |= reach_document(shown.reach, nodes)
        show_document(screen, output, fields)
    elif output == "name":
        screen.show(f"node/{node.name}" for node in nodes)
    elif output == "wide":
        screen.show(_wide_page(screen, shown))
    else:
        screen.show(_page(screen, shown))


def _is_healthy(scope: Scope, node: NodeView) -> bool:
    if node.is_without_agent or filters.lacking(scope, node):
        return False
    return filters.FAULTS.isdisjoint(filters.marks(node))


def _named(snapshot: Snapshot, names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The ClusterTopology, if the first name is one, and the nodes. Raises CommandError."""
    topologies = {topology.name for topology in snapshot.topologies}
    topology = None
    if names and names[0] in topologies:
        topology, *names = names

    nodes: dict[str, None] = {}
    for name in names:
        node = name.removeprefix("node/")
        if node not in snapshot.by_name:
            raise command.no_node(snapshot, node, topologies)
        nodes[node] = None
    return topology, list(nodes)


def document(shown: _Shown, node: NodeView) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one node; docs/check.md describes it."""
    snapshot, scope = shown.snapshot, shown.scope
    entry: dict[str, Any] = {
        "name": node.name,
        "ready": node.is_ready,
        "schedulable": node.is_schedulable,
        "states": list(filters.states(scope, node)),
        "gpus": node.gpus,
        "freeGpus": snapshot.free_gpus(node),
    }
    blocked = shown.blocked(node)
    if blocked:
        entry["blockedGpus"] = {blocked.why.value: blocked.gpus}
    shares = list(_shares(snapshot, node))
    if shares:
        entry["shares"] = shares

    entry["resources"] = _resources(snapshot, node)
    entry["domains"] = {
        level.domain: filters.value_at(scope, node, level.key) for level in scope.levels
    }
    entry["hardware"] = _hardware(node)
    entry["taints"] = list(_taints(node))
    entry["reasons"] = list(reasons(node.matrix))
    entry["computeDomains"] = list(_compute_domains(snapshot, node))
    entry["miscabled"] = filters.wrong_cables(scope, node)
    return entry


def _resources(snapshot: Snapshot, node: NodeView) -> dict[str, dict[str, int | None]]:
    """What the node offers in GPUs and parts of GPUs."""
    free = snapshot.free(node)
    resources = {}
    for name, count in node.allocatable.items():
        if is_gpu(name) or is_gpu_part(name):
            free_count = None if free is None else free[name]
            resources[name] = {"allocatable": count, "free": free_count}
    return resources


def _hardware(node: NodeView) -> dict[str, str]:
    """The agent's labels, without their prefix."""
    hardware = {}
    for key, value in node.labels.items():
        if key.startswith(label_keys.PREFIX):
            hardware[key.removeprefix(label_keys.PREFIX)] = value
    return hardware


def _shares(snapshot: Snapshot, node: NodeView) -> Iterator[dict[str, Any]]:
    """What the node offers in shares of its GPUs."""
    for shares in snapshot.shares.get(node.name, ()):
        entry: dict[str, Any] = {
            "resource": shares.resource,
            "unit": shares.unit.value,
        }
        if shares.profile:
            entry["profile"] = shares.profile
        entry["total"] = shares.total
        entry["free"] = snapshot.free_shares(node, shares)
        yield entry


def _taints(node: NodeView) -> Iterator[dict[str, str]]:
    for taint in node.taints:
        yield {
            "key": taint.key,
            "value": taint.value,
            "effect": taint.effect,
        }


def _compute_domains(snapshot: Snapshot, node: NodeView) -> Iterator[str]:
    for domain in snapshot.compute_domains:
        if node.name in domain.cliques:
            yield domain.name


def _page(screen: Screen, shown: _Shown) -> Iterator[str]:
    # The host's name is the first column.
    levels = [level for level in shown.scope.levels if level.key != label_keys.HOSTNAME]
    table = _Table(shown, _HARDWARE, levels, shown.has_blocked)
    header = table.header()
    # A narrow screen goes without interconnect and product first, then without the broad levels.
    interconnect = header.index("INTERCONNECT")
    product = header.index("PRODUCT")
    broad_levels = range(interconnect + 1, len(header) - 1)
    spare = (interconnect, product, *broad_levels)
    rows = [table.row(node) for node in shown.nodes]
    yield from columns(screen, header, rows, right=table.numbers, spare=spare)
    yield from _remarks(screen, shown)


def _wide_page(screen: Screen, shown: _Shown) -> Iterator[str]:
    hardware = _HARDWARE + _MORE
    table = _Table(shown, hardware, shown.scope.levels, shown.has_blocked)
    header = [*table.header(), "TAINTS"]
    rows = []
    for node in shown.nodes:
        row = table.row(node)
        taints = ",".join(map(str, node.taints))
        row.append(taints or "-")
        rows.append(row)
    yield from columns(screen, header, rows, right=table.numbers)
    yield from _remarks(screen, shown, is_wide=True)


@dataclass(frozen=True, slots=True)
class _Table:
    """The columns of a table of nodes."""

    shown: _Shown
    hardware: Sequence[tuple[str, str]]
    """Title and label of each column."""
    levels: Sequence[Level]
    has_blocked: bool
    """Whether there is a column of free GPUs that pods cannot get."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The columns of numbers."""
        return (1, 2, 3) if self.has_blocked else (1, 2)

    def header(self) -> list[str]:
        """The titles of the columns."""
        header = ["NAME", "GPUS", "FREE"]
        if self.has_blocked:
            header.append("BLOCKED")
        header.append("STATE")
        for title, _ in self.hardware:
            header.append(title)
        for level in self.levels:
            header.append(level.domain.upper())
        return header

    def row(self, node: NodeView) -> list[str]:
        """The cells of a node."""
        free = self.shown.snapshot.free_gpus(node)
        row = [
            node.name,
            str(node.gpus),
            "-" if free is None else str(free),
        ]
        if self.has_blocked:
            blocked = self.shown.blocked_of_free(node)
            row.append(str(blocked) if blocked else "")
        row.append(self._state(node))
        for _, key in self.hardware:
            label = node.label(key)
            row.append(label or "-")
        for level in self.levels:
            value = filters.value_at(self.shown.scope, node, level.key)
            row.append(value or "-")
        return row

    def _state(self, node: NodeView) -> str:
        states: list[str] = list(filters.marks(node))
        if not filters.is_awaited(self.shown.scope, node):
            lacking = filters.lacking(self.shown.scope, node)
            states += [f"no {level}" for level in lacking]
        if not states:
            return "ok"
        return ",".join(states)


def _remarks(screen: Screen, shown: _Shown, *, is_wide: bool = False) -> Iterator[str]:
    """The lines below the table: shares of GPUs, what is wrong, and what blocks free GPUs."""
    snapshot, scope = shown.snapshot, shown.scope
    for node in shown.nodes:
        for shares in snapshot.shares.get(node.name, ()):
            free = snapshot.free_shares(node, shares)
            about = described(node.gpus, shares, free)
            yield screen.paint(f"{node.name}: {about}", "dim")
        for problem in _problems(scope, node):
            yield screen.paint(f"! {node.name}: {problem}", "yellow")
    if shown.reach:
        yield from reach_lines(screen, shown.reach, shown.nodes, is_wide=is_wide)


def _problems(scope: Scope, node: NodeView) -> Iterator[str]:
    yield from reasons(node.matrix)
    yield from filters.wrong_cables(scope, node)
    if node.is_without_agent:
        yield f"no label {label_keys.GPUS}; {IS_IT_RUNNING}"
    elif scope.topology and not scope.topology.selects(node):
        yield f"ClusterTopology {scope.name} does not select it"
