"""The pod sets that Kueue makes of a job: in which order, and which it adds.

Source: Kueue 0.19 (pkg/controller/jobs: kubeflow, mpijob, raycluster, rayjob). Kueue assigns nodes
in this order and takes none back, so the order decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.pods import PodSet, Structure, pods_of

_KUBEFLOW: Final = "kubeflow.org"
_ROLES: Final[Mapping[str, Sequence[str]]] = {
    "PyTorchJob": ("master", "worker"),
    "TFJob": ("chief", "master", "ps", "worker", "evaluator"),
    "XGBoostJob": ("master", "worker"),
    "PaddleJob": ("master", "worker"),
    "JAXJob": ("worker",),
    "MPIJob": ("launcher", "worker"),
}
"""The roles of each kind of kubeflow.org, in Kueue's order; the training operator knows no others.
"""
_RAY: Final = "ray.io"
_RAY_CLUSTER_OF: Final[Mapping[str, Sequence[str]]] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
SUBMITTER: Final = "submitter"
_SUBMITTER_REQUESTS: Final = {"cpu": "500m", "memory": "200Mi"}
"""Of the container that KubeRay makes to submit a RayJob, where it has no template."""
_AUTOSCALER_REQUESTS: Final = {"cpu": "500m", "memory": "512Mi"}
"""Of the container that KubeRay adds to the head where the cluster scales itself."""


def as_pod_sets(root: Field, structure: Structure) -> Structure:
    """The pods of a job as the pod sets that Kueue makes of them."""
    group, kind = kind_of(root.value)
    if group == _KUBEFLOW and kind in _ROLES:
        return replace(structure, sets=_in_order(structure.sets, _ROLES[kind]))
    if group == _RAY and kind in _RAY_CLUSTER_OF:
        return _of_ray(root, kind, structure)
    return structure


def ray_cluster(root: Field) -> Field | None:
    """The RayCluster's spec in an object of KubeRay; None for any other object."""
    group, kind = kind_of(root.value)
    if group != _RAY or kind not in _RAY_CLUSTER_OF:
        return None
    cluster = root
    for step in _RAY_CLUSTER_OF[kind]:
        cluster = cluster / step
    return cluster


def _in_order(pod_sets: Sequence[PodSet], roles: Sequence[str]) -> tuple[PodSet, ...]:
    """The pod sets in the order of their roles, any other last."""

    def rank(pod_set: PodSet) -> int:
        role = pod_set.name.lower()
        return roles.index(role) if role in roles else len(roles)

    return tuple(sorted(pod_sets, key=rank))


def _of_ray(root: Field, kind: str, structure: Structure) -> Structure:
    """Head, worker groups, and the Job that submits a RayJob."""
    cluster = ray_cluster(root)
    if cluster is None or not structure.sets:
        return structure
    spec = root / "spec"
    submission = ""
    if kind == "RayJob":
        submission = (spec / "submissionMode").text() or "K8sJobMode"

    head, *others = structure.sets
    added = _beside_head(cluster, submission)
    if added:
        head = _with_containers(head, added)
    pod_sets = [head, *others]
    if submission == "K8sJobMode":
        pod_sets.append(_submitter(spec / "submitterPodTemplate"))
    return replace(structure, sets=tuple(pod_sets))


def _beside_head(cluster: Field, submission: str) -> list[Any]:
    """The containers that KubeRay adds to the head's pod."""
    containers: list[Any] = []
    if submission == "SidecarMode":
        containers.append({"resources": {"requests": _SUBMITTER_REQUESTS}})
    if (cluster / "enableInTreeAutoscaling").flag():
        written = cluster / "autoscalerOptions" / "resources"
        resources = written.value if written else {"requests": _AUTOSCALER_REQUESTS}
        containers.append({"resources": resources})
    return containers


def _with_containers(pod_set: PodSet, containers: Sequence[Any]) -> PodSet:
    """The pod set with more containers in each pod; one that is malformed stays as it is."""
    template = pod_set.template
    spec = (template / "spec").value
    if not isinstance(spec, dict):
        return pod_set
    written = spec.get("containers")
    if not isinstance(written, list):
        return pod_set
    changed_spec = {**spec, "containers": [*written, *containers]}
    changed = {**template.value, "spec": changed_spec}
    count = pod_set.pods.count
    return _pod_set(pod_set.name, count, _replacing(template, changed))


def _submitter(template: Field) -> PodSet:
    """The pod of the Job by which KubeRay submits a RayJob."""
    if not template:
        container = {"resources": {"requests": _SUBMITTER_REQUESTS}}
        template = _replacing(template, {"spec": {"containers": [container]}})
    return _pod_set(SUBMITTER, 1, template)


def _replacing(field: Field, value: Any) -> Field:
    """Another value where the document has this one."""
    return field.with_value(value)


def _pod_set(name: str, count: int, template: Field) -> PodSet:
    pods = pods_of(name, count, template / "spec")
    return PodSet(name, pods, template)
