"""LeaderWorkerSet: how its pods are numbered. Labels: LeaderWorkerSet 0.7."""

from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.lws.api import GROUP_INDEX, GROUP_KEY, SUBGROUP_KEY
from toposcope.kube.discovery import Kind


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


WAITING: Final = _LeaderWorkerSet()
