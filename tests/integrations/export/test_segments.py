"""Suggestions from nodes alone: the kinds there are, what tells them apart, what is left out and why."""

import random
from collections.abc import Mapping

import pytest

from tests.support.cluster import BLOCK, RACK, ZONE
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.snapshot.model import NOTHING, NodeView
from toposcope.snapshot.suggest import Suggestion, suggest
from toposcope.topology.platforms import KEYS

LEAF = "fabric.topograph.run/tier-0"


def view(name: str, labels: Mapping[str, str], *, agent: bool = True) -> NodeView:
    own = {GPUS: "8", NVLINK_DOMAIN: name} if agent else {GPU_PRESENT: "true"}
    found = {HOSTNAME: name} | own | dict(labels)
    places = {key: place for place, key in enumerate(found)}
    return NodeView(name, name, places, tuple(found.values()), True, True, (), NOTHING, {}, None)


def path(suggestion: Suggestion) -> str:
    return " > ".join(level.domain for level in suggestion.levels)


def expressions(suggestion: Suggestion) -> list[str]:
    return [f"{requirement.operator} {requirement.key}" for requirement in suggestion.selector]


def test_one_kind_of_nodes_is_the_whole_cluster() -> None:
    found = suggest([view(f"n{i}", {ZONE: "z", RACK: f"r{i // 2}"}) for i in range(6)])
    assert found.reasons == ()
    (only,) = found.found
    assert (only.name, path(only), only.gpus) == ("cluster", "zone > rack > nvlink-domain > host", 48)
    assert "nodeSelector" not in only.document()


def test_kinds_are_told_apart_by_the_keys_that_they_carry() -> None:
    gb200 = [view(f"g{i}", {ZONE: "z", RACK: f"r{i}", GPU_PRODUCT: "NVIDIA-GB200"}) for i in range(6)]
    h100 = [view(f"h{i}", {ZONE: "z", GPU_PRODUCT: "NVIDIA-H100"}) for i in range(4)]
    found = suggest([*gb200, *h100])
    assert found.reasons == ()
    assert [suggestion.name for suggestion in found.found] == ["nvidia-gb200", "nvidia-h100"]
    assert [path(suggestion) for suggestion in found.found] == [
        "zone > rack > nvlink-domain > host",
        "zone > nvlink-domain > host",
    ]
    assert expressions(found.found[0]) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert expressions(found.found[1]) == [f"Exists {GPUS}", f"DoesNotExist {RACK}"]


def test_equal_products_get_numbers_and_unknown_ones_the_level() -> None:
    found = suggest([view("a", {RACK: "r"}), view("b", {BLOCK: "b"}), view("c", {})])
    assert [suggestion.name for suggestion in found.found] == ["by-rack", "by-block", "others"]
    both = [view("a", {RACK: "r", GPU_PRODUCT: "X"}), view("b", {GPU_PRODUCT: "X"})]
    assert [suggestion.name for suggestion in suggest(both).found] == ["x-1", "x-2"]


def test_a_level_that_crosses_another_is_left_out_and_told() -> None:
    nodes = [view(f"n{i}", {ZONE: "z", BLOCK: f"b{i // 10}", RACK: f"r{i // 7}"}) for i in range(20)]
    (only,) = suggest(nodes).found
    assert path(only) == "zone > block > nvlink-domain > host"
    (crossing,) = only.crossings
    assert (crossing.level.domain, crossing.other.domain) == ("rack", "block")
    assert (crossing.value, crossing.parents) == ("r1", ("b0", "b1"))


def test_an_nvlink_domain_stays_and_the_leaf_that_it_spans_goes() -> None:
    nodes = [view(f"n{i}", {LEAF: f"l{i % 2}", NVLINK_DOMAIN: f"u.{i // 4}"}) for i in range(8)]
    (only,) = suggest(nodes).found
    assert path(only) == "nvlink-domain > host"
    assert [crossing.level.domain for crossing in only.crossings] == ["leaf"]
    assert only.crossings[0].value == "u.0"


def test_without_an_agent_there_is_nothing_to_suggest() -> None:
    found = suggest([view("a", {RACK: "r"}, agent=False), view("b", {}, agent=False)])
    assert found.found == ()
    assert found.reasons == (
        "2 nodes have (a, b) GPUs but no label gpu.topology/gpus: is the agent's DaemonSet running there?",
    )
    assert suggest([]).reasons == ("there are no nodes with GPUs",)


def test_placeholders_are_no_values() -> None:
    found = suggest([view("a", {RACK: "r"}), view("b", {RACK: "no-topology"})])
    assert [node.name for suggestion in found.found for node in suggestion.nodes] == ["a"]
    assert found.found[0].selector, "the default would take the other node in"
    assert found.reasons == (
        "1 node has (b) a placeholder (no-topology or an empty value) for a level; make sure it gets a value",
    )


def test_kinds_that_no_selector_tells_apart() -> None:
    """Every key of the third kind is on one of the first kind's nodes too."""
    first = [view("a", {ZONE: "z", "failure-domain.beta.kubernetes.io/zone": "z"}), view("b", {ZONE: "z"})]
    assert [len(suggestion.nodes) for suggestion in suggest(first).found] == [2]


@pytest.mark.parametrize("seed", range(150))
def test_selectors_take_in_exactly_their_nodes_whatever_they_carry(seed: int) -> None:
    rng = random.Random(seed)
    keys = [key for keys in KEYS.values() for key in keys if key not in {HOSTNAME, NVLINK_DOMAIN}]
    used = rng.sample(keys, rng.randint(1, 6))
    numbers = range(rng.randint(1, 25))
    nodes = [view(f"n{i}", {key: rng.choice(["1", "2", "3"]) for key in used if rng.random() < 0.7}) for i in numbers]
    found = suggest(nodes)
    seen: list[str] = []
    for suggestion in found.found:
        taken = [node for node in nodes if all(requirement.holds(node) for requirement in suggestion.selector)]
        assert taken == sorted(suggestion.nodes, key=nodes.index)
        assert all(node.label(level.key) for node in suggestion.nodes for level in suggestion.levels)
        seen += [node.name for node in taken]
    assert len(seen) == len(set(seen))
    assert len({suggestion.name for suggestion in found.found}) == len(found.found)
    assert len(seen) == len(nodes) or found.reasons
