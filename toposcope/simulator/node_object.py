"""Nodes in full size, as kubelet, cloud controller and GPU operator leave them, and pods."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from toposcope.api import label_keys
from toposcope.api.yaml_text import load
from toposcope.simulator.machine import identity

_TIME: Final = "2025-01-15T08:00:00Z"
_HEARTBEAT: Final = "2025-01-15T09:30:00Z"
_MOST_IMAGES: Final = 50
"""The kubelet reports its 50 largest images by default (nodeStatusMaxImages)."""
_SHARED: Final[dict[str, Any]] = load(Path(__file__).with_name("node.yaml").read_bytes())
_POD: Final[dict[str, Any]] = load(Path(__file__).with_name("pod.yaml").read_bytes())
_CONTAINER, _STATUS = _POD.pop("container"), _POD.pop("containerStatus")
_REPOSITORY: Final = "registry.example.com/accelerated-computing/platform/releases/component"


def node_object(name: str, labels: dict[str, str], gpus: int, *, uid: str) -> dict[str, Any]:
    """A Ready, schedulable Node of some 26 kB.

    It has `labels` and those that feature discovery writes. Lists that are equal on every node are
    shared between the objects: do not change them in place.
    """
    resources = {**_SHARED["resources"], label_keys.ALLOCATABLE_GPUS: str(gpus)}
    every_label = labels | _feature_labels(gpus)
    identities = {
        "bootID": uid,
        "machineID": uid.replace("-", ""),
        "systemUUID": uid,
    }
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
    (feature_prefix, features), (gpu_prefix, gpu_labels) = _SHARED["labels"].items()
    labels = {}
    for feature in features:
        labels[feature_prefix + feature] = "true"
    for key, value in gpu_labels.items():
        labels[gpu_prefix + key] = value
    labels[label_keys.GPU_COUNT] = str(gpus)
    return labels


@functools.cache
def _conditions() -> list[dict[str, str]]:
    conditions = []
    for kind, status, reason, message in _SHARED["conditions"]:
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": _HEARTBEAT,
            "lastTransitionTime": _TIME,
        }
        conditions.append(condition)
    return conditions


@functools.cache
def _images() -> list[dict[str, Any]]:
    return [_image(number) for number in range(_MOST_IMAGES)]


def _image(number: int) -> dict[str, Any]:
    half = identity("image", number, 0)
    other_half = identity("image", number, 1)
    digest = half.hex + other_half.hex
    name = f"{_REPOSITORY}-{number:02}"
    names = [
        f"{name}@sha256:{digest}",
        f"{name}:v1.{number}.0-ubuntu24.04",
    ]
    size = 4_000_000_000 - number * 71_234_567
    return {"names": names, "sizeBytes": size}


@functools.cache
def _managed_fields(labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Who owns what: the largest part of a real Node's metadata."""
    owned: dict[str, list[str]] = {
        "kubelet": [],
        "nfd-master": [],
        "cloud-controller-manager": [],
        "toposcope-agent": [],
    }
    for label in labels:
        for manager in _managers(label):
            owned[manager].append(label)
    entries = []
    for manager, names in owned.items():
        if names:
            fields = {"f:metadata": {"f:labels": _fields(names)}}
            entries.append(_entry(manager, _TIME, fields))
    of_status = _entry("kubelet", _HEARTBEAT, {"f:status": _status_fields()})
    return [*entries, {**of_status, "subresource": "status"}]


def _managers(label: str) -> Iterator[str]:
    """Who writes a label."""
    is_feature = label.startswith("feature.")
    if "kubernetes.io/" in label and not is_feature:
        yield "kubelet"
    if is_feature or label.startswith("nvidia.com/"):
        yield "nfd-master"
    if label.startswith(("topology.", "cloud.")):
        yield "cloud-controller-manager"
    if label.startswith(label_keys.PREFIX):
        yield "toposcope-agent"


def _status_fields() -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for part, names in _SHARED["managed"].items():
        fields[part] = _fields(names)
    of_condition = _fields(
        ("lastHeartbeatTime", "lastTransitionTime", "message", "reason", "status")
    )
    conditions = {}
    for kind, *_ in _SHARED["conditions"]:
        conditions[f'k:{{"type":"{kind}"}}'] = of_condition
    fields["f:conditions"] = conditions
    fields["f:images"] = {}
    return fields


def _fields(names: list[str] | tuple[str, ...]) -> dict[str, Any]:
    return {".": {}} | {f"f:{name}": {} for name in names}


def _entry(manager: str, time: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Apply" if manager == "toposcope-agent" else "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def pod_objects(node: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The pods of the `number`-th node of a cluster.

    Two belong to DaemonSets; on three of four nodes, one belongs to a job.
    """
    node_name = node["metadata"]["name"]
    for daemon in ("device-plugin", "node-exporter"):
        yield _pod(
            namespace="gpu-system",
            name=f"{daemon}-{number:06}",
            node=node_name,
            owner=_Owner("apps/v1", "DaemonSet", daemon),
            requests={"cpu": "100m"},
        )
    if number % 4 == 0:
        return
    allocatable = node["status"]["allocatable"]
    job = f"train-{number // 64:05}"
    yield _pod(
        namespace="research",
        name=f"{job}-{number % 64:03}",
        node=node_name,
        owner=_Owner("batch/v1", "Job", job),
        requests={
            "cpu": "64",
            "memory": "512Gi",
            label_keys.ALLOCATABLE_GPUS: allocatable[label_keys.ALLOCATABLE_GPUS],
        },
    )


class _Owner(NamedTuple):
    """What makes a pod."""

    version: str
    kind: str
    name: str


def _pod(
    namespace: str, name: str, node: str, owner: _Owner, requests: Mapping[str, str]
) -> dict[str, Any]:
    """What is alike on every pod is shared between the objects: do not change it in place."""
    reference = {
        "apiVersion": owner.version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": str(identity("owner", owner.name)),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        **_POD["metadata"],
        "name": name,
        "namespace": namespace,
        "uid": str(identity("pod", namespace, name)),
        "labels": {"app.kubernetes.io/name": owner.name, "app.kubernetes.io/part-of": "platform"},
        "ownerReferences": [reference],
    }
    image = {"image": f"registry.example.com/accelerated-computing/{owner.name}:v1.2.3"}
    resources = {"limits": dict(requests), "requests": dict(requests)}
    spec = {
        **_POD["spec"],
        "containers": [{**_CONTAINER, **image, "resources": resources}],
        "nodeName": node,
        "serviceAccountName": owner.name,
    }
    status = {**_POD["status"], "containerStatuses": [{**_STATUS, **image}]}
    return {
        **_POD,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
