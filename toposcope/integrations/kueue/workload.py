"""Kueue: pod sets kept together, in slices, or two of them together; out of annotations or of a Workload.

Rules and messages: Kueue 0.19 (topology-aware scheduling). Which topology it will be depends on the ResourceFlavor
that Kueue chooses, so any that has all the levels may be meant. Levels are label keys. A preferred level is given up
for the next broader one, and at last for none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of
from toposcope.integrations.framework.levels import TopologyLevels, key_fix
from toposcope.integrations.framework.pods import PodSet, Structure, chunks, kind_of, pods_of, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.kueue.request import ALL, Named, Request, Slices, annotated, check_groups, of_workload
from toposcope.topology.text import plural

WORKLOAD: Final = ("kueue.x-k8s.io", "Workload")
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"


class Kueue:
    """Reads Kueue's Workloads, and what its annotations ask for."""

    name = "Kueue"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Workloads, and every kind with pod templates of which one has an annotation."""
        if kind_of(document) == WORKLOAD:
            return True
        root = Field(document)
        structure = structure_of(root)
        places = [set_.annotations for set_ in structure.sets] if structure else []
        if structure:
            places.append(root / "metadata" / "annotations")
        return any(place / key for place in places for key in ALL)

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The pod sets' demands; see System."""
        del before  # annotations of a pod template cannot change where they count; the API server says so itself
        root = Field(document)
        notes: list[str] = []
        if kind_of(document) == WORKLOAD:
            structure, requests = _workload(root)
        else:
            structure = _grouped(root, structure_of(root) or Structure(()), notes)
            _check_places(root, structure)
            requests = [annotated(set_) for set_ in structure.sets]
        check_groups(requests)
        return _reading(root, structure, requests, known, notes)


def _reading(
    root: Field, structure: Structure, requests: list[Request], known: ClusterFacts, notes: list[str]
) -> Reading:
    """One workload for each topology that has all the levels: Kueue takes one of them."""
    ladders = _candidates(requests, known, notes)
    name = (root / "metadata" / "name").text() or kind_of(root.value)[1]
    if len(ladders) > 1:
        notes.append(f"the ResourceFlavor decides which topology it is: {', '.join(each.name for each in ladders)}")
    workloads = [
        Workload(
            Kueue.name,
            handle_of(root),
            (_tree(name, structure, requests, ladder),),
            ladder.name if ladder else None,
            placeable=ladder is not None or not any(_levels(requests)),
            notes=tuple(dict.fromkeys(notes)),
        )
        for ladder in ladders or (None,)
    ]
    return Reading(workloads[0], merged(root.findings), tuple(workloads[1:]))


def _workload(root: Field) -> tuple[Structure, list[Request]]:
    """A Kueue Workload names its pod sets itself."""
    sets, requests = [], []
    for set_ in (root / "spec" / "podSets").items():
        name = (set_ / "name").text() or "main"
        template = set_ / "template"
        found = PodSet(name, pods_of(name, (set_ / "count").number(1), template / "spec"), template)
        sets.append(found)
        requests.append(of_workload(found, set_ / "topologyRequest"))
    return Structure(tuple(sets)), requests


def _grouped(root: Field, structure: Structure, notes: list[str]) -> Structure:
    """A Pod that belongs to a pod group stands for all of them."""
    metadata = root / "metadata"
    total = metadata / "annotations" / POD_GROUP_TOTAL
    if kind_of(root.value)[1] != "Pod" or not (metadata / "labels" / POD_GROUP).text():
        return structure
    text = total.text() or ""
    if not (text.isascii() and text.isdigit() and int(text[:9])):
        total.error(
            "kueue/pod-group",
            "must be the number of pods in the group",
            f"set {POD_GROUP_TOTAL} to a whole number in quotes",
        )
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
    if any(set_.template.path for set_ in structure.sets):
        for key in ALL:
            part = metadata / "annotations" / key
            if part:
                part.warn(
                    "kueue/wrong-place",
                    f"Kueue does not read this on a {kind}",
                    "move it to the annotations of the pod template",
                )
    if structure.separate:
        for set_ in structure.sets:
            for key in ALL[:2]:
                if set_.annotations / key:
                    (set_.annotations / key).warn(
                        "kueue/each-pod-alone",
                        f"Kueue admits each pod of a {kind} by itself, so this keeps no two of them together",
                        "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together",
                    )


def _levels(requests: Iterable[Request]) -> Iterable[tuple[Named, bool]]:
    """Every level that is named, and whether it is one of slices."""
    for request in requests:
        if request.level:
            yield request.level, False
        for slices in request.slices:
            yield slices.level, True


def _candidates(requests: list[Request], known: ClusterFacts, notes: list[str]) -> list[TopologyLevels]:
    """The topologies that have every level that is named, in the right order."""
    ladders = list(known.ladders.values())
    named = list(_levels(requests))
    if not named:
        return []
    if not ladders:
        notes.append("no topology is known: levels and room are not checked")
        return []
    missing = False
    for level, of_slices in named:
        if not any(ladder.by_key(level.key) for ladder in ladders):
            missing = True
            what = "no requested topology level for slices" if of_slices else "no requested topology level"
            level.part.error("kueue/level-exists", f"{what}: {level.key}", key_fix(level.key, ladders))
    having = [ladder for ladder in ladders if all(ladder.by_key(level.key) for level, _ in named)]
    if not having:
        notes.append("room is not checked before the levels are right")
    if not having and not missing:
        keys = ", ".join(dict.fromkeys(level.key for level, _ in named))
        named[-1][0].part.warn(
            "kueue/one-topology",
            f"no topology has all of these levels: {keys}",
            "name levels of one topology; only pod sets that get flavors of their own can be on several",
        )
    ordered = [ladder for ladder in having if not any(_disorder(request, ladder) for request in requests)]
    if having and not ordered:
        for request in requests:
            wrong = _disorder(request, having[0])
            if wrong:
                notes.append("room is not checked before the levels are right")
                inner, outer = wrong
                inner.part.error(
                    "kueue/slice-level",
                    f"podset slice topology {inner.key} is above the podset topology {outer.key}",
                    f"name a level that is narrower than {outer.key}",
                )
    return ordered


def _disorder(request: Request, ladder: TopologyLevels) -> tuple[Named, Named] | None:
    """Two levels of a request of which the inner one is broader than the outer; layers may not even be equal."""
    outer, strict = request.level, False
    for slices in request.slices:
        inner = slices.level
        if outer:
            broad, narrow = _rank(ladder, outer), _rank(ladder, inner)
            if narrow < broad or (strict and narrow == broad):
                return inner, outer
        outer, strict = inner, True
    return None


def _rank(ladder: TopologyLevels, named: Named) -> int:
    level = ladder.by_key(named.key)
    return ladder.rank(level) if level else -1


def _tree(name: str, structure: Structure, requests: list[Request], ladder: TopologyLevels | None) -> Group:
    """All pod sets of one copy; those of one group share its level."""
    if structure.separate:
        return Group(
            "pod", groups=tuple(_set(request, 1, ladder) for request in requests), copies=structure.sets[0].count
        )
    below = [_set(request, request.pod_set.count, ladder) for request in requests if not request.group]
    together: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            together.setdefault(request.group, []).append(request)
    for group, members in together.items():
        pods = tuple(member.pod_set.some(member.pod_set.count) for member in members)
        level = members[0]
        below.append(_kept(f"pod set group {group}", pods, (), level, ladder))
    return Group(name, groups=tuple(below), copies=structure.copies)


def _set(request: Request, count: int, ladder: TopologyLevels | None) -> Group:
    pod_set = request.pod_set
    name = f"pod set {pod_set.name}"
    pods, slices = _sliced(pod_set, count, request.slices, ladder)
    return _kept(name, pods, slices, request, ladder)


def _kept(
    name: str, pods: tuple[Pods, ...], below: tuple[Group, ...], request: Request, ladder: TopologyLevels | None
) -> Group:
    required = ladder.by_key(request.required.key) if ladder and request.required else None
    preferred = ladder.by_key(request.preferred.key) if ladder and request.preferred else None
    return Group(name, pods, below, required, preferred)


def _sliced(
    pod_set: PodSet, count: int, slices: tuple[Slices, ...], ladder: TopologyLevels | None
) -> tuple[tuple[Pods, ...], tuple[Group, ...]]:
    """`count` pods of the set in slices, and those in smaller ones; without slices the pods themselves."""
    if not slices or ladder is None:
        return (pod_set.some(count),), ()
    level = ladder.by_key(slices[0].level.key)
    found = []
    for size, times in chunks(count, slices[0].size):
        pods, below = _sliced(pod_set, size, slices[1:], ladder)
        found.append(Group(f"slice of {pod_set.name}", pods, below, level, copies=times))
    return (), tuple(found)
