"""The views of one cluster: each ClusterTopology, its segments, or what labels alone suggest."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

from toposcope.api.cluster_topology import Topology, read
from toposcope.api.conditions import ADVISORY, HIERARCHY_CONSISTENT, NO_RAILS
from toposcope.api.label_keys import GPUS
from toposcope.snapshot.levels import LevelView, crossings_of, left_out_of, level_views
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, TopologyNotFoundError, choose_topology, select_scope
from toposcope.snapshot.suggest import suggest
from toposcope.ui import protocol

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageView:
    """One view of the cluster, and what the page gets of it."""

    summary: protocol.ViewData
    scope: Scope
    takes: Callable[[NodeView], bool]
    """Whether a node is in it."""

    @property
    def id(self) -> str:
        """Its stable id, see `protocol.ViewData`."""
        return self.summary.id


def views_of(snapshot: Snapshot) -> tuple[PageView, ...]:
    """All views of a cluster, the default one first."""
    if not snapshot.topologies:
        return _inferred(snapshot), *_suggested(snapshot)

    names = {topology.uid: topology.name for topology in snapshot.topologies}
    main = _main(snapshot.topologies)
    views: list[PageView] = []
    for topology in sorted(snapshot.topologies, key=lambda topology: _order(topology, main)):
        parent = names.get(topology.owner) if topology.owner else None
        views.append(_topology_view(snapshot, topology, topology.name, "topology", parent))
        # With `segments: Auto` each segment has a ClusterTopology, which is a view of its own.
        if not topology.is_divided:
            views += _segments(snapshot, topology)
    return tuple(views)


def _inferred(snapshot: Snapshot) -> PageView:
    """The view that labels alone suggest."""
    scope = select_scope(snapshot)
    summary = _summary("", "labels", "inferred", None, scope)
    if any(_is_labelled(node) for node in scope.nodes):
        return PageView(summary, scope, _is_labelled)
    return PageView(summary, scope, attrgetter("has_gpus"))


def _order(topology: Topology, main: Topology) -> tuple[bool, bool, str]:
    """The main one first, segments last."""
    return topology is not main, bool(topology.owner), topology.name


def _main(topologies: Sequence[Topology]) -> Topology:
    """The topology that commands choose; where they refuse to, the first that is no segment."""
    try:
        chosen = choose_topology(topologies, None)
    except TopologyNotFoundError:
        chosen = None

    if chosen is not None:
        return chosen
    for topology in topologies:
        if not topology.owner:
            return topology
    return topologies[0]


def _is_labelled(node: NodeView) -> bool:
    return node.label(GPUS) is not None


def _segments(snapshot: Snapshot, topology: Topology) -> Iterator[PageView]:
    """The segments in the status of a ClusterTopology that is not divided."""
    for entry in topology.status.get("segments") or ():
        name = str(entry["name"])
        spec = {"levels": entry.get("levels"), "nodeSelector": entry.get("nodeSelector")}
        try:
            yield _as_if(snapshot, f"{topology.name}/{name}", name, topology.name, spec)
        except (AttributeError, KeyError, TypeError) as error:
            log.warning(
                "segment %r of ClusterTopology %r is not shown: %s", name, topology.name, error
            )


def _suggested(snapshot: Snapshot) -> Iterator[PageView]:
    """A view for each kind of nodes, where no controller has been and there are several kinds."""
    suggested = suggest(snapshot)
    if suggested.is_before_agents or len(suggested.suggestions) < 2:  # noqa: PLR2004 - see above
        return
    for suggestion in suggested.suggestions:
        view_id = f"/{suggestion.name}"
        yield _as_if(snapshot, view_id, suggestion.name, "", suggestion.document())


def _as_if(
    snapshot: Snapshot, view_id: str, name: str, parent: str, spec: Mapping[str, Any]
) -> PageView:
    """A view as if there were a ClusterTopology with this spec."""
    topology = read({"metadata": {"name": view_id}, "spec": spec})
    return _topology_view(
        replace(snapshot, topologies=(topology,)), topology, name, "segment", parent
    )


def _topology_view(
    snapshot: Snapshot,
    topology: Topology,
    name: str,
    kind: Literal["topology", "segment"],
    parent: str | None,
) -> PageView:
    selected = select_scope(snapshot, topology.name)
    return PageView(
        _summary(topology.name, name, kind, parent, selected), selected, topology.selects
    )


def _level_data(level: LevelView) -> protocol.LevelData:
    return protocol.LevelData(
        domain=level.domain,
        key=level.key,
        domains=level.domains,
        nodes=level.nodes,
        missing=level.missing,
        required=level.is_required,
        workloads=level.workloads,
        problem=level.problem,
        in_topology=level.is_in_topology,
    )


def _summary(
    view_id: str,
    name: str,
    kind: Literal["topology", "segment", "inferred"],
    parent: str | None,
    scope: Scope,
) -> protocol.ViewData:
    levels = level_views(scope, sized=False)
    left_out = left_out_of(scope)
    conditions = list(_conditions(scope.topology)) if scope.topology else []
    return protocol.ViewData(
        id=view_id,
        name=name,
        kind=kind,
        parent=parent,
        origin=scope.origin.value,
        levels=[_level_data(level) for level in levels],
        nodes=len(scope.nodes),
        gpus=sum(node.gpus for node in scope.nodes),
        left_out=len(left_out),
        left_out_gpus=sum(node.gpus for node in left_out),
        without_agent=len(scope.without_agent),
        conditions=conditions,
        problems=_problems(scope, conditions),
    )


def _problems(scope: Scope, conditions: Sequence[protocol.ConditionView]) -> list[str]:
    """What is wrong with the spec, levels in dispute, and levels that do not nest.

    What a condition says is not said twice.
    """
    problems: list[str] = []
    if scope.topology:
        problems += scope.topology.problems
    if scope.disagreement:
        problems.append(scope.disagreement.note)
    for condition in conditions:
        if condition.type == HIERARCHY_CONSISTENT:
            return problems

    return [*problems, *crossings_of(scope).problems]


def _conditions(topology: Topology) -> Iterator[protocol.ConditionView]:
    for condition in topology.status.get("conditions") or ():
        if condition.get("reason") == NO_RAILS:
            continue
        kind = str(condition.get("type", ""))
        yield protocol.ConditionView(
            type=kind,
            status=_status(condition),
            reason=str(condition.get("reason") or ""),
            message=str(condition.get("message") or ""),
            since=str(condition.get("lastTransitionTime") or ""),
            advisory=kind in ADVISORY,
        )


def _status(condition: Mapping[str, Any]) -> Literal["True", "False", "Unknown"]:
    match condition.get("status"):
        case "True":
            return "True"
        case "False":
            return "False"
        case _:
            return "Unknown"
