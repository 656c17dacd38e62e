"""The views of one cluster: each ClusterTopology, its segments, or what the labels alone suggest."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import msgspec

from toposcope.api.cluster_topology import Topology, read
from toposcope.api.conditions import ADVISORY, HIERARCHY_CONSISTENT, NO_RAILS
from toposcope.api.label_keys import GPU_PRODUCT, GPUS
from toposcope.snapshot.levels import crossings_of, left_out_of, level_views
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, rescope, select_scope
from toposcope.snapshot.suggest import suggest
from toposcope.ui import protocol

log = logging.getLogger(__name__)

_ALWAYS: Final = frozenset({GPUS, GPU_PRODUCT})
"""Labels that count in any view, or in the name of a suggested one."""


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


def views_of(snapshot: Snapshot, before: Sequence[View] = ()) -> tuple[View, ...]:
    """All views of a cluster, the default one first.

    `before` are views of nodes with the same inputs (see `view_inputs`): what was counted for them still holds.
    """
    known = {view.id: view for view in before}
    if not snapshot.topologies:
        inferred = select_scope(snapshot)
        labelled = any(map(_is_labelled, inferred.nodes))
        summary = _summary("", "labels", "inferred", None, inferred)
        return (View(summary, inferred, _is_labelled if labelled else _has_gpus), *_suggested(snapshot))
    names = {topology.uid: topology.name for topology in snapshot.topologies}
    main = _main(snapshot.topologies)
    views: list[View] = []
    for topology in sorted(snapshot.topologies, key=lambda other: (other is not main, bool(other.owner), other.name)):
        parent = names.get(topology.owner) if topology.owner else None
        views.append(_topology_view(snapshot, topology, topology.name, "topology", parent, known.get(topology.name)))
        # With `segments: Auto` each segment has a ClusterTopology, which is a view of its own.
        views += () if topology.divided else _segments(snapshot, topology, known)
    return tuple(views)


def _main(topologies: Sequence[Topology]) -> Topology:
    """As `toposcope.snapshot.scope` chooses; where that refuses to choose, the first by name."""
    whole = [topology for topology in topologies if not topology.owner] or list(topologies)
    return next((topology for topology in topologies if topology.name == "cluster"), whole[0])


def _is_labelled(node: NodeView) -> bool:
    return node.label(GPUS) is not None


def _has_gpus(node: NodeView) -> bool:
    return node.has_gpus


def _segments(snapshot: Snapshot, topology: Topology, known: Mapping[str, View]) -> Iterator[View]:
    """The segments in the status of a ClusterTopology that is not divided."""
    for entry in topology.status.get("segments") or ():
        name = str(entry["name"])
        spec = {"levels": entry.get("levels"), "nodeSelector": entry.get("nodeSelector")}
        view_id = f"{topology.name}/{name}"
        try:
            yield _as_if(snapshot, view_id, name, topology.name, spec, known.get(view_id))
        except (AttributeError, KeyError, TypeError) as error:
            log.warning("segment %r of ClusterTopology %r is not shown: %s", name, topology.name, error)


def _suggested(snapshot: Snapshot) -> Iterator[View]:
    """Where no controller has been: the kinds of nodes, when there are several."""
    suggestions = suggest(snapshot.nodes, snapshot.catalogue).found
    if len(suggestions) > 1:
        for suggestion in suggestions:
            yield _as_if(snapshot, f"/{suggestion.name}", suggestion.name, "", suggestion.document())


def _as_if(
    snapshot: Snapshot, view_id: str, name: str, parent: str, spec: Mapping[str, Any], before: View | None = None
) -> View:
    """A view as if there were a ClusterTopology with this spec."""
    topology = read({"metadata": {"name": view_id}, "spec": spec})
    return _topology_view(replace(snapshot, topologies=(topology,)), topology, name, "segment", parent, before)


def _topology_view(
    snapshot: Snapshot,
    topology: Topology,
    name: str,
    kind: Literal["topology", "segment"],
    parent: str | None,
    before: View | None,
) -> View:
    previous = before.scope.topology if before else None
    if before and previous and previous.selector == topology.selector:
        selected, gpus = rescope(before.scope, topology), before.summary.gpus
    else:
        selected, gpus = select_scope(snapshot, topology.name), None
    return View(_summary(topology.name, name, kind, parent, selected, gpus), selected, topology.selects)


def view_inputs(views: Sequence[View]) -> Callable[[NodeView], object]:
    """What of a node the views depend on: as long as it is equal, the node changes none of them.

    Most changes leave it: of state, of hardware, of any label that is no level and in no selector.
    """
    tracked = set(_ALWAYS)
    for view in views:
        tracked |= view.scope.catalogue.level_keys
        tracked.update(level.key for level in view.scope.levels)
        if view.scope.topology:
            tracked |= view.scope.topology.label_keys()
            tracked.update(level.key for level in view.scope.topology.last_levels)

    def inputs(node: NodeView) -> object:
        labels = {key: node.values[place] for key, place in node.places.items() if key in tracked}
        return labels, node.gpus, node.has_gpus, node.usable

    return inputs


def _summary(
    view_id: str,
    name: str,
    kind: Literal["topology", "segment", "inferred"],
    parent: str | None,
    selected: Scope,
    gpus: int | None = None,
) -> protocol.View:
    topology = selected.topology
    left_out = left_out_of(selected)
    found = list(_conditions(topology)) if topology else []
    # What a condition says is not said twice.
    crossed = [] if any(one.type == HIERARCHY_CONSISTENT for one in found) else crossings_of(selected).problems
    return protocol.View(
        id=view_id,
        name=name,
        kind=kind,
        parent=parent,
        origin=selected.origin.value,
        levels=msgspec.convert(level_views(selected, sized=False), list[protocol.LevelView], from_attributes=True),
        nodes=len(selected.nodes),
        gpus=sum(node.gpus for node in selected.nodes) if gpus is None else gpus,
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
            status=cast("Literal['True', 'False', 'Unknown']", status if status in ("True", "False") else "Unknown"),
            reason=str(condition.get("reason") or ""),
            message=str(condition.get("message") or ""),
            since=str(condition.get("lastTransitionTime") or ""),
            advisory=kind in ADVISORY,
        )


def keys_of(views: Sequence[View]) -> tuple[str, ...]:
    """The label keys that are a level of any view, each once."""
    return tuple(dict.fromkeys(level.key for view in views for level in view.scope.levels))
