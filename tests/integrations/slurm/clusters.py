"""Clusters for tests of Slurm's topologies."""

import random

from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table

LEVELS = (
    Level("zone", ZONE),
    Level("block", BLOCK),
    Level("rack", RACK),
    Level("nvlink-domain", NVLINK_DOMAIN),
    Level("host", HOSTNAME),
)
TO_BLOCKS = LEVELS[:2]
TO_RACKS = LEVELS[:3]


def node(name: str, block: str, rack: str | None, *, zone: str = "z", nvlink_domain: str = "") -> NodeFacts:
    """A node, alone in its NVLink domain unless one is given."""
    labels = {"zone": zone, "block": block, "rack": rack, NVLINK_DOMAIN: nvlink_domain or name}
    return gpu_node(name, labels)


def two_blocks() -> Table:
    """Two blocks of two racks of three nodes."""
    return Table(node(f"n{i:02}", f"b{i // 6}", f"r{i // 3}") for i in range(12))


def random_cluster(seed: int) -> Table:
    """Names of racks that occur in several blocks, values that are node names, long values, missing labels."""
    rng = random.Random(seed)
    long = "x" * 60
    blocks = ["b1", "b2", "root", f"{long}-b"]
    racks = ["r1", "r2", "n1", long, None]
    nodes = []
    for number in range(rng.randint(1, 40)):
        zone = rng.choice(["z0", "z1"])
        block = rng.choice(blocks)
        rack = rng.choice(racks)
        clique = rng.randint(0, 3)
        nvlink_domain = rng.choice(["b1", f"clique-{clique}"])
        nodes.append(node(f"n{number}", block, rack, zone=zone, nvlink_domain=nvlink_domain))
    return Table(nodes)
