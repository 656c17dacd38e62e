"""Why Kueue holds a workload back, from the status of its Workload."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.features import (
    Object,
    Ref,
    SchedulerMessage,
    WorkloadObjects,
    condition,
    conditions,
)
from toposcope.integrations.kueue.api import CLUSTER_QUEUE, LOCAL_QUEUE, QUEUE_NAME, WORKLOAD
from toposcope.integrations.kueue.queue_state import resume_command, stop_policy
from toposcope.kube.discovery import Kind

_REASONS: Final = (
    ("QuotaReserved", "False"),
    ("Evicted", "True"),
    ("Preempted", "True"),
    ("Admitted", "False"),
)
"""Type and status of the conditions that say why a Workload does not run, most specific first.
"""


def queue_name(workload: WorkloadObjects) -> str | None:
    """The queue of the object, of one of its owners, or of its Kueue Workload; None if unknown."""
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
    """Kueue's reports on the workload's own Workloads."""
    for ref, document in workload.members(WORKLOAD):
        if not _is_true(document, "Admitted"):
            yield from _reported(ref, document)


def stopped_queue(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """A report that its LocalQueue or ClusterQueue is stopped, whatever its Workload reports.

    A stopped queue still admits a Workload for which it has reserved quota.
    """
    name = queue_name(workload)
    if name is None:
        return
    for _, document in workload.members(WORKLOAD):
        if _is_true(document, "QuotaReserved"):
            return

    local_queue = workload.store.find(LOCAL_QUEUE, name, workload.namespace)
    if local_queue is None:
        return
    yield from _stopped(Field(local_queue), LOCAL_QUEUE)
    cluster_queue_name = (Field(local_queue) / "spec" / "clusterQueue").text() or ""
    cluster_queue = workload.store.find(CLUSTER_QUEUE, cluster_queue_name)
    if cluster_queue is not None:
        yield from _stopped(Field(cluster_queue), CLUSTER_QUEUE)


def _stopped(queue: Field, kind: Kind) -> Iterator[SchedulerMessage]:
    policy = stop_policy(queue)
    if policy:
        yield SchedulerMessage(
            about=f"{kind.kind} {name_of(queue)}",
            text=f"stopped (spec.stopPolicy: {policy}), so Kueue admits no Workload in it",
            meaning="to resume it, set spec.stopPolicy to None; first ask who stopped it",
            fix=resume_command(queue, kind.kind),
        )


def starts(workload: WorkloadObjects) -> str:
    """When Kueue starts a suspended workload; empty if Kueue does not manage it."""
    if queue_name(workload) is None and not any(workload.members(WORKLOAD)):
        return ""
    words = "Kueue starts it once it has admitted it"
    if any(workload.members(WORKLOAD)) or workload.store.why_unknown(WORKLOAD):
        return words
    return (
        f"{words}, and has created no Workload for it yet: check that Kueue runs, and that "
        "integrations.frameworks of its configuration lists this kind"
    )


def _is_true(document: Object, kind: str) -> bool:
    reported = condition(document, kind)
    return reported is not None and reported.status == "True"


def _reported(ref: Ref, document: Object) -> Iterator[SchedulerMessage]:
    """The conditions and admission checks of a Workload, as reports."""
    if _is_true(document, "Finished"):
        return
    if (Field(document) / "spec" / "active").value is False:
        text = "spec.active is false: Kueue ignores it until it is true"
        yield SchedulerMessage(ref.handle, text, ref=ref)

    yield from _conditions(ref, document)
    yield from _admission_checks(ref, document)


def _conditions(ref: Ref, document: Object) -> Iterator[SchedulerMessage]:
    by_type = {}
    for entry in conditions(document):
        by_type[entry.type, entry.status] = entry

    for outcome in _REASONS:
        reported = by_type.get(outcome)
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
