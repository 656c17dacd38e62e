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


class _LeaderWorkerSet(Requiring):
    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        apart = ApartFrom(GROUP_KEY, in_all_namespaces=False)
        for level, members in annotated(pods, EXCLUSIVE, _group):
            name = members[0].labels.get(GROUP_INDEX, "")
            size = members[0].annotations.get(SIZE, "")
            least = int(size) if size.isdecimal() else 0
            yield RequiredPart(level, members, _named("group", name), least, True, apart)

        apart = ApartFrom(SUBGROUP_KEY, in_all_namespaces=False)
        in_sub_groups = [pod for pod in pods if SUBGROUP_KEY in pod.labels]
        for level, members in annotated(in_sub_groups, SUBGROUP_EXCLUSIVE, _sub_group):
            name = members[0].labels.get(SUBGROUP_INDEX, "")
            part = _named("sub-group", name)
            yield RequiredPart(level, members, part, by_value=True, apart=apart)


def _group(pod: ViewedPod) -> str:
    labels = pod.labels
    index = labels.get(SET_OF, ""), labels.get(GROUP_INDEX, "")
    return labels.get(GROUP_KEY) or "/".join(index)


def _sub_group(pod: ViewedPod) -> str:
    return pod.labels[SUBGROUP_KEY]


def _named(kind: str, index: str) -> str:
    return f"{kind} {index}" if index else ""


REQUIRING: Final = _LeaderWorkerSet()
