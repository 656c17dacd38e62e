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
GPUS, NICS = "gpu.nvidia.com", "dra.net"


def attributes(**facts: str | int | bool | None) -> Object:
    """Attributes by name; `k8s__` stands for the domain of the standard ones."""
    kinds = {bool: "bool", int: "int", str: "string"}
    named = {name.replace("k8s__", "resource.kubernetes.io/"): fact for name, fact in facts.items() if fact is not None}
    return {name: {kinds[type(fact)]: fact} for name, fact in named.items()}


def slice_of(node: str, driver: str, devices: list[Object], *, generation: int = 1) -> Object:
    """One that is a whole pool."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    metadata = {"name": f"{node}-{driver}-{generation}"}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def gpus_of(topology: NodeTopology) -> list[Object]:
    """The devices of NVIDIA's driver."""
    return [
        {
            "name": f"gpu-{gpu.index}",
            "attributes": attributes(
                type="gpu",
                uuid=gpu.uuid,
                productName=gpu.product,
                k8s__pciBusID=gpu.pci,
                k8s__pcieRoot=gpu.root,
                k8s__numaNode=gpu.numa,
            ),
        }
        for gpu in topology.gpus
    ]


def nics_of(topology: NodeTopology) -> list[Object]:
    """The devices of DRANET that carry RDMA."""
    return [
        {
            "name": nic.name.replace("_", "-"),
            "attributes": attributes(k8s__pcieRoot=nic.path[0], k8s__numaNode=nic.numa)
            | {"dra.net/rdma": {"bool": True}},
        }
        for nic in topology.nics
    ]


@functools.cache
def topology_of(name: str) -> NodeTopology:
    """What the agent finds on a node of the demo."""
    machine = next(node.machine for node in demo_cluster() if node.name == name)
    with TemporaryDirectory() as folder:
        return discovered(machine, Path(folder))


def slices_of(name: str, *, nics: bool = True) -> list[Object]:
    """All of a node of the demo."""
    topology = topology_of(name)
    found = [slice_of(name, GPUS, gpus_of(topology))]
    return [*found, slice_of(name, NICS, nics_of(topology))] if nics and topology.nics else found


def device_class(name: str, expression: str, **spec: Any) -> Object:
    """A DeviceClass with one selector."""
    selectors = [{"cel": {"expression": expression}}]
    body = {"selectors": selectors, **spec}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": body}


def claim(name: str, *requests: Object, constraints: tuple[Object, ...] = (), template: bool = False) -> Object:
    """A ResourceClaim in the namespace `train`, or a template of one."""
    spec: Object = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    metadata = {"name": name, "namespace": "train"}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": {"spec": spec} if template else spec}


def request(name: str, device_class_name: str, count: int = 1, *expressions: str) -> Object:
    """One request of a claim for so many devices of a class."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": device_class_name, "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly}
