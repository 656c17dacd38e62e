"""Kinds, annotations and labels of KAI Scheduler, and the levels that these request.

Levels are label keys, or aliases (v0.17). KAI's grouper makes PodGroups of the annotations of the
workload that owns the pods, and of those of its pod templates for kinds whose replicas differ;
segments stand on the pod template and use the workload's topology when they name none.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    Annotated,
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    requests_at,
)
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.discovery import Kind

TOPOLOGIES: Final = PublishedKind("kai.scheduler", "Topology", "topologies", ("v1alpha1",), "kai")
QUEUES: Final = Kind("scheduling.run.ai", "Queue", "queues", ("v2",), is_namespaced=False)
KAI_SCHEDULER: Final = "kai-scheduler"
"""The `schedulerName` of its pods."""

PREEMPTIBLE: Final = {"train": True, "build-preemptible": True, "build": False, "inference": False}
"""Whether KAI may evict pods, by the priority classes of its chart; unknown for others."""
PREFIX: Final = "kai.scheduler/"
TOPOLOGY: Final = PREFIX + "topology"
REQUIRED: Final = PREFIX + "topology-required-placement"
PREFERRED: Final = PREFIX + "topology-preferred-placement"
QUEUE: Final = PREFIX + "queue"
NODE_POOL: Final = PREFIX + "node-pool"
SEGMENT_SIZE: Final = PREFIX + "segment-size"
SEGMENT_REQUIRED: Final = PREFIX + "segment-topology-required-placement"
SEGMENT_PREFERRED: Final = PREFIX + "segment-topology-preferred-placement"
PLACEMENTS: Final = (REQUIRED, PREFERRED)
SEGMENTS: Final = (SEGMENT_SIZE, SEGMENT_REQUIRED, SEGMENT_PREFERRED)
BATCH_MIN_MEMBER: Final = PREFIX + "batch-min-member"
GPU_FRACTION: Final = "gpu-fraction"
"""Annotation of a pod: the fraction of a GPU that it gets."""
GPU_MEMORY: Final = "gpu-memory"
"""Annotation of a pod: the memory of a GPU that it gets, in MiB."""
SHARED_GPUS: Final = "gpu-fraction-num-devices"
"""Annotation of a pod: of how many GPUs it gets such a fraction."""
GPU_GROUP: Final = "runai-gpu-group"
"""Label of pods that share a GPU, and of the pod that reserves it for them: the GPU's name."""
SKIP_GROUPER: Final = PREFIX + "skip-podgrouper"
"""Annotation `"true"` on a pod or an owner of it: the grouper does not change the pod's PodGroup.
"""

# Source of these two: KAI's `PodGroupAnnotationForPod` and `SubGroupLabelKey`
# (pkg/common/constants).
GROUP_OF: Final = "pod-group-name"
"""Annotation of a pod: its PodGroup."""
SUB_GROUP_OF: Final = "kai.scheduler/subgroup-name"
"""Label of a pod: its sub-group."""
UNREAD: Final = {
    "scheduling.run.ai/pod-group": f'name the PodGroup in {GROUP_OF}, with {SKIP_GROUPER}: "true"',
    "scheduling.run.ai/topology-policy": f"set {TOPOLOGY} and {REQUIRED} on the workload",
}
"""Annotations in recipes for KAI that none of its releases reads, with what to write instead."""

_CONSTRAINT: Final = {"topology": str, "requiredTopologyLevel": str, "preferredTopologyLevel": str}
_CONSTRAINED: Final = {"topologyConstraint": _CONSTRAINT}


def requests(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a PodGroup and of its sub-groups, each of which names its own topology.

    Source: KAI (main of March 2026), podgroup_info/subgroup_info/factory.go: levels without one
    have no effect.
    """
    spec = root / "spec"
    for group in (spec, *(spec / "subGroups").items()):
        constraint = group / "topologyConstraint"
        levels = (
            (constraint / "requiredTopologyLevel", True),
            (constraint / "preferredTopologyLevel", False),
        )
        topology = (constraint / "topology").text()
        if topology:
            yield from requests_at(levels, topology)


def annotated(places: Annotated) -> Iterator[LevelRequest]:
    """The requests in the annotations of a workload and of its templates."""
    own = places.workload / "metadata" / "annotations"
    for place in (places.workload, *places.jobs, *places.pods):
        annotations = place / "metadata" / "annotations"
        if not annotations:
            continue
        placements = (
            (annotations / REQUIRED, True),
            (annotations / PREFERRED, False),
            (annotations / SEGMENT_REQUIRED, True),
            (annotations / SEGMENT_PREFERRED, False),
        )
        topology = (annotations / TOPOLOGY).text() or (own / TOPOLOGY).text()
        yield from requests_at(placements, topology)


POD_GROUPS: Final = WatchedKind(
    "scheduling.run.ai",
    "PodGroup",
    "podgroups",
    ("v2alpha2",),
    {"spec": {**_CONSTRAINED, "subGroups": [_CONSTRAINED]}},
    requests,
    # The workload that has a PodGang is watched itself.
    derived_from=frozenset({"PodGang"}),
    short=("pg",),
)
