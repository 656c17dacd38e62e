"""Workloads that wait in a cluster of two racks with four nodes of eight GPUs each, and everything around them."""

from collections.abc import Iterable
from typing import Any

from tests.support.saved import demo_nodes

Object = dict[str, Any]

ZONE, RACK, HOST = ("topology.kubernetes.io/zone", "cloud.google.com/gce-topology-subblock", "kubernetes.io/hostname")
LEVELS = (("zone", ZONE), ("rack", RACK), ("host", HOST))
GPU = "nvidia.com/gpu"
SUBJECT = "podcliqueset/llm"
NOW = "2026-01-01T00:00:00Z"
NOT_ENOUGH = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."


def nodes(*, unlabelled: Iterable[str] = (), cordoned: Iterable[str] = (), tainted: Iterable[str] = ()) -> list[Object]:
    """The demo's H200 nodes: rack-3 holds h200-1 to h200-4, rack-4 the others. Some may lack their rack."""
    nodes = []
    for node in demo_nodes()[22:]:
        metadata = node["metadata"]
        name = metadata["name"]
        labels = {k: v for k, v in metadata["labels"].items() if k != RACK or name not in set(unlabelled)}
        spec = {**node["spec"], **({"unschedulable": True} if name in set(cordoned) else {})}
        spec |= {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]} if name in set(tainted) else {}
        nodes.append({**node, "metadata": {**metadata, "labels": labels}, "spec": spec})
    return nodes


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def cluster_topology(*conditions: Object, **spec: Any) -> Object:
    levels = [{"domain": domain, "key": key} for domain, key in LEVELS]
    publish = {"grove": "Never", "kai": "Never", "kueue": "Never"}
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "cluster"},
        "spec": {"levels": levels, "publish": publish, **spec},
        "status": {"conditions": list(conditions)},
    }


def binding(*keys: tuple[str, str], status: Object | None = None) -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "cluster"},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in keys or LEVELS]},
        "status": status or {"conditions": [condition("SchedulerTopologyDrift", "False", "InSync", "All in sync")]},
    }


def kai_topology(*keys: str, name: str = "cluster") -> Object:
    levels = [{"nodeLabel": key} for key in keys or (ZONE, RACK, HOST)]
    version = "kai.scheduler/v1alpha1"
    return {"apiVersion": version, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}


def scheduler_resources() -> list[Object]:
    """The topology resources that schedulers read, all in agreement."""
    return [cluster_topology(), binding(), kai_topology()]


def owned(document: Object, owner: Object) -> Object:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


def named(version: str, kind: str, name: str, spec: Any = None, **metadata: Any) -> Object:
    metadata = {"name": name, "namespace": "ml", **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec if spec is not None else {}}


def pod_spec(gpus: int = 8, **spec: Any) -> Object:
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: str(gpus)}}}
    return {"containers": [container], "schedulerName": "kai-scheduler", **spec}


def pod(name: str, node: str = "", reported: str = NOT_ENOUGH, gpus: int = 8, **metadata: Any) -> Object:
    """A pod of `ml` on a node, or one that its scheduler has not placed."""
    document = named("v1", "Pod", name, pod_spec(gpus), **metadata)
    if node:
        document["spec"]["nodeName"] = node
        return {**document, "status": {"phase": "Running"}}
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reported}
    return {**document, "status": {"phase": "Pending", "conditions": [unplaced]}}


def busy(*names: str, gpus: int = 8) -> list[Object]:
    """Pods of others that hold all GPUs of these nodes."""
    return [pod(f"busy-{name}", name, gpus=gpus) for name in names]


ALL_LEVELS_AVAILABLE = condition(
    "TopologyLevelsUnavailable", "False", "AllClusterTopologyLevelsAvailable", "All topology levels are available"
)


def pod_clique_set(reported: Object | None = ALL_LEVELS_AVAILABLE, replicas: int = 4) -> Object:
    """Four pods of eight GPUs that need one rack: all of it."""
    pack = {"topologyName": "cluster", "pack": {"required": "rack"}}
    clique = {"name": "worker", "spec": {"roleName": "worker", "replicas": replicas, "podSpec": pod_spec()}}
    spec = {"replicas": 1, "template": {"topologyConstraint": pack, "cliques": [clique]}}
    status = {"conditions": [reported]} if reported else {}
    return {**named("grove.io/v1alpha1", "PodCliqueSet", "llm", spec), "status": status}


def created_by_grove(root: Object, on: Iterable[str] = (), *, constrained: bool = True, count: int = 4) -> list[Object]:
    """A PodCliqueSet with what Grove creates from it; its first pods run on the nodes `on`."""
    clique = owned(named("grove.io/v1alpha1", "PodClique", "llm-0-worker"), root)
    notes = {"annotations": {"grove.io/topology-name": "cluster"}} if constrained else {}
    gang = owned(named("scheduler.grove.io/v1alpha1", "PodGang", "llm-0", {"podgroups": []}, **notes), root)
    labels = {
        "grove.io/podclique": "llm-0-worker",
        "grove.io/podgang": "llm-0",
        "grove.io/podcliqueset-replica-index": "0",
    }
    where = [*on, *[""] * count][:count]
    pods = [owned(pod(f"llm-0-worker-{i}", node, labels=labels), clique) for i, node in enumerate(where)]
    return [root, clique, gang, *pods]


def job(name: str, annotations: Object) -> Object:
    """Four pods of eight GPUs."""
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": {**pod_spec(), "restartPolicy": "Never"}}}
    return named("batch/v1", "Job", name, spec, annotations=annotations)
