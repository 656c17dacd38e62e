"""kube-scheduler's own gangs in the cluster: whether it schedules them as groups, and its messages.

Source: Kubernetes 1.36, schedule_one_podgroup.go and the plugins TopologyPlacementGenerator and
GangScheduling.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework import features
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import Ref
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.kubernetes.api import COMPOSITES, POD_GROUPS, WORKLOADS
from toposcope.integrations.kubernetes.gangs import GATES, NAME, group_of
from toposcope.integrations.kubernetes.messages import meaning_of_no_node, steps_about_room
from toposcope.kube.discovery import Kind
from toposcope.text import shell

_SCHEDULED: Final = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""The condition that says whether it found nodes: from Kubernetes 1.37 on, and before."""


def _check(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Check that kube-scheduler has processed the PodGroups.

    With a feature gate off it places their pods one by one.
    """
    systems = [demand.system for demand in workload.workloads]
    if NAME not in systems:
        return
    groups = list(workload.members(POD_GROUPS))
    if not groups:
        yield _no_pod_group(workload)
    for ref, document in groups:
        if _is_looked_at(document):
            yield features.passed(f"kube-scheduler schedules {ref.handle} as a group")
        else:
            yield _not_looked_at(ref)


def _no_pod_group(workload: features.WorkloadObjects) -> features.CheckStep:
    why = workload.store.why_unknown(POD_GROUPS)
    if why:
        return features.unknown(f"cannot read its PodGroup: {why}")
    text = f"no PodGroup of {POD_GROUPS.group} belongs to it"
    return features.failed(text, GATES)


def _is_looked_at(document: features.Object) -> bool:
    """Whether the PodGroup has the condition about nodes."""
    return any(features.condition(document, kind) for kind in _SCHEDULED)


def _not_looked_at(ref: Ref) -> features.CheckStep:
    expected = _SCHEDULED[-1]
    describe = shell(
        "kubectl describe {} {} -n {}",
        POD_GROUPS.name,
        ref.name,
        ref.namespace,
    )
    return features.failed(
        f"kube-scheduler has not processed {ref.handle}: it has no condition {expected}",
        f"its pods may not exist yet; otherwise {GATES}",
        commands=(describe,),
    )


def _refusals(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Why its PodGroups are not scheduled."""
    for ref, document in workload.members(POD_GROUPS):
        for condition in features.conditions(document):
            if condition.type not in _SCHEDULED or condition.status != "False":
                continue
            if condition.message:
                yield features.SchedulerMessage(ref.handle, condition.message, ref=ref)


class _Kubernetes(Waiting):
    subjects = (
        POD_GROUPS,
        COMPOSITES,
        WORKLOADS,
        Kind("batch", "Job", "jobs", ("v1",)),
        Kind("apps", "Deployment", "deployments", ("v1",), short=("deploy",)),
        Kind("apps", "StatefulSet", "statefulsets", ("v1",), short=("sts",)),
        Kind("apps", "ReplicaSet", "replicasets", ("v1",), short=("rs",)),
    )
    level_rules = ("kube-scheduler/label-exists",)

    def group_of(self, pod: ViewedPod) -> Ref | None:
        name = group_of(Field(pod.wants))
        if not name:
            return None
        return Ref(POD_GROUPS.group, POD_GROUPS.kind, pod.namespace, name)

    def check(self, workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
        return _check(workload)

    def refusals(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _refusals(workload)

    def steps(self, text: str) -> frozenset[str]:
        return steps_about_room(text)

    def meaning(self, text: str) -> str:
        return meaning_of_no_node(text)


WAITING: Final = _Kubernetes()
