"""Clusters as kubectl would have saved them: the demo's machines as their agents describe them, and pods on them."""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from tests.support.machines import probed
from toposcope.agent.describe import describe
from toposcope.simulator.cluster import SimulatedNode, demo_cluster
from toposcope.simulator.faults import MachineFaults

Object = dict[str, Any]

_LINK_OF_GPU_1_DOWN = MachineFaults(links_down={1: frozenset({3})})


@dataclass(frozen=True)
class _AgentKeys:
    """What an agent writes on its Node."""

    labels: dict[str, str]
    annotations: dict[str, str]


@functools.cache
def _described(name: str, *, is_faulty: bool) -> _AgentKeys:
    node = next(machine for machine in _machines() if machine.name == name)
    faults = _LINK_OF_GPU_1_DOWN if is_faulty else None
    with TemporaryDirectory() as folder:
        raw = probed(node.machine, Path(folder), faults)
    description = describe(raw, name)
    labels = {key: str(value) for key, value in description.labels.by_key.items()}
    return _AgentKeys(labels, dict(description.annotations))


def demo_nodes(*, most: int = 30, faulty: tuple[str, ...] = (), of: Collection[str] | None = None) -> list[Object]:
    """The first Node objects of the demo, or those `of` these names; on `faulty` ones a link of GPU 1 is down."""
    nodes = []
    for machine in _machines()[:most]:
        if of is None or machine.name in of:
            nodes.append(_node(machine, is_faulty=machine.name in faulty))
    return nodes


@functools.cache
def _machines() -> tuple[SimulatedNode, ...]:
    return demo_cluster()


def _node(machine: SimulatedNode, *, is_faulty: bool) -> Object:
    keys = _described(machine.name, is_faulty=is_faulty)
    node = machine.node_object()
    metadata = node["metadata"]
    metadata = metadata | {
        "labels": metadata["labels"] | keys.labels,
        "annotations": metadata["annotations"] | keys.annotations,
    }
    return node | {"metadata": metadata}


def pod(name: str, node: str | None, gpus: int, *, phase: str = "Running", **spec: Any) -> Object:
    """A pod in the namespace `train` that asks for whole GPUs."""
    container = {
        "name": "main",
        "image": "example.invalid/train",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    if node:
        spec = {"nodeName": node, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "train"},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def cluster_topology(status: Object | None = None, **spec: Any) -> Object:
    """A ClusterTopology called `cluster`."""
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "cluster", "uid": "1", "generation": 1},
        "spec": spec,
        "status": status or {},
    }


def saved(items: list[Object]) -> str:
    """As `kubectl get -o json` prints several objects."""
    document = {
        "apiVersion": "v1",
        "items": items,
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    text = msgspec.json.format(msgspec.json.encode(document), indent=4)
    return text.decode() + "\n"
