"""What kube-scheduler's PodGroups and CompositePodGroups require of the pods in them.

A Job with `spec.scheduling` gets such a PodGroup, and so do pods of a Workload's templates. A
domain is a value of the label alone. Source: Kubernetes 1.36 (TopologyPlacementGenerator: the
first constraint counts), 1.37 (CompositePodGroup, `spec.parentCompositePodGroupName`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    PodsByObject,
    RequiredPart,
    Requiring,
    RequiringObjects,
    by_object,
)
from toposcope.integrations.kubernetes.api import COMPOSITES, POD_GROUPS, keys_of
from toposcope.integrations.kubernetes.gangs import group_of
from toposcope.integrations.kubernetes.hierarchy import parent_of
from toposcope.kube.discovery import Kind

_MOST_PARENTS: Final = 4
"""The deepest nesting of groups (Kubernetes 1.37: WorkloadMaxTreeDepth)."""


class _Kubernetes(Requiring):
    kinds = (POD_GROUPS, COMPOSITES)
    constraint = "schedulingConstraints"
    fields = (constraint, "schedulingPolicy", "parentCompositePodGroupName")

    def is_needed(self, root: Field) -> bool:
        """Also without constraints: a group around it may have some."""
        return bool(parent_of(root)) or super().is_needed(root)

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        in_groups = by_object(pods, _group_of)
        yield from objects.parts(POD_GROUPS, in_groups, _of_group)

        around = _in_parents(POD_GROUPS, in_groups, objects)
        in_composites: dict[tuple[str, str], list[ViewedPod]] = {}
        for _ in range(_MOST_PARENTS):
            for name, members in around.items():
                in_composites.setdefault(name, []).extend(members)
            around = _in_parents(COMPOSITES, around, objects)
        yield from objects.parts(COMPOSITES, in_composites, _of_composite)


def _group_of(pod: ViewedPod) -> str:
    wants = pod.wants
    return group_of(Field(wants)) if "schedulingGroup" in wants else ""


def _in_parents(kind: Kind, pods: PodsByObject, objects: RequiringObjects) -> PodsByObject:
    """The same pods by the CompositePodGroup around each object of this kind."""
    around: dict[tuple[str, str], list[ViewedPod]] = {}
    for name, members in pods.items():
        root = objects.find(kind, name)
        parent = parent_of(root) if root else ""
        if parent:
            namespace, _ = name
            around.setdefault((namespace, parent), []).extend(members)
    return around


def _of_group(root: Field, pods: tuple[ViewedPod, ...]) -> Iterator[RequiredPart]:
    gang = root / "spec" / "schedulingPolicy" / "gang"
    least = (gang / "minCount").number(0)
    for key in _first_key(root):
        yield RequiredPart(key, pods, least=least, by_value=True)


def _of_composite(root: Field, pods: tuple[ViewedPod, ...]) -> Iterator[RequiredPart]:
    for key in _first_key(root):
        name = (root / "metadata" / "name").text() or ""
        yield RequiredPart(key, pods, name, by_value=True)


def _first_key(root: Field) -> Iterator[str]:
    for field in keys_of(root / "spec"):
        key = field.text()
        if key:
            yield key
        return


REQUIRING: Final = _Kubernetes()
