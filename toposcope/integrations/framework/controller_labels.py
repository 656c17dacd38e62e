"""Labels that controllers add to the pods they create, which other pods' selectors may use."""

from collections.abc import Callable
from typing import Final

NEW: Final = "\0new"
"""A value that a controller generates: all new pods share it, and no older pod has it."""

Labels = dict[str, str]

_BARE: Final = frozenset(
    {"controller-revision-hash", "controller-uid", "job-name", "pod-template-hash"}
)
_DOMAINS: Final = (
    "batch.kubernetes.io",
    "apps.kubernetes.io",
    "statefulset.kubernetes.io",
    "sigs.k8s.io",
    "x-k8s.io",
)
"""Of Kubernetes' own controllers, and those of its SIGs."""


def is_added(key: str, group: str) -> bool:
    """Whether controllers add this label to the pods of an object of this API group.

    They do so under their own domain: an operator of `batch.example.com` adds `example.com/job`.
    """
    domain, slash, _ = key.partition("/")
    if not slash:
        return key in _BARE
    if group and _is_under(group, domain):
        return True
    for controller in (*_DOMAINS, group):
        if controller and _is_under(domain, controller):
            return True
    return False


def _is_under(domain: str, above: str) -> bool:
    return domain == above or domain.endswith(f".{above}")


def added_labels(kind: tuple[str, str], name: str, pod_set: str) -> Labels:
    """Labels that all pods of a template get, as far as they are known.

    `kind` and `name` are those of the object, `pod_set` is the role, or the part of it that the
    template is. Labels that differ from pod to pod are not among them.
    """
    group, _ = kind
    reader = _BY_KIND.get(kind)
    if kind[1] in _ROLES:
        reader = _of_training_job
    return reader(group, name, pod_set) if reader else {}


def _of_job(group: str, name: str, pod_set: str) -> Labels:
    del group, pod_set
    return {
        "job-name": name,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": NEW,
        "batch.kubernetes.io/controller-uid": NEW,
    }


def _of_deployment(group: str, name: str, pod_set: str) -> Labels:
    del group, name, pod_set
    return {"pod-template-hash": NEW}


def _of_stateful_set(group: str, name: str, pod_set: str) -> Labels:
    del group, name, pod_set
    return {"controller-revision-hash": NEW}


def _of_training_job(group: str, name: str, pod_set: str) -> Labels:
    """The training operator's and the MPI operator's: each has one of the two for the role."""
    role = pod_set.lower()
    return {
        f"training.{group}/job-name": name,
        f"training.{group}/job-role": role,
        f"training.{group}/replica-type": role,
    }


def _of_ray_cluster(group: str, name: str, pod_set: str) -> Labels:
    del group
    is_head = pod_set == "head"
    return {
        "ray.io/cluster": name,
        "ray.io/node-type": "head" if is_head else "worker",
        "ray.io/group": "headgroup" if is_head else pod_set,
    }


_Reader = Callable[[str, str, str], Labels]
_BY_KIND: Final[dict[tuple[str, str], _Reader]] = {
    ("batch", "Job"): _of_job,
    ("apps", "Deployment"): _of_deployment,
    ("apps", "ReplicaSet"): _of_deployment,
    ("apps", "StatefulSet"): _of_stateful_set,
    ("ray.io", "RayCluster"): _of_ray_cluster,
}
_ROLES: Final = frozenset({"MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob"})
"""Kinds with roles, all of one operator."""
