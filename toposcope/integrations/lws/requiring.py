"""What exclusive groups and sub-groups of a LeaderWorkerSet require: a domain for each alone.

The webhook of LeaderWorkerSet writes it onto the pods as affinity to their own group, and
anti-affinity to every other one of the namespace (0.9: pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    ApartFrom,
    RequiredPart,
    Requiring,
    annotated,
)
from toposcope.integrations.lws.api import (
    EXCLUSIVE,
    GROUP_INDEX,
    GROUP_KEY,
    SET_OF,
    SIZE,
    SUBGROUP_EXCLUSIVE,
    SUBGROUP_INDEX,
    SUBGROUP_KEY,
)

_GROUPS_APART: Final = ApartFrom(GROUP_KEY, in_all_namespaces=False)
_SUBGROUPS_APART: Final = ApartFrom(SUBGROUP_KEY, in_all_namespaces=False)


class _LeaderWorkerSet(Requiring):
    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        for level, members in annotated(pods, EXCLUSIVE, _group):
            first = members[0]
            yield RequiredPart(
                level=level,
                pods=members,
                name=_numbered("group", first, GROUP_INDEX),
                least=_size(first),
                by_value=True,
                apart=_GROUPS_APART,
            )

        in_sub_groups = []
        for pod in pods:
            if SUBGROUP_KEY in pod.labels:
                in_sub_groups.append(pod)
        for level, members in annotated(in_sub_groups, SUBGROUP_EXCLUSIVE, _sub_group):
            yield RequiredPart(
                level=level,
                pods=members,
                name=_numbered("sub-group", members[0], SUBGROUP_INDEX),
                by_value=True,
                apart=_SUBGROUPS_APART,
            )


def _group(pod: ViewedPod) -> str:
    """What tells apart the groups of a namespace."""
    labels = pod.labels
    name = labels.get(SET_OF, "")
    index = labels.get(GROUP_INDEX, "")
    return labels.get(GROUP_KEY, f"{name}/{index}")


def _sub_group(pod: ViewedPod) -> str:
    return pod.labels[SUBGROUP_KEY]


def _size(pod: ViewedPod) -> int:
    """How many pods its group has; 0: unknown."""
    size = pod.annotations.get(SIZE, "")
    if not size.isdecimal():
        return 0
    return int(size)


def _numbered(kind: str, pod: ViewedPod, label: str) -> str:
    """What people call the group of a pod; empty: the pod has no number."""
    index = pod.labels.get(label)
    return f"{kind} {index}" if index else ""


REQUIRING: Final = _LeaderWorkerSet()
