"""Suggestions from nodes alone: the kinds there are, what tells them apart, what is left out and why."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.tables import each_case
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.hierarchy import platforms
from toposcope.snapshot.model import NOTHING, NodeView
from toposcope.snapshot.suggest import Suggestion, suggest

KEYS = {
    "zone": ZONE,
    "block": BLOCK,
    "rack": RACK,
    "leaf": "fabric.topograph.run/tier-0",
    "domain": NVLINK_DOMAIN,
    "product": GPU_PRODUCT,
    "old-zone": "failure-domain.beta.kubernetes.io/zone",
}


def view(name: str, labels: Mapping[str, str], *, agent: bool = True) -> NodeView:
    own = {GPUS: "8", NVLINK_DOMAIN: name} if agent else {GPU_PRESENT: "true"}
    found = {HOSTNAME: name} | own | dict(labels)
    places = {key: place for place, key in enumerate(found)}
    return NodeView(name, name, places, tuple(found.values()), True, True, (), NOTHING, {}, None)


def told(found: Suggestion) -> dict[str, Any]:
    selector = [f"{requirement.operator} {requirement.key}" for requirement in found.selector]
    crossed = found.crossings
    crossings = [
        f"{crossing.level.domain} {crossing.value}: {crossing.crossed.domain} {' '.join(crossing.parents)}"
        for crossing in crossed
    ]
    levels = " > ".join(level.domain for level in found.levels)
    nodes = " ".join(node.name for node in found.nodes)
    told = {"name": found.name, "levels": levels, "gpus": found.gpus, "nodes": nodes}
    return {**told, "selector": selector, "crossings": crossings}


@each_case("tables/integrations-export.yaml")
def test_what_is_suggested(
    nodes: dict[str, str], without_agent: bool, found: list[dict[str, Any]], reasons: list[str]
) -> None:
    """The labels of each node, one of KEYS and its value after the other."""
    labels = {name: dict(zip(text.split()[::2], text.split()[1::2], strict=True)) for name, text in nodes.items()}
    views = [
        view(name, {KEYS[key]: value for key, value in own.items()}, agent=not without_agent)
        for name, own in labels.items()
    ]
    suggested = suggest(views)
    assert [told(segment) for segment in suggested.suggestions] == found
    assert list(suggested.reasons) == reasons


@pytest.mark.parametrize("seed", range(150))
def test_selectors_take_in_exactly_their_nodes_whatever_they_carry(seed: int) -> None:
    rng = random.Random(seed)
    keys = [key for keys in platforms.KEYS.values() for key in keys if key not in {HOSTNAME, NVLINK_DOMAIN}]
    used = rng.sample(keys, rng.randint(1, 6))
    numbers = range(rng.randint(1, 25))
    nodes = [view(f"n{i}", {key: rng.choice(["1", "2", "3"]) for key in used if rng.random() < 0.7}) for i in numbers]
    suggested = suggest(nodes)
    seen: list[str] = []
    for suggestion in suggested.suggestions:
        taken = [node for node in nodes if all(requirement.holds(node) for requirement in suggestion.selector)]
        assert taken == sorted(suggestion.nodes, key=nodes.index)
        assert all(node.label(level.key) for node in suggestion.nodes for level in suggestion.levels)
        seen += [node.name for node in taken]
    assert len(seen) == len(set(seen))
    assert len({suggestion.name for suggestion in suggested.suggestions}) == len(suggested.suggestions)
    assert len(seen) == len(nodes) or suggested.reasons
