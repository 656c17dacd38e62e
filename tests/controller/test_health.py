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
    return gpu_node(f"r{rack}-t{place}", labels, chassis=f"c{rack}", state="ok" if place % 5 else "degraded")


def test_the_order_of_nodes_changes_no_status() -> None:
    nodes = [tray(i, rack, rack if i < 9 else number) for rack, number in ((1, 8), (2, 9), (3, 3)) for i in range(18)]
    statuses = []
    for seed in range(5):
        random.Random(seed).shuffle(nodes)
        history = History()
        history.look(nodes)
        statuses.append(history.status)
    assert statuses[0]["fabric"]["splitDomains"] == 2
    assert all(status == statuses[0] for status in statuses)


@pytest.mark.parametrize("seed", range(10))
def test_degraded_counts_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [
        gpu_node(
            f"n{i}",
            {"rack": f"r{i // 4}", "block": rng.choice(("x", f"b{i // 16}")) if seed % 2 else f"b{i // 16}"},
            state=rng.choice(("ok", "ok", "degraded", "unknown", "")),
        )
        for i in range(300)
    ]
    rng.shuffle(nodes)
    found = History().look(nodes)
    assert found.health.states == {
        state: count
        for state in ("ok", "degraded", "unknown")
        if (count := sum(n.traits.hardware.state == state for n in nodes))
    }
    bad = [node for node in nodes if node.traits.hardware.state == "degraded"]
    for depth, (level, counts) in enumerate(zip(found.effective.levels, found.health.levels, strict=True), 1):
        plain = Counter(tuple(n.label(above.key) for above in found.effective.levels[:depth]) for n in bad)
        assert (counts.level, counts.domains, counts.nodes) == (level, len(plain), len(bad))
        assert len(counts.worst) <= MOST_VALUES
        if level.key != HOSTNAME:
            for domain in counts.worst:
                assert domain.degraded in plain.values()
