"""KAI: annotations from which its grouper makes a PodGroup. PodGroups themselves: `pod_group`.

Rules and messages: KAI 0.17 (scheduler, pod grouper). The grouper reads topology and levels on the
workload itself; for a JobSet also on each Job template (one constraint per Job), for Ray on each
pod template. Segments are set on the pod template and exist only for PyTorchJob workers and
LeaderWorkerSets; others are ignored.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from toposcope.integrations.framework.constraints import JOB, Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.framework.pods import (
    JOBSET,
    LEADER_WORKER_SET,
    PodSet,
    Structure,
    chunks,
    structure_of,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kai import api, gang_size, grouped_pods, pod_group
from toposcope.integrations.kai.allocation import in_name_order
from toposcope.integrations.kai.constraints import KaiConstraint, KaiConstraints, WrittenConstraint
from toposcope.integrations.kai.pod_shares import check_shares, with_share_at
from toposcope.integrations.kai.queues import is_preemptible, queue_of
from toposcope.integrations.lws.workload import LEADER_EXCLUDED, sub_group_policy, sub_groups

_DEPLOYMENT: Final = ("apps", "Deployment")
_RAY_HEAD: Final = "headgroup"
_RAY: Final = "ray.io"
_NOT_KAI: Final = (None, DEFAULT_SCHEDULER)
_WITH_SUB_GROUPS: Final = (LEADER_WORKER_SET, JOBSET, gang_size.PYTORCH)
_NEEDS_SHARING: Final = (
    "KAI rejects pods that request a fraction of a GPU unless it is installed with "
    "global.gpuSharing: true, which its chart leaves off"
)
_ASKING: Final = (api.TOPOLOGY, *api.PLACEMENTS, *api.SEGMENTS)


def _claims(document: Mapping[str, Any]) -> bool:
    """Whether it or a template has one of the annotations and the grouper does not skip it."""
    root = Field(document)
    structure = structure_of(root)
    if structure is None or gang_size.keeps_its_group(root, structure):
        return False

    if _asks(root / "metadata" / "annotations"):
        return True
    for pod_set in structure.sets:
        if pod_set.job and _asks(pod_set.job / "metadata" / "annotations"):
            return True
        if pod_set.template.path and _asks(pod_set.annotations, (*_ASKING, api.GROUP_OF)):
            return True
    return False


def _asks(annotations: Field, keys: Sequence[str] = _ASKING) -> bool:
    """Whether one of these annotations is set."""
    return any(annotations / key for key in keys)


def is_for_kai(document: Mapping[str, Any]) -> bool:
    """Whether KAI creates a PodGroup for it and schedules it, with or without a topology.

    Never raises.
    """
    root = Field(document)
    structure = structure_of(root)
    if structure is None or gang_size.keeps_its_group(root, structure):
        return False
    for pod_set in structure.sets:
        scheduler = pod_set.template / "spec" / "schedulerName"
        if scheduler.text() == api.KAI_SCHEDULER:
            return True
    return False


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # KAI allows any change
    constraints = KaiConstraints(cluster)
    structure = _with_shares(structure_of(root) or Structure(()))
    gang_size.check_submission(root, structure)
    tree = _Tree(root, structure, constraints)
    group = tree.group()

    templates = [pod_set.template for pod_set in structure.sets]
    metadata = [root / "metadata"]
    metadata += [template / "metadata" for template in templates]
    priority = _priority_class(metadata, templates)
    queue = queue_of(metadata)
    workload = Workload(
        "KAI",
        handle_of(root),
        (group,),
        constraints.topology,
        is_placeable=constraints.is_placeable,
        notes=(*constraints.notes, *tree.notes),
        gang=tree.gang,
        queue=queue.name,
        queue_field=queue.field,
        is_preemptible=is_preemptible(metadata, priority, kind_of(root.value)[1]),
    )
    return Reading(workload)


def _with_shares(structure: Structure) -> Structure:
    """The structure with the fractions of GPUs that its pods request by annotation."""
    sets = []
    for pod_set in structure.sets:
        pods = with_share_at(pod_set.pods, pod_set.annotations)
        sets.append(replace(pod_set, pods=pods))
    return replace(structure, sets=tuple(sets))


def _priority_class(metadata: Sequence[Field], templates: Sequence[Field]) -> str | None:
    """The priority class by the first label that names one, else by the pod templates."""
    places = [each / "labels" / "priorityClassName" for each in metadata]
    places += [template / "spec" / "priorityClassName" for template in templates]
    for place in places:
        name = place.text()
        if name:
            return name
    return None


SYSTEM: Final = System("KAI", _claims, _read, "kai", places_plain_pods=is_for_kai)
READERS: Final = (SYSTEM, pod_group.SYSTEM, grouped_pods.SYSTEM)


class _Tree:
    """Builds the tree of one workload."""

    def __init__(self, root: Field, structure: Structure, constraints: KaiConstraints) -> None:
        self._root = root
        self._structure = structure
        self._constraints = constraints
        self._own = root / "metadata" / "annotations"
        self._kind = kind_of(root.value)
        self.gang = True
        """Whether the pods of a copy start together. A pod alone does."""
        self.notes: list[str] = []
        """What the reader assumed or left out."""

    def group(self) -> Group:
        """The whole workload; each copy of it is a PodGroup of its own.

        Groups are in the order of KAI's names.
        """
        self._check_places()
        self._check_pods()
        above = self._constraints.read(_written("workload", self._own))
        name = name_of(self._root, self._kind[1])
        if self._kind == _DEPLOYMENT:
            return self._separate(above)

        pods: tuple[Pods, ...] = ()
        below: tuple[Group, ...] = ()
        copies = self._structure.copies
        if self._kind in gang_size.ONE_BY_ONE:
            pods = self._one_by_one(above)
            copies = 1
        elif self._kind in _WITH_SUB_GROUPS or self._kind[0] == _RAY:
            below = self._sub_groups(above)
        else:
            pods = self._all_at_once()
        return Group(name, pods, below, above.required, above.preferred, copies)

    def _sub_groups(self, above: KaiConstraint) -> tuple[Group, ...]:
        """The sub-groups that KAI creates, for the kinds that it knows."""
        if self._kind == LEADER_WORKER_SET:
            return self._leader_worker_set(above)
        if self._kind == JOBSET:
            return self._jobs(above)
        if self._kind == gang_size.PYTORCH:
            return self._pytorch(above)
        sets = sorted(self._structure.sets, key=_ray_name)
        return tuple([self._ray(pod_set, above) for pod_set in sets])

    def _all_at_once(self) -> tuple[Pods, ...]:
        """As many pods of a workload without sub-groups as start together."""
        structure = self._structure
        minimum = _total(structure.sets)
        if self._kind[0] == gang_size.TRAINING:
            total = minimum
            minimum = gang_size.training_minimum(self._root, self._kind, total)
        return self._some(structure.whole, minimum)

    def _separate(self, above: KaiConstraint) -> Group:
        pod_set = self._structure.sets[0]
        if above.required or above.preferred:
            text = (
                f"KAI creates a PodGroup for each pod of a {self._kind[1]}, so this keeps no pods "
                "together"
            )
            fix = "use a Job or LeaderWorkerSet for pods that belong together"
            self._annotation_of(above).warn("kai/each-pod-alone", text, fix)
        return Group(
            "pod",
            (pod_set.some(1),),
            required=above.required,
            preferred=above.preferred,
            copies=pod_set.count,
        )

    def _annotation_of(self, above: KaiConstraint) -> Field:
        """The workload's annotation that sets a constraint."""
        key = api.REQUIRED if above.required else api.PREFERRED
        return self._own / key

    def _one_by_one(self, above: KaiConstraint) -> tuple[Pods, ...]:
        """The pods that start together; all of them if none do."""
        all_pods = [pods for pods in self._structure.whole if pods.count]
        total = sum(pods.count for pods in all_pods)
        minimum = 0
        if self._kind == gang_size.JOB:
            minimum = gang_size.minimum_of(self._own, total)
        self.gang = total <= 1 or minimum > 0
        if not self.gang:
            self._check_no_gang(above, total)
        return self._some(all_pods, minimum or total)

    def _check_no_gang(self, above: KaiConstraint, total: int) -> None:
        """Warn about a level for pods that start one by one."""
        if above.required is None and above.preferred is None:
            return
        if self._kind == gang_size.JOB and self._own / api.BATCH_MIN_MEMBER:
            return  # what is wrong with it has been said
        constraint = self._annotation_of(above)
        gang_size.warn_of_no_gang(self._root, self._kind, constraint, total)

    def _some(self, all_pods: Sequence[Pods], minimum: int) -> tuple[Pods, ...]:
        """The first pods, as many as start together."""
        total = sum(pods.count for pods in all_pods)
        if minimum < total:
            self.notes.append(gang_size.starts_with(minimum, total))
        some: list[Pods] = []
        for pods in all_pods:
            count = min(pods.count, minimum)
            minimum -= count
            if count:
                some.append(replace(pods, count=count))
        return tuple(some)

    def _jobs(self, above: KaiConstraint) -> tuple[Group, ...]:
        """A JobSet's Jobs: each is a sub-group, inside a sub-group for its kind."""
        created = [pod_set.name for pod_set in self._structure.sets]
        gang_size.check_startup_order(self._root, created, self._own / api.REQUIRED)

        sets = sorted(self._structure.sets, key=_name)
        total = len(sets)
        kinds = gang_size.minimum_of(self._own, total, "replicated Jobs") or total
        first = sets[:kinds]
        if kinds < total:
            names = ", ".join([pod_set.name for pod_set in first])
            self.notes.append(
                f"room is checked for {names}: KAI starts this many of the JobSet's {total} "
                "kinds of Jobs first"
            )
        groups: list[Group] = []
        for pod_set in first:
            groups.append(self._job(pod_set, above))
        return tuple(groups)

    def _job(self, pod_set: PodSet, above: KaiConstraint) -> Group:
        job = pod_set.job or pod_set.template
        annotations = job / "metadata" / "annotations"
        written = _written(f"sub-group {pod_set.name}", annotations)
        own = self._constraints.read(written, above, is_dropped_without_level=True)
        total = pod_set.pods.count
        minimum = gang_size.minimum_of(annotations, total)
        if not minimum:
            _check_parallelism(job / "spec" / "parallelism", total)
            minimum = total
        if minimum < total:
            self.notes.append(f"{pod_set.name}: {gang_size.starts_with(minimum, total)}")
        return replace(
            Group.part_of(pod_set.name, JOB, (pod_set.some(minimum),)),
            required=own.required,
            preferred=own.preferred,
            copies=pod_set.jobs,
        )

    def _pytorch(self, above: KaiConstraint) -> tuple[Group, ...]:
        """A PyTorchJob's masters, all of which start at once, and the workers needed at first."""
        total = _total(self._structure.sets)
        minimum = gang_size.training_minimum(self._root, self._kind, total)
        if minimum < total:
            self.notes.append(gang_size.starts_with(minimum, total))

        sets = {pod_set.name: pod_set for pod_set in self._structure.sets}
        groups: list[Group] = []
        masters = sets.get("Master")
        if masters is not None and masters.count:
            groups.append(Group("Master", (masters.pods,)))
            minimum -= masters.count
        workers = sets.get("Worker")
        if workers is not None:
            groups.append(self._workers(workers, max(0, minimum), above))
        return tuple(groups)

    def _workers(self, workers: PodSet, minimum: int, above: KaiConstraint) -> Group:
        name = workers.name
        annotations = workers.annotations
        size = self._segment_size(annotations / api.SEGMENT_SIZE, workers.count)
        segment = self._segment(annotations, size)
        if segment is None or not size:
            pods = workers.some(minimum)
            return Group(name, (pods,))
        own = self._constraints.read(segment, above)
        segments = _in_name_order(own, workers, size, minimum)
        return Group(name, groups=tuple(segments))

    def _ray(self, pod_set: PodSet, above: KaiConstraint) -> Group:
        annotations = pod_set.annotations
        placement = _placement_of(annotations)
        if placement is not None and not (annotations / api.TOPOLOGY).text():
            _refuse_without_topology(placement, pod_set)
            return Group(pod_set.name, (pod_set.pods,))

        written = _written(f"sub-group {pod_set.name}", annotations)
        own = self._constraints.read(written, above, is_dropped_without_level=True)
        minimum = self._ray_minimum(pod_set)
        if minimum < pod_set.count:
            self.notes.append(f"{pod_set.name}: {gang_size.starts_with(minimum, pod_set.count)}")
        return Group(
            pod_set.name,
            (pod_set.some(minimum),),
            required=own.required,
            preferred=own.preferred,
        )

    def _ray_minimum(self, pod_set: PodSet) -> int:
        """The pods of `minReplicas` of a worker group, if that is set and above 0, else all."""
        group = self._worker_group(pod_set)
        if group is None:
            return pod_set.count

        minimum = group / "minReplicas"
        least = minimum.number(0)
        replicas = (group / "replicas").number(0)
        if least > replicas:
            text = (
                f"{least} is more than its {replicas} replicas: so KAI 0.17 creates no PodGroup "
                f"and never schedules a pod of the {self._kind[1]}"
            )
            minimum.error("kai/min-member", text, f"set replicas to {least} or more")
        if not least:
            return pod_set.count
        hosts = (group / "numOfHosts").number(1, least=1)
        return min(pod_set.count, least * hosts)

    def _worker_group(self, pod_set: PodSet) -> Field | None:
        """The entry of one worker group in a Ray cluster; None for the head."""
        spec = self._root / "spec"
        cluster = spec
        for name in ("rayClusterSpec", "rayClusterConfig"):
            if spec / name:
                cluster = spec / name
                break
        groups = (cluster / "workerGroupSpecs").items()
        for workers, group in zip(self._structure.sets[1:], groups, strict=True):
            if workers == pod_set:
                return group
        return None

    def _leader_worker_set(self, above: KaiConstraint) -> tuple[Group, ...]:
        """The leader, and the workers or their segments."""
        structure = self._structure
        total = _total(structure.sets)
        workers = total - 1
        self._check_leader_first(above, workers=workers)
        leader = Group("leader", (structure.sets[0].some(1),))
        last_set = structure.sets[-1]
        leader_and_workers = [leader]
        if workers:
            leader_and_workers.append(Group("workers", (last_set.some(workers),)))

        policy = sub_group_policy(self._root)
        size = self._sub_group_size(policy, last_set, total)
        segment = self._segment(last_set.annotations, size)
        if segment is None or not size:
            return tuple(leader_and_workers)

        leader_excluded = (policy / "subGroupPolicyType").text() == LEADER_EXCLUDED
        if leader_excluded and workers % size:
            field = last_set.annotations / api.SEGMENT_SIZE or policy
            _refuse_leader_excluded(field, total, size)
            return tuple(leader_and_workers)

        own = self._constraints.read(segment, above)
        groups: list[Group] = []
        if leader_excluded:
            groups.append(leader)
        for pods, times in sub_groups(structure, size, is_leader_excluded=leader_excluded):
            groups.append(_segment(own, pods, times))
        return tuple(groups)

    def _sub_group_size(self, policy: Field, workers: PodSet, total: int) -> int:
        """How many pods a segment of a LeaderWorkerSet has; 0 if there are none."""
        size = (policy / "subGroupSize").number(0)
        if size:
            return size
        annotation = self._own / api.SEGMENT_SIZE
        if not annotation:
            annotation = workers.annotations / api.SEGMENT_SIZE
        return self._segment_size(annotation, total)

    def _check_leader_first(self, above: KaiConstraint, *, workers: int) -> None:
        """Warn about workers that are created after their leader is placed."""
        startup = (self._root / "spec" / "startupPolicy").text()
        if startup != "LeaderReady" or above.required is None or not workers:
            return
        text = (
            "KAI 0.17 places the leader before its workers exist, and the workers later wherever "
            "there is room, so this does not keep them together"
        )
        required = self._own / api.REQUIRED
        required.warn("kai/leader-first", text, "use startupPolicy: LeaderCreated")

    def _segment_size(self, annotation: Field, total: int) -> int:
        """How many pods a segment has; 0 if there are none or KAI rejects the number."""
        text = annotation.text()
        if text is None:
            return 0
        try:
            size = int(text)
        except ValueError:
            refusal = f"invalid segment size {text}"
        else:
            if 1 < size <= total:
                return size
            refusal = f"segmentSize {size} is greater than replicasSize {total}"
            if size <= 1:
                refusal = f"segmentSize {size} is not valid. It must be greater than 1"
        fix = f"set a whole number from 2 to {total}, in quotes"
        annotation.error("kai/segment-size", refusal, fix)
        return 0

    def _segment(self, annotations: Field, size: int) -> WrittenConstraint | None:
        """The constraint of each segment; its topology is the template's, else the workload's."""
        topology = annotations / api.TOPOLOGY
        if not topology.text():
            topology = self._own / api.TOPOLOGY
        required = annotations / api.SEGMENT_REQUIRED
        preferred = annotations / api.SEGMENT_PREFERRED
        levels = [level for level in (required, preferred) if level.text()]
        if not levels:
            self._check_level_of_segments(annotations, size)
            return None
        if not size and not annotations / api.SEGMENT_SIZE:
            text = "has no effect without a segment size"
            levels[0].warn("kai/segment-size-missing", text, f"also set {api.SEGMENT_SIZE}")
        return WrittenConstraint("sub-group segment", topology, required, preferred)

    def _check_level_of_segments(self, annotations: Field, size: int) -> None:
        """Warn about a segment size without a level."""
        written = annotations / api.SEGMENT_SIZE
        if not written:
            written = self._own / api.SEGMENT_SIZE
        if size and written:
            text = "segments without a level are placed anywhere"
            fix = f"set {api.SEGMENT_REQUIRED} or {api.SEGMENT_PREFERRED} on the pod template"
            written.warn("kai/segment-level", text, fix)

    def _check_places(self) -> None:
        """Note annotations where KAI does not read them."""
        segmented = self._segmented()
        for pod_set in self._structure.sets:
            if not pod_set.template.path:
                continue  # a Pod is its own workload
            is_segmented = pod_set.name == segmented
            self._check_group_name(pod_set.annotations / api.GROUP_OF)
            self._check_wrong_places(pod_set, is_topology_read=is_segmented)
            if not is_segmented:
                _check_no_segments(pod_set.annotations)
        if segmented is None:
            _check_no_segments(self._own)

    def _segmented(self) -> str | None:
        """The name of the pods that KAI may split into segments."""
        if self._kind == gang_size.PYTORCH:
            return "Worker"
        if self._kind == LEADER_WORKER_SET:
            return self._structure.sets[-1].name
        return None

    def _check_group_name(self, annotation: Field) -> None:
        """Warn about a PodGroup that KAI replaces with its own."""
        group = annotation.text()
        if group is None:
            return
        kind = self._kind[1]
        text = f"KAI puts the pods of a {kind} into a PodGroup that it creates, not into {group}"
        fix = f'set {api.SKIP_GROUPER}: "true" on the {kind}, or remove this'
        annotation.warn("kai/pod-group-name", text, fix)

    def _check_wrong_places(self, pod_set: PodSet, *, is_topology_read: bool) -> None:
        """Warn about a topology on a pod template for kinds that set it elsewhere.

        A repetition is harmless.
        """
        if self._kind[0] == _RAY:
            return
        kind = self._kind[1]
        where = f"the {kind} itself"
        read = self._own
        if pod_set.job:
            where = "the Job template"
            read = pod_set.job / "metadata" / "annotations"
        keys = list(api.PLACEMENTS)
        if not is_topology_read:
            keys.insert(0, api.TOPOLOGY)
        for key in keys:
            annotation = pod_set.annotations / key
            if not annotation:
                continue
            if annotation.value == (read / key).value:
                text = f"KAI reads this on {where}, not on the pod template"
                annotation.warn("kai/duplicate", text, "remove this copy; it has no effect")
                continue
            text = f"KAI does not read this on a pod template of a {kind}"
            fix = f"move it to the annotations of {where}"
            annotation.warn("kai/wrong-place", text, fix)

    def _check_pods(self) -> None:
        """Warn about annotations that nothing reads, and about pods of another scheduler."""
        for pod_set in self._structure.sets:
            check_shares(pod_set.annotations, pod_set.template / "spec")
            if pod_set.pods.share and _NEEDS_SHARING not in self.notes:
                self.notes.append(_NEEDS_SHARING)
            for key, fix in api.UNREAD.items():
                annotation = pod_set.annotations / key
                if annotation:
                    text = "no version of KAI reads this annotation"
                    annotation.warn("kai/unread", text, fix)

            scheduler = pod_set.template / "spec" / "schedulerName"
            if scheduler.text() in _NOT_KAI:
                text = "KAI does not schedule these pods, so KAI's annotations have no effect"
                fix = (
                    f"set schedulerName: {api.KAI_SCHEDULER} "
                    "(or the name that KAI was installed with)"
                )
                scheduler.warn("kai/scheduler-name", text, fix)


def _check_no_segments(annotations: Field) -> None:
    """Warn about segments of a kind for which KAI has none."""
    text = (
        "KAI creates segments only for PyTorchJob workers and LeaderWorkerSets; this has no "
        "effect here"
    )
    fix = "write a PodGroup with sub-groups, or set it on the worker template of one of these"
    for key in api.SEGMENTS:
        annotation = annotations / key
        if annotation:
            annotation.warn("kai/segments-ignored", text, fix)


def _check_parallelism(parallelism: Field, count: int) -> None:
    """Note a Job for which KAI waits for more pods than run."""
    if parallelism.number(0) <= count:
        return
    text = f"KAI waits for {parallelism.value} pods of each Job, but at most {count} ever run"
    fix = f"lower it to {count}, or set {api.BATCH_MIN_MEMBER} on the Job template"
    parallelism.error("kai/min-member", text, fix)


def _placement_of(annotations: Field) -> Field | None:
    """The first annotation that names a level."""
    for key in api.PLACEMENTS:
        annotation = annotations / key
        if annotation.text():
            return annotation
    return None


def _refuse_without_topology(placement: Field, pod_set: PodSet) -> None:
    """Note a level of a Ray group without a topology."""
    group = f"workerGroupSpecs.{pod_set.name}"
    if pod_set.name == "head":
        group = "headGroupSpec"
    text = (
        f"topology annotation ({api.TOPOLOGY}) is required for {group} "
        "when topology placement annotations are set"
    )
    placement.error("kai/topology-name", text, f"also set {api.TOPOLOGY}")


def _refuse_leader_excluded(field: Field, total: int, size: int) -> None:
    """Note a segment size that LeaderExcluded does not allow."""
    text = (
        f"LeaderExcluded needs size - 1 ({total - 1}) to be a multiple of the segment size {size}"
    )
    fix = "change the size, or use subGroupPolicyType LeaderWorker"
    field.error("kai/segment-size", text, fix)


def _written(owner: str, annotations: Field) -> WrittenConstraint:
    return WrittenConstraint(
        owner,
        topology=annotations / api.TOPOLOGY,
        required=annotations / api.REQUIRED,
        preferred=annotations / api.PREFERRED,
    )


def _segment(own: KaiConstraint, pods: tuple[Pods, ...], times: int) -> Group:
    return Group(
        "segment",
        pods,
        required=own.required,
        preferred=own.preferred,
        copies=times,
    )


def _total(sets: Iterable[PodSet]) -> int:
    """The number of pods in all of these."""
    return sum(pod_set.count for pod_set in sets)


def _name(pod_set: PodSet) -> str:
    return pod_set.name


def _ray_name(pod_set: PodSet) -> str:
    return _RAY_HEAD if pod_set.name == "head" else pod_set.name


def _in_name_order(own: KaiConstraint, pod_set: PodSet, size: int, minimum: int) -> Iterator[Group]:
    """The segments that hold the first `minimum` pods.

    The last may be smaller, and is sorted by its name.
    """
    sizes: list[int] = []
    for count, times in chunks(pod_set.count, size):
        sizes += [count] * times
    needed = math.ceil(minimum / size)
    first = sizes[:needed]
    by_name = [first[number] for number in in_name_order(len(first))]
    for count, same_count in groupby(by_name):
        pods = pod_set.some(count)
        times = len(list(same_count))
        yield _segment(own, (pods,), times)
