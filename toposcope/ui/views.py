"""The ways to see one cluster: each ClusterTopology, its segments, or what the labels alone say."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from toposcope.api.cluster_topology import Topology, read
from toposcope.api.conditions import ADVISORY
from toposcope.api.label_keys import GPU_PRODUCT, GPUS
from toposcope.snapshot.levels import crossed, level_views
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, again, scope
from toposcope.snapshot.suggest import suggest
from toposcope.topology.levels import Level
from toposcope.ui import protocol

log = logging.getLogger(__name__)

Takes = Callable[[NodeView], bool]

_ALWAYS: Final = frozenset({GPUS, GPU_PRODUCT})
"""Labels that count in any view, or in the name of a suggested one."""


@dataclass(frozen=True, slots=True)
class View:
    """One view: what the page is told of it, and which nodes are in it."""

    summary: protocol.View
    scope: Scope
    takes: Takes


def views_of(snapshot: Snapshot, before: Sequence[View] = ()) -> tuple[View, ...]:
    """All views of a cluster, the one that is meant when none is named first.

    `before` are views of nodes that have the same footing (see `view_inputs`): what was counted for them still holds.
    """
    known = {view.summary.id: view for view in before}
    if not snapshot.topologies:
        found = scope(snapshot)
        labelled = any(node.label(GPUS) is not None for node in found.nodes)
        takes: Takes = _labelled if labelled else _has_gpus
        return (View(_view("", "labels", "inferred", None, found), found, takes), *_suggested(snapshot))
    names = {topology.uid: topology.name for topology in snapshot.topologies}
    main = _main(snapshot.topologies)
    found_all: list[View] = []
    for topology in sorted(snapshot.topologies, key=lambda each: (each is not main, bool(each.owner), each.name)):
        parent = names.get(topology.owner) if topology.owner else None
        here = known.get(topology.name)
        found_all.append(_topology_view(snapshot, topology, topology.name, "topology", parent, here))
        # With Auto each segment has a ClusterTopology, which is a view of its own.
        found_all += () if topology.divided else _segments(snapshot, topology, known)
    return tuple(found_all)


def _main(topologies: Sequence[Topology]) -> Topology:
    """As `toposcope.snapshot.scope` chooses; where that refuses to, the first by name."""
    whole = [topology for topology in topologies if not topology.owner]
    return next((each for each in topologies if each.name == "cluster"), (whole or list(topologies))[0])


def _labelled(node: NodeView) -> bool:
    return node.label(GPUS) is not None


def _has_gpus(node: NodeView) -> bool:
    return node.has_gpus


def _segments(snapshot: Snapshot, topology: Topology, known: Mapping[str, View]) -> Iterator[View]:
    """The segments that the controller has written down for a ClusterTopology that is not divided."""
    for entry in topology.status.get("segments") or ():
        name = str(entry["name"])
        spec = {"levels": entry.get("levels"), "nodeSelector": entry.get("nodeSelector")}
        try:
            identity = f"{topology.name}/{name}"
            yield _as_if(snapshot, identity, name, topology.name, spec, known.get(identity))
        except (AttributeError, KeyError, TypeError) as error:
            log.warning("segment %r of ClusterTopology %r is not shown: %s", name, topology.name, error)


def _suggested(snapshot: Snapshot) -> Iterator[View]:
    """Where no controller has been: the kinds of nodes that there are, when there are several."""
    found = suggest(snapshot.nodes, snapshot.catalogue).found
    if len(found) > 1:
        for each in found:
            yield _as_if(snapshot, f"/{each.name}", each.name, "", each.document())


def _as_if(
    snapshot: Snapshot, identity: str, name: str, parent: str, spec: Mapping[str, Any], before: View | None = None
) -> View:
    """A view as if there were a ClusterTopology with this spec."""
    topology = read({"metadata": {"name": identity}, "spec": spec})
    return _topology_view(replace(snapshot, topologies=(topology,)), topology, name, "segment", parent, before)


def _topology_view(
    snapshot: Snapshot,
    topology: Topology,
    name: str,
    kind: Literal["topology", "segment"],
    parent: str | None,
    before: View | None,
) -> View:
    was = before.scope.topology if before else None
    if before and was and was.selector == topology.selector:
        found, gpus = again(before.scope, topology), before.summary.gpus
    else:
        found, gpus = scope(snapshot, topology.name), None
    return View(_view(topology.name, name, kind, parent, found, gpus), found, topology.selects)


def view_inputs(views: Sequence[View]) -> Callable[[NodeView], object]:
    """What of a node the views are made of: as long as it is equal, the node changes none of them.

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


def _view(
    identity: str,
    name: str,
    kind: Literal["topology", "segment", "inferred"],
    parent: str | None,
    found: Scope,
    gpus: int | None = None,
) -> protocol.View:
    topology = found.topology
    problems = [*(topology.problems if topology else ()), *crossed(found)]
    return protocol.View(
        id=identity,
        name=name,
        kind=kind,
        parent=parent,
        origin=found.origin.value,
        levels=list(_levels(found)),
        nodes=len(found.nodes),
        gpus=sum(node.gpus for node in found.nodes) if gpus is None else gpus,
        conditions=list(conditions_of(topology)) if topology else [],
        problems=problems,
    )


def _levels(found: Scope) -> Iterator[protocol.LevelView]:
    for level in level_views(found, sized=False):
        yield protocol.LevelView(
            domain=level.domain,
            key=level.key,
            domains=level.domains,
            nodes=level.nodes,
            missing=level.missing,
            required=level.required,
            workloads=level.workloads,
            amiss=level.amiss,
            in_topology=level.in_topology,
        )


def conditions_of(topology: Topology) -> Iterator[protocol.ConditionView]:
    """The conditions in a ClusterTopology's status."""
    for each in topology.status.get("conditions") or ():
        kind, status = str(each.get("type", "")), str(each.get("status", ""))
        yield protocol.ConditionView(
            type=kind,
            status=cast("Literal['True', 'False', 'Unknown']", status if status in ("True", "False") else "Unknown"),
            reason=str(each.get("reason") or ""),
            message=str(each.get("message") or ""),
            since=str(each.get("lastTransitionTime") or ""),
            advisory=kind in ADVISORY,
        )


def keys_of(views: Sequence[View]) -> tuple[str, ...]:
    """The label keys that are a level of any view, each once."""
    return tuple(dict.fromkeys(level.key for view in views for level in levels_of(view)))


def levels_of(view: View) -> tuple[Level, ...]:
    """The levels of a view, broadest first."""
    return view.scope.levels
