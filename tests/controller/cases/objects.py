"""Nodes and workloads of Grove's and Kueue's cases."""

from typing import Final

from tests.controller.cases.model import Machine, Workload
from tests.controller.cases.world import World
from toposcope.api.label_keys import HOSTNAME

ZONE, BLOCK, RACK = "kubernetes.io/zone", "kubernetes.io/block", "kubernetes.io/rack"
KUEUE_BLOCK, KUEUE_RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
THREE: Final = (("zone", ZONE), ("rack", RACK), ("host", HOSTNAME))
TWO: Final = (("zone", ZONE), ("host", HOSTNAME))


def cluster(count: int) -> tuple[Machine, ...]:
    """So many of Grove's nodes, which do not nest: racks of 7 nodes, blocks of 20, zones of 28."""
    return tuple(
        Machine(
            f"worker-{i:02}",
            {ZONE: f"zone-{i // 28}", BLOCK: f"block-{i // 20}", RACK: f"rack-{i // 7}", HOSTNAME: f"worker-{i:02}"},
        )
        for i in range(count)
    )


def kueue_node(name: str, block: str, rack: str) -> Machine:
    return Machine(name, {KUEUE_BLOCK: block, KUEUE_RACK: rack, HOSTNAME: name})


def label_racks(at: World, rack: str | None) -> None:
    """Give the two nodes of `cluster(2)` a rack, or take it away."""
    for node in ("worker-00", "worker-01"):
        at.label(node, **{RACK: rack})


ASKS_RACK: Final = Workload(
    "PodCliqueSet",
    "llm",
    {
        "template": {
            "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}},
            "cliques": [{"name": "worker"}],
        }
    },
)
