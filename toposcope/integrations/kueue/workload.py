"""Workloads for Kueue: pod sets kept together, in slices, or two of them together.

They are read from annotations or from a Workload. Rules and messages: Kueue 0.19 (topology-aware
scheduling). Which topology it will be depends on the ResourceFlavor that Kueue chooses, so any that
has all the levels may be meant. Levels are label keys. A preferred level is given up for the next
broader one, and at last for none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import (
    Field,
    UnreadField,
    handle_of,
    kind_of,
    name_of,
)
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean_key
from toposcope.integrations.framework.node_affinity import ANY_NODE
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.unknown_fields import check_fields, schema
from toposcope.integrations.kueue import api, manager
from toposcope.integrations.kueue.assignment import OrderedPods, SliceLayer
from toposcope.integrations.kueue.pod_groups import grouped, whole_number
from toposcope.integrations.kueue.pod_sets import as_pod_sets
from toposcope.integrations.kueue.queues import (
    Flavor,
    Queue,
    ResourceGroup,
    are_known,
    own_workloads,
    queue_name,
    queue_of,
)
from toposcope.integrations.kueue.request import (
    PodSetRequest,
    RequestedLevel,
    Slices,
    annotated,
    check_groups,
    doubted_groups,
    of_workload,
)
from toposcope.integrations.kueue.resource_rules import resource_rules
from toposcope.integrations.kueue.scheduling import KueueAdmission
from toposcope.integrations.kueue.submission import (
    check_submission,
    checks_pairs,
    held_back_by,
    is_left_alone,
)

FLAVORS_UNKNOWN: Final = (
    "the queue's flavors are not known: their nodes, taints and quota are not checked"
)
_QUEUE_FIRST: Final = "levels and room are not checked until the queue is fixed"
_REFUSED: Final = "Kueue rejects the workload as written, even on an empty cluster"
_LEFT_ALONE: Final = (
    "Kueue does not manage a RayJob with a clusterSelector: it runs on that cluster"
)
_FLAVORS_APART: Final = (
    "no topology has all of these levels, and it is unknown which flavor each pod set gets"
)
_QUOTA_DECIDES: Final = "the queue's quota, which is unknown, decides how many pods are admitted"
_MOST_DIGITS: Final = 9
"""The longest number of pods that is read, in digits."""
_UNLIMITED: Final = 1 << 62
"""More quota than any cluster has."""


def _claims(document: Mapping[str, Any]) -> bool:
    """Workloads, and every kind with pod templates that names a queue or has an annotation."""
    if kind_of(document) == api.WORKLOADS.key:
        return True
    root = Field(document)
    structure = structure_of(root)
    if structure is None:
        return False
    if (root / "metadata" / "labels" / api.QUEUE_NAME).text():
        return True
    places = [root / "metadata" / "annotations"]
    for pod_set in structure.sets:
        places.append(pod_set.annotations)
    for annotations in places:
        for key in api.ANNOTATIONS:
            if annotations / key:
                return True
    return False


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    # annotations of a pod template cannot change where they count; the API server says so itself
    del before

    if is_left_alone(root):
        left_alone = Workload("Kueue", handle_of(root), groups=(), notes=(_LEFT_ALONE,))
        return Reading(left_alone)
    if kind_of(root.value) == api.WORKLOADS.key:
        check_fields(root, schema("kueue", "Workload"), "kueue/field", api.VERSION)
        structure, requests = _workload(root)
        submitted = _Submitted(root, structure, requests, cluster)
        is_refused = check_submission(root, structure)
        return _checked(submitted, [], is_refused=is_refused)

    structure = structure_of(root) or Structure(())
    structure = as_pod_sets(root, structure)
    group = grouped(root, structure, cluster)
    structure = group.structure
    queue = queue_name(root, cluster)
    _check_places(root, structure, has_queue=bool(queue))
    requests = [annotated(pod_set) for pod_set in structure.sets]
    submitted = _Submitted(root, structure, requests, cluster, group.is_order_known)
    is_refused = bool(queue) and check_submission(root, structure)
    notes = [group.note] if group.note else []
    return _checked(submitted, notes, is_refused=is_refused)


def _checked(submitted: "_Submitted", notes: list[str], *, is_refused: bool) -> Reading:
    """The reading of a submitted workload, with what Kueue may reject or do differently."""
    requests = submitted.requests
    by_webhook = checks_pairs(submitted.root)
    check_groups(requests, is_checked_by_webhook=by_webhook)
    _check_remainders(requests)

    doubts: dict[str, None] = {}
    if is_refused or any(request.is_refused for request in requests):
        doubts[_REFUSED] = None
    for request in requests:
        doubts |= dict.fromkeys(request.doubts)
    doubts |= dict.fromkeys(manager.doubts(submitted.root, submitted.cluster))
    if not by_webhook:
        doubts |= dict.fromkeys(doubted_groups(requests))
    return _doubted(_reading(submitted, notes), doubts)


def _doubted(reading: Reading, doubts: Iterable[str]) -> Reading:
    """The reading, marked as uncertain for these reasons."""
    doubt = "; ".join(doubts)
    workload = reading.workload
    if not doubt or workload is None:
        return reading
    alternatives = []
    for alternative in reading.alternatives:
        alternatives.append(replace(alternative, doubt=_joined(alternative.doubt, doubt)))
    workload = replace(workload, doubt=_joined(workload.doubt, doubt))
    return replace(reading, workload=workload, alternatives=tuple(alternatives))


def _joined(doubt: str, another: str) -> str:
    return f"{doubt}; {another}" if doubt else another


SYSTEM: Final = System("Kueue", _claims, _read, "kueue")
READERS: Final = (SYSTEM,)


@dataclass(frozen=True, slots=True)
class _Place:
    """A flavor that the pods may get."""

    flavor: Flavor
    topology: TopologyLevels | None = None
    """None if it has none that counts."""


@dataclass(frozen=True, slots=True)
class _KnownPlace(_Place):
    """A flavor with a topology that is known."""

    topology: TopologyLevels


_NO_FLAVOR: Final = Flavor("", ANY_NODE, (), None)
_NOWHERE: Final = _Place(_NO_FLAVOR)


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A document with its pod sets."""

    root: Field
    structure: Structure
    requests: list[PodSetRequest]
    cluster: ClusterFacts
    is_order_known: bool = True

    def admission(self, queue: Queue) -> KueueAdmission:
        """The pod sets as Kueue admits them.

        It admits a workload for each copy, or for each pod where it takes pods apart.
        """
        held_back = held_back_by(self.root)
        if held_back:
            queue = replace(queue, blocked_by=held_back)
        topologies = {}
        for name, topology in self.cluster.topologies.items():
            topologies[name] = topology.keys
        copies = self.structure.copies
        if self.structure.has_separate_pods:
            copies = self.structure.sets[0].count
        return KueueAdmission(
            pod_sets=tuple([self._ordered_pods(request) for request in self.requests]),
            queue=queue,
            topologies=topologies,
            held=self.cluster.held,
            own=own_workloads(self.root, self.cluster),
            copies=copies,
            rules=resource_rules(self.cluster),
            is_order_known=self.is_order_known,
        )

    def minimums(self, admission: KueueAdmission | None) -> tuple[UnreadField, ...]:
        """Fields that let a queue of unknown quota admit fewer pods; none with an `admission`."""
        if admission is not None:
            return ()
        fields = []
        for request in self.requests:
            least = _least(self.root, request.pod_set)
            if least is not None and least < request.pod_set.count:
                field = _least_field(self.root, request.pod_set)
                fields.append(UnreadField(field.path, _QUOTA_DECIDES))
        return tuple(fields)

    def _ordered_pods(self, request: PodSetRequest) -> OrderedPods:
        pod_set = request.pod_set
        count = 1 if self.structure.has_separate_pods else pod_set.count
        pods = replace(pod_set.some(count), name=pod_set.name)
        slices = [SliceLayer(layer.level.key, layer.size) for layer in request.slices]
        return OrderedPods(
            pods=pods,
            level=request.level.key if request.level else None,
            is_required=request.required is not None,
            slices=tuple(slices),
            group=request.group,
            is_explicit=request.is_explicit,
            least=_least(self.root, pod_set),
        )

    def workload(self, place: _Place, notes: Iterable[str], *, is_placeable: bool) -> Workload:
        """All copies on the nodes of a flavor."""
        return Workload(
            "Kueue",
            handle_of(self.root),
            groups=(self._tree(place),),
            topology=place.topology.name if place.topology else None,
            is_placeable=is_placeable,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _tree(self, place: _Place) -> Group:
        """All pod sets of one copy on the nodes of a flavor; one group shares its level."""
        topology = place.topology
        requests = []
        for request in self.requests:
            pod_set = _on(place.flavor, request.pod_set)
            requests.append(replace(request, pod_set=pod_set))
        if self.structure.has_separate_pods:
            single_pods = [_set(request, 1, topology) for request in requests]
            copies = self.structure.sets[0].count
            return Group("pod", groups=tuple(single_pods), copies=copies)

        below = []
        grouped: dict[str, list[PodSetRequest]] = {}
        for request in requests:
            if request.group:
                grouped.setdefault(request.group, []).append(request)
            else:
                below.append(_set(request, request.pod_set.count, topology))
        for group_name, members in grouped.items():
            below.append(_together(group_name, members, topology))

        kind = kind_of(self.root.value)[1]
        name = name_of(self.root, kind)
        return Group(name, groups=tuple(below), copies=self.structure.copies)


def _reading(submitted: _Submitted, notes: list[str]) -> Reading:
    """A workload for each topology that it may get.

    Where the queue is known, these are those of its flavors.
    """
    root, cluster = submitted.root, submitted.cluster
    queued = bool(queue_name(root, cluster))
    if not queued or not are_known(cluster):
        return _in_any_queue(submitted, notes, has_queue=queued)
    queue = queue_of(root, cluster)
    if queue is not None:
        return _in_queue(submitted, queue, notes)
    no_place = Workload(
        "Kueue",
        handle_of(root),
        groups=(),
        is_placeable=False,
        notes=(*notes, _QUEUE_FIRST),
    )
    return Reading(no_place)


def _in_queue(submitted: _Submitted, queue: Queue, notes: list[str]) -> Reading:
    """A workload for each flavor of the queue that it may get."""
    requests = submitted.requests
    places: Sequence[_Place]
    wants_topology = any(request.is_explicit for request in requests)
    if wants_topology or queue.has_only_topologies:
        flavors = _flavors(requests, queue, submitted.cluster, notes)
        places = flavors.places
        placeable = bool(places) or flavors.are_apart
    else:
        places = _without_topology(queue)
        placeable = True

    admission = submitted.admission(queue)
    doubt = "; ".join(queue.doubts)
    workloads = []
    for place in places or [_NOWHERE]:
        workload = submitted.workload(place, notes, is_placeable=placeable)
        in_queue = replace(
            workload, admission=admission, doubt=doubt, queue=queue.name, queue_group=api.GROUP
        )
        workloads.append(in_queue)
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


def _without_topology(queue: Queue) -> list[_Place]:
    """The flavors without a topology, on which Kueue assigns no nodes."""
    places = []
    for flavor in queue.flavors:
        if flavor.topology is None:
            places.append(_Place(flavor))
    return places


def _in_any_queue(submitted: _Submitted, notes: list[str], *, has_queue: bool) -> Reading:
    """A workload for each topology, if the queue's flavors are unknown."""
    requests = submitted.requests
    places: Sequence[_Place] = _of_any_queue(requests, submitted.cluster, notes)
    are_apart = not places and _have_flavors(requests, submitted.cluster.topologies.values())
    placeable = bool(places) or are_apart or not any(_asked_levels(requests))
    if has_queue and placeable:
        notes.append(FLAVORS_UNKNOWN)

    workloads = []
    for place in places or [_NOWHERE]:
        admission = None
        if place.topology is not None:
            queue = _any_queue(place.flavor, requests)
            admission = submitted.admission(queue)
        workload = submitted.workload(place, notes, is_placeable=placeable)
        doubt = _FLAVORS_APART if are_apart else ""
        unread = submitted.minimums(admission)
        workloads.append(replace(workload, admission=admission, doubt=doubt, unread=unread))
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


def _of_any_queue(
    requests: list[PodSetRequest], cluster: ClusterFacts, notes: list[str]
) -> list[_KnownPlace]:
    """Every topology that has all levels, if the queue is unknown."""
    topologies = _candidates(requests, cluster, notes)
    if len(topologies) > 1:
        names = ", ".join(topology.name for topology in topologies)
        notes.append(f"the ResourceFlavor decides which topology it is: {names}")
    places = []
    for topology in topologies:
        flavor = replace(_NO_FLAVOR, topology=topology.name)
        places.append(_KnownPlace(flavor, topology))
    return places


def _any_queue(flavor: Flavor, requests: list[PodSetRequest]) -> Queue:
    """A placeholder for an unknown queue: its flavor has more quota than any cluster."""
    quota: dict[tuple[str, str], int] = {}
    for request in requests:
        for resource, _ in request.pod_set.pods.requests:
            quota[flavor.name, resource] = _UNLIMITED
    resources = [resource for _, resource in quota]
    group = ResourceGroup(tuple(resources), (flavor,))
    return Queue(
        name="",
        groups=(group,),
        nominal=quota,
        available=quota,
        capacity=quota,
    )


@dataclass(frozen=True, slots=True)
class _FlavorsOfQueue:
    """The flavors that a workload may get as a whole."""

    places: list[_KnownPlace]
    are_apart: bool = False
    """Whether no flavor has all levels, but each pod set may get a flavor of its own."""


def _flavors(
    requests: list[PodSetRequest], queue: Queue, cluster: ClusterFacts, notes: list[str]
) -> _FlavorsOfQueue:
    """The flavors whose topologies have every requested level, in order.

    Notes why others are excluded.
    """
    if not queue.has_topologies:
        _note_no_topology(requests, queue)
        return _FlavorsOfQueue([])
    places = _known_places(queue.flavors, cluster, notes)
    complete = _complete(requests, places)
    if not complete and _have_flavors(requests, _topologies_of(places)):
        return _FlavorsOfQueue([], are_apart=True)
    ordered = _ordered(requests, _topologies_of(complete))
    if places and not ordered:
        notes += cluster.levels_first
    return _FlavorsOfQueue([place for place in complete if place.topology in ordered])


def _complete(
    requests: Iterable[PodSetRequest], places: Sequence[_KnownPlace]
) -> list[_KnownPlace]:
    """The flavors that have every level. Notes each level that no flavor has."""
    named = [requested.level for requested in _asked_levels(requests)]
    for level in named:
        _check_level(level, places)
    return [place for place in places if _has_all(place.topology, named)]


def _topologies_of(places: Iterable[_KnownPlace]) -> list[TopologyLevels]:
    """The topologies of these flavors, each once."""
    topologies: dict[TopologyLevels, None] = {}
    for place in places:
        topologies[place.topology] = None
    return list(topologies)


def _have_flavors(requests: Iterable[PodSetRequest], topologies: Iterable[TopologyLevels]) -> bool:
    """Whether each pod set has a topology with all of its levels in the right order.

    False if no pod set requests a level.
    """
    requests = list(requests)
    if not any(_asked_levels(requests)):
        return False
    choices = list(topologies)
    for request in requests:
        named = [requested.level for requested in _asked_levels([request])]
        for topology in choices:
            if _has_all(topology, named) and not _disorder(request, topology):
                break
        else:
            return False
    return bool(choices)


def _known_places(
    flavors: Iterable[Flavor], cluster: ClusterFacts, notes: list[str]
) -> list[_KnownPlace]:
    """The flavors whose topologies are known. Notes the others."""
    places = []
    unknown: dict[str, None] = {}
    for flavor in flavors:
        name = flavor.topology
        if not name:
            continue
        topology = cluster.topologies.get(name)
        if topology is None:
            unknown[name] = None
        else:
            places.append(_KnownPlace(flavor, topology))
    for name in unknown:
        notes.append(f"the levels of Topology {name} are unknown, so its flavor is left out")
    return places


def _has_all(topology: TopologyLevels, levels: Iterable[RequestedLevel]) -> bool:
    for level in levels:
        if topology.by_key(level.key) is None:
            return False
    return True


def _check_level(level: RequestedLevel, places: Sequence[_KnownPlace]) -> None:
    """Note a level that no flavor has."""
    texts = []
    topologies = []
    for place in places:
        if place.topology.by_key(level.key) is not None:
            return
        topologies.append(place.topology)
        texts.append(f'Flavor "{place.flavor.name}" does not contain the requested level')
    if texts:
        fix = did_you_mean_key(level.key, topologies)
        level.field.error("kueue/level-exists", ", ".join(texts), fix)


def _note_no_topology(requests: list[PodSetRequest], queue: Queue) -> None:
    """Note that a pod set requests a topology, but no flavor has one."""
    texts = []
    for flavor in queue.flavors:
        texts.append(f'Flavor "{flavor.name}" does not support TopologyAwareScheduling')
    text = ", ".join(texts) or f"ClusterQueue {queue.name} has no flavor"
    fix = f"set spec.topologyName on a flavor of ClusterQueue {queue.name}, or use another queue"
    for request in requests:
        if request.is_explicit:
            request.where.error("kueue/flavor-topology", text, fix)
            return


def _workload(root: Field) -> tuple[Structure, list[PodSetRequest]]:
    """Read a Kueue Workload, which lists its pod sets itself."""
    requests = []
    written_sets = root / "spec" / "podSets"
    for written in written_sets.items():
        name = (written / "name").text() or "main"
        count = (written / "count").number(1)
        template = written / "template"
        pods = pods_of(name, count, template / "spec")
        pod_set = PodSet(name, pods, template)
        requests.append(of_workload(pod_set, written / "topologyRequest"))
    pod_sets = [request.pod_set for request in requests]
    return Structure(tuple(pod_sets)), requests


def _check_places(root: Field, structure: Structure, *, has_queue: bool) -> None:
    """Check that there is a queue, and that the annotations are where Kueue reads them."""
    kind = kind_of(root.value)[1]
    if not has_queue:
        _warn_no_queue(root, kind)
    has_template = any(pod_set.template.path for pod_set in structure.sets)
    if has_template:
        _check_own_annotations(root, kind, structure.sets)
    if structure.has_separate_pods:
        for pod_set in structure.sets:
            _check_alone(pod_set, kind)


def _warn_no_queue(root: Field, kind: str) -> None:
    label = root / "metadata" / "labels" / api.QUEUE_NAME
    label.warn(
        "kueue/queue-name",
        "Kueue does not manage a workload without a queue, so its annotations have no effect",
        f"label the {kind} with {api.QUEUE_NAME} "
        "(not needed where Kueue manages jobs without a queue name)",
    )


def _check_own_annotations(root: Field, kind: str, pod_sets: Sequence[PodSet]) -> None:
    """Warn about annotations of the workload that belong in its pod template.

    An annotation that all pod templates repeat takes effect there.
    """
    for key in api.ANNOTATIONS:
        annotation = root / "metadata" / "annotations" / key
        if not annotation:
            continue
        if all(annotation.value == (each.annotations / key).value for each in pod_sets):
            text = f"Kueue reads this on the pod template, not on the {kind}"
            annotation.warn("kueue/duplicate", text, "remove this copy; it has no effect")
            continue
        annotation.warn(
            "kueue/wrong-place",
            f"Kueue does not read this on a {kind}",
            "move it to the annotations of the pod template",
        )


def _check_alone(pod_set: PodSet, kind: str) -> None:
    """Note annotations that have no effect because Kueue admits each pod separately."""
    for key in (api.REQUIRED, api.PREFERRED):
        annotation = pod_set.annotations / key
        if annotation:
            annotation.warn(
                "kueue/each-pod-alone",
                f"Kueue admits each pod of a {kind} separately, so this keeps no pods together",
                "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together",
            )


def _check_remainders(requests: Iterable[PodSetRequest]) -> None:
    """Note pods that are left over when a pod set is cut into slices."""
    for request in requests:
        if not request.slices:
            continue
        count = request.pod_set.count
        broadest = request.slices[0]
        remainder = count % broadest.size
        if remainder:
            broadest.level.field.warn(
                "kueue/slice-remainder",
                f"{count} pods are no multiple of the slice size {broadest.size}: "
                f"Kueue 0.19 assigns nodes to {count - remainder} of them",
                "make the number of pods a multiple of the slice size",
            )


@dataclass(frozen=True, slots=True)
class _AskedLevel:
    """A requested level, of the whole set or of its slices."""

    level: RequestedLevel
    is_of_slices: bool = False


def _asked_levels(requests: Iterable[PodSetRequest]) -> Iterator[_AskedLevel]:
    """Every requested level."""
    for request in requests:
        if request.level:
            yield _AskedLevel(request.level)
        for slices in request.slices:
            yield _AskedLevel(slices.level, is_of_slices=True)


def _candidates(
    requests: list[PodSetRequest], cluster: ClusterFacts, notes: list[str]
) -> list[TopologyLevels]:
    """The topologies that have every requested level, in the right order."""
    requested_levels = list(_asked_levels(requests))
    if not requested_levels:
        return []
    topologies = list(cluster.topologies.values())
    if not topologies:
        if cluster.knows_topologies:
            text = "there is no Kueue Topology, so no ResourceFlavor can use one"
            requested_levels[0].level.field.error(
                "kueue/topology-exists", text, cluster.missing("")
            )
        notes.append("no topology is known, so levels and room are not checked")
        return []

    missing = _check_levels(requested_levels, topologies)
    named = [level.level for level in requested_levels]
    complete = []
    for topology in topologies:
        if _has_all(topology, named):
            complete.append(topology)
    if not complete and not missing:
        _warn_no_common_topology(named)
    ordered = _ordered(requests, complete)
    if not ordered:
        notes += cluster.levels_first
    return ordered


def _check_levels(
    requested_levels: Iterable[_AskedLevel], topologies: Sequence[TopologyLevels]
) -> bool:
    """Note the levels that no topology has. Returns whether there are any."""
    missing = False
    for named in requested_levels:
        key = named.level.key
        if any(topology.by_key(key) for topology in topologies):
            continue
        missing = True
        text = f"no Topology has the level {key}"
        if named.is_of_slices:
            text += " of the slices"
        named.level.field.error("kueue/level-exists", text, did_you_mean_key(key, topologies))
    return missing


def _warn_no_common_topology(named: Sequence[RequestedLevel]) -> None:
    keys = dict.fromkeys([level.key for level in named])
    named[-1].field.warn(
        "kueue/one-topology",
        f"no topology has all of these levels: {', '.join(keys)}",
        "name levels of one topology; "
        "only pod sets that get flavors of their own can be on several",
    )


def _ordered(requests: list[PodSetRequest], complete: list[TopologyLevels]) -> list[TopologyLevels]:
    """The topologies whose order the requests follow. If there is none, records an error."""
    ordered = []
    for topology in complete:
        if not any(_disorder(request, topology) for request in requests):
            ordered.append(topology)
    if ordered or not complete:
        return ordered
    for request in requests:
        disorder = _disorder(request, complete[0])
        if disorder:
            disorder.note()
    return ordered


@dataclass(frozen=True, slots=True)
class _Disorder:
    """An inner level that is broader than the outer one."""

    inner: RequestedLevel
    outer: RequestedLevel

    def note(self) -> None:
        """Record the error at the field of the inner level."""
        inner, outer = self.inner.key, self.outer.key
        self.inner.field.error(
            "kueue/slice-level",
            f"podset slice topology {inner} is above the podset topology {outer}",
            f"name a level that is narrower than {outer}",
        )


def _disorder(request: PodSetRequest, topology: TopologyLevels) -> _Disorder | None:
    """Two levels of a request in the wrong order. Layers of slices must not be equal either."""
    outer = request.level
    may_be_equal = True
    for slices in request.slices:
        inner = slices.level
        if outer:
            inner_rank, outer_rank = _rank(topology, inner), _rank(topology, outer)
            if inner_rank < outer_rank:
                return _Disorder(inner, outer)
            if inner_rank == outer_rank and not may_be_equal:
                return _Disorder(inner, outer)
        outer = inner
        may_be_equal = False
    return None


def _rank(topology: TopologyLevels, named: RequestedLevel) -> int:
    level = topology.by_key(named.key)
    return topology.rank(level) if level else -1


def _on(flavor: Flavor, pod_set: PodSet) -> PodSet:
    """The pods with what the flavor adds to them."""
    own, added = pod_set.pods.node_filter, flavor.nodes
    node_filter = replace(
        own,
        selector=(*own.selector, *added.selector),
        tolerations=(*own.tolerations, *added.tolerations),
    )
    return replace(pod_set, pods=replace(pod_set.pods, node_filter=node_filter))


def _least(root: Field, pod_set: PodSet) -> int | None:
    """The fewest pods that the set may be admitted with, or None if all are needed."""
    field = _least_field(root, pod_set)
    kind = kind_of(root.value)
    if kind == api.WORKLOADS.key and field:
        return field.number(pod_set.count)
    if kind != ("batch", "Job"):
        return None
    return _min_parallelism(field, pod_set.count)


def _least_field(root: Field, pod_set: PodSet) -> Field:
    """Where a document says with how few pods the set may be admitted."""
    if kind_of(root.value) == api.WORKLOADS.key:
        for written in (root / "spec" / "podSets").items():
            if (written / "name").text() == pod_set.name:
                return written / "minCount"
    return root / "metadata" / "annotations" / api.MIN_PARALLELISM


def _min_parallelism(annotation: Field, count: int) -> int | None:
    text = annotation.text()
    if text is None:
        return None
    least = whole_number(text) if len(text) < _MOST_DIGITS else 0
    if 0 < least < count:
        return least
    fix = "set the fewest pods that the job can run with, in quotes"
    annotation.error("kueue/min-parallelism", f"should be between 0 and {count - 1}", fix)
    return None


def _set(request: PodSetRequest, count: int, topology: TopologyLevels | None) -> Group:
    """`count` pods of a pod set, in its slices."""
    pod_set = request.pod_set
    level = _level_of(request, topology)
    group = Group.of_kind(api.POD_SET, pod_set.name)
    if not request.slices or topology is None:
        group = replace(group, pods=(pod_set.some(count),))
    else:
        slices = _sliced(pod_set, count, request.slices, topology)
        group = replace(group, groups=(slices,))
    return replace(group, required=level.required, preferred=level.preferred)


def _together(
    name: str, members: Sequence[PodSetRequest], topology: TopologyLevels | None
) -> Group:
    """Pod sets that share the level of the first one."""
    pods = [member.pod_set.some(member.pod_set.count) for member in members]
    level = _level_of(members[0], topology)
    return Group(
        f"pod set group {name}",
        pods=tuple(pods),
        required=level.required,
        preferred=level.preferred,
    )


@dataclass(frozen=True, slots=True)
class _GroupLevel:
    """The level of a topology that pods are kept together at."""

    required: Level | None = None
    preferred: Level | None = None


def _level_of(request: PodSetRequest, topology: TopologyLevels | None) -> _GroupLevel:
    if topology is None:
        return _GroupLevel()
    required, preferred = request.required, request.preferred
    return _GroupLevel(
        required=topology.by_key(required.key) if required else None,
        preferred=topology.by_key(preferred.key) if preferred else None,
    )


def _sliced(
    pod_set: PodSet, count: int, layers: Sequence[Slices], topology: TopologyLevels
) -> Group:
    """`count` pods of the set in slices of the broadest layer, and those in smaller ones."""
    broadest, *narrower = layers
    one_slice = Group.part_of(pod_set.name, "slice")
    if narrower:
        inner = _sliced(pod_set, broadest.size, narrower, topology)
        one_slice = replace(one_slice, groups=(inner,))
    else:
        one_slice = replace(one_slice, pods=(pod_set.some(broadest.size),))
    return replace(
        one_slice,
        required=topology.by_key(broadest.level.key),
        copies=count // broadest.size,
    )
