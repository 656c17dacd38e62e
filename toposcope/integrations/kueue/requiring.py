"""What pod sets of Kueue require: one domain for all pods of a set, or of a group of sets.

The annotation stands on the pod template, so on the pods. Source: Kueue 0.19
(pkg/controller/tas, `podset-required-topology`, `podset-group-name`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import RequiredPart, Requiring, annotated
from toposcope.integrations.kueue.api import (
    GROUP_NAME,
    POD_GROUP,
    POD_SET_OF,
    REQUIRED,
    WORKLOAD_OF,
)


class _Kueue(Requiring):
    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        for level, members in annotated(pods, REQUIRED, _pod_set):
            name = _part(members[0])
            yield RequiredPart(level, members, name)


def _pod_set(pod: ViewedPod) -> str:
    """What tells apart the pod sets of a namespace."""
    pod_group = pod.labels.get(POD_GROUP, "")
    workload = pod.annotations.get(WORKLOAD_OF, pod_group)
    part = _part(pod)
    return f"{workload}/{part}"


def _part(pod: ViewedPod) -> str:
    """The group of pod sets, or the pod set; empty if the pod names neither."""
    pod_set = pod.labels.get(POD_SET_OF, "")
    return pod.annotations.get(GROUP_NAME, pod_set)


REQUIRING: Final = _Kueue()
