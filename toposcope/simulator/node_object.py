"""Nodes as a kubelet, a cloud controller and the NVIDIA operator leave them behind, in full size, and pods on them."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.api.yaml_text import load
from toposcope.simulator.machine import identity

_TIME: Final = "2025-01-15T08:00:00Z"
_HEARTBEAT: Final = "2025-01-15T09:30:00Z"
_IMAGES: Final = 50
"""The kubelet reports its 50 largest images by default (nodeStatusMaxImages)."""
_SHARED: Final[dict[str, Any]] = load(Path(__file__).with_name("node.yaml").read_bytes())
_POD: Final[dict[str, Any]] = load(Path(__file__).with_name("pod.yaml").read_bytes())
_CONTAINER, _STATUS = _POD.pop("container"), _POD.pop("containerStatus")
_REPOSITORY: Final = "registry.example.com/accelerated-computing/platform/releases/component"


def node_object(name: str, labels: dict[str, str], gpus: int, *, uid: str) -> dict[str, Any]:
    """A Ready, schedulable Node of some 26 kB.

    `labels` are joined by those that feature discovery writes.

    Lists that are alike on every node are shared between the objects: do not change them in place.
    """
    resources = {**_SHARED["resources"], label_keys.ALLOCATABLE_GPUS: str(gpus)}
    every_label = labels | _feature_labels(gpus)
    identities = {"bootID": uid, "machineID": uid.replace("-", ""), "systemUUID": uid}
    architecture = labels.get("kubernetes.io/arch", "amd64")
    annotations = {
        "csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"{name}"}}',
        "nfd.node.kubernetes.io/feature-labels": ",".join(_feature_labels(gpus)),
        **_SHARED["annotations"],
    }
    metadata = {
        "name": name,
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": _TIME,
        "labels": every_label,
    }
    status = {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "allocatable": resources,
        "capacity": resources,
        "conditions": _conditions(),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": _images(),
        "nodeInfo": {**_SHARED["nodeInfo"], **identities, "architecture": architecture},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            **metadata,
            "annotations": annotations,
            "managedFields": _managed_fields(tuple(every_label)),
        },
        "spec": {**_SHARED["spec"], "providerID": f"example://{uid}"},
        "status": status,
    }


@functools.cache
def _feature_labels(gpus: int) -> dict[str, str]:
    features, ours = _SHARED["labels"].items()
    labels = {features[0] + feature: "true" for feature in features[1]}
    return (
        labels
        | {ours[0] + key: value for key, value in ours[1].items()}
        | {label_keys.GPU_COUNT: str(gpus)}
    )


@functools.cache
def _conditions() -> list[dict[str, str]]:
    times = {"lastHeartbeatTime": _HEARTBEAT, "lastTransitionTime": _TIME}
    names = ("type", "status", "reason", "message")
    return [dict(zip(names, condition, strict=True)) | times for condition in _SHARED["conditions"]]


@functools.cache
def _images() -> list[dict[str, Any]]:
    def image(number: int) -> dict[str, Any]:
        digest = "".join(identity("image", number, half).hex for half in range(2))
        names = [
            f"{_REPOSITORY}-{number:02}@sha256:{digest}",
            f"{_REPOSITORY}-{number:02}:v1.{number}.0-ubuntu24.04",
        ]
        return {"names": names, "sizeBytes": 4_000_000_000 - number * 71_234_567}

    return [image(number) for number in range(_IMAGES)]


@functools.cache
def _managed_fields(labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Who owns what: the largest part of a real Node's metadata."""
    status: dict[str, Any] = {part: _fields(names) for part, names in _SHARED["managed"].items()}
    told = _fields(("lastHeartbeatTime", "lastTransitionTime", "message", "reason", "status"))
    status["f:conditions"] = {f'k:{{"type":"{kind}"}}': told for kind, *_ in _SHARED["conditions"]}
    writers = {
        "kubelet": [
            label
            for label in labels
            if "kubernetes.io/" in label and not label.startswith("feature.")
        ],
        "nfd-master": [label for label in labels if label.startswith(("feature.", "nvidia.com/"))],
        "cloud-controller-manager": [
            label for label in labels if label.startswith(("topology.", "cloud."))
        ],
        "toposcope-agent": [label for label in labels if label.startswith(label_keys.PREFIX)],
    }
    entries = [
        _entry(manager, _TIME, {"f:metadata": {"f:labels": _fields(owned)}})
        for manager, owned in writers.items()
        if owned
    ]
    of_status = _entry("kubelet", _HEARTBEAT, {"f:status": {**status, "f:images": {}}})
    return [*entries, {**of_status, "subresource": "status"}]


def _fields(names: list[str] | tuple[str, ...]) -> dict[str, Any]:
    return {".": {}} | {f"f:{name}": {} for name in names}


def _entry(manager: str, time: str, fields: dict[str, Any]) -> dict[str, Any]:
    operation = "Apply" if manager == "toposcope-agent" else "Update"
    about = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": time}
    return {**about, "fieldsType": "FieldsV1", "fieldsV1": fields}


def pod_objects(node: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The pods of the `number`-th node of a cluster: two of DaemonSets, and on three of four nodes one of a job."""
    name = node["metadata"]["name"]
    gpus = node["status"]["allocatable"][label_keys.ALLOCATABLE_GPUS]
    for daemon in ("device-plugin", "node-exporter"):
        yield _pod(
            "gpu-system",
            f"{daemon}-{number:06}",
            name,
            ("apps/v1", "DaemonSet", daemon),
            {"cpu": "100m"},
        )
    if number % 4:
        job = f"train-{number // 64:05}"
        wants = {"cpu": "64", "memory": "512Gi", label_keys.ALLOCATABLE_GPUS: gpus}
        yield _pod("research", f"{job}-{number % 64:03}", name, ("batch/v1", "Job", job), wants)


def _pod(
    namespace: str, name: str, node: str, owner: tuple[str, str, str], requests: Mapping[str, str]
) -> dict[str, Any]:
    """What is alike on every pod is shared between the objects: do not change it in place."""
    version, kind, owned_by = owner
    of = {
        "apiVersion": version,
        "kind": kind,
        "name": owned_by,
        "uid": str(identity("owner", owned_by)),
    }
    metadata = {
        **_POD["metadata"],
        "name": name,
        "namespace": namespace,
        "uid": str(identity("pod", namespace, name)),
        "labels": {"app.kubernetes.io/name": owned_by, "app.kubernetes.io/part-of": "platform"},
        "ownerReferences": [{**of, "controller": True, "blockOwnerDeletion": True}],
    }
    image = {"image": f"registry.example.com/accelerated-computing/{owned_by}:v1.2.3"}
    resources = {"limits": dict(requests), "requests": dict(requests)}
    containers = [{**_CONTAINER, **image, "resources": resources}]
    spec = {
        **_POD["spec"],
        "containers": containers,
        "nodeName": node,
        "serviceAccountName": owned_by,
    }
    status = {**_POD["status"], "containerStatuses": [{**_STATUS, **image}]}
    return {**_POD, "metadata": metadata, "spec": spec, "status": status}
