"""The pods that say which PodGroup of KAI's they are of: they know what they take, which the PodGroup does not say.

Source of the names: KAI's `PodGroupAnnotationForPod` and `SubGroupLabelKey` (pkg/common/constants).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import GroupName, Member, Members, Pods
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.pod_sets import structure_of

GROUP_OF: Final = "pod-group-name"
SUB_GROUP_OF: Final = "kai.scheduler/subgroup-name"
"""Label of a pod: its sub-group."""


def members_of_documents(documents: Iterable[Mapping[str, Any]]) -> Members:
    """By PodGroup: the pods of workloads whose templates name it."""
    found: dict[GroupName, list[Member]] = {}
    for document in documents:
        if GROUP_OF not in str(document):
            continue  # most documents name none, and to take a workload apart takes longer
        root = Part(document)
        structure = structure_of(root)
        namespace = (root / "metadata" / "namespace").text() or "default"
        for each in structure.sets if structure else ():
            name = (each.annotations / GROUP_OF).text()
            labels = each.template / "metadata" / "labels"
            if name and structure:
                member = Member((labels / SUB_GROUP_OF).text() or "", each.some(each.count * structure.copies))
                found.setdefault((namespace, name), []).append(member)
    return {group: tuple(members) for group, members in found.items()}


def taken(members: Sequence[Member], subgroup: str, least: int) -> tuple[tuple[Pods, ...], str]:
    """What `least` pods of a sub-group (empty: of the whole group) take, and what is to be known about it.

    No pods: it cannot be told, and the words say why.
    """
    kinds: Counter[Pods] = Counter()
    for member in members:
        if member.subgroup == subgroup:
            kinds[replace(member.pods, name="pods", count=1)] += member.pods.count
    there = sum(kinds.values())
    of = f"sub-group {subgroup}" if subgroup else "the PodGroup"
    if not there:
        return (), f"no pod is known of {of}, so what its pods take is not known"
    if len(kinds) == 1:
        (only,) = kinds
        note = f"{there} of {least} pods of {of} are known; the others are taken to be alike" if there < least else ""
        return (replace(only, count=least),), note
    if there == least:
        return tuple(replace(kind, count=count) for kind, count in kinds.items()), ""
    return (), f"{of} needs {least} pods and {there} of several sizes are known: which of them count is not known"
