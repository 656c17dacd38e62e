"""LeaderWorkerSet: how its pods are numbered, and what pins workers. Labels: LeaderWorkerSet 0.7.

In an exclusive group it pins the workers to the leader's domain (0.9: pod_controller.go).
"""

from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.leader_pins import LeaderPins, pin_to_leader
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Pin, Waiting, WaitingWorkload
from toposcope.integrations.lws.api import (
    EXCLUSIVE,
    GROUP_INDEX,
    GROUP_KEY,
    SUBGROUP_EXCLUSIVE,
    SUBGROUP_KEY,
)
from toposcope.kube.discovery import Kind

_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""Label of a pod: its number in the group; the leader's is 0."""
_PINS: Final = LeaderPins(
    who="LeaderWorkerSet",
    annotations=(EXCLUSIVE, SUBGROUP_EXCLUSIVE),
    leader="its leader",
    group="its group",
)


class _LeaderWorkerSet(Waiting):
    subjects = (
        Kind(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            "leaderworkersets",
            ("v1",),
            short=("lws",),
        ),
    )
    level_rules = ("leaderworkerset/label-exists",)

    def copy_label(self, group: Group) -> str:
        if group.anti_affinity in (GROUP_KEY, SUBGROUP_KEY):
            return group.anti_affinity
        if group.copies > 1:
            return GROUP_INDEX
        return ""

    def pin(self, workload: WaitingWorkload, pod: ViewedPod, key: str, value: str) -> Pin | None:
        del value
        return pin_to_leader(_PINS, workload, key, _leader(workload, pod))


def _leader(workload: WaitingWorkload, pod: ViewedPod) -> ViewedPod | None:
    """The leader of the pod's group, or None while it has no node."""
    for mate in workload.placed:
        is_of_group = mate.labels.get(GROUP_INDEX) == pod.labels.get(GROUP_INDEX)
        if is_of_group and mate.labels.get(_WORKER_INDEX) == "0":
            return mate
    return None


WAITING: Final = _LeaderWorkerSet()
