"""KAI's queues: which one a workload is in, and what is left in it and the queues above.

Source: KAI 0.17.0 (plugins/proportion/capacity_policy, cache/cluster_info/queue.go,
plugins/defaultgrouper). A limit binds every gang, a quota those that are not preemptible. -1 is
unlimited; unset is 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.containers import amounts_of
from toposcope.integrations.framework.document import Field, Finding, name_of
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kai.api import NODE_POOL, PREEMPTIBLE, PREFIX, QUEUE, QUEUES
from toposcope.text import listing

DEFAULT: Final = "default-queue"
_MOST_NAMED: Final = 5
_UNITS: Final = {"gpu": 1, "cpu": 1, "memory": 10**6}
"""GPUs, thousandths of a core, megabytes."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A limit or quota of a queue."""

    what: str
    counted: str
    """The field of its status with the allocated amount."""


_LIMIT: Final = _Bound("limit", "allocated")
_QUOTA: Final = _Bound("quota", "allocatedNonPreemptible")


@dataclass(frozen=True, slots=True)
class QueueExcess:
    """A gang's request beyond what a queue has left."""

    queue: str
    what: str
    """`limit` or `quota`."""
    resource: str
    most: float
    used: float
    wanted: float


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """The queue of a workload."""

    name: str
    field: str
    """The path of the label that names it, or that could."""


def queue_of(places: Sequence[Field]) -> NamedQueue:
    """The queue that a workload's metadata, or else its templates', name by label or project."""
    queue = _label(places, QUEUE)
    if queue.text():
        return NamedQueue(str(queue.value), queue.path)
    project = _label(places, "project")
    if not project.text():
        return NamedQueue(DEFAULT, queue.path)
    name = str(project.value)
    node_pool = _label(places[1:], NODE_POOL).text() if places[1:] else None
    if node_pool:
        name = f"{name}-{node_pool}"
    return NamedQueue(name, project.path)


def _label(places: Iterable[Field], key: str) -> Field:
    """The first of these fields that has the label; the first field, unset, if none has it."""
    labels = [place / "labels" / key for place in places]
    for label in labels:
        if label.text():
            return label
    return labels[0]


def is_preemptible(labels: Iterable[Field], priority: str | None, kind: str) -> bool:
    """Whether KAI may evict it, so that no quota applies; True if unknown."""
    text = _label(labels, PREFIX + "preemptibility").text()
    if text:
        return text.lower() != "non-preemptible"
    default = "inference" if kind == "Deployment" else "train"
    return PREEMPTIBLE.get(priority or default, True)


def missing(cluster: ClusterFacts, named: NamedQueue) -> Finding | None:
    """KAI's message about a queue that does not exist; None if it does or queues are unknown."""
    queue = named.name
    queues = _queues(cluster)
    if queues is None:
        return None
    name, visited = queue, {""}
    while name not in visited:
        visited.add(name)
        if name not in queues:
            fix = did_you_mean(queue, queues)
            if name != queue:
                fix = f"its parent {name} does not exist, so KAI ignores the queue"
            text = f"Queue '{queue}' does not exist"
            return Finding("kai/queue", "error", named.field, text, fix)
        name = _parent(queues[name])
    return None


def not_a_leaf(cluster: ClusterFacts, named: NamedQueue) -> Finding | None:
    """The problem of a queue with queues below it, which accepts no pods; None if it has none."""
    queue = named.name
    if not queue:
        return None
    children = []
    for name, other_queue in (_queues(cluster) or {}).items():
        if _parent(other_queue) == queue:
            children.append(name)
    if not children:
        return None
    text = f"queue {queue} has child queues, so KAI schedules nothing in it"
    fix = f"name one of the queues below it: {listing(children, _MOST_NAMED)}"
    return Finding("kai/queue-leaf", "error", named.field, text, fix)


def excess(
    cluster: ClusterFacts,
    queue: str,
    wanted: Mapping[str, float],
    own: Mapping[str, int],
    *,
    preemptible: bool,
) -> QueueExcess | None:
    """The first limit or quota that `wanted` exceeds. `own` is what the workload already uses."""
    bounds = [_LIMIT]
    if not preemptible:
        bounds.append(_QUOTA)
    queues = _queues(cluster) or {}
    visited: set[str] = set()
    while queue in queues and queue not in visited:
        visited.add(queue)
        for bound in bounds:
            over = _excess(queues[queue], bound, wanted, own)
            if over is not None:
                return over
        queue = _parent(queues[queue])
    return None


def _excess(
    queue: Field, bound: _Bound, wanted: Mapping[str, float], own: Mapping[str, int]
) -> QueueExcess | None:
    """The excess over one bound of one queue."""
    resources = queue / "spec" / "resources"
    used = amounts_of(queue / "status" / bound.counted)
    for name, unit in _UNITS.items():
        most = _number(resources / name / bound.what) * unit
        requested = _total(wanted, name)
        held = max(_total(used, name) - _total(own, name), 0)
        if requested and most >= 0 and held + requested > most:
            return QueueExcess(
                queue=name_of(queue),
                what=bound.what,
                resource=ALLOCATABLE_GPUS if name == "gpu" else name,
                most=most,
                used=held,
                wanted=requested,
            )
    return None


def _parent(queue: Field) -> str:
    return (queue / "spec" / "parentQueue").text() or ""


def _number(field: Field) -> float:
    if isinstance(field.value, int | float):
        return field.value
    return 0


def _total(amounts: Mapping[str, float], name: str) -> float:
    """The sum of GPUs: to KAI, every resource whose name ends with `gpu`."""
    total: float = 0
    for resource, amount in amounts.items():
        if resource == name or resource.endswith(f"/{name}"):
            total += amount
    return total


def _queues(cluster: ClusterFacts) -> dict[str, Field] | None:
    """The queues by name; None if unknown."""
    documents = cluster.objects.get(QUEUES.key)
    if documents is None:
        return None
    queues = {}
    for document in documents:
        queue = Field(document)
        queues[name_of(queue)] = queue
    return queues
