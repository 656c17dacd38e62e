"""Kinds of Volcano, and the levels that its Jobs and PodGroups ask for.

A constraint names the highest tier that pods may spread over, by its number or by the name that
HyperNodes give it. A name is a level's domain where Toposcope makes the HyperNodes, its label key
where Volcano makes them from labels, and anything if others create them, which Toposcope does not
read. A number counts where a ClusterTopology has HyperNodes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    level_request,
)
from toposcope.kube.discovery import Kind

QUEUES: Final = Kind("scheduling.volcano.sh", "Queue", "queues", ("v1beta1",), is_namespaced=False)
TIER: Final = "volcano.sh/tier/{}"
"""A tier in place of a level's label key: no label key has two slashes."""
GROUP_OF: Final = "scheduling.k8s.io/group-name"
"""Annotation of a pod: its PodGroup. Source: Volcano 1.15 (`KubeGroupNameAnnotationKey`)."""
OF_NO_GROUP: Final = "podgroup-"
"""Prefix of the names of PodGroups that Volcano creates for pods without one.
"""
_ENDED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
_KNOWN: Final = frozenset({*BUILT_IN.domains, *BUILT_IN.domain_of})
_TOPOLOGY: Final = {
    "networkTopology": {"mode": str, "highestTierAllowed": int, "highestTierName": str}
}


def _asked(phase: Field, groups: Iterable[Field]) -> Iterator[LevelRequest]:
    """The requests of groups that have not finished. Raises ValueError."""
    if phase.text() in _ENDED:
        return
    for group in groups:
        constraint = group / "networkTopology"
        tier = constraint / "highestTierAllowed"
        level = (constraint / "highestTierName").text()
        if tier:
            level = TIER.format(tier.value)
        if level:
            required = (constraint / "mode").text() != "soft"
            yield level_request(level, is_required=required, accepts_any_label=level not in _KNOWN)


def _of_job(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    spec = root / "spec"
    groups = [spec]
    for task in (spec / "tasks").items():
        groups.append(task / "partitionPolicy")
    phase = root / "status" / "state" / "phase"
    return _asked(phase, groups)


def _of_group(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    spec = root / "spec"
    groups = [spec]
    groups += (spec / "subGroupPolicy").items()
    phase = root / "status" / "phase"
    return _asked(phase, groups)


JOBS: Final = WatchedKind(
    "batch.volcano.sh",
    "Job",
    "jobs",
    ("v1alpha1",),
    {
        "spec": {**_TOPOLOGY, "tasks": [{"partitionPolicy": _TOPOLOGY}]},
        "status": {"state": {"phase": str}},
    },
    _of_job,
    short=("vcjob", "vj"),
)
POD_GROUPS: Final = WatchedKind(
    "scheduling.volcano.sh",
    "PodGroup",
    "podgroups",
    ("v1beta1",),
    {"spec": {**_TOPOLOGY, "subGroupPolicy": [_TOPOLOGY]}, "status": {"phase": str}},
    _of_group,
    short=("podgroup-v1beta1", "pg"),
)
