"""Kueue: its queue leads to a flavor with a topology, and the queues are active.

And its messages.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from toposcope.integrations.framework import features
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import Field, Finding
from toposcope.integrations.framework.features import Step
from toposcope.integrations.framework.waiting import CopyName, Waiting, WaitingWorkload
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    FLAVORS,
    LOCAL_QUEUE,
    POD_SET,
    POD_SET_OF,
    QUEUE_NAME,
    TOPOLOGIES,
    WORKLOAD,
)
from toposcope.integrations.kueue.assigned_nodes import check_assignment
from toposcope.kube.discovery import Kind
from toposcope.text import Command, shell

_WAITING: Final = {
    ("QuotaReserved", "False"),
    ("Admitted", "False"),
    ("Evicted", "True"),
    ("Preempted", "True"),
}
"""Type and status of the conditions that say why a Workload does not run."""


def _check(workload: features.WorkloadObjects) -> Iterator[features.Step]:
    """From the workload's queue name to the flavors of its ClusterQueue."""
    if not any(demand.system == "Kueue" for demand in workload.workloads):
        return
    name, namespace = _queue_name(workload), workload.namespace
    if name is None:
        yield features.unknown(
            "the workload names no queue, so the flavors that Kueue would use are unknown"
        )
        return
    queue = workload.store.find(LOCAL_QUEUE, name, namespace)
    if queue is None:
        command = shell("kubectl get {} -n {}", LOCAL_QUEUE.name, namespace)
        yield _missing(
            workload, LOCAL_QUEUE, f"LocalQueue {name}", f" in namespace {namespace}", command
        )
        return
    cluster_queue = (Field(queue) / "spec" / "clusterQueue").text() or ""
    yield _check_cluster_queue(workload, cluster_queue)


def _queue_name(workload: features.WorkloadObjects) -> str | None:
    root = Field(workload.document)
    own = (root / "metadata" / "labels" / QUEUE_NAME).text() or (root / "spec" / "queueName").text()
    admitted = [
        (Field(document) / "spec" / "queueName").text()
        for _, document in workload.members(WORKLOAD)
    ]
    return own or next(filter(None, admitted), None)


def _missing(
    workload: features.WorkloadObjects, kind: Kind, which: str, where: str, command: Command
) -> features.Step:
    if why := workload.store.why_unknown(kind):
        return features.unknown(f"cannot read {which}: {why}", commands=(command,))
    return features.failed(f"{which} does not exist{where}", commands=(command,))


def _check_cluster_queue(workload: features.WorkloadObjects, name: str) -> features.Step:
    queue = workload.store.find(CLUSTER_QUEUE, name)
    if queue is None:
        command = shell("kubectl get {}", CLUSTER_QUEUE.name)
        return _missing(workload, CLUSTER_QUEUE, f"ClusterQueue {name}", "", command)
    active = features.condition(queue, "Active")
    if active and active.status == "False":
        message = f"ClusterQueue {name} is not active ({active.reason}): {active.message}"
        return features.failed(
            message, commands=(shell("kubectl describe {} {}", CLUSTER_QUEUE.name, name),)
        )
    return _check_flavors(workload, name, queue)


def _check_flavors(
    workload: features.WorkloadObjects, name: str, queue: features.Object
) -> features.Step:
    groups = (Field(queue) / "spec" / "resourceGroups").items()
    names = {
        text
        for group in groups
        for entry in (group / "flavors").items()
        if (text := (entry / "name").text())
    }
    if why := workload.store.why_unknown(FLAVORS):
        return features.unknown(
            f"cannot tell whether the flavors of ClusterQueue {name} have a topology: {why}"
        )
    topologies = {}
    for flavor in sorted(names):
        document = workload.store.find(FLAVORS, flavor)
        if document and (topology := (Field(document) / "spec" / "topologyName").text()):
            topologies[flavor] = topology
    if not topologies:
        return features.failed(
            f"no flavor of ClusterQueue {name} has a topology, "
            "so Kueue cannot keep its pods together",
            "set spec.topologyName on a ResourceFlavor "
            f"({', '.join(sorted(names)) or 'the queue has none'})",
            commands=(shell("kubectl get {} -o yaml", FLAVORS.name),),
        )
    offered = ", ".join(
        f"{flavor} (topology {topology})" for flavor, topology in topologies.items()
    )
    return features.passed(f"ClusterQueue {name} offers {offered}")


def _messages(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Why its Kueue Workloads are not admitted, or no longer."""
    for ref, document in workload.members(WORKLOAD):
        for reported in features.conditions(document):
            if reported.message and (reported.type, reported.status) in _WAITING:
                yield features.SchedulerMessage(ref.handle, str(reported))


class _Kueue(Waiting):
    subjects = (WORKLOAD,)
    around = (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVORS)
    readers = ("Kueue",)
    topology_kinds = (TOPOLOGIES,)
    topology_rules = (
        "kueue/topology-exists",
        "kueue/one-topology",
    )
    level_rules = ("kueue/level-exists",)
    hierarchy_rules = ("kueue/slice-level",)
    feature_rules = (
        "kueue/queue-name",
        "kueue/queue-exists",
        "kueue/flavor-topology",
        "kueue/wrong-place",
    )

    def check(self, workload: features.WorkloadObjects) -> Iterator[Step]:
        return _check(workload)

    def settles(self, finding: Finding, workload: features.WorkloadObjects) -> bool:
        # it is managed anyway
        return finding.rule == "kueue/queue-name" and any(workload.members(WORKLOAD))

    def check_nodes(self, workload: WaitingWorkload) -> Step | None:
        return check_assignment(workload)

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        name = group.own_name
        if system != "Kueue" or group.kind != POD_SET:
            return None

        def of_pod_set(labels: Mapping[str, str]) -> str | None:
            return "" if labels.get(POD_SET_OF, name) == name else None

        return of_pod_set

    def messages(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _messages(workload)


WAITING: Final = _Kueue()
