"""GPUs counted in columns are the GPUs counted node by node."""

import random
from collections import Counter

import pytest

from tests.support.cluster import gpu_node
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.topology.hierarchy import LevelSize, level_sizes, level_value
from toposcope.topology.levels import Level
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table

LEVELS = (
    Level("zone", "topology.kubernetes.io/zone"),
    Level("block", "cloud.google.com/gce-topology-block"),
    Level("rack", "cloud.google.com/gce-topology-subblock"),
    Level("nvlink-domain", NVLINK_DOMAIN),
    Level("host", HOSTNAME),
)


def plain_sizes(levels: tuple[Level, ...], nodes: list[NodeFacts]) -> tuple[LevelSize, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        domains: Counter[tuple[str | None, ...]] = Counter()
        for node in nodes:
            if level_value(node, level.key) is not None:
                domains[tuple(level_value(node, above.key) for above in levels[:depth])] += node.hardware.gpus
        found.append(LevelSize(level, domains.total(), max(domains.values(), default=0)))
    return tuple(found)


def any_nodes(rng: random.Random, count: int) -> list[NodeFacts]:
    gaps, chaos = rng.choice((0.0, 0.1)), rng.choice((0.0, 0.0, 0.05, 0.5))
    wide = rng.choice((1, 3))
    nodes = []
    for i in range(count):
        labels: dict[str, str | None] = {"zone": f"z{i // 60}", "block": f"b{i // 20}", "rack": f"r{i // (2 * wide)}"}
        labels |= {NVLINK_DOMAIN: f"d{i // wide}"} if wide > 1 else {}
        for key in ("block", "rack", NVLINK_DOMAIN):
            labels |= {key: rng.choice(("x", "y", "no-topology"))} if rng.random() < chaos else {}
            labels |= {key: None} if rng.random() < gaps else {}
        labels |= {GPUS: rng.choice(("8", "8", "4", "16", "", "eight", None))} if rng.random() < gaps else {}
        nodes.append(gpu_node(f"n{i}", labels))
    rng.shuffle(nodes)
    return nodes


@pytest.mark.parametrize("seed", range(20))
def test_sizes_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    for count in (0, 1, 2, 7, 50, 1500):
        nodes = any_nodes(rng, count)
        levels = rng.choice((LEVELS, LEVELS[1:], LEVELS[::2], LEVELS[:3]))
        assert level_sizes(levels, Table(nodes)) == plain_sizes(levels, nodes)
