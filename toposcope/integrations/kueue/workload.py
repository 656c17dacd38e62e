"""Kueue: pod sets kept together, in slices, or two of them together; from annotations or from a Workload.

Rules and messages: Kueue 0.19 (topology-aware scheduling). Which topology it will be depends on the ResourceFlavor
that Kueue chooses, so any that has all the levels may be meant. Levels are label keys. A preferred level is given up
for the next broader one, and at last for none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, OrderedPods, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean_key
from toposcope.integrations.framework.pods import PodSet, Structure, chunks, pods_of, structure_of
from toposcope.integrations.framework.system import LEVELS_FIRST, ClusterFacts, Reading, System
from toposcope.integrations.kueue.api import (
    ANNOTATIONS,
    POD_GROUP,
    POD_GROUP_TOTAL,
    PREFERRED,
    QUEUE_NAME,
    REQUIRED,
    WORKLOADS,
)
from toposcope.integrations.kueue.request import NamedLevel, Request, Slices, annotated, check_groups, of_workload
from toposcope.topology.text import plural


def _claims(document: Mapping[str, Any]) -> bool:
    """Workloads, and every kind with pod templates of which one has an annotation."""
    if kind_of(document) == WORKLOADS.key:
        return True
    root = Field(document)
    structure = structure_of(root)
    if structure is None:
        return False
    places = (root / "metadata" / "annotations", *(pod_set.annotations for pod_set in structure.sets))
    return any(place / key for place in places for key in ANNOTATIONS)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # annotations of a pod template cannot change where they count; the API server says so itself
    notes: list[str] = []
    if kind_of(root.value) == WORKLOADS.key:
        structure, requests = _workload(root)
    else:
        structure = _grouped(root, structure_of(root) or Structure(()), notes)
        _check_places(root, structure)
        requests = [annotated(pod_set) for pod_set in structure.sets]
    check_groups(requests)
    return _reading(root, structure, requests, cluster, notes)


SYSTEM: Final = System("Kueue", _claims, _read, "kueue")


def _reading(
    root: Field, structure: Structure, requests: list[Request], cluster: ClusterFacts, notes: list[str]
) -> Reading:
    """One workload for each topology that has all the levels: Kueue takes one of them."""
    topologies = _candidates(requests, cluster, notes)
    name = name_of(root, kind_of(root.value)[1])
    if len(topologies) > 1:
        names = ", ".join(topology.name for topology in topologies)
        notes.append(f"the ResourceFlavor decides which topology it is: {names}")
    workloads = [
        Workload(
            "Kueue",
            handle_of(root),
            (_tree(name, structure, requests, topology),),
            topology.name if topology else None,
            placeable=topology is not None or not any(_levels(requests)),
            notes=tuple(dict.fromkeys(notes)),
            in_order=_in_order(structure, requests, topology),
        )
        for topology in topologies or (None,)
    ]
    return Reading(workloads[0], alternatives=tuple(workloads[1:]))


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
    total = metadata / "annotations" / POD_GROUP_TOTAL
    if kind_of(root.value)[1] != "Pod" or not (metadata / "labels" / POD_GROUP).text():
        return structure
    text = total.text() or ""
    if not (text.isascii() and text.isdigit() and int(text[:9])):
        fix = f"set {POD_GROUP_TOTAL} to a whole number in quotes"
        total.error("kueue/pod-group", "must be the number of pods in the group", fix)
        return structure
    count = int(text[:9])
    notes.append(f"counted as {count} {plural(count, 'pod')} like this one, the whole pod group")
    pod = structure.sets[0]
    return Structure((PodSet("pod group", pod.some(count), pod.template),))


def _check_places(root: Field, structure: Structure) -> None:
    """The queue, without which nothing counts; annotations where Kueue does not look; pods that are each alone."""
    metadata = root / "metadata"
    kind = kind_of(root.value)[1]
    if not (metadata / "labels" / QUEUE_NAME).text():
        (metadata / "labels" / QUEUE_NAME).warn(
            "kueue/queue-name",
            "without a queue Kueue leaves the workload alone, and its annotations have no effect",
            f"label the {kind} with {QUEUE_NAME} (not needed where Kueue manages jobs without a queue name)",
        )
    if any(pod_set.template.path for pod_set in structure.sets):
        for key in ANNOTATIONS:
            annotation = metadata / "annotations" / key
            if annotation:
                text = f"Kueue does not read this on a {kind}"
                annotation.warn("kueue/wrong-place", text, "move it to the annotations of the pod template")
    if structure.separate:
        for annotation in (pod_set.annotations / key for pod_set in structure.sets for key in (REQUIRED, PREFERRED)):
            if annotation:
                annotation.warn(
                    "kueue/each-pod-alone",
                    f"Kueue admits each pod of a {kind} by itself, so this keeps no two of them together",
                    "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together",
                )


def _levels(requests: Iterable[Request]) -> Iterable[tuple[NamedLevel, bool]]:
    """Every level that is named, and whether it is one of slices."""
    for request in requests:
        if request.level:
            yield request.level, False
        for slices in request.slices:
            yield slices.level, True


def _candidates(requests: list[Request], cluster: ClusterFacts, notes: list[str]) -> list[TopologyLevels]:
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
            text = "no requested topology level for slices" if of_slices else "no requested topology level"
            level.field.error("kueue/level-exists", f"{text}: {level.key}", did_you_mean_key(level.key, topologies))
    complete = [topology for topology in topologies if all(topology.by_key(level.key) for level, _ in named)]
    if not complete:
        notes.append(LEVELS_FIRST)
    if not complete and not missing:
        keys = ", ".join(dict.fromkeys(level.key for level, _ in named))
        named[-1][0].field.warn(
            "kueue/one-topology",
            f"no topology has all of these levels: {keys}",
            "name levels of one topology; only pod sets that get flavors of their own can be on several",
        )
    ordered = [topology for topology in complete if not any(_disorder(request, topology) for request in requests)]
    if complete and not ordered:
        for request in requests:
            wrong = _disorder(request, complete[0])
            if wrong:
                notes.append(LEVELS_FIRST)
                inner, outer = wrong
                inner.field.error(
                    "kueue/slice-level",
                    f"podset slice topology {inner.key} is above the podset topology {outer.key}",
                    f"name a level that is narrower than {outer.key}",
                )
    return ordered


def _disorder(request: Request, topology: TopologyLevels) -> tuple[NamedLevel, NamedLevel] | None:
    """Two levels of a request of which the inner one is broader than the outer; layers may not even be equal."""
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


def _tree(name: str, structure: Structure, requests: list[Request], topology: TopologyLevels | None) -> Group:
    """All pod sets of one copy; those of one group share its level."""
    if structure.separate:
        pods = tuple(_set(request, 1, topology) for request in requests)
        return Group("pod", groups=pods, copies=structure.sets[0].count)
    below = [_set(request, request.pod_set.count, topology) for request in requests if not request.group]
    grouped: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            grouped.setdefault(request.group, []).append(request)
    for group, members in grouped.items():
        together = tuple(member.pod_set.some(member.pod_set.count) for member in members)
        below.append(_group(f"pod set group {group}", together, (), members[0], topology))
    return Group(name, groups=tuple(below), copies=structure.copies)


def _in_order(
    structure: Structure, requests: list[Request], topology: TopologyLevels | None
) -> tuple[OrderedPods, ...]:
    """The pod sets as Kueue assigns them; empty where it admits pods one by one, or several copies of the whole."""
    if topology is None or structure.separate or structure.copies > 1:
        return ()
    return tuple(
        OrderedPods(
            replace(request.pod_set.some(request.pod_set.count), name=request.pod_set.name),
            topology.by_key(request.level.key) if request.level else None,
            request.required is not None,
            tuple((level, layer.size) for layer in request.slices if (level := topology.by_key(layer.level.key))),
            request.group,
        )
        for request in requests
    )


def _set(request: Request, count: int, topology: TopologyLevels | None) -> Group:
    pods, slices = _sliced(request.pod_set, count, request.slices, topology)
    return _group(f"pod set {request.pod_set.name}", pods, slices, request, topology)


def _group(
    name: str, pods: tuple[Pods, ...], below: tuple[Group, ...], request: Request, topology: TopologyLevels | None
) -> Group:
    required = topology.by_key(request.required.key) if topology and request.required else None
    preferred = topology.by_key(request.preferred.key) if topology and request.preferred else None
    return Group(name, pods, below, required, preferred)


def _sliced(
    pod_set: PodSet, count: int, slices: tuple[Slices, ...], topology: TopologyLevels | None
) -> tuple[tuple[Pods, ...], tuple[Group, ...]]:
    """`count` pods of the set in slices, and those in smaller ones; without slices the pods themselves."""
    if not slices or topology is None:
        return (pod_set.some(count),), ()
    level = topology.by_key(slices[0].level.key)
    groups = []
    for size, times in chunks(count, slices[0].size):
        pods, below = _sliced(pod_set, size, slices[1:], topology)
        groups.append(Group(f"slice of {pod_set.name}", pods, below, level, copies=times))
    return (), tuple(groups)
