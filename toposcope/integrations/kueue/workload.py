"""Kueue: pod sets kept together, in slices, or two of them together.

From annotations or from a Workload. Rules and messages: Kueue 0.19 (topology-aware scheduling).
Which topology it will be depends on the ResourceFlavor that Kueue chooses, so any that has all the
levels may be meant. Levels are label keys. A preferred level is given up for the next broader one,
and at last for none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Workloads, and every kind with pod templates that names a queue.

    Or has an annotation on one of them.
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
        no_place = Workload(
            "Kueue", handle_of(root), (), placeable=False, notes=(*notes, _QUEUE_FIRST)
        )
        return Reading(no_place)
    if queue is None:
        places = _of_any_queue(requests, cluster, notes)
        unasked = not any(_levels(requests))
    else:
        places = _of_queue(queue, requests, cluster, notes)
        unasked = not _wants_topology(queue, requests)
    placeable = bool(places) or unasked
    if queued and queue is None and placeable:
        notes.append(FLAVORS_UNKNOWN)
    submitted = _Submitted(root, structure, requests, cluster)
    shared = submitted.admission(queue) if queue else None
    workloads = []
    for place in places or [_Place(_NO_FLAVOR, None)]:
        topology, admission = place.topology, shared
        if admission is None and topology is not None:
            admission = submitted.admission(_any_queue(place.flavor, requests))
        workload = Workload(
            "Kueue",
            handle_of(root),
            groups=(submitted.tree(place),),
            topology=topology.name if topology else None,
            placeable=placeable,
            notes=tuple(dict.fromkeys(notes)),
            admission=admission,
        )
        workloads.append(workload)
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


@dataclass(frozen=True, slots=True)
class _Place:
    """A flavor that the pods may get, and its topology; None: it has none that counts."""

    flavor: Flavor
    topology: TopologyLevels | None


_NO_FLAVOR: Final = Flavor("", ANY_NODE, (), None)


def _wants_topology(queue: Queue, requests: Iterable[Request]) -> bool:
    """Whether Kueue assigns nodes: a pod set asks for it, or each flavor has a topology."""
    return queue.only_topologies or any(request.explicit for request in requests)


def _of_any_queue(requests: list[Request], cluster: ClusterFacts, notes: list[str]) -> list[_Place]:
    """Every topology that has all levels, where the queue is not known."""
    topologies = _candidates(requests, cluster, notes)
    if len(topologies) > 1:
        names = ", ".join(topology.name for topology in topologies)
        notes.append(f"the ResourceFlavor decides which topology it is: {names}")
    places = []
    for topology in topologies:
        places.append(_Place(replace(_NO_FLAVOR, topology=topology.name), topology))
    return places


def _of_queue(
    queue: Queue, requests: list[Request], cluster: ClusterFacts, notes: list[str]
) -> list[_Place]:
    """The flavors of a queue that come into question."""
    if _wants_topology(queue, requests):
        return _flavors(requests, queue, cluster, notes)
    return [_Place(flavor, None) for flavor in queue.flavors if flavor.topology is None]


def _any_queue(flavor: Flavor, requests: list[Request]) -> Queue:
    """For a queue that is not known: one flavor with more quota than there can be."""
    resources: dict[str, None] = {}
    for request in requests:
        for resource, _ in request.pod_set.pods.requests:
            resources[resource] = None
    quota = {(flavor.name, resource): _MORE_THAN_THERE_IS for resource in resources}
    group = ResourceGroup(tuple(resources), (flavor,))
    return Queue("", (group,), nominal=quota, available=quota, capacity=quota)


_MORE_THAN_THERE_IS: Final = 1 << 62


def _flavors(
    requests: list[Request], queue: Queue, cluster: ClusterFacts, notes: list[str]
) -> list[_Place]:
    """The flavors whose topologies have every level that is named, in order.

    What keeps others out is noted.
    """
    of_topology = [flavor for flavor in queue.flavors if flavor.topology]
    if not of_topology:
        _note_no_topology(requests, queue)
        return []
    places, unknown = [], []
    for flavor in of_topology:
        name = flavor.topology or ""
        if name in cluster.topologies:
            places.append(_Place(flavor, cluster.topologies[name]))
        else:
            unknown.append(name)
    for name in dict.fromkeys(unknown):
        notes.append(f"the levels of Topology {name} are not known: its flavor is left out")
    named = [level for level, _ in _levels(requests)]
    for level in named:
        _check_level(level, places)
    complete = []
    for place in places:
        if all(_has(place, level) for level in named):
            complete.append(place)
    topologies = dict.fromkeys([place.topology for place in complete if place.topology])
    ordered = _ordered(requests, list(topologies), notes)
    if places and not complete:
        notes.append(LEVELS_FIRST)
    return [place for place in complete if place.topology in ordered]


def _has(place: _Place, level: NamedLevel) -> bool:
    return place.topology is not None and place.topology.by_key(level.key) is not None


def _check_level(level: NamedLevel, places: Sequence[_Place]) -> None:
    """Note a level that no flavor has."""
    if not places or any(_has(place, level) for place in places):
        return
    texts = []
    for place in places:
        texts.append(f'Flavor "{place.flavor.name}" does not contain the requested level')
    topologies = [place.topology for place in places if place.topology]
    fix = did_you_mean_key(level.key, topologies)
    level.field.error("kueue/level-exists", ", ".join(texts), fix)


def _note_no_topology(requests: list[Request], queue: Queue) -> None:
    """Note that a pod set asks for a topology, and no flavor has one."""
    texts = []
    for flavor in queue.flavors:
        texts.append(f'Flavor "{flavor.name}" does not support TopologyAwareScheduling')
    text = ", ".join(texts) or f"ClusterQueue {queue.name} has no flavor"
    fix = f"set spec.topologyName on a flavor of ClusterQueue {queue.name}, or use another queue"
    for request in requests:
        if request.explicit:
            request.where.error("kueue/flavor-topology", text, fix)
            return


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
        fix = (
            f"label the {kind} with {api.QUEUE_NAME} (not needed where Kueue manages jobs without "
            "a queue name)"
        )
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
                text = (
                    f"Kueue admits each pod of a {kind} by itself, "
                    "so this keeps no two of them together"
                )
                fix = "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together"
                annotation.warn("kueue/each-pod-alone", text, fix)


def _check_remainders(requests: Iterable[Request]) -> None:
    for request in requests:
        count, size = request.pod_set.count, request.slices[0].size if request.slices else 1
        if count % size:
            request.slices[0].level.field.warn(
                "kueue/slice-remainder",
                f"{count} pods are no multiple of the slice size {size}: "
                "Kueue 0.19 assigns nodes to "
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
        fix = (
            "name levels of one topology; only pod sets that get flavors of their own can be on "
            "several"
        )
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


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A document with its pod sets."""

    root: Field
    structure: Structure
    requests: list[Request]
    cluster: ClusterFacts

    def admission(self, queue: Queue) -> KueueAdmission:
        """The pod sets as Kueue admits them.

        One workload for each copy, and for each pod where it sees them apart.
        """
        separate = self.structure.separate
        pod_sets = [self._ordered_pods(request) for request in self.requests]
        topologies = {}
        for name, topology in self.cluster.topologies.items():
            topologies[name] = topology.keys
        return KueueAdmission(
            tuple(pod_sets),
            queue,
            topologies,
            self.cluster.held,
            own_workloads(self.root, self.cluster),
            self.structure.sets[0].count if separate else self.structure.copies,
        )

    def _ordered_pods(self, request: Request) -> OrderedPods:
        pod_set = request.pod_set
        pods = pod_set.some(1 if self.structure.separate else pod_set.count)
        slices = [(layer.level.key, layer.size) for layer in request.slices]
        return OrderedPods(
            replace(pods, name=pod_set.name),
            request.level.key if request.level else None,
            request.required is not None,
            tuple(slices),
            request.group,
            request.explicit,
            _least(self.root, pod_set),
        )

    def tree(self, place: _Place) -> Group:
        """All pod sets of one copy on the nodes of a flavor; one group shares its level."""
        topology, requests = place.topology, []
        for request in self.requests:
            requests.append(replace(request, pod_set=_on(place.flavor, request.pod_set)))
        if self.structure.separate:
            pods = [_set(request, 1, topology) for request in requests]
            return Group("pod", groups=tuple(pods), copies=self.structure.sets[0].count)
        below = []
        grouped: dict[str, list[Request]] = {}
        for request in requests:
            if request.group:
                grouped.setdefault(request.group, []).append(request)
            else:
                below.append(_set(request, request.pod_set.count, topology))
        for group, members in grouped.items():
            together = [member.pod_set.some(member.pod_set.count) for member in members]
            name = f"pod set group {group}"
            below.append(_group(name, tuple(together), (), members[0], topology))
        name = name_of(self.root, kind_of(self.root.value)[1])
        return Group(name, groups=tuple(below), copies=self.structure.copies)


def _on(flavor: Flavor, pod_set: PodSet) -> PodSet:
    """The pods with what the flavor adds to them."""
    own, added = pod_set.pods.node_filter, flavor.nodes
    both = NodeFilter(
        (*own.selector, *added.selector), own.terms, (*own.tolerations, *added.tolerations)
    )
    return replace(pod_set, pods=replace(pod_set.pods, node_filter=both))


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
    name = request.pod_set.name
    group = _group("", pods, slices, request, topology)
    return replace(group, name=f"{api.POD_SET} {name}", kind=api.POD_SET, own_name=name)


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
