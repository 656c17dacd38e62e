"""Why a workload waits for Kueue.

Checks that its queue has a flavor with a topology and that the queues are active, and reads Kueue's
own reason.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from toposcope.integrations.framework import features
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import Field, Finding
from toposcope.integrations.framework.features import CheckStep
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import CopyName, Pin, Waiting, WaitingWorkload
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    FLAVORS,
    LOCAL_QUEUE,
    POD_GROUP,
    POD_SET,
    POD_SET_OF,
    PREFIX,
    TOPOLOGIES,
    WORKLOAD,
    WORKLOAD_OF,
)
from toposcope.integrations.kueue.assigned_nodes import check_assignment
from toposcope.integrations.kueue.pending import (
    is_managed,
    queue_name,
    reports,
    starts,
    stopped_queue,
)
from toposcope.integrations.kueue.pins import pin
from toposcope.kube.discovery import Kind
from toposcope.text import Command, shell

_GATES: Final = {
    PREFIX + "admission": "Kueue removes it once it has admitted the pod's Workload",
    PREFIX + "topology": (
        "Kueue removes it once the pod's Workload is admitted and has a topology assignment, "
        "and then pins the pod to a domain of it"
    ),
    PREFIX + "elastic-job": (
        "Kueue removes it once it has admitted the Workload slice of the Job's new size"
    ),
}


def _check(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Follow the workload's queue name to the flavors of its ClusterQueue."""
    if not any(demand.system == "Kueue" for demand in workload.workloads):
        return
    name = queue_name(workload)
    if name is None:
        yield features.unknown(
            "the workload sets no queue name, so the flavors that Kueue would use are unknown"
        )
        return
    namespace = workload.namespace
    queue = workload.store.find(LOCAL_QUEUE, name, namespace)
    if queue is None:
        yield _missing(
            workload,
            LOCAL_QUEUE,
            which=f"LocalQueue {name}",
            where=f" in namespace {namespace}",
            command=shell("kubectl get {} -n {}", LOCAL_QUEUE.name, namespace),
        )
        return
    cluster_queue = (Field(queue) / "spec" / "clusterQueue").text() or ""
    yield _check_cluster_queue(workload, cluster_queue)


def _missing(
    workload: features.WorkloadObjects, kind: Kind, *, which: str, where: str, command: Command
) -> features.CheckStep:
    commands = (command,)
    why = workload.store.why_unknown(kind)
    if why:
        text = f"cannot read {which}: {why}"
        return features.unknown(text, commands=commands)
    text = f"{which} does not exist{where}"
    return features.failed(text, commands=commands)


def _check_cluster_queue(workload: features.WorkloadObjects, name: str) -> features.CheckStep:
    queue = workload.store.find(CLUSTER_QUEUE, name)
    if queue is None:
        return _missing(
            workload,
            CLUSTER_QUEUE,
            which=f"ClusterQueue {name}",
            where="",
            command=shell("kubectl get {}", CLUSTER_QUEUE.name),
        )
    active = features.condition(queue, "Active")
    if active and active.status == "False":
        return features.failed(
            f"ClusterQueue {name} is not active ({active.reason}): {active.message}",
            commands=(shell("kubectl describe {} {}", CLUSTER_QUEUE.name, name),),
        )
    return _check_flavors(workload, name, queue)


def _check_flavors(
    workload: features.WorkloadObjects, name: str, queue: features.Object
) -> features.CheckStep:
    """Whether a flavor of the ClusterQueue has a topology."""
    flavors = _flavor_names(queue)
    why = workload.store.why_unknown(FLAVORS)
    if why:
        return features.unknown(
            f"cannot check whether the flavors of ClusterQueue {name} have a topology: {why}"
        )
    offered = []
    for flavor in flavors:
        document = workload.store.find(FLAVORS, flavor)
        if not document:
            continue
        topology = (Field(document) / "spec" / "topologyName").text()
        if topology:
            offered.append(f"{flavor} (topology {topology})")
    if offered:
        return features.passed(f"ClusterQueue {name} offers {', '.join(offered)}")
    there_are = ", ".join(flavors) or "the queue has no flavors"
    return features.failed(
        f"no flavor of ClusterQueue {name} has a topology, so Kueue cannot keep its pods together",
        f"set spec.topologyName on a ResourceFlavor ({there_are})",
        commands=(shell("kubectl get {} -o yaml", FLAVORS.name),),
    )


def _flavor_names(cluster_queue: features.Object) -> list[str]:
    names = set()
    for group in (Field(cluster_queue) / "spec" / "resourceGroups").items():
        for entry in (group / "flavors").items():
            name = (entry / "name").text()
            if name:
                names.add(name)
    return sorted(names)


class _Kueue(Waiting):
    subjects = (WORKLOAD,)
    around = (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVORS)
    gates = _GATES
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

    def group_of(self, pod: ViewedPod) -> features.Ref | None:
        """Its Workload. That of several pods has the name of their group, and all of them own it.

        Source: Kueue 0.19 (pkg/controller/jobs/pod).
        """
        name = pod.annotations.get(WORKLOAD_OF) or pod.annotations.get(POD_GROUP)
        name = name or pod.labels.get(POD_GROUP)
        if not name:
            return None
        return features.Ref(WORKLOAD.group, WORKLOAD.kind, pod.namespace, name)

    def check(self, workload: features.WorkloadObjects) -> Iterator[CheckStep]:
        return _check(workload)

    def settles(self, finding: Finding, workload: features.WorkloadObjects) -> bool:
        if finding.rule != "kueue/queue-name":
            return False
        return is_managed(workload)  # an owner names the queue

    def check_nodes(self, workload: WaitingWorkload) -> CheckStep | None:
        return check_assignment(workload)

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        name = group.own_name
        if system != "Kueue" or group.kind != POD_SET:
            return None

        def of_pod_set(labels: Mapping[str, str]) -> str | None:
            if labels.get(POD_SET_OF, name) == name:
                return ""
            return None

        return of_pod_set

    def refusals(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        yield from stopped_queue(workload)
        yield from reports(workload)

    def resumes(self, workload: features.WorkloadObjects) -> str:
        return starts(workload)

    def pin(self, workload: WaitingWorkload, pod: ViewedPod, key: str, value: str) -> Pin | None:
        del pod
        return pin(workload, key, value)


WAITING: Final = _Kueue()
