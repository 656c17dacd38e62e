"""Pod objects of GPU nodes: what trains, and what runs on every node."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.api.yaml_text import load
from toposcope.simulator.machine import identity

_SHARED: Final[dict[str, Any]] = load(Path(__file__).with_name("pod.yaml").read_bytes())
_CONTAINER, _STATUS = _SHARED.pop("container"), _SHARED.pop("containerStatus")


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
    """What is alike on every pod is shared between the objects: do not change it in place."""
    version, kind, owned_by = owner
    of = {"apiVersion": version, "kind": kind, "name": owned_by, "uid": str(identity("owner", owned_by))}
    metadata = {
        **_SHARED["metadata"],
        "name": name,
        "namespace": namespace,
        "uid": str(identity("pod", namespace, name)),
        "labels": {"app.kubernetes.io/name": owned_by, "app.kubernetes.io/part-of": "platform"},
        "ownerReferences": [{**of, "controller": True, "blockOwnerDeletion": True}],
    }
    image = {"image": f"registry.example.com/accelerated-computing/{owned_by}:v1.2.3"}
    resources = {"limits": dict(requests), "requests": dict(requests)}
    containers = [{**_CONTAINER, **image, "resources": resources}]
    spec = {**_SHARED["spec"], "containers": containers, "nodeName": node, "serviceAccountName": owned_by}
    status = {**_SHARED["status"], "containerStatuses": [{**_STATUS, **image}]}
    return {**_SHARED, "metadata": metadata, "spec": spec, "status": status}
