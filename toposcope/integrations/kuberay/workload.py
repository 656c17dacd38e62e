"""Ray clusters that no other system places: room for the head, all workers and the submitter.

Rules and messages: KubeRay 1.6 (controllers/ray/utils/validation.go, controllers/ray/common).
kube-scheduler places the pods one by one; the submitter of a RayJob is created when the cluster is
ready, and runs beside it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, kind_of, name_of
from toposcope.integrations.framework.pods import RAY_JOB, Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System

_GROUP: Final = "ray.io"
_CLUSTERS: Final = ("rayClusterSpec", "rayClusterConfig")
_RULE: Final = "kuberay/replicas"


def _is_ray(document: Mapping[str, Any]) -> bool:
    group, _ = kind_of(document)
    return group == _GROUP and structure_of(Field(document)) is not None


def _claims_nothing(_document: Mapping[str, Any]) -> bool:
    return False


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del cluster, before  # it asks for no topology
    structure = structure_of(root) or Structure(())
    _check_replicas(root)
    pods = list(structure.whole)
    for pod_set in structure.later:
        pods.append(pod_set.pods)
    workload = Workload(
        "KubeRay",
        handle_of(root),
        (Group(name_of(root, "ray"), tuple(pods)),),
        notes=tuple(_notes(root)),
    )
    return Reading(workload)


SYSTEM: Final = System("KubeRay", _claims_nothing, _read, places_plain_pods=_is_ray)
READERS: Final = (SYSTEM,)


def _cluster(root: Field) -> Field:
    """The spec of the cluster of a RayCluster, RayJob or RayService."""
    spec = root / "spec"
    for name in _CLUSTERS:
        if spec / name:
            return spec / name
    return spec


def _check_replicas(root: Field) -> None:
    """Note numbers of replicas that the operator rejects, and a RayJob without a cluster."""
    spec = root / "spec"
    has_cluster = spec / "rayClusterSpec" or spec / "clusterSelector"
    if kind_of(root.value) == RAY_JOB and not has_cluster:
        text = "The RayJob spec is invalid: one of RayClusterSpec or ClusterSelector must be set"
        spec.error("kuberay/cluster", text, "add rayClusterSpec")

    groups = _cluster(root) / "workerGroupSpecs"
    for workers in groups.items():
        least_field = workers / "minReplicas"
        most_field = workers / "maxReplicas"
        least = least_field.number(0)
        most = most_field.number(least)
        if least <= most:
            continue
        name = _name(workers)
        text = f"worker group {name} has minReplicas {least} greater than maxReplicas {most}"
        least_field.error(_RULE, text, f"set at most {most}")


def _name(workers: Field) -> str:
    name = workers / "groupName"
    return name.text() or workers.path


def _notes(root: Field) -> Iterator[str]:
    """A note on what its autoscaler may add."""
    cluster = _cluster(root)
    if not (cluster / "enableInTreeAutoscaling").flag():
        return
    most = []
    groups = cluster / "workerGroupSpecs"
    for workers in groups.items():
        name = _name(workers)
        maximum = workers / "maxReplicas"
        replicas = maximum.number(0)
        if replicas:
            most.append(f"{name} to {replicas} replicas")
    if most:
        grown = ", ".join(most)
        yield f"room is for the replicas at the start; Ray's autoscaler may grow {grown}"
