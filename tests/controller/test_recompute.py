"""An assessment by columns equals one node by node."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cluster import topology
from tests.support.sampling import slow_after
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.memory import Memory
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import cover, crossings, level_value
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts

SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"pool": "a"}},
    {
        "matchExpressions": [
            {"key": GPUS, "operator": "Exists"},
            {"key": "pool", "operator": "DoesNotExist"},
        ]
    },
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a", "b"]}]},
    {
        "matchLabels": {"pool": "b", GPUS: "8"},
        "matchExpressions": [{"key": HOSTNAME, "operator": "NotIn"}],
    },
    {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1", "h2"]}]},
    {"matchLabels": {}, "matchExpressions": []},
)
GPU_LABELS = ("8", "8", "8", "4", "", "eight", "٨", "no-topology", None)  # an Arabic 8 is a digit and no number here


POOLS: tuple[dict[str, str], ...] = (
    {},
    {"pool": "a"},
    {"pool": "b"},
    {"pool": "c"},
    {GPU_PRESENT: "true"},
)


def any_cluster(rng: random.Random, count: int) -> list[NodeFacts]:
    keys = []
    for domain in ("zone", "block", "rack", "nvlink-domain"):
        keys.append(rng.choice(BUILT_IN.keys[domain]))
    gaps = rng.choice((0.0, 0.0, 0.05, 0.5))
    host = rng.choice(("n", "n", "h"))
    nodes = []
    for i in range(count):
        labels = any_labels(rng, i, host, keys, gaps)
        nodes.append(any_node(rng, i, labels, gaps))
    rng.shuffle(nodes)
    return nodes


def any_labels(rng: random.Random, number: int, host: str, keys: list[str], gaps: float) -> dict[str, str]:
    """Labels of a node of which each lacks with the probability `gaps`, and few are odd."""
    whole = {HOSTNAME: f"{host}{number}"}
    for depth, key in enumerate(keys):
        domain = number // 4 ** (4 - depth)
        whole[key] = f"{key}-{domain}"
    labels = {}
    for key, value in whole.items():
        if rng.random() >= gaps:
            labels[key] = value
    for key in keys:
        if rng.random() < gaps / 4:
            labels[key] = rng.choice(("x", "y", "no-topology"))
    gpus = rng.choice(GPU_LABELS if gaps else ("8",))
    if gpus is not None:
        labels[GPUS] = gpus
    labels |= rng.choice(POOLS)
    return labels


def any_node(rng: random.Random, number: int, labels: dict[str, str], gaps: float) -> NodeFacts:
    keys = tuple(sorted(labels))
    ready = rng.random() >= gaps
    offered = rng.choice((0, 8))
    bare = node_facts(
        f"n{number}",
        f"u{number}",
        keys,
        tuple(labels[key] for key in keys),
        is_ready=ready,
        is_schedulable=True,
        gpus=offered,
    )
    hardware = Hardware(gpus=gpus_of(bare))
    return replace(bare, traits=bare.traits._replace(hardware=hardware))


def gpus_of(node: NodeFacts) -> int:
    counted = node.label(GPUS) or ""
    if counted.isascii() and counted.isdigit():
        return int(counted)
    return node.gpus


def has_gpus(node: NodeFacts) -> bool:
    """Whether anything says that it has some."""
    if node.gpus:
        return True
    return node.label(GPU_PRESENT) == "true" or node.label(NVLINK_DOMAIN) is not None


def without_agent(nodes: Sequence[NodeFacts]) -> list[str]:
    """The names of nodes that have GPUs and no label of an agent."""
    names = []
    for node in nodes:
        if node.label(GPUS) is None and has_gpus(node):
            names.append(node.name)
    return sorted(names)


def nearly_all_carry(nodes: Sequence[NodeFacts]) -> dict[str, int]:
    """Labels of levels that at least 95 % of the nodes carry, with how many do."""
    known = frozenset(BUILT_IN.level_keys)
    counts: Counter[str] = Counter()
    for node in nodes:
        for key in known & node.labels.keys():
            if level_value(node, key) is not None:
                counts[key] += 1
    frequent = {}
    for key, count in counts.items():
        if count * 20 >= len(nodes) * 19:
            frequent[key] = count
    return frequent


@pytest.mark.parametrize("seed", slow_after(10, range(30)))
def test_counts_levels_and_messages_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    for selector in SELECTORS:
        count = rng.choice((1, 2, 5, 40, 300, 1500))
        nodes = any_cluster(rng, count)
        asked = topology(nodeSelector=selector)
        selected = [node for node in nodes if asked.selects(node)]
        found = assess(asked, Evidence(nodes), Memory())
        messages = {condition.type: condition.message for condition in found.conditions}

        silent = without_agent(nodes)
        says_silent = "no gpu.topology/gpus label" in messages["AgentsReporting"]
        assert says_silent == bool(silent)
        for name in silent[:10]:
            assert f" {name}" in messages["AgentsReporting"]
        assert found.nodes == len(selected)
        if not selected:
            assert found.publishable is None
            continue
        assert found.gpus == sum(map(gpus_of, selected))
        levels = found.effective.levels
        assert levels == BUILT_IN.infer(nearly_all_carry(selected))
        assert found.coverage == cover(levels, selected)
        crossed = [crossing.sentence for crossing in crossings(levels, selected)]
        if not crossed:
            crossed.append("Every domain lies within one domain of the level above")
        assert messages["HierarchyConsistent"] == "; ".join(crossed)
