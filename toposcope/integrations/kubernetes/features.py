"""kube-scheduler's own gangs in the cluster: whether it looks at them, and its messages.

Source: Kubernetes 1.36, schedule_one_podgroup.go and the plugins TopologyPlacementGenerator and GangScheduling.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import (
    SchedulerMessage,
    Step,
    WorkloadObjects,
    condition,
    conditions,
    failed,
    passed,
    unknown,
)
from toposcope.integrations.kubernetes.gangs import GATES, NAME, POD_GROUP
from toposcope.topology.text import shell

_SCHEDULED: Final = "PodGroupScheduled"


def check(workload: WorkloadObjects) -> Iterator[Step]:
    """Whether kube-scheduler has looked at the PodGroups: with a feature gate off it places their pods one by one."""
    if not any(demand.system == NAME for demand in workload.workloads):
        return
    groups = list(workload.members(POD_GROUP))
    if not groups:
        why = workload.store.why_unknown(POD_GROUP)
        text = f"no PodGroup of {POD_GROUP.group} belongs to it"
        yield unknown(f"cannot read its PodGroup: {why}") if why else failed(text, GATES)
    for ref, document in groups:
        if condition(document, _SCHEDULED) is None:
            text = f"kube-scheduler has not looked at {ref.handle}: it has no condition {_SCHEDULED}"
            describe = shell("kubectl describe {} {} -n {}", POD_GROUP.name, ref.name, ref.namespace)
            yield failed(text, f"its pods may not be there yet; else {GATES}", commands=(describe,))
        else:
            yield passed(f"kube-scheduler schedules {ref.handle} as a group")


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """Why its PodGroups are not scheduled."""
    for ref, document in workload.members(POD_GROUP):
        for reported in conditions(document):
            if reported.type == _SCHEDULED and reported.status == "False" and reported.message:
                yield SchedulerMessage(ref.handle, reported.message)
