"""What is ahead of a workload in a queue that admits in order.

In a StrictFIFO ClusterQueue nothing is admitted before the head, even if it would fit. Rules: Kueue
0.19 (pkg/cache/queue/cluster_queue.go, pkg/util/priority): the higher priority first, then the
older one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.document import (
    Field,
    handle_of,
    kind_of,
    name_of,
    namespace_of,
)
from toposcope.integrations.framework.features import condition
from toposcope.integrations.framework.pods import structure_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import (
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    PRIORITY_CLASS_OF,
    WORKLOAD,
)
from toposcope.integrations.kueue.queue_state import stopped

_STRICT: Final = "StrictFIFO"
_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "PriorityClass")
_SYSTEM: Final = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
"""Classes that exist in every cluster."""
_NEWEST: Final = "~"
"""The creation timestamp of a workload that does not exist yet: after all others."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Why a workload waits for another one; `is_certain` if Kueue has refused the head."""

    text: str
    is_certain: bool


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """A place in the queue; the smaller one comes first."""

    priority_below_zero: int
    created: str
    """In seconds; of two in the same second, the one with the smaller uid comes first."""
    uid: str


@dataclass(frozen=True, slots=True)
class _Pending:
    """A Workload that waits in the queue."""

    workload: Field
    turn: _Turn

    @property
    def message(self) -> str:
        """Why Kueue has not admitted it; empty if Kueue has not reported it yet."""
        reserved = condition(self.workload.value, "QuotaReserved")
        if reserved is None or reserved.status != "False":
            return ""
        return reserved.message or reserved.reason


def ahead(
    queue: Field, root: Field, own: Sequence[Field], others: Sequence[Field], cluster: ClusterFacts
) -> Ahead | None:
    """What must be admitted before the workload `root`; None if nothing.

    `own` are the Workloads of that object, `others` all other ones.
    """
    is_admitted = any(workload / "status" / "admission" for workload in own)
    if is_admitted or (queue / "spec" / "queueingStrategy").text() != _STRICT:
        return None
    waiting = sorted(_pending(name_of(queue), others, cluster), key=_turn_of)
    if not waiting:
        return None

    head = waiting[0]
    if queue / "spec" / "admissionScope":
        text = _text(
            queue, head, "waits; the past usage of their LocalQueues decides which is first"
        )
        return Ahead(text, is_certain=False)
    priority = _priority(root, own, cluster)
    if priority is None:
        text = _text(queue, head, "is ahead of it unless its priority is lower")
        return Ahead(f"{text}; the priority class of this workload is unknown", is_certain=False)
    turn = _Turn(-priority, _NEWEST, "")
    for workload in own:
        turn = replace(_turn(workload), priority_below_zero=-priority)
    if head.turn < turn:
        return _behind(queue, head)
    return None


def _behind(queue: Field, head: _Pending) -> Ahead:
    message = head.message
    if not message:
        return Ahead(_text(queue, head, "is ahead of it"), is_certain=False)
    text = _text(queue, head, "is ahead of it and waits")
    return Ahead(f"{text}: {message}", is_certain=True)


def _turn_of(pending: _Pending) -> _Turn:
    return pending.turn


def _turn(workload: Field) -> _Turn:
    metadata = workload / "metadata"
    return _Turn(
        priority_below_zero=-_whole(workload / "spec" / "priority"),
        created=(metadata / "creationTimestamp").text() or "",
        uid=(metadata / "uid").text() or "",
    )


def _text(queue: Field, head: _Pending, what: str) -> str:
    handle = handle_of(head.workload)
    return f"ClusterQueue {name_of(queue)} is {_STRICT}, and {handle} {what}"


def _pending(queue: str, workloads: Sequence[Field], cluster: ClusterFacts) -> Iterator[_Pending]:
    """The Workloads that wait in a ClusterQueue."""
    leading = _leading_to(queue, cluster)
    for workload in workloads:
        spec = workload / "spec"
        local_queue = namespace_of(workload), (spec / "queueName").text() or ""
        if local_queue not in leading or not _waits(workload):
            continue
        yield _Pending(workload, _turn(workload))


def _leading_to(queue: str, cluster: ClusterFacts) -> set[tuple[str, str]]:
    """Namespace and name of the LocalQueues of a ClusterQueue that are not stopped."""
    leading = set()
    for document in cluster.objects.get(LOCAL_QUEUE.key, ()):
        local_queue = Field(document)
        if (local_queue / "spec" / "clusterQueue").text() != queue:
            continue
        if stopped(local_queue, LOCAL_QUEUE.kind) is None:
            leading.add((namespace_of(local_queue), name_of(local_queue)))
    return leading


def _waits(workload: Field) -> bool:
    """Whether a Workload is in its queue: active, not admitted, and not held back for a while."""
    if (workload / "spec" / "active").value is False:
        return False
    if workload / "status" / "admission":
        return False
    requeued = condition(workload.value, "Requeued")
    return requeued is None or requeued.status != "False"


def _whole(number: Field) -> int:
    """A priority, which may be negative; 0 if unset."""
    value = number.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return 0


def _priority(root: Field, own: Sequence[Field], cluster: ClusterFacts) -> int | None:
    """The priority of the workload; None if its class is unknown."""
    if kind_of(root.value) == WORKLOAD.key:
        return _whole(root / "spec" / "priority")
    for workload in own:
        return _whole(workload / "spec" / "priority")
    name = (root / "metadata" / "labels" / PRIORITY_CLASS_OF).text()
    if name:
        return _value_of(name, PRIORITY_CLASS.key, cluster)

    structure = structure_of(root)
    for pod_set in structure.sets if structure else ():
        name = (pod_set.template / "spec" / "priorityClassName").text()
        if name in _SYSTEM:
            return _SYSTEM[name]
        if name:
            return _value_of(name, _PRIORITY_CLASSES, cluster)
    return _default(cluster)


def _default(cluster: ClusterFacts) -> int:
    """The priority of pods without a class."""
    for document in cluster.objects.get(_PRIORITY_CLASSES, ()):
        priority_class = Field(document)
        if (priority_class / "globalDefault").value is True:
            return _whole(priority_class / "value")
    return 0


def _value_of(name: str, kind: tuple[str, str], cluster: ClusterFacts) -> int | None:
    """The value of a priority class; None if unknown."""
    for document in cluster.objects.get(kind, ()):
        if name_of(Field(document)) == name:
            return _whole(Field(document) / "value")
    return None
