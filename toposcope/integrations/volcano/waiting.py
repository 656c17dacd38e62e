"""Volcano in the cluster: whether its scheduler can use the HyperNodes, and its messages.

Source: Volcano 1.15 (pkg/scheduler/api/hyper_node_info.go, the conditions of
scheduling.volcano.sh).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework import features
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.volcano.api import GROUP_OF, JOBS, POD_GROUPS
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES, members_of
from toposcope.text import shell

_SCHEDULER: Final = "Volcano"


def _check(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Whether each HyperNode has at most one parent.

    If not, Volcano schedules no jobs with a topology.
    """
    systems = {demand.system for demand in workload.workloads}
    if not workload.asks_for_levels or _SCHEDULER not in systems:
        return

    parents = _parents_of_each(workload)
    for name in sorted(parents):
        if parents[name] > 1:
            text = (
                f"HyperNode {name} has {parents[name]} parents, "
                "so Volcano schedules no jobs with a topology"
            )
            look = shell("kubectl get {} -o yaml", HYPER_NODES.name)
            yield features.failed(text, "remove it from all but one", commands=(look,))
            return
    yield features.passed("each HyperNode has at most one parent")


def _parents_of_each(workload: features.WorkloadObjects) -> Counter[str]:
    """How many HyperNodes name each HyperNode as a member."""
    parents = Counter[str]()
    for resource in workload.all_published(HYPER_NODES):
        kind, names = members_of(resource.document)
        if kind == HYPER_NODES.kind:
            parents.update(names)
    return parents


def _refusals(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Why its PodGroups are not scheduled."""
    for ref, document in workload.members(POD_GROUPS):
        for condition in features.conditions(document):
            if condition.type != "Unschedulable" or condition.status != "True":
                continue
            if condition.message:
                yield features.SchedulerMessage(ref.handle, condition.message, ref=ref)


class _Volcano(Waiting):
    subjects = (POD_GROUPS, JOBS)
    topology_rules = ("volcano/topology-exists",)
    level_rules = ("volcano/level-exists",)

    def group_of(self, pod: ViewedPod) -> features.Ref | None:
        name = pod.annotations.get(GROUP_OF)
        if not name:
            return None
        return features.Ref(POD_GROUPS.group, POD_GROUPS.kind, pod.namespace, name)

    def check(self, workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
        return _check(workload)

    def refusals(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _refusals(workload)


WAITING: Final = _Volcano()
