"""Pod objects of GPU nodes: what trains, and what runs on every node."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.simulator.machine import identity

_TIME: Final = "2025-01-15T09:00:00Z"
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_objects(node: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The pods of the `number`-th node of a cluster: two of DaemonSets, and on three of four nodes one of a job."""
    name = node["metadata"]["name"]
    gpus = node["status"]["allocatable"][label_keys.ALLOCATABLE_GPUS]
    for daemon in ("device-plugin", "node-exporter"):
        yield _pod("gpu-system", f"{daemon}-{number:06}", name, ("apps/v1", "DaemonSet", daemon), {"cpu": "100m"})
    if number % 4:
        job = f"train-{number // 64:05}"
        wants = {"cpu": "64", "memory": "512Gi", label_keys.ALLOCATABLE_GPUS: gpus}
        yield _pod("research", f"{job}-{number % 64:03}", name, ("batch/v1", "Job", job), wants)


def _pod(
    namespace: str, name: str, node: str, owner: tuple[str, str, str], requests: Mapping[str, str]
) -> dict[str, Any]:
    api_version, kind, owned_by = owner
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owned_by,
        "uid": str(identity("owner", owned_by)),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    image = f"registry.example.com/accelerated-computing/{owned_by}:v1.2.3"
    container = {
        "name": "main",
        "image": image,
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(12)],
        "resources": {"limits": dict(requests), "requests": dict(requests)},
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [
            {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token", "readOnly": True}
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(identity("pod", namespace, name)),
            "resourceVersion": "1",
            "creationTimestamp": _TIME,
            "labels": {"app.kubernetes.io/name": owned_by, "app.kubernetes.io/part-of": "platform"},
            "ownerReferences": [reference],
        },
        "spec": {
            "containers": [container],
            "nodeName": node,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": owned_by,
            "tolerations": [
                {"key": f"node.kubernetes.io/{problem}", "operator": "Exists", "effect": "NoExecute"}
                for problem in ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure")
            ],
            "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": []}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME}
                for condition in _CONDITIONS
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": image,
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": _TIME}},
                }
            ],
            "podIP": "10.0.0.2",
            "qosClass": "Burstable",
            "startTime": _TIME,
        },
    }
