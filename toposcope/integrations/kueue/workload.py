"""Kueue: pod sets kept together, in slices, or two of them together.

From annotations or from a Workload. Rules and messages: Kueue 0.19 (topology-aware scheduling).
Which topology it will be depends on the ResourceFlavor that Kueue chooses, so any that has all the
levels may be meant. Levels are label keys. A preferred level is given up for the next broader one,
and at last for none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean_key
from toposcope.integrations.framework.node_affinity import ANY_NODE, NodeFilter
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of, structure_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, System
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.kueue import api
from toposcope.integrations.kueue.assignment import OrderedPods
from toposcope.integrations.kueue.limit_ranges import with_defaults
from toposcope.integrations.kueue.queues import (
    Flavor,
    Queue,
    ResourceGroup,
    known,
    own_workloads,
    queue_name,
    queue_of,
)
from toposcope.integrations.kueue.request import (
    NamedLevel,
    Request,
    Slices,
    annotated,
    check_groups,
    of_workload,
)
from toposcope.integrations.kueue.scheduling import KueueAdmission
from toposcope.text import plural

FLAVORS_UNKNOWN: Final = (
    "the queue's flavors are not known: their nodes, taints and quota are not checked"
)
_QUEUE_FIRST: Final = "room is not checked before the queue is right"
_DIGITS: Final = 9
"""Of a number of pods."""


def _claims(document: Mapping[str, Any]) -> bool:
    """Workloads, and every kind with pod templates that names a queue or has an annotation on one
    of them.
    """
    if kind_of(document) == api.WORKLOADS.key:
        return True
    root = Field(document)
    structure = structure_of(root)
    if structure is None:
        return False
    if (root / "metadata" / "labels" / api.QUEUE_NAME).text():
        return True
    places = (
        root / "metadata" / "annotations",
        *(pod_set.annotations for pod_set in structure.sets),
    )
    return any(place / key for place in places for key in api.ANNOTATIONS)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    # annotations of a pod template cannot change where they count; the API server says so itself
    del before
    notes: list[str] = []
    if kind_of(root.value) == api.WORKLOADS.key:
        check_fields(root, schema("kueue", "Workload"), "kueue/field", api.VERSION)
        structure, requests = _workload(root)
    else:
        structure = _grouped(root, structure_of(root) or Structure(()), notes)
        structure = with_defaults(structure, cluster, namespace_of(root))
        _check_places(root, structure, queued=bool(queue_name(root, cluster)))
        requests = [annotated(pod_set) for pod_set in structure.sets]
    check_groups(requests)
    _check_remainders(requests)
    return _reading(root, structure, requests, cluster, notes)


SYSTEM: Final = System("Kueue", _claims, _read, "kueue")
READERS: Final = (SYSTEM,)


def _reading(
    root: Field,
    structure: Structure,
    requests: list[Request],
    cluster: ClusterFacts,
    notes: list[str],
) -> Reading:
    """One workload for each topology that it may get.

    Where the queue is known, those of its flavors.
    """
    queued = bool(queue_name(root, cluster))
    queue = queue_of(root, cluster) if queued and known(cluster) else None
    if queued and queue is None and known(cluster):
        return Reading(
            Workload("Kueue", handle_of(root), (), placeable=False, notes=(*notes, _QUEUE_FIRST))
        )
    named = any(request.explicit for request in requests)
    places: list[tuple[Flavor, TopologyLevels | None]] = []
    if queue is None:
        topologies = _candidates(requests, cluster, notes)
        if len(topologies) > 1:
            names = ", ".join(topology.name for topology in topologies)
            notes.append(f"the ResourceFlavor decides which topology it is: {names}")
        places = [(Flavor("", ANY_NODE, (), topology.name), topology) for topology in topologies]
    elif named or queue.only_topologies:
        places = _flavors(requests, queue, cluster, notes)
    else:
        places = [(flavor, None) for flavor in queue.flavors if flavor.topology is None]
    unasked = (
        not any(_levels(requests)) if queue is None else not named and not queue.only_topologies
    )
    placeable = bool(places) or unasked
    if queued and queue is None and placeable:
        notes.append(FLAVORS_UNKNOWN)
    keys = {name: topology.keys for name, topology in cluster.topologies.items()}
    admission = partial(_admission, root, structure, requests, keys, cluster)
    shared = admission(queue) if queue else None
    workloads = [
        Workload(
            "Kueue",
            handle_of(root),
            (_tree(name_of(root, kind_of(root.value)[1]), structure, requests, flavor, topology),),
            topology.name if topology else None,
            placeable=placeable,
            notes=tuple(dict.fromkeys(notes)),
            admission=shared or (admission(_any_queue(flavor, requests)) if topology else None),
        )
        for flavor, topology in places or [(Flavor("", ANY_NODE, (), None), None)]
    ]
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


def _any_queue(flavor: Flavor, requests: list[Request]) -> Queue:
    """For a queue that is not known: one flavor with more quota than there can be."""
    resources = tuple(
        dict.fromkeys(
            resource for request in requests for resource, _ in request.pod_set.pods.requests
        )
    )
    quota = dict.fromkeys(((flavor.name, resource) for resource in resources), 1 << 62)
    return Queue("", (ResourceGroup(resources, (flavor,)),), quota, quota, quota)


def _flavors(
    requests: list[Request], queue: Queue, cluster: ClusterFacts, notes: list[str]
) -> list[tuple[Flavor, TopologyLevels | None]]:
    """The flavors whose topologies have every level that is named, in order.

    What keeps others out is noted.
    """
    of_topology = [flavor for flavor in queue.flavors if flavor.topology]
    if not of_topology:
        request = next(request for request in requests if request.explicit)
        text = ", ".join(
            f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
            for flavor in queue.flavors
        )
        fix = (
            f"set spec.topologyName on a flavor of ClusterQueue {queue.name}, or use another queue"
        )
        request.where.error(
            "kueue/flavor-topology", text or f"ClusterQueue {queue.name} has no flavor", fix
        )
        return []
    unknown = [
        flavor.topology for flavor in of_topology if flavor.topology not in cluster.topologies
    ]
    notes += [
        f"the levels of Topology {name} are not known: its flavor is left out"
        for name in dict.fromkeys(unknown)
    ]
    places: list[tuple[Flavor, TopologyLevels]] = [
        (flavor, cluster.topologies[flavor.topology])
        for flavor in of_topology
        if flavor.topology and flavor.topology in cluster.topologies
    ]
    topologies = [topology for _, topology in places]
    for level, _ in _levels(requests):
        lacking = [flavor for flavor, topology in places if not topology.by_key(level.key)]
        if lacking and len(lacking) == len(places):
            text = ", ".join(
                f'Flavor "{flavor.name}" does not contain the requested level' for flavor in lacking
            )
            level.field.error("kueue/level-exists", text, did_you_mean_key(level.key, topologies))
    complete = [
        (flavor, topology)
        for flavor, topology in places
        if all(topology.by_key(level.key) for level, _ in _levels(requests))
    ]
    ordered = _ordered(requests, list(dict.fromkeys(topology for _, topology in complete)), notes)
    notes += [LEVELS_FIRST] * bool(places and not complete)
    return [(flavor, topology) for flavor, topology in complete if topology in ordered]


def _workload(root: Field) -> tuple[Structure, list[Request]]:
    """A Kueue Workload names its pod sets itself."""
    requests = []
    for written in (root / "spec" / "podSets").items():
        name, template = (written / "name").text() or "main", written / "template"
        pods = pods_of(name, (written / "count").number(1), template / "spec")
        requests.append(of_workload(PodSet(name, pods, template), written / "topologyRequest"))
    return Structure(tuple(request.pod_set for request in requests)), requests


def _grouped(root: Field, structure: Structure, notes: list[str]) -> Structure:
    """A Pod that belongs to a pod group stands for all of them."""
    metadata = root / "metadata"
    total = metadata / "annotations" / api.POD_GROUP_TOTAL
    if kind_of(root.value)[1] != "Pod" or not (metadata / "labels" / api.POD_GROUP).text():
        return structure
    text = total.text() or ""
    if not (text.isascii() and text.isdigit() and int(text[:9])):
        fix = f"set {api.POD_GROUP_TOTAL} to a whole number in quotes"
        total.error("kueue/pod-group", "must be the number of pods in the group", fix)
        return structure
    count = int(text[:9])
    notes.append(f"counted as {count} {plural(count, 'pod')} like this one, the whole pod group")
    pod = structure.sets[0]
    return Structure((PodSet("pod group", pod.some(count), pod.template),))


def _check_places(root: Field, structure: Structure, *, queued: bool) -> None:
    """The queue, without which nothing counts; annotations where Kueue does not look.

    Pods that are each alone.
    """
    metadata = root / "metadata"
    kind = kind_of(root.value)[1]
    if not queued:
        text = "without a queue Kueue leaves the workload alone, and its annotations have no effect"
        fix = f"label the {kind} with {api.QUEUE_NAME} (not needed where Kueue manages jobs without a queue name)"
        (metadata / "labels" / api.QUEUE_NAME).warn("kueue/queue-name", text, fix)
    if any(pod_set.template.path for pod_set in structure.sets):
        for key in api.ANNOTATIONS:
            annotation = metadata / "annotations" / key
            if annotation:
                text = f"Kueue does not read this on a {kind}"
                annotation.warn(
                    "kueue/wrong-place", text, "move it to the annotations of the pod template"
                )
    if structure.separate:
        for annotation in (
            pod_set.annotations / key
            for pod_set in structure.sets
            for key in (api.REQUIRED, api.PREFERRED)
        ):
            if annotation:
                text = f"Kueue admits each pod of a {kind} by itself, so this keeps no two of them together"
                fix = "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together"
                annotation.warn("kueue/each-pod-alone", text, fix)


def _check_remainders(requests: Iterable[Request]) -> None:
    for request in requests:
        count, size = request.pod_set.count, request.slices[0].size if request.slices else 1
        if count % size:
            request.slices[0].level.field.warn(
                "kueue/slice-remainder",
                f"{count} pods are no multiple of the slice size {size}: Kueue 0.19 assigns nodes to "
                f"{count - count % size} of them",
                "make the number of pods a multiple of the slice size",
            )


def _levels(requests: Iterable[Request]) -> Iterable[tuple[NamedLevel, bool]]:
    """Every level that is named, and whether it is one of slices."""
    for request in requests:
        if request.level:
            yield request.level, False
        for slices in request.slices:
            yield slices.level, True


def _candidates(
    requests: list[Request], cluster: ClusterFacts, notes: list[str]
) -> list[TopologyLevels]:
    """The topologies that have every level that is named, in the right order."""
    topologies = list(cluster.topologies.values())
    named = list(_levels(requests))
    if not topologies or not named:
        if named and cluster.knows_topologies:
            text = "there is no Topology that a ResourceFlavor could name"
            named[0][0].field.error("kueue/topology-exists", text, cluster.missing(""))
        notes += ["no topology is known: levels and room are not checked"] * bool(named)
        return []
    missing = False
    for level, of_slices in named:
        if not any(topology.by_key(level.key) for topology in topologies):
            missing = True
            text = f"no Topology has the level {level.key}{' of the slices' if of_slices else ''}"
            level.field.error("kueue/level-exists", text, did_you_mean_key(level.key, topologies))
    complete = [
        topology for topology in topologies if all(topology.by_key(level.key) for level, _ in named)
    ]
    if not complete:
        notes.append(LEVELS_FIRST)
    if not complete and not missing:
        keys = ", ".join(dict.fromkeys(level.key for level, _ in named))
        fix = "name levels of one topology; only pod sets that get flavors of their own can be on several"
        named[-1][0].field.warn(
            "kueue/one-topology", f"no topology has all of these levels: {keys}", fix
        )
    return _ordered(requests, complete, notes)


def _ordered(
    requests: list[Request], complete: list[TopologyLevels], notes: list[str]
) -> list[TopologyLevels]:
    """The topologies whose order the request keeps to.

    Where there is none, an error says what is wrong with it.
    """
    ordered = [
        topology
        for topology in complete
        if not any(_disorder(request, topology) for request in requests)
    ]
    if complete and not ordered:
        for request in requests:
            wrong = _disorder(request, complete[0])
            if wrong:
                notes.append(LEVELS_FIRST)
                inner, outer = wrong
                text = f"podset slice topology {inner.key} is above the podset topology {outer.key}"
                inner.field.error(
                    "kueue/slice-level", text, f"name a level that is narrower than {outer.key}"
                )
    return ordered


def _disorder(request: Request, topology: TopologyLevels) -> tuple[NamedLevel, NamedLevel] | None:
    """Two levels of a request of which the inner one is broader than the outer.

    Layers may not even be equal.
    """
    outer, strict = request.level, False
    for slices in request.slices:
        inner = slices.level
        if outer:
            broad, narrow = _rank(topology, outer), _rank(topology, inner)
            if narrow < broad or (strict and narrow == broad):
                return inner, outer
        outer, strict = inner, True
    return None


def _rank(topology: TopologyLevels, named: NamedLevel) -> int:
    level = topology.by_key(named.key)
    return topology.rank(level) if level else -1


def _tree(
    name: str,
    structure: Structure,
    requests: list[Request],
    flavor: Flavor,
    topology: TopologyLevels | None,
) -> Group:
    """All pod sets of one copy on the nodes of a flavor; those of one group share its level."""
    requests = [replace(request, pod_set=_on(flavor, request.pod_set)) for request in requests]
    if structure.separate:
        pods = tuple(_set(request, 1, topology) for request in requests)
        return Group("pod", groups=pods, copies=structure.sets[0].count)
    below = [
        _set(request, request.pod_set.count, topology) for request in requests if not request.group
    ]
    grouped: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            grouped.setdefault(request.group, []).append(request)
    for group, members in grouped.items():
        together = tuple(member.pod_set.some(member.pod_set.count) for member in members)
        below.append(_group(f"pod set group {group}", together, (), members[0], topology))
    return Group(name, groups=tuple(below), copies=structure.copies)


def _on(flavor: Flavor, pod_set: PodSet) -> PodSet:
    """The pods with what the flavor adds to them."""
    own, added = pod_set.pods.node_filter, flavor.nodes
    both = NodeFilter(
        (*own.selector, *added.selector), own.terms, (*own.tolerations, *added.tolerations)
    )
    return replace(pod_set, pods=replace(pod_set.pods, node_filter=both))


def _admission(
    root: Field,
    structure: Structure,
    requests: list[Request],
    topologies: Mapping[str, tuple[str, ...]],
    cluster: ClusterFacts,
    queue: Queue,
) -> KueueAdmission:
    """The pod sets as Kueue admits them.

    One workload for each copy, and for each pod where it sees them apart.
    """
    pod_sets = tuple(
        OrderedPods(
            replace(
                request.pod_set.some(1 if structure.separate else request.pod_set.count),
                name=request.pod_set.name,
            ),
            request.level.key if request.level else None,
            request.required is not None,
            tuple((layer.level.key, layer.size) for layer in request.slices),
            request.group,
            request.explicit,
            _least(root, request.pod_set),
        )
        for request in requests
    )
    copies = structure.sets[0].count if structure.separate else structure.copies
    return KueueAdmission(
        pod_sets, queue, topologies, cluster.held, own_workloads(root, cluster), copies
    )


def _least(root: Field, pod_set: PodSet) -> int | None:
    """With how many pods the set may be admitted, too; None: with all only."""
    kind = kind_of(root.value)
    if kind == api.WORKLOADS.key:
        for written in (root / "spec" / "podSets").items():
            if (written / "name").text() == pod_set.name and written / "minCount":
                return (written / "minCount").number(pod_set.count)
    field = root / "metadata" / "annotations" / api.MIN_PARALLELISM
    text = field.text() if kind == ("batch", "Job") else None
    if text is None:
        return None
    least = (
        int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < _DIGITS else -1
    )
    if not 0 < least < pod_set.count:
        fix = "write how many pods would do, in quotes"
        field.error("kueue/min-parallelism", f"should be between 0 and {pod_set.count - 1}", fix)
        return None
    return least


def _set(request: Request, count: int, topology: TopologyLevels | None) -> Group:
    pods, slices = _sliced(request.pod_set, count, request.slices, topology)
    return _group(f"pod set {request.pod_set.name}", pods, slices, request, topology)


def _group(
    name: str,
    pods: tuple[Pods, ...],
    below: tuple[Group, ...],
    request: Request,
    topology: TopologyLevels | None,
) -> Group:
    required = topology.by_key(request.required.key) if topology and request.required else None
    preferred = topology.by_key(request.preferred.key) if topology and request.preferred else None
    return Group(name, pods, below, required, preferred)


def _sliced(
    pod_set: PodSet, count: int, slices: tuple[Slices, ...], topology: TopologyLevels | None
) -> tuple[tuple[Pods, ...], tuple[Group, ...]]:
    """`count` pods of the set in slices, and those in smaller ones.

    Without slices the pods themselves.
    """
    if not slices or topology is None:
        return (pod_set.some(count),), ()
    level = topology.by_key(slices[0].level.key)
    size = slices[0].size
    pods, below = _sliced(pod_set, size, slices[1:], topology)
    return (), (Group(f"slice of {pod_set.name}", pods, below, level, copies=count // size),)
