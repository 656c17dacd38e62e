"""Kinds, annotations and labels of Kueue, and the levels that Workloads and annotations request.

Levels are label keys. The topology depends on the ResourceFlavor that Kueue chooses, so no request
names one. `unconstrained` requests no level. v1beta1, v1beta2 and v1 agree in the fields that are
read.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    Annotated,
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    level_request,
    requests_at,
)
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.discovery import Kind

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "Kueue 0.19"
"""The version of these rules and schemas."""
TOPOLOGIES: Final = PublishedKind(
    GROUP, "Topology", "topologies", ("v1beta2", "v1beta1", "v1alpha1"), "kueue"
)
"""Newest first: since v0.15; v0.14; up to v0.13. Other kinds have versions without a Topology."""
FLAVORS: Final = PublishedKind(
    GROUP, "ResourceFlavor", "resourceflavors", ("v1beta2", "v1beta1"), "kueue"
)
"""Only read: a flavor that names a Topology keeps it from being deleted."""

_VERSIONS: Final = ("v1beta2", "v1beta1")
WORKLOAD: Final = Kind(GROUP, "Workload", "workloads", _VERSIONS, short=("wl",))
LOCAL_QUEUE: Final = Kind(GROUP, "LocalQueue", "localqueues", _VERSIONS)
CLUSTER_QUEUE: Final = Kind(GROUP, "ClusterQueue", "clusterqueues", _VERSIONS, is_namespaced=False)
COHORT: Final = Kind(GROUP, "Cohort", "cohorts", _VERSIONS, is_namespaced=False)
ADMISSION_CHECK: Final = Kind(
    GROUP, "AdmissionCheck", "admissionchecks", _VERSIONS, is_namespaced=False
)
PRIORITY_CLASS: Final = Kind(
    GROUP, "WorkloadPriorityClass", "workloadpriorityclasses", _VERSIONS, is_namespaced=False
)
READ: Final = (
    LOCAL_QUEUE,
    CLUSTER_QUEUE,
    FLAVORS,
    COHORT,
    WORKLOAD,
    ADMISSION_CHECK,
    PRIORITY_CLASS,
)
"""Kinds that affect placement besides the topology."""
CONFIGURATION: Final = ("config.kueue.x-k8s.io", "Configuration")
"""API group and kind of the manager's configuration, which is text in a ConfigMap."""

PREFIX: Final = "kueue.x-k8s.io/"
WORKLOAD_OF: Final = PREFIX + "workload"
"""Annotation of a pod with a topology assignment: its Workload."""
POD_SET_OF: Final = PREFIX + "podset"
"""Label of a pod: its pod set."""
QUEUE_NAME: Final = PREFIX + "queue-name"
PRIORITY_CLASS_OF: Final = PREFIX + "priority-class"
"""Label of a workload: its WorkloadPriorityClass."""
POD_GROUP: Final = PREFIX + "pod-group-name"
"""Label or annotation of a pod."""
POD_GROUP_TOTAL: Final = PREFIX + "pod-group-total-count"
POD_GROUP_FAST: Final = PREFIX + "pod-group-fast-admission"
ROLE_HASH: Final = PREFIX + "role-hash"
"""Annotation of a pod in a group: pods with the same one are a pod set."""
GATED_BY: Final = PREFIX + "admission-gated-by"
"""Annotation of a workload: what must release it before it is admitted, comma-separated."""
ELASTIC: Final = PREFIX + "elastic-job"
MIN_PARALLELISM: Final = PREFIX + "job-min-parallelism"
REQUIRED: Final = PREFIX + "podset-required-topology"
PREFERRED: Final = PREFIX + "podset-preferred-topology"
UNCONSTRAINED: Final = PREFIX + "podset-unconstrained-topology"
SLICE_REQUIRED: Final = PREFIX + "podset-slice-required-topology"
SLICE_SIZE: Final = PREFIX + "podset-slice-size"
SLICE_LAYERS: Final = PREFIX + "podset-slice-required-topology-constraints"
GROUP_NAME: Final = PREFIX + "podset-group-name"
SPREADING: Final = PREFIX + "podset-topology-spreading"
"""Since Kueue 0.20, alpha: another annotation of a pod template."""

FIELDS: Final = {
    REQUIRED: "required",
    PREFERRED: "preferred",
    UNCONSTRAINED: "unconstrained",
    SLICE_REQUIRED: "podSetSliceRequiredTopology",
    SLICE_SIZE: "podSetSliceSize",
    SLICE_LAYERS: "podsetSliceRequiredTopologyConstraints",
    GROUP_NAME: "podSetGroupName",
}
"""The fields of a Workload's topologyRequest, by the pod template annotations that set them.
"""
ANNOTATIONS: Final = {annotation: annotation for annotation in FIELDS}


class _Layer(msgspec.Struct, frozen=True):
    topology: str


_LAYER_LIST: Final = msgspec.json.Decoder(list[_Layer])


def requests(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a Workload: those of each pod set."""
    pod_sets = root / "spec" / "podSets"
    for pod_set in pod_sets.items():
        request = pod_set / "topologyRequest"
        yield from requests_at(_levels(request, FIELDS))

        layers = request / FIELDS[SLICE_LAYERS]
        levels = [layer / "topology" for layer in layers.items()]
        yield from requests_at((level, True) for level in levels)


def annotated(places: Annotated) -> Iterator[LevelRequest]:
    """The requests in the annotations of pod templates."""
    for template in places.pods:
        annotations = template / "metadata" / "annotations"
        if not annotations:
            continue
        yield from requests_at(_levels(annotations, ANNOTATIONS))
        layers = (annotations / SLICE_LAYERS).text()
        if layers:
            for level in _layer_levels(layers):
                yield level_request(level, is_required=True)


def _layer_levels(layers: str) -> list[str]:
    """The levels in the annotation that lists layers of slices."""
    try:
        return [layer.topology for layer in _LAYER_LIST.decode(layers)]
    except ValueError as error:
        raise ValueError(
            f"annotation {SLICE_LAYERS} is not a JSON list of {{topology, size}}: {error}"
        ) from error


def _levels(where: Field, names: Mapping[str, str]) -> Iterator[tuple[Field, bool]]:
    """The fields that name levels, and whether each level is required."""
    for key in (REQUIRED, PREFERRED, SLICE_REQUIRED):
        yield where / names[key], key != PREFERRED


_REQUEST: Final = {
    FIELDS[REQUIRED]: str,
    FIELDS[PREFERRED]: str,
    FIELDS[SLICE_REQUIRED]: str,
    FIELDS[SLICE_LAYERS]: [{"topology": str}],
}
WORKLOADS: Final = WatchedKind(
    GROUP,
    "Workload",
    "workloads",
    ("v1", "v1beta2", "v1beta1"),
    {"spec": {"podSets": [{"topologyRequest": _REQUEST}]}},
    requests,
    finished_conditions=frozenset({"Finished"}),
)

POD_SET: Final = "pod set"
"""Kind of a group: the pods of one template."""
