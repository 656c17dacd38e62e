"""What readers of documents need from a snapshot: topologies, gangs and other facts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import KIND, Topology
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.document import kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import KnownLevels
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod, ReadTopologies
from toposcope.integrations.registry import (
    DECISIVE,
    EXCLUSIVE_POD_LABELS,
    PLUGINS,
    placement_of,
    placements,
)
from toposcope.snapshot.levels import unpublished_of
from toposcope.snapshot.model import PodView, PublishedTopology, Snapshot
from toposcope.snapshot.scope import select_scope
from toposcope.text import shell

OWN: Final = KIND
INFERRED: Final = "the hierarchy of the node labels"
_INFERRED_NAME: Final = "cluster"
"""The name of the inferred topology, used if there is no ClusterTopology."""


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """What the readers of documents need to know about a cluster.

    Topologies are the ClusterTopologies and the schedulers' own; if there are none, the one
    inferred from labels.
    """
    known_levels = _known_levels(snapshot)
    read = {}
    topologies: dict[str, TopologyLevels] = {}
    for plugin in PLUGINS:
        if not plugin.published:
            continue
        system = _read(snapshot, plugin, known_levels)
        read[plugin.name] = system
        if not system.stand_in:
            topologies |= system.by_name

    facts = ClusterFacts(
        topologies={**topologies, **known_levels.own} or known_levels.suggested,
        node_labels=_node_labels(snapshot),
        exclusive_pods=_exclusive_pods(snapshot),
        unserved=_unserved(snapshot),
        profiles=snapshot.scheduler_profiles,
        domain_of=snapshot.catalogue.domain_of,
        read=read,
        objects=_objects(snapshot),
    )
    return with_pods(facts, snapshot.pods or ())


def _unserved(snapshot: Snapshot) -> frozenset[str]:
    """Names of kinds that the cluster is known not to serve."""
    names = set()
    for name, served in snapshot.served.items():
        if not served:
            names.add(name)
    return frozenset(names)


def with_pods(facts: ClusterFacts, pods: Sequence[PodView]) -> ClusterFacts:
    """The facts with the gangs of pods, as each system that makes gangs reads them."""
    for placement in placements():
        facts = placement.with_pods(facts, pods)
    return facts


def with_held(facts: ClusterFacts, snapshot: Snapshot) -> ClusterFacts:
    """The facts with the resources that are held for pods without a node."""
    held = dict(facts.held)
    for placement in placements():
        held |= placement.held(facts, snapshot)
    return replace(facts, held=held)


def _known_levels(snapshot: Snapshot) -> KnownLevels:
    """The levels of the ClusterTopologies, or those inferred from labels."""
    own = {}
    domain_of = dict(snapshot.catalogue.domain_of)
    for topology in snapshot.topologies:
        name = topology.name
        levels = select_scope(snapshot, name).levels
        own[name] = TopologyLevels(name, levels)
    for topology_levels in own.values():
        for level in topology_levels.levels:
            domain_of[level.key] = level.domain

    def table(name: str) -> Table:
        return select_scope(snapshot, name if own else None).table()

    def unpublished(name: str) -> tuple[Level, ...]:
        return unpublished_of(select_scope(snapshot, name if own else None))

    return KnownLevels(
        own=own,
        suggested=own or _inferred(snapshot),
        domain_of=domain_of,
        table=table,
        unpublished=unpublished,
        view=snapshot,
    )


def _inferred(snapshot: Snapshot) -> dict[str, TopologyLevels]:
    levels = select_scope(snapshot).levels
    if not levels:
        return {}
    name = _INFERRED_NAME
    return {name: TopologyLevels(name, levels, INFERRED, is_inferred=True)}


def _read(snapshot: Snapshot, plugin: Plugin, known_levels: KnownLevels) -> ReadTopologies:
    """The topology resources of one system.

    If none is known but some may exist, those that would be published are used instead.
    """
    placement = placement_of(plugin)
    resources = _resources(snapshot, plugin.published)
    kind = plugin.published[0]
    if not resources and kind.name not in snapshot.served:
        why = f"the {kind.kind} that {plugin.title} reads is unknown"
        return ReadTopologies(placement.stand_ins(known_levels), why)

    by_name = placement.topologies(resources, known_levels)
    served = bool(resources)
    for published in plugin.published:
        served = served or bool(snapshot.served.get(published.name))
    if not served:
        why = f"the cluster does not serve {kind.name}: is {plugin.title} installed?"
        return ReadTopologies(by_name, is_served=False, absent={"": why})

    absent = {}
    for topology in snapshot.topologies:
        if topology.name not in by_name:
            absent[topology.name] = _why_absent(topology, kind)
    first = next(iter(absent.values()), "")
    return ReadTopologies(by_name, absent={**absent, "": first})


def _resources(snapshot: Snapshot, kinds: Iterable[PublishedKind]) -> list[PublishedTopology]:
    """The topology resources of these kinds, in any version."""
    keys = {(kind.group, kind.kind) for kind in kinds}
    resources = []
    for resource in snapshot.published:
        group, _, _ = resource.api_version.rpartition("/")
        key = group, resource.kind
        if key in keys:
            resources.append(resource)
    return resources


def _why_absent(topology: Topology, kind: PublishedKind) -> str:
    """Why a system does not have a ClusterTopology, and what to do."""
    mode = topology.mode(kind.option)
    if mode == "Auto":
        describe = shell("kubectl describe gtopo {}", topology.name)
        why = f"is not published as {kind.name}; {describe} says why"
    else:
        why = f"sets spec.publish.{kind.option}: {mode}; set it to Auto to publish the {kind.kind}"
    return f"ClusterTopology {topology.name} {why}"


def _node_labels(snapshot: Snapshot) -> frozenset[str]:
    """Label keys that some node carries; nodes with equal keys share one mapping of them."""
    seen: set[int] = set()
    keys: set[str] = set()
    for node in snapshot.nodes:
        places = node.places
        if id(places) in seen:
            continue
        seen.add(id(places))
        keys.update(places)
    return frozenset(keys)


def _objects(snapshot: Snapshot) -> dict[tuple[str, str], tuple[Mapping[str, Any], ...]]:
    """By kind: the other objects that decide, besides topologies.

    A kind is included if the snapshot has such objects, or the cluster serves it and has none.
    """
    objects: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for kind in DECISIVE:
        if snapshot.served.get(kind.name):
            objects[kind.key] = []
    for document in snapshot.objects:
        key = kind_of(document)
        of_kind = objects.setdefault(key, [])
        of_kind.append(document)
    return {key: tuple(documents) for key, documents in objects.items()}


def _exclusive_pods(snapshot: Snapshot) -> dict[str, tuple[ExclusivePod, ...]]:
    """The running pods that keep others out of their domain, by the label that marks them.

    One pod for each node and namespace is enough.
    """
    marked: dict[str, dict[tuple[str, str], ExclusivePod]] = {}
    for pod in snapshot.pods or ():
        node = snapshot.by_name.get(pod.node)
        if node is None:
            continue
        for label in EXCLUSIVE_POD_LABELS:
            if label not in pod.labels:
                continue
            places = marked.setdefault(label, {})
            place = pod.namespace, pod.node
            if place not in places:
                places[place] = ExclusivePod(pod.namespace, node.labels, pod.labels)
    return {label: tuple(places.values()) for label, places in marked.items()}
