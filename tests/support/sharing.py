"""Nodes whose GPUs are offered in shares, as device plugins and GPU Feature Discovery describe them."""

from collections.abc import Mapping
from typing import Any

from toposcope.api import label_keys

Object = dict[str, Any]


def sharing_node(
    name: str,
    *,
    agent: int | None = 4,
    offers: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    state: str = "ok",
) -> Object:
    """A Node with `agent` GPUs by its agent (None: it has none), and what device plugins offer of them."""
    own: dict[str, str] = {label_keys.HOSTNAME: name, "topology.kubernetes.io/zone": "z1"}
    if agent is not None:
        own[label_keys.GPUS] = str(agent)
        own[label_keys.NVLINK_DOMAIN] = name
        own[label_keys.STATE] = state
    resources = {
        "cpu": "64",
        "memory": "512Gi",
        "pods": "110",
    }
    for resource, count in offers.items():
        resources[resource] = str(count)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {**own, **(labels or {})}},
        "spec": {},
        "status": {"allocatable": resources, "capacity": resources, "conditions": [READY]},
    }


READY = {"type": "Ready", "status": "True"}


def running(name: str, node: str, requests: Mapping[str, int]) -> Object:
    """A pod on a node."""
    amounts = {key: str(count) for key, count in requests.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": {"phase": "Running"},
    }


def mixed_cluster() -> list[Object]:
    """One node of each way to offer four GPUs, and one of eight whole ones; a pod on most of them."""
    sliced = {
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-SHARED",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.count": "4",
    }
    mig = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb"}
    return [
        sharing_node("whole", offers={"nvidia.com/gpu": 4}),
        sharing_node("sliced", offers={"nvidia.com/gpu": 40}, labels=sliced),
        sharing_node(
            "renamed",
            offers={"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 40},
            labels={"nvidia.com/gpu.replicas": "10"},
        ),
        sharing_node("mig-single", offers={"nvidia.com/gpu": 28}, labels=mig),
        sharing_node(
            "mig-mixed",
            offers={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 28},
            labels={"nvidia.com/mig.strategy": "mixed"},
        ),
        sharing_node("eight", agent=8, offers={"nvidia.com/gpu": 8}),
        running("a", "whole", {"nvidia.com/gpu": 1}),
        running("b", "sliced", {"nvidia.com/gpu": 1}),
        running("c", "renamed", {"nvidia.com/gpu.shared": 1}),
        running("d", "mig-mixed", {"nvidia.com/mig-1g.5gb": 3}),
    ]
