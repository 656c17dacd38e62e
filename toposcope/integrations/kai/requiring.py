"""What KAI's PodGroups require of pods, their sub-groups, and annotations of pods.

Source: KAI 0.17 (pkg/scheduler/api/podgroup_info/subgroup_info/factory.go): a level without a
topology has no effect, and a sub-group holds those that name it as their parent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    RequiredPart,
    Requiring,
    RequiringObjects,
    annotated,
    by_object,
)
from toposcope.integrations.kai.api import GROUP_OF, POD_GROUPS, REQUIRED, SUB_GROUP_OF


class _Kai(Requiring):
    kinds = (POD_GROUPS,)
    constraint = "topologyConstraint"
    parts_in = ("subGroups",)
    fields = (constraint, *parts_in, "minMember")

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        named = by_object(pods, lambda pod: pod.annotations.get(GROUP_OF))
        yield from objects.parts(POD_GROUPS, named, _of_group)

    def of_pods(self, pods: Sequence[ViewedPod]) -> Iterator[RequiredPart]:
        groups = annotated(pods, REQUIRED, lambda pod: pod.annotations.get(GROUP_OF, ""))
        for level, members in groups:
            yield RequiredPart(level, members)


def _of_group(root: Field, pods: tuple[ViewedPod, ...]) -> Iterator[RequiredPart]:
    spec = root / "spec"
    level = _required(spec)
    if level:
        yield RequiredPart(level, pods, least=(spec / "minMember").number(0))

    parents: dict[str, str] = {}
    for sub_group in (spec / "subGroups").items():
        name = (sub_group / "name").text() or ""
        parents[name] = (sub_group / "parent").text() or ""
    for sub_group in (spec / "subGroups").items():
        level = _required(sub_group)
        if not level:
            continue
        name = (sub_group / "name").text() or ""
        members = []
        for pod in pods:
            if name in _around(pod.labels.get(SUB_GROUP_OF, ""), parents):
                members.append(pod)
        least = (sub_group / "minMember").number(0)
        yield RequiredPart(level, tuple(members), name, least)


def _required(place: Field) -> str:
    """The level; empty if it requires none."""
    constraint = place / "topologyConstraint"
    if not (constraint / "topology").text():
        return ""
    return (constraint / "requiredTopologyLevel").text() or ""


def _around(sub_group: str, parents: Mapping[str, str]) -> set[str]:
    """A sub-group and all around it. Ends at a cycle."""
    around: set[str] = set()
    while sub_group in parents and sub_group not in around:
        around.add(sub_group)
        sub_group = parents[sub_group]
    return around


REQUIRING: Final = _Kai()
