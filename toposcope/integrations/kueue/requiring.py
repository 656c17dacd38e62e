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
            yield RequiredPart(level, members, _part(members[0]))


def _pod_set(pod: ViewedPod) -> str:
    workload = pod.annotations.get(WORKLOAD_OF) or pod.labels.get(POD_GROUP, "")
    return f"{workload}/{_part(pod)}"


def _part(pod: ViewedPod) -> str:
    """The group of pod sets, or the pod set; empty: the pod names neither."""
    return pod.annotations.get(GROUP_NAME) or pod.labels.get(POD_SET_OF, "")


REQUIRING: Final = _Kueue()
