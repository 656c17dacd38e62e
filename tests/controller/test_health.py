"""Faults of the machines under a topology in any order and number; test_assess_fabric.py has each by itself."""

import random
from collections import Counter

import pytest
from tests.support.cluster import History, fabric, gpu_node
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.health import MOST_VALUES
from toposcope.hierarchy.node import NodeFacts


def tray(place: int, rack: int, number: int) -> NodeFacts:
    """A tray in a rack with the fabric of a number; each fifth is degraded."""
    labels = {"rack": f"r{rack}", NVLINK_DOMAIN: fabric(number)}
    return gpu_node(
        f"r{rack}-t{place}",
        labels,
        chassis=f"c{rack}",
        state="ok" if place % 5 else "degraded",
    )


def racks() -> list[NodeFacts]:
    """Three: the later half of the first two is in another fabric."""
    nodes = []
    for rack, other_fabric in {1: 8, 2: 9, 3: 3}.items():
        for place in range(18):
            number = rack if place < 9 else other_fabric
            nodes.append(tray(place, rack, number))
    return nodes


def test_the_order_of_nodes_changes_no_status() -> None:
    nodes = racks()
    statuses = []
    for seed in range(5):
        random.Random(seed).shuffle(nodes)
        history = History()
        history.look(nodes)
        statuses.append(history.status)
    assert statuses[0]["fabric"]["splitDomains"] == 2
    for status in statuses:
        assert status == statuses[0]


def any_cluster(rng: random.Random, *, blocks_cross: bool) -> list[NodeFacts]:
    """Racks of four in blocks of sixteen; where blocks cross, some nodes are in block x."""
    nodes = []
    for i in range(300):
        block = f"b{i // 16}"
        if blocks_cross:
            block = rng.choice(("x", block))
        labels = {"rack": f"r{i // 4}", "block": block}
        state = rng.choice(("ok", "ok", "degraded", "unknown", ""))
        nodes.append(gpu_node(f"n{i}", labels, state=state))
    rng.shuffle(nodes)
    return nodes


@pytest.mark.parametrize("seed", range(10))
def test_degraded_counts_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    nodes = any_cluster(rng, blocks_cross=seed % 2 == 1)
    found = History().look(nodes)
    states = Counter(node.traits.hardware.state for node in nodes)
    del states[""]
    assert found.health.states == states
    degraded = [node for node in nodes if node.traits.hardware.state == "degraded"]
    levels = found.effective.levels
    for depth, (level, counts) in enumerate(zip(levels, found.health.levels, strict=True), 1):
        paths: Counter[tuple[str | None, ...]] = Counter()
        for node in degraded:
            path = tuple(node.label(above.key) for above in levels[:depth])
            paths[path] += 1
        assert counts.level == level
        assert counts.domains == len(paths)
        assert counts.nodes == len(degraded)
        assert len(counts.worst) <= MOST_VALUES
        if level.key != HOSTNAME:
            for domain in counts.worst:
                assert domain.degraded in paths.values()
