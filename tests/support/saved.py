"""Clusters as kubectl would have saved them: the demo's machines as their agents describe them, and pods on them."""

import functools
import json
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.machines import probed
from toposcope.agent.describe import describe
from toposcope.simulator.cluster import SimulatedNode, demo_cluster
from toposcope.simulator.faults import Faults

Object = dict[str, Any]


@functools.cache
def _described(name: str, *, faulty: bool) -> tuple[dict[str, str], dict[str, str]]:
    node = next(machine for machine in _machines() if machine.name == name)
    faults = Faults(links_down={1: frozenset({3})}) if faulty else None
    with TemporaryDirectory() as folder:
        found = describe(probed(node.machine, Path(folder), faults), name)
    return {key: str(value) for key, value in found.labels.known.items()}, dict(found.annotations)


def demo_nodes(*, most: int = 30, faulty: tuple[str, ...] = (), of: Collection[str] | None = None) -> list[Object]:
    """The first Node objects of the demo, or those `of` these names; on `faulty` ones a link of GPU 1 is down."""
    machines = _machines()[:most]
    return [_node(node, faulty=node.name in faulty) for node in machines if of is None or node.name in of]


@functools.cache
def _machines() -> tuple[SimulatedNode, ...]:
    return demo_cluster()


def _node(node: SimulatedNode, *, faulty: bool) -> Object:
    labels, annotations = _described(node.name, faulty=faulty)
    found = node.node_object()
    about = found["metadata"]
    ours = {"labels": about["labels"] | labels, "annotations": about["annotations"] | annotations}
    return found | {"metadata": about | ours}


def pod(name: str, node: str | None, gpus: int, *, phase: str = "Running", **spec: Any) -> Object:
    """A pod in the namespace `train` that asks for whole GPUs."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "main", "image": "example.invalid/train", "resources": limits}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "train"}}
    where = {"nodeName": node} if node else {}
    return {**head, "spec": {"containers": [container], **where, **spec}, "status": {"phase": phase}}


def cluster_topology(status: Object | None = None, **spec: Any) -> Object:
    """A ClusterTopology called `cluster`."""
    metadata = {"name": "cluster", "uid": "1", "generation": 1}
    head = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": metadata}
    return {**head, "spec": spec, "status": status or {}}


def saved(items: list[Object]) -> str:
    """As `kubectl get -o json` prints several objects."""
    document = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(document, indent=4) + "\n"
