"""Small clusters for tests of what follows from a snapshot."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.saved import cluster_topology
from toposcope.api import label_keys
from toposcope.api.cluster_topology import read
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import Scope, select_scope

DECODE = Decoder()


def view(
    name: str,
    rack: str | None = "r1",
    *,
    block: str = "b1",
    gpus: int = 8,
    state: str = "ok",
    ready: bool = True,
    cordoned: bool = False,
    taints: Sequence[Mapping[str, str]] = (),
    labels: Mapping[str, str] | None = None,
) -> NodeView:
    """A labelled Ready node."""
    all_labels = {
        label_keys.HOSTNAME: name,
        ZONE: "z",
        BLOCK: block,
        label_keys.NVLINK_DOMAIN: name,
        label_keys.GPUS: str(gpus),
        label_keys.STATE: state,
    }
    if rack:
        all_labels[RACK] = rack
    all_labels |= labels or {}
    document = {
        "metadata": {"name": name, "uid": name, "labels": all_labels},
        "spec": {"unschedulable": cordoned, "taints": list(taints)},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "100", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }
    return node_of(document)


def names(found: Iterable[NodeView | PodView]) -> list[str]:
    """The names of nodes or pods, in their order."""
    return [each.name for each in found]


def node_of(document: Mapping[str, Any]) -> NodeView:
    """A Node object as a snapshot keeps it."""
    return DECODE.node(lambda kind: msgspec.convert(document, kind))


def pod_of(document: Mapping[str, Any]) -> PodView | None:
    """A Pod object as a snapshot keeps it."""
    return DECODE.pod(lambda kind: msgspec.convert(document, kind))


def snapshot(
    nodes: Sequence[NodeView], pods: Sequence[PodView | None] | None = (), *topologies: dict[str, Any]
) -> Snapshot:
    """A cluster of these, with one ClusterTopology unless others are given; `pods=None`: they are unknown."""
    read_topologies = tuple(map(read, topologies or [cluster_topology()]))
    in_order = tuple(sorted(nodes, key=lambda node: node.name))
    if pods is None:
        return Snapshot("a test", None, in_order, None, read_topologies)
    running = tuple(pod for pod in pods if pod)
    return Snapshot("a test", None, in_order, running, read_topologies)


def scoped(*nodes: NodeView, **spec: Any) -> Scope:
    """The scope of a ClusterTopology with this spec over these nodes."""
    return select_scope(snapshot(nodes, (), cluster_topology(**spec)))
