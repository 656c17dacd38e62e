"""The pod sets that Kueue creates for a job, their order, and those that it adds.

Source: Kueue 0.19 (pkg/controller/jobs: kubeflow, mpijob, raycluster, rayjob), AppWrapper 1.2
(pkg/utils: InferPodSets). Kueue assigns nodes in this order without backtracking, so the order
matters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.pods import PodSet, Structure, structure_of

_KUBEFLOW: Final = "kubeflow.org"
_ROLES: Final[Mapping[str, Sequence[str]]] = {
    "PyTorchJob": ("master", "worker"),
    "TFJob": ("chief", "master", "ps", "worker", "evaluator"),
    "XGBoostJob": ("master", "worker"),
    "PaddleJob": ("master", "worker"),
    "JAXJob": ("worker",),
    "MPIJob": ("launcher", "worker"),
}
"""The roles of each kind of kubeflow.org, in Kueue's order. The training operator has no others.
"""
_APP_WRAPPER: Final = ("workload.codeflare.dev", "AppWrapper")
_RAY: Final = "ray.io"
_RAY_CLUSTER_OF: Final[Mapping[str, Sequence[str]]] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}


def as_pod_sets(root: Field, structure: Structure) -> Structure:
    """The pods of a job as Kueue's pod sets.

    Pods that start later, such as the Job that submits a RayJob, are admitted with the others.
    """
    sets = _in_order_of_kind(root, structure.sets)
    if kind_of(root.value) == _APP_WRAPPER:
        sets = _in_order_of_components(root, structure.sets)
    return replace(structure, sets=(*sets, *structure.later), later=())


def _in_order_of_kind(root: Field, pod_sets: Sequence[PodSet]) -> Sequence[PodSet]:
    """The pod sets of a job in the order of its roles, if its kind has roles."""
    group, kind = kind_of(root.value)
    if group == _KUBEFLOW and kind in _ROLES:
        return _in_order(pod_sets, _ROLES[kind])
    return pod_sets


def _in_order_of_components(root: Field, pod_sets: Sequence[PodSet]) -> Sequence[PodSet]:
    """The pod sets of an AppWrapper, those of each object that it wraps in their own order."""
    ordered: list[PodSet] = []
    for component in (root / "spec" / "components").items():
        wrapped = Field((component / "template").value)
        structure = structure_of(wrapped)
        if structure is None:
            continue
        first = len(ordered)
        own = pod_sets[first : first + len(structure.sets)]
        ordered += _in_order_of_kind(wrapped, own)
    return [*ordered, *pod_sets[len(ordered) :]]


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
