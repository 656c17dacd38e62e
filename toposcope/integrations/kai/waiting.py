"""KAI: whether it has the workload's Topology, and its messages."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework import features
from toposcope.integrations.framework.features import CheckStep, Ref
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Waiting, WaitingWorkload
from toposcope.integrations.kai.api import GROUP_OF, POD_GROUPS, TOPOLOGIES
from toposcope.integrations.kai.bound_gangs import check_bound
from toposcope.integrations.kai.gang_size import TRAINING_KINDS
from toposcope.integrations.kai.messages import meaning_of_no_room, steps_about_room
from toposcope.kube.discovery import Kind


def _messages(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """The conditions of its PodGroups, unless they are False."""
    for ref, document in workload.members(POD_GROUPS):
        conditions = list(features.conditions(document, "schedulingConditions"))
        conditions += features.conditions(document)
        for condition in conditions:
            if condition.message and condition.status != "False":
                yield features.SchedulerMessage(ref.handle, condition.message)


def _refusals(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Why KAI does not schedule its PodGroups."""
    for ref, document in workload.members(POD_GROUPS):
        for condition in features.conditions(document, "schedulingConditions"):
            if condition.message and condition.status != "False":
                yield features.SchedulerMessage(ref.handle, condition.message, ref=ref)


class _Kai(Waiting):
    subjects = (
        POD_GROUPS,
        *TRAINING_KINDS,
        Kind("ray.io", "RayCluster", "rayclusters", ("v1",)),
        Kind("ray.io", "RayJob", "rayjobs", ("v1",)),
    )
    readers = ("KAI",)
    topology_kinds = (TOPOLOGIES,)
    topology_rules = (
        "kai/topology-exists",
        "kai/topology-name",
        "kai/no-topology",
    )
    topology_warnings = ("kai/no-topology",)
    level_rules = ("kai/level-exists",)
    feature_rules = (
        "kai/scheduler-name",
        "kai/wrong-place",
    )

    def group_of(self, pod: ViewedPod) -> Ref | None:
        name = pod.annotations.get(GROUP_OF)
        if not name:
            return None
        return Ref(
            group=POD_GROUPS.group,
            kind=POD_GROUPS.kind,
            namespace=pod.namespace,
            name=name,
        )

    def check_room(self, workload: WaitingWorkload) -> CheckStep | None:
        return check_bound(workload)

    def messages(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _messages(workload)

    def refusals(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _refusals(workload)

    def steps(self, text: str) -> frozenset[str]:
        return steps_about_room(text)

    def meaning(self, text: str) -> str:
        return meaning_of_no_room(text)


WAITING: Final = _Kai()
