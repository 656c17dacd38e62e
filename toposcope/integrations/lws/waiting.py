"""LeaderWorkerSet: how its pods are numbered, and what pins workers. Labels: LeaderWorkerSet 0.7.

In an exclusive group it pins the workers to the leader's domain (0.9: pod_controller.go).
"""

from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import Field
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

_WHO: Final = "LeaderWorkerSet"
_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""Label of a pod: its number in the group; the leader's is 0."""


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
        if key not in _exclusive_keys(workload):
            return None
        leader = _leader(workload, pod)
        if leader is None:
            return Pin(_WHO)
        way_out = (
            f"make room on those nodes, or delete pod/{leader.name}, "
            "so that its group may go elsewhere"
        )
        return Pin(
            who=_WHO,
            why=f"its leader, pod/{leader.name}, runs there",
            way_out=(way_out,),
        )


def _exclusive_keys(workload: WaitingWorkload) -> set[str]:
    """The labels by whose values groups and subgroups are kept apart."""
    keys = set()
    for _, document in workload.all_members:
        annotations = Field(document) / "metadata" / "annotations"
        for name in (EXCLUSIVE, SUBGROUP_EXCLUSIVE):
            key = (annotations / name).text()
            if key:
                keys.add(key)
    return keys


def _leader(workload: WaitingWorkload, pod: ViewedPod) -> ViewedPod | None:
    """The leader of the pod's group; None: it has no node."""
    for mate in workload.placed:
        is_of_group = mate.labels.get(GROUP_INDEX) == pod.labels.get(GROUP_INDEX)
        if is_of_group and mate.labels.get(_WORKER_INDEX) == "0":
            return mate
    return None


WAITING: Final = _LeaderWorkerSet()
