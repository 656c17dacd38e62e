"""Why Kueue holds a workload back: what it says of the Workload, and who waits before it.

Source: Kueue 0.19.2 (pkg/cache/queue/cluster_queue.go, pkg/workload/workload.go): a queue with
StrictFIFO tries its first Workload only, by priority and then by age; one with BestEffortFIFO
passes over what does not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import (
    Object,
    Ref,
    SchedulerMessage,
    WorkloadObjects,
    condition,
    conditions,
)
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PREFIX,
    QUEUE_NAME,
    WORKLOAD,
)

_STRICT: Final = "StrictFIFO"
_PRIORITY_CLASS: Final = PREFIX + "priority-class"
_REASONS: Final = (
    ("QuotaReserved", "False"),
    ("Evicted", "True"),
    ("Preempted", "True"),
    ("Admitted", "False"),
)
"""Type and status of the conditions that say why a Workload does not run, the most telling first.
"""
_NEWEST: Final = "~"
"""After every time stamp."""


def queue_name(workload: WorkloadObjects) -> str | None:
    """The queue that it or one of its owners names, or its Kueue Workload; None: not known."""
    for document in (workload.document, *workload.lineage):
        root = Field(document)
        label = (root / "metadata" / "labels" / QUEUE_NAME).text()
        own = label or (root / "spec" / "queueName").text()
        if own:
            return own
    for _, document in workload.members(WORKLOAD):
        admitted = (Field(document) / "spec" / "queueName").text()
        if admitted:
            return admitted
    return None


def is_managed(workload: WorkloadObjects) -> bool:
    """Whether Kueue decides when it starts."""
    return queue_name(workload) is not None or any(workload.members(WORKLOAD))


def reports(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """What Kueue says of the workload's own Workloads, and of the one that it waits behind."""
    own = list(workload.members(WORKLOAD))
    for ref, document in own:
        if not _is_true(document, "Admitted"):
            yield from _reported(ref, document)

    is_admitted = any(_is_true(document, "QuotaReserved") for _, document in own)
    waits_behind = None if is_admitted else _first_in_line(workload)
    if waits_behind:
        yield waits_behind


def starts(workload: WorkloadObjects) -> str:
    """When Kueue starts a suspended workload; empty: it has no part in that."""
    if queue_name(workload) is None and not any(workload.members(WORKLOAD)):
        return ""
    words = "Kueue starts it once it has admitted it"
    if any(workload.members(WORKLOAD)) or workload.store.why_unknown(WORKLOAD):
        return words
    return (
        f"{words}, and has made no Workload of it yet: see whether Kueue runs, "
        "and whether integrations.frameworks of its configuration has this kind"
    )


def _is_true(document: Object, kind: str) -> bool:
    reported = condition(document, kind)
    return reported is not None and reported.status == "True"


def _reported(ref: Ref, document: Object) -> Iterator[SchedulerMessage]:
    """What the conditions and admission checks of a Workload say."""
    if _is_true(document, "Finished"):
        return
    if (Field(document) / "spec" / "active").value is False:
        text = "spec.active is false: Kueue does not look at it until that is true"
        yield SchedulerMessage(ref.handle, text, ref=ref)

    yield from _conditions(ref, document)
    yield from _admission_checks(ref, document)


def _conditions(ref: Ref, document: Object) -> Iterator[SchedulerMessage]:
    found = {}
    for entry in conditions(document):
        found[entry.type, entry.status] = entry

    for outcome in _REASONS:
        reported = found.get(outcome)
        if reported and reported.message:
            text = str(reported)
            yield SchedulerMessage(ref.handle, text, ref=ref)


def _admission_checks(ref: Ref, document: Object) -> Iterator[SchedulerMessage]:
    checks = Field(document) / "status" / "admissionChecks"
    for check in checks.items():
        state = (check / "state").text()
        if state and state != "Ready":
            name = (check / "name").text()
            message = (check / "message").text() or "no message"
            text = f"admission check {name} is {state}: {message}"
            yield SchedulerMessage(ref.handle, text, ref=ref)


@dataclass(frozen=True, slots=True)
class _Place:
    """A Workload's place in the line of its ClusterQueue."""

    priority: int
    since: str
    """When it was created; `_NEWEST`: not known."""

    @property
    def order(self) -> tuple[int, str]:
        """The lower, the earlier Kueue tries it."""
        return -self.priority, self.since


@dataclass(frozen=True, slots=True)
class _Pending:
    """A Workload that waits in a ClusterQueue."""

    ref: Ref
    document: Object
    place: _Place


def _first_in_line(workload: WorkloadObjects) -> SchedulerMessage | None:
    """The Workload that a queue with StrictFIFO tries before this one; None: none is known."""
    queue = _cluster_queue(workload)
    own = _own_place(workload)
    if queue is None or own is None or _strategy(workload, queue) != _STRICT:
        return None

    own_refs = {ref for ref, _ in workload.members(WORKLOAD)}
    before = []
    for other in _pending(workload, queue):
        is_own = other.ref in own_refs
        if not is_own and other.place.order < own.order:
            before.append(other)
    if not before:
        return None
    return _behind(queue, before)


def _behind(queue: str, before: Sequence[_Pending]) -> SchedulerMessage:
    """The message that others are tried first."""
    head = min(before, key=_order)
    ref = head.ref
    place = "before this one"
    if len(before) > 1:
        place = f"the first of {len(before)} before this one"
    text = f"it admits Workloads strictly in order ({_STRICT}), and {ref.handle} is {place}"
    reserved = condition(head.document, "QuotaReserved")
    if reserved and reserved.message:
        text += f"; that one waits: {reserved.message}"
    meaning = (
        "nothing behind the head of the queue is admitted before it: make room for that one, "
        "give this one a higher priority, or set spec.queueingStrategy: BestEffortFIFO"
    )
    return SchedulerMessage(f"clusterqueue/{queue}", text, meaning, ref)


def _cluster_queue(workload: WorkloadObjects) -> str | None:
    name = queue_name(workload)
    if name is None:
        return None
    return _queue_behind(workload, workload.namespace, name)


def _queue_behind(workload: WorkloadObjects, namespace: str, name: str) -> str | None:
    """The ClusterQueue of a LocalQueue."""
    for ref, document in workload.every(LOCAL_QUEUE):
        if (ref.namespace, ref.name) == (namespace, name):
            return (Field(document) / "spec" / "clusterQueue").text()
    return None


def _strategy(workload: WorkloadObjects, queue: str) -> str | None:
    for ref, document in workload.every(CLUSTER_QUEUE):
        if ref.name == queue:
            return (Field(document) / "spec" / "queueingStrategy").text()
    return None


def _order(pending: _Pending) -> tuple[int, str]:
    return pending.place.order


def _pending(workload: WorkloadObjects, queue: str) -> Iterator[_Pending]:
    """The Workloads that wait in a ClusterQueue."""
    for ref, document in workload.every(WORKLOAD):
        if _is_true(document, "QuotaReserved") or _is_true(document, "Finished"):
            continue
        root = Field(document)
        name = (root / "spec" / "queueName").text()
        is_active = (root / "spec" / "active").value is not False
        if is_active and name and _queue_behind(workload, ref.namespace, name) == queue:
            yield _Pending(ref, document, _place(document))


def _place(document: Object) -> _Place:
    root = Field(document)
    priority = (root / "spec" / "priority").value
    since = (root / "metadata" / "creationTimestamp").text()
    if not isinstance(priority, int):
        priority = 0
    return _Place(priority, since or _NEWEST)


def _own_place(workload: WorkloadObjects) -> _Place | None:
    """The place of the workload; None: its priority is not known."""
    for _, document in workload.members(WORKLOAD):
        return _place(document)
    root = Field(workload.document)
    if (root / "metadata" / "labels" / _PRIORITY_CLASS).text():
        return None
    since = (root / "metadata" / "creationTimestamp").text()
    return _Place(0, since or _NEWEST)
