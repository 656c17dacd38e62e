"""The views of one cluster: each ClusterTopology, its segments, or what the labels alone suggest."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, cast

import msgspec

from toposcope.api.cluster_topology import Topology, read
from toposcope.api.conditions import ADVISORY, HIERARCHY_CONSISTENT, NO_RAILS
from toposcope.api.label_keys import GPUS
from toposcope.snapshot.levels import crossings_of, left_out_of, level_views
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.snapshot.suggest import suggest
from toposcope.ui import protocol

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """One view of the cluster, and what the page gets of it."""

    summary: protocol.View
    scope: Scope
    takes: Callable[[NodeView], bool]
    """Whether a node is in it."""

    @property
    def id(self) -> str:
        """Its stable id, see `protocol.View`."""
        return self.summary.id


def views_of(snapshot: Snapshot) -> tuple[View, ...]:
    """All views of a cluster, the default one first."""
    if not snapshot.topologies:
        inferred = select_scope(snapshot)
        labelled = any(map(_is_labelled, inferred.nodes))
        summary = _summary("", "labels", "inferred", None, inferred)
        return (
            View(summary, inferred, _is_labelled if labelled else attrgetter("has_gpus")),
            *_suggested(snapshot),
        )
    names = {topology.uid: topology.name for topology in snapshot.topologies}
    main = _main(snapshot.topologies)
    views: list[View] = []
    for topology in sorted(
        snapshot.topologies, key=lambda other: (other is not main, bool(other.owner), other.name)
    ):
        parent = names.get(topology.owner) if topology.owner else None
        views.append(_topology_view(snapshot, topology, topology.name, "topology", parent))
        # With `segments: Auto` each segment has a ClusterTopology, which is a view of its own.
        views += () if topology.divided else _segments(snapshot, topology)
    return tuple(views)


def _main(topologies: Sequence[Topology]) -> Topology:
    """As `toposcope.snapshot.scope` chooses; where that refuses to choose, the first by name."""
    whole = [topology for topology in topologies if not topology.owner] or list(topologies)
    return next((topology for topology in topologies if topology.name == "cluster"), whole[0])


def _is_labelled(node: NodeView) -> bool:
    return node.label(GPUS) is not None


def _segments(snapshot: Snapshot, topology: Topology) -> Iterator[View]:
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


def _suggested(snapshot: Snapshot) -> Iterator[View]:
    """Where no controller has been: the kinds of nodes, when there are several."""
    suggestions = suggest(snapshot.nodes, snapshot.catalogue).found
    if len(suggestions) > 1:
        for suggestion in suggestions:
            yield _as_if(
                snapshot, f"/{suggestion.name}", suggestion.name, "", suggestion.document()
            )


def _as_if(
    snapshot: Snapshot, view_id: str, name: str, parent: str, spec: Mapping[str, Any]
) -> View:
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
) -> View:
    selected = select_scope(snapshot, topology.name)
    return View(_summary(topology.name, name, kind, parent, selected), selected, topology.selects)


def _summary(
    view_id: str,
    name: str,
    kind: Literal["topology", "segment", "inferred"],
    parent: str | None,
    selected: Scope,
) -> protocol.View:
    topology = selected.topology
    left_out = left_out_of(selected)
    found = list(_conditions(topology)) if topology else []
    # What a condition says is not said twice.
    crossed = (
        []
        if any(item.type == HIERARCHY_CONSISTENT for item in found)
        else crossings_of(selected).problems
    )
    return protocol.View(
        id=view_id,
        name=name,
        kind=kind,
        parent=parent,
        origin=selected.origin.value,
        levels=msgspec.convert(
            level_views(selected, sized=False), list[protocol.LevelView], from_attributes=True
        ),
        nodes=len(selected.nodes),
        gpus=sum(node.gpus for node in selected.nodes),
        left_out=len(left_out),
        left_out_gpus=sum(node.gpus for node in left_out),
        without_agent=len(selected.without_agent),
        conditions=found,
        problems=[*(topology.problems if topology else ()), *crossed],
    )


def _conditions(topology: Topology) -> Iterator[protocol.ConditionView]:
    for condition in topology.status.get("conditions") or ():
        kind, status = str(condition.get("type", "")), str(condition.get("status", ""))
        if condition.get("reason") == NO_RAILS:
            continue
        yield protocol.ConditionView(
            type=kind,
            status=cast(
                "Literal['True', 'False', 'Unknown']",
                status if status in ("True", "False") else "Unknown",
            ),
            reason=str(condition.get("reason") or ""),
            message=str(condition.get("message") or ""),
            since=str(condition.get("lastTransitionTime") or ""),
            advisory=kind in ADVISORY,
        )
