"""What Volcano's PodGroups require of pods: one HyperNode of a tier, or of a lower one.

A part of a PodGroup (`subGroupPolicy`) selects its pods by labels; those with the same values of
`matchLabelKeys` are one sub-group. Without HyperNodes the name of a tier is a level's domain, or a
label key. Source: Volcano 1.15 (pkg/scheduler/api/sub_job_info.go, hyper_node_info.go).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    RequiredPart,
    Requiring,
    RequiringObjects,
    by_object,
)
from toposcope.integrations.volcano.api import GROUP_OF, POD_GROUPS
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES, nodes_inside
from toposcope.integrations.volcano.limits import Limit, written_limit
from toposcope.integrations.volcano.tiers import Forest


class _Volcano(Requiring):
    kinds = (POD_GROUPS, HYPER_NODES)
    constraint = "networkTopology"
    parts_in = ("subGroupPolicy",)
    fields = (constraint, *parts_in, "minMember", "tier", "tierName", "members")

    def is_needed(self, root: Field) -> bool:
        """Every HyperNode, and the PodGroups with a constraint."""
        return bool(root / "spec" / "tier") or super().is_needed(root)

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        named = by_object(pods, lambda pod: pod.annotations.get(GROUP_OF))
        if not named or POD_GROUPS.key not in {*objects.documents, *objects.forbidden}:
            return
        reader = _Reader(_forest(objects))
        yield from objects.parts(POD_GROUPS, named, reader.parts)


def _forest(objects: RequiringObjects) -> TopologyLevels | None:
    """All HyperNodes as levels; None if there are none."""
    documents = objects.every(HYPER_NODES)
    if not documents:
        return None
    inside = nodes_inside(documents, objects.nodes)
    return Forest.of(documents, inside).topology()


@dataclass(frozen=True, slots=True)
class _Reader:
    forest: TopologyLevels | None

    def parts(self, root: Field, pods: tuple[ViewedPod, ...]) -> Iterator[RequiredPart]:
        spec = root / "spec"
        limit = written_limit(spec / "networkTopology")
        if limit:
            yield self._part(limit, pods, least=(spec / "minMember").number(0))
        for policy in (spec / "subGroupPolicy").items():
            limit = written_limit(policy / "networkTopology")
            if limit is None:
                continue
            name = (policy / "name").text() or ""
            for values, members in _sub_groups(policy, pods).items():
                part = " ".join([name, *values]).strip()
                yield self._part(limit, tuple(members), part)

    def _part(
        self, limit: Limit, pods: tuple[ViewedPod, ...], name: str = "", least: int = 0
    ) -> RequiredPart:
        """The pods within a HyperNode of the tier, by labels if no HyperNodes are known."""
        shown = limit.name or f"tier {limit.tier}"
        part = RequiredPart(shown, pods, name, least)
        if self.forest is None:
            return part
        level = limit.level(self.forest)
        if level is None:
            return part
        key = level.key
        if self.forest.doubt:
            return replace(part, level="", unread=HYPER_NODES.name)
        places: dict[str, str] = {}
        for node, domains in self.forest.places.items():
            if key in domains:
                places[node] = domains[key]
        return replace(part, places=places, key=key)


def _sub_groups(
    policy: Field, pods: Sequence[ViewedPod]
) -> Mapping[tuple[str, ...], list[ViewedPod]]:
    """The pods that a policy selects, by their values of its `matchLabelKeys`."""
    selected = (policy / "labelSelector" / "matchLabels").texts()
    keys = []
    for entry in (policy / "matchLabelKeys").items():
        keys.append(entry.text() or "")

    sub_groups: dict[tuple[str, ...], list[ViewedPod]] = {}
    for pod in pods:
        labels = dict(pod.pod_labels.known)
        if not selected.items() <= labels.items() or not labels.keys() >= set(keys):
            continue
        values = tuple(labels[key] for key in keys)
        sub_groups.setdefault(values, []).append(pod)
    return sub_groups


REQUIRING: Final = _Volcano()
