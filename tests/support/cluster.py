"""Nodes and topologies as plain facts, for tests of what the controller concludes from them."""

import uuid
from collections.abc import Mapping
from typing import Any

from toposcope.api.cluster_topology import Topology, read
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.topology.node import Hardware, NodeFacts, node_facts, spans_nodes

ZONE = "topology.kubernetes.io/zone"
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
_SHORT = {"zone": ZONE, "block": BLOCK, "rack": RACK}


def gpu_node(
    name: str,
    labels: Mapping[str, str | None] | None = None,
    *,
    ready: bool = True,
    schedulable: bool = True,
    chassis: str = "",
    state: str = "ok",
) -> NodeFacts:
    """A node of 8 GPUs with an agent; `zone`, `block` and `rack` are short for their keys, None leaves one out."""
    found: dict[str, str | None] = {
        GPUS: "8",
        NVLINK_DOMAIN: name,
        HOSTNAME: name,
        "zone": "z",
        "block": "b",
        "rack": "r",
    }
    found |= labels or {}
    kept = {_SHORT.get(key, key): value for key, value in found.items() if value is not None}
    domain = kept.get(NVLINK_DOMAIN)
    gpus = kept.get(GPUS, "")
    hardware = Hardware(
        domain if domain and spans_nodes(domain) else None, chassis, state, int(gpus) if gpus.isdigit() else 8
    )
    return node_facts(name, f"uid-{name}", tuple(kept), tuple(kept.values()), ready, schedulable, 8, hardware)


def fabric(number: int, clique: int = 1) -> str:
    """An NVLink domain that spans nodes: the fabric of that number, and a clique in it."""
    return f"{uuid.UUID(int=number)}.{clique}"


def topology(status: dict[str, Any] | None = None, **spec: Any) -> Topology:
    """A ClusterTopology called `cluster` with this spec and status."""
    metadata = {"name": "cluster", "uid": "uid-cluster", "generation": 3}
    return read({"metadata": metadata, "spec": spec, "status": status or {}})
