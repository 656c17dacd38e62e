"""GPUs of ResourceSlices, and the claims that hold them."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered
from tests.support.saved import saved
from tests.support.slices import gpus_of, slice_of
from toposcope.agent.slices import seen_gpus
from toposcope.integrations.dra.audit import disagreements
from toposcope.integrations.dra.devices import NodeDevices, inventory
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.snapshot.files import load_files

API = "resource.k8s.io/v1"
NVIDIA = "gpu.nvidia.com"
HELD = {"devices": {"results": [{"request": "r", "driver": NVIDIA, "pool": "a", "device": "gpu-0"}]}}


def a_node(name: str, **allocatable: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "64", **allocatable}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def gpu_slice(node: str, count: int, *, generation: int = 2, version: str = "v1") -> dict[str, Any]:
    """A ResourceSlice with so many GPUs, and a MIG device."""
    devices: list[dict[str, Any]] = [{"name": "mig", "attributes": {"type": {"string": "mig"}}}]
    for number in range(count):
        attributes = {"type": {"string": "gpu"}, "uuid": {"string": f"{node}-{number}"}}
        devices.append({"name": f"gpu-{number}", "attributes": attributes})
    if version == "v1beta1":
        devices = [{"name": device["name"], "basic": {"attributes": device["attributes"]}} for device in devices]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}"},
        "spec": {"driver": NVIDIA, "nodeName": node, "pool": pool, "devices": devices},
    }


@pytest.mark.regression
def test_gpus_of_slices_are_counted_once_and_held_ones_are_not_free(tmp_path: Path) -> None:
    claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "c"}, "status": {"allocation": HELD}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "b"}, "status": {}}
    objects = [
        a_node("a"),
        a_node("b"),
        a_node("plugin", **{"nvidia.com/gpu": "8"}),
        gpu_slice("a", 4),
        gpu_slice("a", 6, generation=1),
        gpu_slice("b", 4, version="v1beta1"),
        gpu_slice("plugin", 8),
        claim,
        pod,
    ]
    file = tmp_path / "cluster.json"
    file.write_text(saved(objects))
    snapshot = load_files([str(file)])
    gpus = {node.name: node.gpus for node in snapshot.nodes}
    assert gpus == {"a": 4, "b": 4, "plugin": 8}
    free = {node.name: snapshot.free_gpus(node) for node in snapshot.nodes}
    assert free == {"a": 3, "b": 4, "plugin": 8}
    assert all(node.is_without_agent for node in snapshot.nodes)


def node_devices(devices: list[Any]) -> NodeDevices:
    return inventory([slice_of("n", NVIDIA, devices)]).nodes["n"]


@pytest.mark.parametrize("profile", profile_names())
def test_driver_that_reads_the_same_files_agrees(profile: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    assert disagreements(seen_gpus(topology), node_devices(gpus_of(topology))) == ()


PCI = "resource.kubernetes.io/pciBusID"
ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"
UUID = "GPU-0bd4e22b-0794-4f75-8467-ee6884e0da8c"
"""Of GPU 1 of the machine below."""


@pytest.mark.regression
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="nothing"),
        pytest.param({PCI: {"string": "00000000:41:00.0"}}, id="address-as-nvml-writes-it"),
        pytest.param({"productName": None}, id="no-product"),
        pytest.param({NUMA: {"ints": [1, 0]}}, id="one-of-several-numa-nodes"),
        pytest.param({"type": {"string": "mig"}, "parentUUID": {"string": UUID}}, id="its-parts-stand-for-it"),
        pytest.param({"type": {"string": "vfio"}, "uuid": None}, id="virtual-machine-has-it"),
        pytest.param({"uuid": {"strings": ["GPU-x", UUID]}}, id="one-of-several-uuids"),
        pytest.param({ROOT: {"strings": ["pci0000:00", "pci0000:40"]}}, id="one-of-several-roots"),
        pytest.param(
            {"type": {"string": "mig"}, "parentUUID": {"strings": ["GPU-x", UUID]}}, id="parts-of-several-gpus"
        ),
    ],
)
def test_driver_agrees_with_the_agent(change: dict[str, Any], tmp_path: Path) -> None:
    assert disagreements_about_gpu_1(change, tmp_path) == []


@pytest.mark.regression
@pytest.mark.parametrize(
    ("change", "disagreement"),
    [
        pytest.param(
            {PCI: {"string": "0000:AF:00.0"}},
            "has pciBusID 0000:af:00.0, but sysfs has 0000:41:00.0",
            id="another-address",
        ),
        pytest.param(
            {PCI: {"string": "nonsense"}}, "has pciBusID nonsense, but sysfs has 0000:41:00.0", id="no-address"
        ),
        pytest.param(
            {PCI: None, "pcieBusID": {"string": "0000:af:00.0"}},
            "has pciBusID 0000:af:00.0, but sysfs has 0000:41:00.0",
            id="by-the-older-name",
        ),
        pytest.param({"uuid": {"string": "GPU-x"}}, f"has uuid GPU-x, but NVML has {UUID}", id="another-uuid"),
        pytest.param(
            {"productName": {"string": "NVIDIA L40"}},
            "has productName NVIDIA-L40, but NVML has NVIDIA-L40S",
            id="another-product",
        ),
        pytest.param(
            {ROOT: {"string": "pci0000:00"}},
            "has pcieRoot pci0000:00, but sysfs has pci0000:40",
            id="another-root",
        ),
        pytest.param(
            {"uuid": {"strings": ["GPU-x", "GPU-y"]}},
            f"has uuid ['GPU-x', 'GPU-y'], but NVML has {UUID}",
            id="none-of-several-uuids",
        ),
        pytest.param(
            {"uuid": {"strings": [["GPU-x"], {"a": 1}]}, "productName": {"strings": [{}]}},
            f"has uuid [], but NVML has {UUID}",
            id="lists-that-hold-anything",
        ),
        pytest.param({NUMA: {"int": 1}}, "has numaNode 1, but sysfs has 0", id="another-numa-node"),
        pytest.param({NUMA: {"ints": [2, 3]}}, "has numaNode [2, 3], but sysfs has 0", id="none-of-several-numa-nodes"),
    ],
)
def test_driver_that_disagrees_is_reported(change: dict[str, Any], disagreement: str, tmp_path: Path) -> None:
    assert disagreements_about_gpu_1(change, tmp_path) == [f"GPU 1: gpu-1 of gpu.nvidia.com {disagreement}"]


@pytest.mark.regression
def test_gpu_that_the_driver_does_not_publish_is_reported(tmp_path: Path) -> None:
    only_a_part = {"type": {"string": "mig"}, PCI: None}
    assert disagreements_about_gpu_1(only_a_part, tmp_path) == [
        "GPU 1 (0000:41:00.0) is in no ResourceSlice of gpu.nvidia.com"
    ]


def disagreements_about_gpu_1(change: dict[str, Any], folder: Path) -> list[str]:
    """What a driver with other attributes for GPU 1 disagrees about; None: it publishes no such attribute."""
    topology = discovered(load_profile("l40s-4"), folder)
    devices = gpus_of(topology)
    attributes = {**devices[1]["attributes"], **change}
    for name in change:
        if attributes[name] is None:
            del attributes[name]
    devices[1]["attributes"] = attributes
    return list(disagreements(seen_gpus(topology), node_devices(devices)))
