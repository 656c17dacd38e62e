"""Kubernetes' own workloads: whether there is room for their pods anywhere.

kube-scheduler's own gangs are in `gangs`.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, name_of
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kubernetes.gangs import SYSTEM as GANGS


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del cluster, before  # it asks for no topology
    structure = structure_of(root) or Structure(())
    group = Group(
        name_of(root, "pods"),
        structure.whole,
        copies=structure.copies,
    )
    workload = Workload("Kubernetes", handle_of(root), (group,))
    return Reading(workload)


def _has_pods(document: Mapping[str, Any]) -> bool:
    return structure_of(Field(document)) is not None


def _claims_nothing(_document: Mapping[str, Any]) -> bool:
    return False


PODS_ONLY: Final = System("Kubernetes", _claims_nothing, _read, places_plain_pods=_has_pods)
"""Reads every kind with pod templates that no system claims."""
READERS: Final = (GANGS, PODS_ONLY)
