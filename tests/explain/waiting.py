"""Workloads that wait in a cluster of two racks with four nodes of eight GPUs each, and everything around them."""

from collections.abc import Iterable
from typing import Any

from tests.support.saved import demo_nodes

Object = dict[str, Any]

RACK = "cloud.google.com/gce-topology-subblock"
GPU = "nvidia.com/gpu"
SUBJECT = "podcliqueset/llm"
NOW = "2026-01-01T00:00:00Z"
NOT_ENOUGH = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."


def nodes(
    *,
    unlabelled: Iterable[str] = (),
    cordoned: Iterable[str] = (),
    tainted: Iterable[str] = (),
    unready: Iterable[str] = (),
) -> list[Object]:
    """The demo's H200 nodes: rack-3 holds h200-1 to h200-4, rack-4 the others. Some may lack their rack."""
    nodes = []
    for node in demo_nodes()[22:]:
        metadata = node["metadata"]
        name = metadata["name"]
        labels = {k: v for k, v in metadata["labels"].items() if k != RACK or name not in set(unlabelled)}
        spec = {**node["spec"], **({"unschedulable": True} if name in set(cordoned) else {})}
        spec |= {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]} if name in set(tainted) else {}
        nodes.append({**node, "metadata": {**metadata, "labels": labels}, "spec": spec})
        if name in set(unready):
            nodes[-1]["status"] = {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
    return nodes


def cluster_topology(**spec: Any) -> Object:
    publish = {"grove": "Never", "kai": "Never", "kueue": "Never"}
    made = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": "cluster"}}
    return {**made, "spec": {"publish": publish, **spec}, "status": {"conditions": []}}


def binding(*keys: tuple[str, str]) -> Object:
    made = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "cluster"}}
    in_sync = {"type": "SchedulerTopologyDrift", "status": "False", "reason": "InSync", "message": "All in sync"}
    levels = [{"domain": domain, "key": key} for domain, key in keys]
    return {**made, "spec": {"levels": levels}, "status": {"conditions": [{**in_sync, "lastTransitionTime": NOW}]}}


def kai_topology(*keys: str, name: str) -> Object:
    levels = [{"nodeLabel": key} for key in keys]
    version = "kai.scheduler/v1alpha1"
    return {"apiVersion": version, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}


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


def pod_spec() -> Object:
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: "8"}}}
    return {"containers": [container], "schedulerName": "kai-scheduler"}


def pod(name: str) -> Object:
    """A pod of `ml` that its scheduler has not placed."""
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NOT_ENOUGH}
    status = {"phase": "Pending", "conditions": [unplaced]}
    return {**named("v1", "Pod", name, pod_spec()), "status": status}
