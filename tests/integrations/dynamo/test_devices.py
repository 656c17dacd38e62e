"""Fields of a component that decide which devices its pods get: `device`, GPU memory service, failover."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read
from tests.support.documents import Edits, document
from toposcope.integrations.dynamo.volumes import claimed_volumes, with_volumes
from toposcope.integrations.framework.constraints import ClaimRef, Pods, pods_in
from toposcope.integrations.framework.document import Field

pytestmark = pytest.mark.regression

GPU = "nvidia.com/gpu"
DISCOVERY = "nvidia.com/dynamo-kube-discovery-mode"
SERVICE = "spec.services.prefill"
COMPONENT = "spec.components[1]"


def read_dynamo(name: str, edits: Edits) -> Read:
    without_constraints: Edits = {"spec.topologyConstraint": None}
    if name == "v1alpha1":
        without_constraints["spec.services.decode.topologyConstraint"] = None
    return read("Dynamo", document(f"dynamo/{name}", {**without_constraints, **edits}), CLUSTER)


def prefill(answer: Read) -> Pods:
    """The pods of the component prefill."""
    assert answer.reading is not None
    assert answer.reading.workload is not None
    (pods,) = [pods for pods in pods_in(answer.reading.workload.groups) if pods.name == "prefill"]
    return pods


def worker(*, cpu: str = "60", gpus: str = "4", **fields: Any) -> dict[str, Any]:
    """A service of v1alpha1 that is a worker."""
    limits = {"cpu": cpu, "gpu": gpus}
    return {"componentType": "worker", "replicas": 1, "resources": {"limits": limits}, **fields}


def test_device_is_merged_into_the_pod() -> None:
    device = {
        "resources": {"amd.com/gpu": "8", "cpu": "2"},
        "nodeSelector": {"pool": "mi300", "role": "device"},
        "tolerations": [{"key": "amd.com/gpu", "operator": "Exists"}],
    }
    pod = {
        "nodeSelector": {"role": "pod"},
        "containers": [{"name": "side", "resources": {"requests": {"cpu": "1"}}}, {"name": "main"}],
    }
    answer = read_dynamo(
        "v1beta1",
        {f"{COMPONENT}.device": device, f"{COMPONENT}.podTemplate": {"spec": pod}, f"{COMPONENT}.replicas": 1},
    )
    pods = prefill(answer)
    assert answer.findings == []
    assert pods.requests == (("amd.com/gpu", 8), ("cpu", 3000))
    assert pods.node_filter.selector == (("pool", "mi300"), ("role", "pod"))
    assert [toleration.key for toleration in pods.node_filter.tolerations] == ["amd.com/gpu"]


def test_device_of_a_service_is_merged_into_the_pod() -> None:
    edits = {SERVICE: {"replicas": 1, "device": {"resources": {"amd.com/gpu": "8"}}}}
    assert prefill(read_dynamo("v1alpha1", edits)).requests == (("amd.com/gpu", 8),)


def test_memory_service_claims_devices_instead_of_requesting_gpus() -> None:
    answer = read_dynamo("v1alpha1", {SERVICE: worker(gpuMemoryService={"enabled": True})})
    pods = prefill(answer)
    assert answer.findings == []
    assert pods.requests == (("cpu", 60000),)
    assert pods.claims == (
        ClaimRef("ResourceClaimTemplate", "ml", "llm-prefill-gpu", device_class="gpu.nvidia.com", devices=4),
    )
    assert [toleration.key for toleration in pods.node_filter.tolerations] == [GPU]


def test_memory_service_that_is_off_changes_nothing() -> None:
    pods = prefill(read_dynamo("v1alpha1", {SERVICE: worker(gpuMemoryService={"enabled": False})}))
    assert pods.requests == (("cpu", 60000), (GPU, 4))
    assert pods.claims == ()


def test_failover_runs_the_main_container_twice() -> None:
    service = worker(gpuMemoryService={"enabled": True}, failover={"enabled": True})
    answer = read_dynamo("v1alpha1", {SERVICE: service, "metadata.annotations": {DISCOVERY: "container"}})
    assert answer.findings == []
    assert prefill(answer).requests == (("cpu", 120000),)


def test_failover_of_a_component_runs_its_main_container_twice() -> None:
    main = {"name": "main", "resources": {"limits": {GPU: "2", "cpu": "10"}}}
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.annotations": {DISCOVERY: "container"},
            f"{COMPONENT}.type": "prefill",
            f"{COMPONENT}.replicas": 1,
            f"{COMPONENT}.podTemplate.spec.containers": [
                main,
                {"name": "side", "resources": {"requests": {"cpu": "1"}}},
            ],
            f"{COMPONENT}.experimental": {"gpuMemoryService": {"deviceClassName": "half.example.com"}, "failover": {}},
        },
    )
    pods = prefill(answer)
    assert answer.findings == []
    assert pods.requests == (("cpu", 21000),)
    assert [(claim.device_class, claim.devices) for claim in pods.claims] == [("half.example.com", 2)]


def test_failover_without_the_memory_service_is_refused() -> None:
    answer = read_dynamo("v1alpha1", {SERVICE: worker(failover={"enabled": True})})
    assert answer.findings == [
        error(
            "dynamo/gpu-memory-service",
            f"{SERVICE}.failover",
            "intraPod failover requires gpuMemoryService to be set",
            fix="also set gpuMemoryService",
        )
    ]


def test_failover_in_another_mode_is_refused() -> None:
    service = worker(
        gpuMemoryService={"enabled": True, "mode": "interPod"}, failover={"enabled": True, "mode": "intraPod"}
    )
    answer = read_dynamo("v1alpha1", {SERVICE: service, "metadata.annotations": {DISCOVERY: "container"}})
    assert answer.findings == [
        error(
            "dynamo/gpu-memory-service",
            f"{SERVICE}.failover",
            "failover.mode must match gpuMemoryService.mode",
            fix="use the same mode",
        )
    ]


def test_failover_without_discovery_of_containers_is_refused() -> None:
    service = worker(gpuMemoryService={"enabled": True}, failover={"enabled": True})
    answer = read_dynamo("v1alpha1", {SERVICE: service})
    assert answer.findings == [
        error(
            "dynamo/gpu-memory-service",
            f"metadata.annotations[{DISCOVERY}]",
            f"intraPod failover requires the annotation {DISCOVERY}: container",
            fix="set it on the DynamoGraphDeployment",
        )
    ]


def test_memory_service_of_no_worker_and_without_gpus_is_refused() -> None:
    service = {"componentType": "frontend", "gpuMemoryService": {"enabled": True}}
    answer = read_dynamo("v1alpha1", {SERVICE: service})
    assert answer.findings == [
        error(
            "dynamo/gpu-memory-service",
            f"{SERVICE}.gpuMemoryService",
            "GPU memory service is only supported for worker components (type must be worker, prefill, or decode)",
            fix="remove it, or set the type",
        ),
        error(
            "dynamo/gpu-memory-service",
            f"{SERVICE}.gpuMemoryService",
            "GPU memory service requires a limit of nvidia.com/gpu >= 1",
            fix="give the main container GPUs",
        ),
    ]


def test_claims_that_exist_are_volumes_of_the_pods() -> None:
    service = worker(volumeMounts=[{"name": "models", "mountPoint": "/m"}, {"name": "new", "mountPoint": "/n"}])
    pvcs = [{"name": "models", "create": False}, {"name": "new", "create": True}]
    component = Field({"spec": {"pvcs": pvcs, "services": {"w": service}}}) / "spec" / "services" / "w"
    assert claimed_volumes(component) == ["models"]
    volumes = with_volumes(component / "extraPodSpec", ["models"]) / "volumes"
    assert volumes.value == [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
