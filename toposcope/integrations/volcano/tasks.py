"""The tasks of a Volcano Job: their pods, how many must start together, and in what order.

Rules and messages: Volcano 1.15 (webhooks of jobs, the job controller, the gang plugin). Where
`minAvailable` of the Job is below the sum of those of its tasks, any of its pods count toward it;
otherwise each task needs its own minimum.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.node_affinity import NodeFilter, Toleration
from toposcope.integrations.framework.pods import PodSet, Structure, structure_of

_MIN_AVAILABLE: Final = "volcano/min-available"
_DEPENDS_ON: Final = "volcano/depends-on"
_PARTITIONS: Final = "volcano/partitions"
REFUSED: Final = frozenset({_MIN_AVAILABLE, _DEPENDS_ON, "volcano/tasks"})
"""Rules about Jobs that never start, even on an empty cluster."""
_ANYWHERE: Final = NodeFilter(tolerations=(Toleration(operator="Exists"),))
"""Nodes that any pod may use, whatever its tolerations."""


@dataclass(frozen=True, slots=True)
class VolcanoTask:
    """One task of a Job."""

    field: Field
    pod_set: PodSet
    least: int
    """How many of its pods must start together, if the Job requires that of every task."""
    after: tuple[str, ...]
    """The tasks that must run before its pods are created."""

    @property
    def name(self) -> str:
        """Its name, or its position in the Job."""
        return self.pod_set.name


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one Job."""

    all: tuple[VolcanoTask, ...]
    total: int
    """How many pods of the Job must start together."""

    @property
    def first(self) -> tuple[VolcanoTask, ...]:
        """The tasks whose pods are created at once."""
        return tuple(task for task in self.all if not task.after)

    @property
    def replicas(self) -> int:
        """All pods of the Job."""
        return sum(task.pod_set.count for task in self.all)

    @property
    def is_certain(self) -> bool:
        """Whether it is known how many pods of each task start together."""
        kinds: set[Pods] = set()
        least = 0
        for task in self.first:
            kind = replace(task.pod_set.pods, name="", count=1)
            kinds.add(kind)
            least += task.least
        return len(kinds) <= 1 or self.total == least


def tasks_of(root: Field) -> Tasks:
    """The tasks of a Job. Records findings for what its webhook rejects or what never starts."""
    spec = root / "spec"
    structure = structure_of(root) or Structure(())
    tasks = []
    for field, pod_set in zip((spec / "tasks").items(), structure.sets, strict=True):
        least = _least(field, pod_set.count)
        tasks.append(VolcanoTask(field, pod_set, least, _after(field)))

    field = spec / "minAvailable"
    total = field.number(0) or sum(task.least for task in tasks)
    job = Tasks(tuple(tasks), total)
    _check_names(spec, tasks)
    if total > job.replicas:
        text = (
            "job 'minAvailable' should not be greater than total replicas in tasks: "
            f"{total} of {job.replicas}"
        )
        field.error(_MIN_AVAILABLE, text, f"set at most {job.replicas}")
    else:
        _check_order(spec, job)
    return job


def _after(task: Field) -> tuple[str, ...]:
    names = []
    for entry in (task / "dependsOn" / "name").items():
        name = entry.text()
        if name:
            names.append(name)
    return tuple(names)


def _check_names(spec: Field, tasks: Sequence[VolcanoTask]) -> None:
    """Note a Job without tasks, and two tasks with the same name."""
    if not tasks:
        text = "No task specified in job spec"
        (spec / "tasks").error("volcano/tasks", text, "add a task with a pod template")
    earlier_names: set[str] = set()
    for task in tasks:
        if task.name in earlier_names:
            text = f"duplicated task name {task.name}"
            (task.field / "name").error("volcano/tasks", text, "give each task a name of its own")
        earlier_names.add(task.name)


def _check_order(spec: Field, job: Tasks) -> None:
    """Note cyclic dependencies, and a gang that waits for pods created later."""
    stuck = _stuck(job.all)
    if stuck:
        _refuse_dependency(stuck[0], [task.name for task in job.all])
        return
    first = 0
    for task in job.first:
        first += task.pod_set.count
    if job.total <= first:
        return
    later = next(task for task in job.all if task.after)
    names = ", ".join(later.after)
    text = (
        f"is {job.total}, but only {first} pods are created before those of {later.name}, which "
        f"wait for {names} to run, so the gang never starts"
    )
    fix = f"set minAvailable to {first} or less, or remove dependsOn"
    (spec / "minAvailable").error(_DEPENDS_ON, text, fix)


def _stuck(tasks: Iterable[VolcanoTask]) -> list[VolcanoTask]:
    """The tasks whose dependencies never run."""
    created: set[str] = set()
    waiting = list(tasks)
    while waiting:
        later: list[VolcanoTask] = []
        for task in waiting:
            if created.issuperset(task.after):
                created.add(task.name)
            else:
                later.append(task)
        if len(later) == len(waiting):
            return later
        waiting = later
    return []


def _refuse_dependency(task: VolcanoTask, names: Sequence[str]) -> None:
    """Note that a task depends on one that does not exist, or is part of a cycle."""
    dependencies = task.field / "dependsOn"
    for name in task.after:
        if name not in names:
            text = f"there is no task {name}, so the pods of {task.name} are never created"
            dependencies.error(_DEPENDS_ON, text, did_you_mean(name, names))
            return
    text = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
    dependencies.error(_DEPENDS_ON, text, "remove one dependency of the cycle")


def _least(task: Field, replicas: int) -> int:
    """How many pods of a task must start together. Notes numbers that its webhook rejects."""
    field = task / "minAvailable"
    own = field.number(replicas)
    name = (task / "name").text() or task.path
    if own > replicas:
        text = f"'minAvailable' is greater than 'replicas' in task: {name}"
        field.error(_MIN_AVAILABLE, text, f"set at most {replicas}")
        own = replicas

    policy = task / "partitionPolicy"
    if not policy:
        return own
    total = (policy / "totalPartitions").number(0)
    size = (policy / "partitionSize").number(0)
    least = (policy / "minPartitions").number(0) * size
    _check_partitions(task, replicas, total, size)
    if field and least and least != own:
        text = f"'MinAvailable' is not equal to MinPartitions*PartitionSize in task: {name}"
        field.error(_PARTITIONS, text, f"set {least}, or remove it")
    return least or own


def _check_partitions(task: Field, replicas: int, total: int, size: int) -> None:
    """Note partitions that do not add up to the task's replicas."""
    name = (task / "name").text() or task.path
    policy = task / "partitionPolicy"
    fix = "set the number of partitions, and their size in pods"
    if total <= 0:
        field = policy / "totalPartitions"
        text = f"'TotalPartitions' must be greater than 0 in task: {name}"
        field.error(_PARTITIONS, text, fix)
    if size <= 0:
        field = policy / "partitionSize"
        text = f"'PartitionSize' must be greater than 0 in task: {name}"
        field.error(_PARTITIONS, text, fix)
    pods = total * size
    if pods > 0 and replicas != pods:
        field = task / "replicas"
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize in task: {name}"
        field.error(_PARTITIONS, text, f"write {pods}")


def merged(kinds: Iterable[tuple[Pods, int]]) -> tuple[Pods, ...]:
    """Pods of these kinds and numbers, with identical kinds merged."""
    counts = Counter[Pods]()
    for kind, count in kinds:
        counts[replace(kind, name="pods", count=1)] += count
    pods = []
    for kind, count in counts.items():
        if count:
            pods.append(replace(kind, count=count))
    return tuple(pods)


def least_demanding(kinds: Sequence[Pods], count: int) -> tuple[Pods, ...]:
    """`count` pods that fit wherever any `count` of these fit.

    The smallest ones, if each kind requests no more than the next and may use the same nodes;
    otherwise pods that request the minimum of each resource over all kinds.
    """
    ordered = sorted(kinds, key=_size)
    for small, large in pairwise(ordered):
        if not _is_within(small, large):
            return (_smallest_of(ordered, count),)
    return merged(_taken(ordered, count))


def beside_all_others(kinds: Sequence[Pods]) -> tuple[Pods, ...]:
    """The pods, each enlarged by the requests of all pods of the other kinds.

    If these fit, the real ones fit in any order: each node has room for its share even after all
    pods of the other kinds.
    """
    enlarged = []
    for kind in kinds:
        requests = dict(kind.requests)
        for other_kind in kinds:
            if other_kind is kind:
                continue
            for resource, amount in other_kind.requests:
                if resource in requests:
                    requests[resource] += amount * other_kind.count
        enlarged.append(replace(kind, requests=tuple(sorted(requests.items()))))
    return tuple(enlarged)


def _taken(ordered: Iterable[Pods], count: int) -> Iterator[tuple[Pods, int]]:
    """The first `count` of these pods."""
    for kind in ordered:
        used = min(kind.count, count)
        yield kind, used
        count -= used


def _size(pods: Pods) -> tuple[int, ...]:
    return (len(pods.requests), *[amount for _, amount in pods.requests])


def _is_within(small: Pods, large: Pods) -> bool:
    """Whether a node with room for one of the large pods has room for one of the small ones."""
    if small.node_filter != large.node_filter or small.claims != large.claims:
        return False
    available = dict(large.requests)
    for resource, amount in small.requests:
        if amount > available.get(resource, 0):
            return False
    return True


def _smallest_of(kinds: Sequence[Pods], count: int) -> Pods:
    """Pods that request no more of anything than any of these kinds, and may use any node."""
    first, *others = kinds
    least = dict(first.requests)
    node_filter = first.node_filter
    for kind in others:
        requests = dict(kind.requests)
        for resource, amount in least.items():
            requested = requests.get(resource, 0)
            least[resource] = min(amount, requested)
        if kind.node_filter != node_filter:
            node_filter = _ANYWHERE

    requested_by_all = []
    for resource, amount in sorted(least.items()):
        if amount:
            requested_by_all.append((resource, amount))
    return Pods("pods", count, tuple(requested_by_all), node_filter)
