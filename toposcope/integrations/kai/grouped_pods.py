"""Pods that KAI's grouper leaves in the PodGroup that they name, which sets what starts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, name_of, namespace_of
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kai.api import GROUP_OF, KAI_SCHEDULER, POD_GROUPS
from toposcope.integrations.kai.gang_size import keeps_its_group
from toposcope.integrations.kai.pod_shares import with_share_at


def _claims(document: Mapping[str, Any]) -> bool:
    """Whether KAI schedules its pods, in a PodGroup that they name."""
    root = Field(document)
    structure = structure_of(root)
    if structure is None or not keeps_its_group(root, structure):
        return False
    for pod_set in structure.sets:
        scheduler = pod_set.template / "spec" / "schedulerName"
        if scheduler.text() != KAI_SCHEDULER:
            return False
    return any(True for _ in _groups_of(structure))


def _groups_of(structure: Structure) -> Iterator[str]:
    """The PodGroups that its pods name."""
    for pod_set in structure.sets:
        name = (pod_set.annotations / GROUP_OF).text()
        if name:
            yield name


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # KAI allows any change
    structure = structure_of(root) or Structure(())
    unknown = [name for name in _groups_of(structure) if not _is_known(name, root, cluster)]
    if not unknown:
        return Reading()  # the PodGroup is checked

    pods = []
    for pod_set in structure.sets:
        kind = pod_set.some(pod_set.count)
        pods.append(with_share_at(kind, pod_set.annotations))
    group = Group(name_of(root, "pods"), tuple(pods), copies=structure.copies)
    doubt = (
        f"KAI schedules these pods with PodGroup {unknown[0]}, which is not checked with them, so "
        "its queue and its other pods are unknown"
    )
    return Reading(Workload("KAI", handle_of(root), (group,), doubt=doubt))


def _is_known(name: str, root: Field, cluster: ClusterFacts) -> bool:
    """Whether the PodGroup is among the objects."""
    for document in cluster.objects.get(POD_GROUPS.key, ()):
        group = Field(document)
        if (namespace_of(group), name_of(group)) == (namespace_of(root), name):
            return True
    return False


SYSTEM: Final = System("KAI", _claims, _read, "kai")
