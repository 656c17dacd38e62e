"""KAI: annotations from which its grouper makes a PodGroup. PodGroups themselves: `pod_group`.

Rules and messages: KAI 0.17 (scheduler, pod grouper). The grouper reads topology and levels on the
workload itself; for a JobSet also on each Job template (one constraint per Job), for Ray on each
pod template. Segments stand on the pod template and are known for PyTorchJob workers and
LeaderWorkerSets only; others' are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from toposcope.integrations.framework.constraints import JOB_OF, Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.pods import (
    JOBSET,
    LEADER_WORKER_SET,
    PodSet,
    Structure,
    chunks,
    structure_of,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kai import api, gang_size, pod_group
from toposcope.integrations.kai.allocation import in_name_order
from toposcope.integrations.kai.constraints import Constraint, Constraints, WrittenConstraint
from toposcope.integrations.kai.queues import is_preemptible, queue_of
from toposcope.integrations.lws.workload import LEADER_EXCLUDED, sub_group_policy, sub_groups

_DEPLOYMENT: Final = ("apps", "Deployment")
_KUBEFLOW: Final = "kubeflow.org"
_RAY_HEAD: Final = "headgroup"
_RAY: Final = "ray.io"
_NOT_KAI: Final = (None, "default-scheduler")


def _claims(document: Mapping[str, Any]) -> bool:
    """Every workload with one of the annotations on itself or on a template in it.

    Unless the grouper skips it.
    """
    root = Field(document)
    structure = structure_of(root)
    if structure is None or gang_size.keeps_its_group(root, structure):
        return False
    jobs = [pod_set.job / "metadata" / "annotations" for pod_set in structure.sets if pod_set.job]
    pods = [pod_set.annotations for pod_set in structure.sets if pod_set.template.path]
    places = (root / "metadata" / "annotations", *jobs, *pods)
    return any(
        place / key for place in places for key in (api.TOPOLOGY, *api.PLACEMENTS, *api.SEGMENTS)
    ) or any(annotations / api.GROUP_OF for annotations in pods)


def is_for_kai(document: Mapping[str, Any]) -> bool:
    """Whether KAI makes a PodGroup of it and schedules it, though it may ask for no topology.

    Never raises.
    """
    root = Field(document)
    structure = structure_of(root)
    if structure is None or gang_size.keeps_its_group(root, structure):
        return False
    return any(
        (pod_set.template / "spec" / "schedulerName").text() == api.KAI_SCHEDULER
        for pod_set in structure.sets
    )


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # KAI allows any change
    constraints = Constraints(cluster)
    tree = _Tree(root, structure_of(root) or Structure(()), constraints)
    group = tree.group()
    templates = [pod_set.template for pod_set in (structure_of(root) or Structure(())).sets]
    places = [root / "metadata", *(template / "metadata" for template in templates)]
    classes = [*(place / "labels" / "priorityClassName" for place in places)]
    classes += [template / "spec" / "priorityClassName" for template in templates]
    priority = next(filter(None, (field.text() for field in classes)), None)
    workload = Workload(
        "KAI",
        handle_of(root),
        (group,),
        constraints.topology,
        placeable=constraints.placeable,
        notes=(*constraints.notes, *tree.notes),
        gang=tree.gang,
        queue=queue_of(places),
        preemptible=is_preemptible(places, priority, kind_of(root.value)[1]),
    )
    return Reading(workload)


SYSTEM: Final = System("KAI", _claims, _read, "kai", places_plain_pods=is_for_kai)
READERS: Final = (SYSTEM, pod_group.SYSTEM)


class _Tree:
    """Builds the tree of one workload."""

    def __init__(self, root: Field, structure: Structure, constraints: Constraints) -> None:
        self._root = root
        self._structure = structure
        self._constraints = constraints
        self._own = root / "metadata" / "annotations"
        self._kind = kind_of(root.value)
        self.gang = True
        """Whether the pods of a copy start together. A pod alone does."""
        self.notes: list[str] = []
        """What the admin should know about how it is read."""

    def group(self) -> Group:
        """The whole workload; each copy of it is a PodGroup of its own.

        Groups are in the order of KAI's names.
        """
        self._check_places()
        self._check_pods()
        above = self._constraints.read(_written("workload", self._own))
        structure = self._structure
        name = name_of(self._root, self._kind[1])
        if self._kind == _DEPLOYMENT:
            return self._separate(above)
        if self._kind in gang_size.ONE_BY_ONE:
            return Group(name, self._one_by_one(above), (), above.required, above.preferred)
        pods: tuple[Pods, ...] = ()
        below: tuple[Group, ...] = ()
        if self._kind == LEADER_WORKER_SET:
            below = self._leader_worker_set(above)
        elif self._kind == JOBSET:
            below = self._jobs(above)
        elif self._kind == gang_size.PYTORCH:
            below = self._pytorch(above)
        elif self._kind[0] == _RAY:
            below = tuple(
                self._ray(pod_set, above) for pod_set in sorted(structure.sets, key=_ray_name)
            )
        else:
            total = sum(pod_set.count for pod_set in structure.sets)
            minimum = (
                gang_size.kubeflow_minimum(self._root, self._kind, total)
                if self._kind[0] == _KUBEFLOW
                else total
            )
            pods = self._some(structure.whole, minimum)
        return Group(name, pods, below, above.required, above.preferred, structure.copies)

    def _separate(self, above: Constraint) -> Group:
        pod_set = self._structure.sets[0]
        if above.required or above.preferred:
            text = (
                f"KAI makes a PodGroup of each pod of a {self._kind[1]}, "
                "so this keeps no two of them together"
            )
            fix = "use a Job or LeaderWorkerSet for pods that belong together"
            (self._own / (api.REQUIRED if above.required else api.PREFERRED)).warn(
                "kai/each-pod-alone", text, fix
            )
        return Group("pod", (pod_set.some(1),), (), above.required, above.preferred, pod_set.count)

    def _one_by_one(self, above: Constraint) -> tuple[Pods, ...]:
        """The pods that start together; all of them where none do."""
        whole = tuple(pods for pods in self._structure.whole if pods.count)
        total = sum(pods.count for pods in whole)
        minimum = gang_size.minimum_of(self._own, total) if self._kind == gang_size.JOB else 0
        self.gang = total <= 1 or minimum > 0
        constraint = self._own / (api.REQUIRED if above.required else api.PREFERRED)
        wrong = self._kind == gang_size.JOB and self._own / api.BATCH_MIN_MEMBER
        if not (self.gang or wrong) and (above.required or above.preferred):
            gang_size.warn_of_no_gang(self._root, self._kind, constraint, total)
        return self._some(whole, minimum or total)

    def _some(self, whole: Sequence[Pods], minimum: int) -> tuple[Pods, ...]:
        """The first pods, as many as start together."""
        total = sum(pods.count for pods in whole)
        if minimum < total:
            self.notes.append(gang_size.starts_with(minimum, total))
        some = []
        for pods in whole:
            some.append(replace(pods, count=min(pods.count, minimum)))
            minimum -= some[-1].count
        return tuple(pods for pods in some if pods.count)

    def _jobs(self, above: Constraint) -> tuple[Group, ...]:
        """A JobSet's Jobs: each is a sub-group.

        And those of one kind are a sub-group around them.
        """
        gang_size.check_startup_order(
            self._root, [pod_set.name for pod_set in self._structure.sets], self._own / api.REQUIRED
        )
        sets = sorted(self._structure.sets, key=lambda pod_set: pod_set.name)
        kinds = gang_size.minimum_of(self._own, len(sets), "replicated Jobs")
        if 0 < kinds < len(sets):
            names = ", ".join(pod_set.name for pod_set in sets[:kinds])
            self.notes.append(
                f"room is checked for {names}: KAI starts so many of the JobSet's {len(sets)} "
                "kinds of Jobs first"
            )
        return tuple(self._job(pod_set, above) for pod_set in sets[: kinds or len(sets)])

    def _job(self, pod_set: PodSet, above: Constraint) -> Group:
        annotations = (pod_set.job or pod_set.template) / "metadata" / "annotations"
        written = _written(f"sub-group {pod_set.name}", annotations)
        own = self._constraints.read(written, above, dropped_without_level=True)
        parallelism = (pod_set.job or pod_set.template) / "spec" / "parallelism"
        minimum = gang_size.minimum_of(annotations, pod_set.pods.count)
        if not minimum and parallelism.number(0) > pod_set.pods.count:
            count = pod_set.pods.count
            text = (
                f"KAI waits for {parallelism.value} pods of each Job, "
                f"of which no more than {count} ever run"
            )
            fix = f"lower it to {count}, or set {api.BATCH_MIN_MEMBER} on the Job template"
            parallelism.error("kai/min-member", text, fix)
        if 0 < minimum < pod_set.pods.count:
            self.notes.append(
                f"{pod_set.name}: {gang_size.starts_with(minimum, pod_set.pods.count)}"
            )
        minimum = minimum or pod_set.pods.count
        return replace(
            Group.of_kind(JOB_OF, pod_set.name, (pod_set.some(minimum),)),
            required=own.required,
            preferred=own.preferred,
            copies=pod_set.jobs,
        )

    def _pytorch(self, above: Constraint) -> tuple[Group, ...]:
        """A PyTorchJob's masters, all of which start at once, and workers.

        Or the segments that are needed at first.
        """
        sets = {pod_set.name: pod_set for pod_set in self._structure.sets}
        total = sum(pod_set.count for pod_set in sets.values())
        minimum = gang_size.kubeflow_minimum(self._root, self._kind, total)
        if minimum < total:
            self.notes.append(gang_size.starts_with(minimum, total))
        masters = sets["Master"].count if "Master" in sets else 0
        groups = [Group("Master", (sets["Master"].pods,))] if masters else []
        if "Worker" in sets:
            groups.append(self._workers(sets["Worker"], max(0, minimum - masters), above))
        return tuple(groups)

    def _workers(self, workers: PodSet, minimum: int, above: Constraint) -> Group:
        size = self._segment_size(workers.annotations / api.SEGMENT_SIZE, workers.count)
        segment = self._segment(workers.annotations, size)
        if not (size and segment):
            return Group(workers.name, (workers.some(minimum),))
        own = self._constraints.read(segment, above)
        return Group(workers.name, groups=tuple(_in_name_order(own, workers, size, minimum)))

    def _ray(self, pod_set: PodSet, above: Constraint) -> Group:
        annotations = pod_set.annotations
        placement = next(
            (annotations / key for key in api.PLACEMENTS if (annotations / key).text()), None
        )
        if placement and not (annotations / api.TOPOLOGY).text():
            group = (
                "headGroupSpec" if pod_set.name == "head" else f"workerGroupSpecs.{pod_set.name}"
            )
            placement.error(
                "kai/topology-name",
                f"topology annotation ({api.TOPOLOGY}) is required for {group} "
                "when topology placement annotations are set",
                f"set {api.TOPOLOGY} beside it",
            )
            return Group(pod_set.name, (pod_set.pods,))
        written = _written(f"sub-group {pod_set.name}", annotations)
        own = self._constraints.read(written, above, dropped_without_level=True)
        minimum = self._ray_minimum(pod_set)
        if minimum < pod_set.count:
            self.notes.append(f"{pod_set.name}: {gang_size.starts_with(minimum, pod_set.count)}")
        return Group(pod_set.name, (pod_set.some(minimum),), (), own.required, own.preferred)

    def _ray_minimum(self, pod_set: PodSet) -> int:
        """The pods of `minReplicas` of a worker group, where that is set and above 0, else all."""
        spec = self._root / "spec"
        cluster = next(
            (spec / name for name in ("rayClusterSpec", "rayClusterConfig") if spec / name), spec
        )
        groups = dict(
            zip(self._structure.sets[1:], (cluster / "workerGroupSpecs").items(), strict=True)
        )
        if pod_set not in groups:
            return pod_set.count
        group, least = groups[pod_set], (groups[pod_set] / "minReplicas").number(0)
        if least > (replicas := (group / "replicas").number(0)):
            (group / "minReplicas").error(
                "kai/min-member",
                f"{least} is more than its {replicas} replicas: KAI 0.17 makes no PodGroup, "
                "and no pod of the "
                f"{self._kind[1]} is ever scheduled",
                f"set replicas to {least} or more",
            )
        return (
            min(pod_set.count, least * (group / "numOfHosts").number(1, least=1))
            if least
            else pod_set.count
        )

    def _leader_worker_set(self, above: Constraint) -> tuple[Group, ...]:
        """The leader, and the workers or their segments."""
        structure = self._structure
        leader, rest = structure.sets[0], structure.sets[-1]
        workers = rest.some(sum(pod_set.count for pod_set in structure.sets) - 1)
        if (
            (self._root / "spec" / "startupPolicy").text() == "LeaderReady"
            and above.required
            and workers.count
        ):
            (self._own / api.REQUIRED).warn(
                "kai/leader-first",
                "KAI 0.17 places the leader before its workers exist, "
                "and these later wherever there is room: this "
                "does not keep them with it",
                "use startupPolicy: LeaderCreated",
            )
        whole = (
            Group("leader", (leader.some(1),)),
            *((Group("workers", (workers,)),) if workers.count else ()),
        )
        policy = sub_group_policy(self._root)
        annotations = structure.sets[-1].annotations
        total = sum(pod_set.count for pod_set in structure.sets)
        size = (policy / "subGroupSize").number(0)
        if not size:
            size = self._segment_size(
                self._own / api.SEGMENT_SIZE or annotations / api.SEGMENT_SIZE, total
            )
        segment = self._segment(annotations, size)
        if not (size and segment):
            return whole
        leader_excluded = (policy / "subGroupPolicyType").text() == LEADER_EXCLUDED
        if leader_excluded and (total - 1) % size:
            text = (
                f"LeaderExcluded needs size - 1 ({total - 1}) to be a multiple of the segment "
                f"size {size}"
            )
            fix = "change the size, or use subGroupPolicyType LeaderWorker"
            (annotations / api.SEGMENT_SIZE or policy).error("kai/segment-size", text, fix)
            return whole
        own = self._constraints.read(segment, above)
        alike = sub_groups(structure, size, leader_excluded=leader_excluded)
        segments = tuple(_segment(own, pods, times) for pods, times in alike)
        return (*(whole[:1] if leader_excluded else ()), *segments)

    def _segment_size(self, annotation: Field, total: int) -> int:
        """How many pods a segment has; 0 where there are none, or where KAI refuses the number."""
        text = annotation.text()
        if text is None:
            return 0
        rule, fix = "kai/segment-size", f"write a whole number from 2 to {total}, in quotes"
        try:
            size = int(text)
        except ValueError:
            annotation.error(rule, f"invalid segment size {text}", fix)
            return 0
        if size <= 1:
            annotation.error(
                rule, f"segmentSize {size} is not valid. It must be greater than 1", fix
            )
        elif size > total:
            annotation.error(rule, f"segmentSize {size} is greater than replicasSize {total}", fix)
        else:
            return size
        return 0

    def _segment(self, annotations: Field, size: int) -> WrittenConstraint | None:
        """The constraint of each segment; its topology is the template's, else the workload's."""
        topology = (
            annotations / api.TOPOLOGY
            if (annotations / api.TOPOLOGY).text()
            else self._own / api.TOPOLOGY
        )
        required, preferred = (
            annotations / api.SEGMENT_REQUIRED,
            annotations / api.SEGMENT_PREFERRED,
        )
        levels = [level for level in (required, preferred) if level.text()]
        written_size = annotations / api.SEGMENT_SIZE or self._own / api.SEGMENT_SIZE
        if size and not levels and written_size:
            fix = f"set {api.SEGMENT_REQUIRED} or {api.SEGMENT_PREFERRED} on the pod template"
            written_size.warn(
                "kai/segment-level", "segments without a level are placed anywhere", fix
            )
        if levels and not size and not (annotations / api.SEGMENT_SIZE):
            text = "has no effect without a segment size"
            levels[0].warn("kai/segment-size-missing", text, f"set {api.SEGMENT_SIZE} beside it")
        return (
            WrittenConstraint("sub-group segment", topology, required, preferred)
            if levels
            else None
        )

    def _check_places(self) -> None:
        """Note annotations where KAI does not look for them."""
        segmented = {"Worker"} if self._kind == gang_size.PYTORCH else set()
        if self._kind == LEADER_WORKER_SET:
            segmented = {self._structure.sets[-1].name}
        for pod_set in self._structure.sets:
            if not pod_set.template.path:
                continue  # a Pod is its own workload
            if group := (pod_set.annotations / api.GROUP_OF).text():
                (pod_set.annotations / api.GROUP_OF).warn(
                    "kai/pod-group-name",
                    f"KAI puts the pods of a {self._kind[1]} into a PodGroup of its own making, "
                    f"and none into {group}",
                    f'set {api.SKIP_GROUPER}: "true" on the {self._kind[1]}, or remove this',
                )
            for key in (api.TOPOLOGY, *api.PLACEMENTS):
                is_read = key == api.TOPOLOGY and pod_set.name in segmented
                if self._kind[0] != _RAY and not is_read and pod_set.annotations / key:
                    where = "the Job template" if pod_set.job else f"the {self._kind[1]} itself"
                    text = f"KAI does not read this on a pod template of a {self._kind[1]}"
                    (pod_set.annotations / key).warn(
                        "kai/wrong-place", text, f"move it to the annotations of {where}"
                    )
            if pod_set.name not in segmented:
                self._check_no_segments(pod_set.annotations)
        if not segmented:
            self._check_no_segments(self._own)

    def _check_no_segments(self, annotations: Field) -> None:
        for key in api.SEGMENTS:
            if annotations / key:
                text = (
                    "KAI makes segments of PyTorchJob workers and of LeaderWorkerSets only; "
                    "this has no effect here"
                )
                fix = (
                    "write a PodGroup with sub-groups, "
                    "or set it on the worker template of one of these"
                )
                (annotations / key).warn("kai/segments-ignored", text, fix)

    def _check_pods(self) -> None:
        for pod_set in self._structure.sets:
            for key, fix in api.UNREAD.items():
                if pod_set.annotations / key:
                    (pod_set.annotations / key).warn(
                        "kai/unread", "no version of KAI reads this annotation", fix
                    )
            scheduler = pod_set.template / "spec" / "schedulerName"
            if scheduler.text() in _NOT_KAI:
                scheduler.warn(
                    "kai/scheduler-name",
                    "KAI does not schedule these pods, so its annotations have no effect",
                    f"set schedulerName: {api.KAI_SCHEDULER} (or the name that KAI was installed "
                    "with)",
                )


def _written(owner: str, annotations: Field) -> WrittenConstraint:
    return WrittenConstraint(
        owner, annotations / api.TOPOLOGY, annotations / api.REQUIRED, annotations / api.PREFERRED
    )


def _segment(own: Constraint, pods: tuple[Pods, ...], times: int) -> Group:
    return Group("segment", pods, (), own.required, own.preferred, times)


def _ray_name(pod_set: PodSet) -> str:
    return _RAY_HEAD if pod_set.name == "head" else pod_set.name


def _in_name_order(own: Constraint, pod_set: PodSet, size: int, minimum: int) -> Iterator[Group]:
    """The segments that hold the first `minimum` pods.

    The last may be smaller, and stands where its name does.
    """
    sizes = [pods for pods, times in chunks(pod_set.count, size) for _ in range(times)][
        : -(-minimum // size)
    ]
    for pods, alike in groupby(sizes[number] for number in in_name_order(len(sizes))):
        yield _segment(own, (pod_set.some(pods),), len(list(alike)))
