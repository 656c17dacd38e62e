"""JobSet: which pods belong to which of its Jobs, and which pod pins them. Labels: JobSet 0.9.

A TrainJob makes a JobSet of the same name. In an exclusive Job, JobSet's webhook pins all pods but
the first to the domain of that one (0.12: pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Mapping
from typing import Final

from toposcope.integrations.framework.constraints import JOB, Group
from toposcope.integrations.framework.leader_pins import LeaderPins, pin_to_leader
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import CopyName, Pin, Waiting, WaitingWorkload
from toposcope.integrations.jobset.api import (
    EXCLUSIVE,
    JOB_KEY,
    JOB_NAME,
    NAMESPACED_JOB,
    NODE_SELECTOR,
)
from toposcope.kube.discovery import Kind

_WHO: Final = "JobSet"
_PINS: Final = LeaderPins(
    who=_WHO,
    annotations=(EXCLUSIVE,),
    leader="the first pod of its Job",
    group="the Job",
    deleted_too="the pods of its Job",
)


class _JobSet(Waiting):
    subjects = (Kind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2", "v1")),)
    level_rules = (
        "jobset/label-exists",
        "jobset/nodes-labelled",
    )

    def copy_namer(self, system: str, group: Group) -> CopyName | None:
        del system  # whoever places them
        name = group.own_name
        if group.part != JOB:
            return None

        def of_job(labels: Mapping[str, str]) -> str | None:
            if labels.get(JOB_NAME) != name:
                return None
            return labels.get(JOB_KEY)

        return of_job

    def pin(self, workload: WaitingWorkload, pod: ViewedPod, key: str, value: str) -> Pin | None:
        del value
        if key == NAMESPACED_JOB:
            return Pin(_WHO, f"with {NODE_SELECTOR}, an admin must label the nodes of each Job")
        return pin_to_leader(_PINS, workload, key, _leader(workload, pod))


def _leader(workload: WaitingWorkload, pod: ViewedPod) -> ViewedPod | None:
    """The leader of the pod's Job; None while it has no node."""
    job = pod.labels.get(JOB_KEY)
    if job is None:
        return None
    for mate in workload.placed:
        if mate.labels.get(JOB_KEY) == job:
            return mate
    return None


WAITING: Final = _JobSet()
