"""ResourceSlices of simulated machines, as NVIDIA's DRA driver and DRANET publish them."""

import functools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.machines import discovered
from tests.support.saved import Object
from toposcope.hardware.topology import NodeTopology
from toposcope.simulator.cluster import demo_cluster

API = "resource.k8s.io/v1"
GPUS = "gpu.nvidia.com"
NICS = "dra.net"

_ATTRIBUTE_TYPES = {bool: "bool", int: "int", str: "string"}


def attributes(**facts: str | int | bool | None) -> Object:
    """Attributes by name; `k8s__` stands for the domain of the standard ones. None leaves one out."""
    by_name = {}
    for name, fact in facts.items():
        if fact is None:
            continue
        full_name = name.replace("k8s__", "resource.kubernetes.io/")
        attribute_type = _ATTRIBUTE_TYPES[type(fact)]
        by_name[full_name] = {attribute_type: fact}
    return by_name


def slice_of(node: str, driver: str, devices: list[Object], *, generation: int = 1) -> Object:
    """A slice that is a whole pool."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}-{generation}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {
                "name": node,
                "generation": generation,
                "resourceSliceCount": 1,
            },
            "devices": devices,
        },
    }


def gpus_of(topology: NodeTopology) -> list[Object]:
    """The devices of NVIDIA's driver."""
    devices = []
    for gpu in topology.gpus:
        described = attributes(
            type="gpu",
            uuid=gpu.uuid,
            productName=gpu.product,
            k8s__pciBusID=gpu.pci,
            k8s__pcieRoot=gpu.root,
            k8s__numaNode=gpu.numa,
        )
        devices.append({"name": f"gpu-{gpu.index}", "attributes": described})
    return devices


def nics_of(topology: NodeTopology) -> list[Object]:
    """The devices of DRANET that carry RDMA."""
    devices = []
    for nic in topology.nics:
        described = attributes(k8s__pcieRoot=nic.path[0], k8s__numaNode=nic.numa)
        described["dra.net/rdma"] = {"bool": True}
        devices.append({"name": nic.name.replace("_", "-"), "attributes": described})
    return devices


@functools.cache
def topology_of(name: str) -> NodeTopology:
    """What the agent finds on a node of the demo."""
    node = next(node for node in demo_cluster() if node.name == name)
    with TemporaryDirectory() as folder:
        return discovered(node.machine, Path(folder))


def slices_of(name: str, *, has_nics: bool = True) -> list[Object]:
    """All slices of a node of the demo."""
    topology = topology_of(name)
    slices = [slice_of(name, GPUS, gpus_of(topology))]
    if has_nics and topology.nics:
        slices.append(slice_of(name, NICS, nics_of(topology)))
    return slices


def device_class(name: str, expression: str, **spec: Any) -> Object:
    """A DeviceClass with one selector."""
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": _selectors(expression), **spec},
    }


def claim(name: str, *requests: Object, constraints: tuple[Object, ...] = (), is_template: bool = False) -> Object:
    """A ResourceClaim in the namespace `train`, or a template of one."""
    kind = "ResourceClaim"
    spec: Object = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    if is_template:
        kind = "ResourceClaimTemplate"
        spec = {"spec": spec}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "namespace": "train"},
        "spec": spec,
    }


def request(name: str, device_class_name: str, count: int = 1, *expressions: str) -> Object:
    """One request of a claim for so many devices of a class."""
    return {
        "name": name,
        "exactly": {
            "deviceClassName": device_class_name,
            "count": count,
            "selectors": _selectors(*expressions),
        },
    }


def _selectors(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]
