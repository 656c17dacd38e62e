"""An assessment by columns equals one node by node."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import topology
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.memory import Memory
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import cover, crossings, level_value
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts

SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"pool": "a"}},
    {"matchExpressions": [{"key": GPUS, "operator": "Exists"}, {"key": "pool", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a", "b"]}]},
    {"matchLabels": {"pool": "b", GPUS: "8"}, "matchExpressions": [{"key": HOSTNAME, "operator": "NotIn"}]},
    {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1", "h2"]}]},
    {"matchLabels": {}, "matchExpressions": []},
)
GPU_LABELS = ("8", "8", "8", "4", "", "eight", "٨", "no-topology", None)  # an Arabic 8 is a digit and no number here


def any_cluster(rng: random.Random, count: int) -> list[NodeFacts]:
    keys = [rng.choice(BUILT_IN.keys[domain]) for domain in ("zone", "block", "rack", "nvlink-domain")]
    gaps = rng.choice((0.0, 0.0, 0.05, 0.5))
    host = rng.choice(("n", "n", "h"))
    nodes = []
    for i in range(count):
        labels = {HOSTNAME: f"{host}{i}"} | {key: f"{key}-{i // 4 ** (4 - depth)}" for depth, key in enumerate(keys)}
        labels = {key: value for key, value in labels.items() if rng.random() >= gaps}
        labels |= {key: rng.choice(("x", "y", "no-topology")) for key in keys if rng.random() < gaps / 4}
        gpus = rng.choice(GPU_LABELS if gaps else ("8",))
        labels |= {} if gpus is None else {GPUS: gpus}
        labels |= rng.choice(({}, {"pool": "a"}, {"pool": "b"}, {"pool": "c"}, {GPU_PRESENT: "true"}))
        found = sorted(labels)
        values = tuple(labels[key] for key in found)
        ready, offered = rng.random() >= gaps, rng.choice((0, 8))
        bare = node_facts(f"n{i}", f"u{i}", tuple(found), values, ready=ready, schedulable=True, gpus=offered)
        nodes.append(replace(bare, traits=bare.traits._replace(hardware=Hardware(gpus=gpus_of(bare)))))
    rng.shuffle(nodes)
    return nodes


def gpus_of(node: NodeFacts) -> int:
    counted = node.label(GPUS) or ""
    return int(counted) if counted.isascii() and counted.isdigit() else node.gpus


def nearly_all_carry(nodes: Sequence[NodeFacts]) -> dict[str, int]:
    """Labels of levels that at least 95 % of the nodes carry, with how many do."""
    known = frozenset(BUILT_IN.level_keys)
    counts: Counter[str] = Counter()
    for node in nodes:
        for key in known & node.labels.keys():
            if level_value(node, key) is not None:
                counts[key] += 1
    return {key: count for key, count in counts.items() if count * 20 >= len(nodes) * 19}


@pytest.mark.parametrize("seed", range(30))
def test_counts_levels_and_messages_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    for selector in SELECTORS:
        nodes = any_cluster(rng, rng.choice((1, 2, 5, 40, 300, 1500)))
        asked = topology(nodeSelector=selector)
        selected = [node for node in nodes if asked.selects(node)]
        found = assess(asked, Evidence(nodes), Memory())
        messages = {condition.type: condition.message for condition in found.conditions}

        signs = [(n, n.gpus or n.label(GPU_PRESENT) == "true" or n.label(NVLINK_DOMAIN) is not None) for n in nodes]
        silent = [node for node, has_gpus in signs if node.label(GPUS) is None and has_gpus]
        assert ("no gpu.topology/gpus label" in messages["AgentsReporting"]) == bool(silent)
        for name in sorted(node.name for node in silent)[:10]:
            assert f" {name}" in messages["AgentsReporting"]
        assert found.nodes == len(selected)
        if not selected:
            assert found.publishable is None
            continue
        assert found.gpus == sum(map(gpus_of, selected))
        assert found.effective.levels == BUILT_IN.infer(nearly_all_carry(selected))
        assert found.coverage == cover(found.effective.levels, selected)
        crossed = crossings(found.effective.levels, selected)
        assert messages["HierarchyConsistent"] == (
            "; ".join(crossing.sentence for crossing in crossed)
            or "Every domain lies within one domain of the level above"
        )
