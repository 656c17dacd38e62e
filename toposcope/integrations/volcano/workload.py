"""Volcano: what Jobs, PodGroups and Ray clusters ask for, by the tiers of HyperNodes.

Rules and messages: Volcano 1.15 (action allocate). If pods differ, it places them one by one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import (
    Field,
    UnreadField,
    handle_of,
    kind_of,
    name_of,
)
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.gangs import largest
from toposcope.integrations.volcano.api import JOBS, POD_GROUPS, QUEUES
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES
from toposcope.integrations.volcano.kuberay import (
    is_placed_by_volcano,
    queue_of,
    tasks_of_cluster,
)
from toposcope.integrations.volcano.limits import (
    LABEL_RULE,
    MODE_LABEL,
    WRONG_LEVEL,
    Limit,
    limit_of,
    limit_of_labels,
)
from toposcope.integrations.volcano.queues import (
    DEFAULT,
    check_queue,
    note_on_queue,
    unread_of,
)
from toposcope.integrations.volcano.tasks import (
    REFUSED,
    Tasks,
    VolcanoTask,
    beside_all_others,
    least_demanding,
    merged,
    tasks_of,
)

NAME: Final = "Volcano"
_HELD: Final = WRONG_LEVEL | REFUSED | {LABEL_RULE}
"""Rules about workloads that never start, so their room does not matter."""
_ONE_BY_ONE: Final = (
    "Volcano places differing pods and parts one by one without backtracking, so it may miss a "
    "valid placement"
)
_SOFT: Final = "Volcano's preference for the lowest tier (mode: soft) is not checked"


def _claims(document: Mapping[str, Any]) -> bool:
    if kind_of(document) in (JOBS.key, POD_GROUPS.key):
        return True
    return is_placed_by_volcano(Field(document))


@dataclass(frozen=True, slots=True)
class _Part:
    """A task of a Job, or a policy of a PodGroup."""

    field: Field
    limit: Limit | None


@dataclass(frozen=True, slots=True)
class _Gang:
    """The pods of one PodGroup, with its constraints."""

    root: Field
    limit: Limit | None
    parts: tuple[_Part, ...]
    tasks: Tasks | None
    """None for a PodGroup, whose pods are unknown."""
    later: tuple[Pods, ...] = ()
    """Pods outside the gang, which start when it runs."""
    queue: str = DEFAULT
    queue_field: str = ""
    """The field that names that queue, or may."""
    unread: tuple[UnreadField, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def limits(self) -> list[Limit]:
        """All of its constraints."""
        limits: list[Limit] = []
        if self.limit is not None:
            limits.append(self.limit)
        for part in self.parts:
            if part.limit is not None:
                limits.append(part.limit)
        return limits

    def holds_in(self, topology: TopologyLevels) -> bool:
        """Whether each of its constraints is a level of this topology."""
        return all(limit.level(topology) for limit in self.limits)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # the same rules hold for a change
    gang = _gang_of(root, cluster)
    # HyperNodes are one forest: a tree in which each constraint is a level will do.
    workloads: list[Workload] = []
    if gang.limits:
        for topology in cluster.topologies.values():
            if gang.holds_in(topology):
                workload = _workload(gang, topology)
                workloads.append(workload)
    if not workloads:
        workload = _workload(gang, None)
        workloads.append(workload)

    first, *alternatives = workloads
    return Reading(first, alternatives=tuple(alternatives))


SYSTEM: Final = System(NAME, _claims, _read, HYPER_NODES.option)
READERS: Final = (SYSTEM,)


def _gang_of(root: Field, cluster: ClusterFacts) -> _Gang:
    kind = kind_of(root.value)
    spec = root / "spec"
    if kind == POD_GROUPS.key:
        policies = (spec / "subGroupPolicy").items()
        return _Gang(root, limit_of(spec, cluster), _parts(policies, cluster), None)
    if kind == JOBS.key:
        return _gang_of_job(root, cluster)
    return _gang_of_ray(root, cluster)


def _gang_of_job(root: Field, cluster: ClusterFacts) -> _Gang:
    spec = root / "spec"
    limit = limit_of(spec, cluster)
    policies = []
    soft = [spec / "networkTopology" / "mode"]
    for task in (spec / "tasks").items():
        policy = task / "partitionPolicy"
        policies.append(policy)
        soft.append(policy / "networkTopology" / "mode")
    parts = _parts(policies, cluster)
    tasks = tasks_of(root)
    field = spec / "queue"
    queue = field.text() or DEFAULT
    check_queue(field, queue, cluster)
    return _Gang(
        root,
        limit,
        parts,
        tasks,
        queue=queue,
        queue_field=field.path,
        unread=unread_of(queue, field.path, cluster),
        notes=_notes(queue, soft, cluster),
    )


def _gang_of_ray(root: Field, cluster: ClusterFacts) -> _Gang:
    labels = root / "metadata" / "labels"
    structure = structure_of(root) or Structure(())
    field = queue_of(root)
    queue = field.text() or DEFAULT
    later = []
    for pod_set in structure.later:
        later.append(pod_set.pods)
    return _Gang(
        root,
        limit_of_labels(labels, cluster),
        (),
        tasks_of_cluster(root, structure),
        later=tuple(later),
        queue=queue,
        queue_field=field.path,
        unread=unread_of(queue, field.path, cluster),
        notes=_notes(queue, [labels / MODE_LABEL], cluster),
    )


def _parts(policies: Iterable[Field], cluster: ClusterFacts) -> tuple[_Part, ...]:
    parts = []
    for policy in policies:
        limit = limit_of(policy, cluster)
        parts.append(_Part(policy, limit))
    return tuple(parts)


def _notes(queue: str, modes: Iterable[Field], cluster: ClusterFacts) -> tuple[str, ...]:
    """What is not checked."""
    notes = []
    if any(mode.text() == "soft" for mode in modes):
        notes.append(_SOFT)
    note = note_on_queue(queue, cluster)
    if note:
        notes.append(note)
    return tuple(notes)


def _kept(group: Group, limit: Limit | None, topology: TopologyLevels | None) -> Group:
    """The group with its requests."""
    if limit is None or topology is None:
        return group
    return replace(group, required=limit.level(topology))


def _workload(gang: _Gang, topology: TopologyLevels | None) -> Workload:
    workload = Workload(
        NAME,
        handle_of(gang.root),
        groups=(),
        topology=topology.name if topology else None,
        notes=gang.notes,
        queue=gang.queue,
        queue_group=QUEUES.group,
        queue_field=gang.queue_field,
        unread=gang.unread,
    )
    if gang.tasks is None:
        return _of_pod_group(workload, gang, topology)
    gang_group = _group_of(gang, gang.tasks, topology)
    workload = _of_tasks(workload, gang_group, gang.tasks)
    if any(finding.rule in _HELD for finding in gang.root.findings):
        return replace(workload, is_placeable=False)
    if gang.limits and topology is None:
        return replace(workload, is_placeable=False, unknown="the level of its tier is unknown")
    if gang.later:
        submitter = Group("submitter", gang.later)
        return replace(workload, groups=(*workload.groups, submitter))
    return workload


def _of_pod_group(workload: Workload, gang: _Gang, topology: TopologyLevels | None) -> Workload:
    groups: list[Group] = []
    for part in gang.parts:
        name = (part.field / "name").text() or "sub-group"
        group = _kept(Group(name), part.limit, topology)
        groups.append(group)
    pod_group = Group(name_of(gang.root, "PodGroup"), groups=tuple(groups))
    return replace(
        workload,
        groups=(_kept(pod_group, gang.limit, topology),),
        is_placeable=False,
        unknown="a PodGroup does not say what its pods request; check the Job that creates them",
    )


def _of_tasks(workload: Workload, gang_group: Group, job: Tasks) -> Workload:
    """The workload with its pods, and what is uncertain about their order."""
    notes = (*_notes_on_room(job), *workload.notes)
    workload = replace(workload, groups=(gang_group,), notes=notes)
    if not job.is_certain:
        return _of_any_pods(workload, gang_group, job)
    if len(gang_group.pods) + len(gang_group.groups) <= 1:
        return workload
    if gang_group.groups:
        return replace(workload, doubt=_ONE_BY_ONE)
    return _in_any_order(workload, gang_group, gang_group.pods, _ONE_BY_ONE)


def _in_any_order(
    workload: Workload, gang_group: Group, pods: tuple[Pods, ...], doubt: str
) -> Workload:
    """The workload that surely fits only if all these pods fit in any order."""
    as_largest = replace(gang_group, pods=(largest(pods),))
    apart = replace(gang_group, pods=beside_all_others(pods))
    return replace(workload, doubt=doubt, certain=(as_largest,), certain_too=(apart,))


def _of_any_pods(workload: Workload, gang_group: Group, job: Tasks) -> Workload:
    """The workload in which any `minAvailable` of its pods may start together.

    It does not fit if the least demanding ones do not, and surely fits if all of them do.
    """
    doubt = f"which {job.total} of its {job.replicas} pods start together is unknown"
    if gang_group.groups:
        return replace(workload, is_placeable=False, unknown=doubt)
    kinds = []
    for task in job.first:
        pods = task.pod_set
        kinds.append(pods.some(pods.count))
    least = least_demanding(kinds, job.total)
    workload = replace(workload, groups=(replace(gang_group, pods=least),))
    return _in_any_order(workload, gang_group, tuple(kinds), doubt)


def _group_of(gang: _Gang, job: Tasks, topology: TopologyLevels | None) -> Group:
    """The pods that start together: partitions with a constraint of their own, and all others."""
    limits = {part.field.path: part.limit for part in gang.parts}
    partitions: list[Group] = []
    loose: list[tuple[Pods, int]] = []
    for task in job.first:
        count = task.least
        if len(job.first) == 1:
            count = job.total
        policy = task.field / "partitionPolicy"
        limit = limits.get(policy.path)
        if limit is None:
            loose.append((task.pod_set.pods, count))
        else:
            partition = _partitions_of(task, count)
            partitions.append(_kept(partition, limit, topology))

    pods = merged(loose)
    if not partitions and len(pods) == 1:
        pods = (replace(pods[0], count=job.total),)
    gang_group = Group(
        name=name_of(gang.root, "Job"),
        pods=pods,
        groups=tuple(partitions),
    )
    return _kept(gang_group, gang.limit, topology)


def _partitions_of(task: VolcanoTask, count: int) -> Group:
    """The partitions of a task that hold `count` of its pods."""
    policy = task.field / "partitionPolicy"
    size_field = policy / "partitionSize"
    size = size_field.number(1) or 1
    copies = count // size
    pods = task.pod_set.some(size)
    partition = Group.part_of(task.name, "partition", (pods,))
    return replace(partition, copies=copies)


def _notes_on_room(job: Tasks) -> Iterator[str]:
    if job.is_certain and job.total < job.replicas:
        yield f"room is counted for the {job.total} pods of minAvailable, of {job.replicas}"
