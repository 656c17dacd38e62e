"""Node objects as a kubelet, a cloud controller and the NVIDIA operator leave them behind, in full size."""

import functools
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.simulator.machine import identity

_TIME: Final = "2025-01-15T08:00:00Z"
_HEARTBEAT: Final = "2025-01-15T09:30:00Z"
_IMAGES: Final = 50
"""The kubelet reports its 50 largest images by default (nodeStatusMaxImages)."""

_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "the network plugin is ready on this node"),
    ("KernelDeadlock", "False", "KernelHasNoDeadlock", "kernel has no deadlock"),
    ("ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
    ("CorruptDockerOverlay2", "False", "NoCorruptDockerOverlay2", "docker overlay2 is functioning properly"),
    ("FrequentKubeletRestart", "False", "NoFrequentKubeletRestart", "kubelet is functioning properly"),
    ("FrequentContainerdRestart", "False", "NoFrequentContainerdRestart", "containerd is functioning properly"),
    ("FrequentUnregisterNetDevice", "False", "NoFrequentUnregisterNetDevice", "node is functioning properly"),
    ("GpuDriverHealthy", "True", "DriverLoaded", "the GPU driver answers and all GPUs are healthy"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_FEATURES: Final = (
    *(f"cpu-cpuid.{flag}" for flag in ("ADX", "AESNI", "AMXBF16", "AMXTILE", "AVX2", "AVX512F", "AVX512VNNI", "FMA3")),
    *(f"cpu-cpuid.{flag}" for flag in ("FSRM", "HYPERVISOR", "IBRS", "MOVBE", "SHA", "STIBP", "VAES", "XSAVE")),
    "cpu-hardware_multithreading",
    "cpu-rdt.RDTCMT",
    "kernel-config.NO_HZ",
    "kernel-selinux.enabled",
    "memory-numa",
    "network-sriov.capable",
    "pci-10de.present",
    "rdma.available",
    "rdma.capable",
    "storage-nonrotationaldisk",
)


def node_object(name: str, labels: dict[str, str], gpus: int, *, uid: str) -> dict[str, Any]:
    """A Ready, schedulable Node of some 26 kB. `labels` are joined by those that feature discovery writes.

    Lists that are alike on every node are shared between the objects: do not change them in place.
    """
    resources = {
        "cpu": "224",
        "ephemeral-storage": "7500966528Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "2113462576Ki",
        label_keys.ALLOCATABLE_GPUS: str(gpus),
        "pods": "110",
    }
    every_label = labels | _feature_labels(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": _TIME,
            "labels": every_label,
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"{name}"}}',
                "nfd.node.kubernetes.io/feature-labels": ",".join(_feature_labels(gpus)),
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": _managed_fields(tuple(every_label)),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": f"example://{uid}"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "allocatable": resources,
            "capacity": resources,
            "conditions": _conditions(),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": _images(),
            "nodeInfo": {
                "architecture": labels.get("kubernetes.io/arch", "amd64"),
                "bootID": uid,
                "containerRuntimeVersion": "containerd://2.0.2",
                "kernelVersion": "6.8.0-51-generic",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.33.1",
                "machineID": uid.replace("-", ""),
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.1 LTS",
                "systemUUID": uid,
            },
        },
    }


@functools.cache
def _feature_labels(gpus: int) -> dict[str, str]:
    return {f"feature.node.kubernetes.io/{feature}": "true" for feature in _FEATURES} | {
        "nvidia.com/cuda.driver-version.full": "570.86.15",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.driver": "pre-installed",
        label_keys.GPU_PRESENT: "true",
        "nvidia.com/mig.strategy": "single",
    }


@functools.cache
def _conditions() -> list[dict[str, str]]:
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": _HEARTBEAT,
            "lastTransitionTime": _TIME,
        }
        for kind, status, reason, message in _CONDITIONS
    ]


@functools.cache
def _images() -> list[dict[str, Any]]:
    def image(number: int) -> dict[str, Any]:
        repository = f"registry.example.com/accelerated-computing/platform/releases/component-{number:02}"
        digest = "".join(identity("image", number, half).hex for half in range(2))
        return {
            "names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.0-ubuntu24.04"],
            "sizeBytes": 4_000_000_000 - number * 71_234_567,
        }

    return [image(number) for number in range(_IMAGES)]


@functools.cache
def _managed_fields(labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Who owns what: the largest part of a real Node's metadata."""
    status_fields: dict[str, Any] = {
        part: {".": {}} | {f"f:{name}": {} for name in names}
        for part, names in {
            "f:allocatable": ("cpu", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "memory", "pods"),
            "f:capacity": ("cpu", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "memory", "pods"),
            "f:nodeInfo": ("architecture", "bootID", "kernelVersion", "kubeletVersion", "machineID", "systemUUID"),
        }.items()
    }
    conditions: dict[str, Any] = {
        f'k:{{"type":"{kind}"}}': {".": {}}
        | {f"f:{name}": {} for name in ("lastHeartbeatTime", "lastTransitionTime", "message", "reason", "status")}
        for kind, *_ in _CONDITIONS
    }
    writers = {
        "kubelet": [label for label in labels if "kubernetes.io/" in label and not label.startswith("feature.")],
        "nfd-master": [label for label in labels if label.startswith(("feature.", "nvidia.com/"))],
        "cloud-controller-manager": [label for label in labels if label.startswith(("topology.", "cloud."))],
        "toposcope-agent": [label for label in labels if label.startswith(label_keys.PREFIX)],
    }
    entries: list[dict[str, Any]] = [
        {
            "manager": manager,
            "operation": "Apply" if manager == "toposcope-agent" else "Update",
            "apiVersion": "v1",
            "time": _TIME,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}} | {f"f:{label}": {} for label in owned}}},
        }
        for manager, owned in writers.items()
        if owned
    ]
    status = {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": _HEARTBEAT,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": status_fields | {"f:conditions": conditions, "f:images": {}}},
        "subresource": "status",
    }
    return [*entries, status]
