"""ClusterTopologies suggested from nodes alone: kinds of nodes, what tells them apart, what is left out and why."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.hierarchy import platforms
from toposcope.snapshot.model import NOTHING, NodeView
from toposcope.snapshot.suggest import Crossing, Suggestion, Suggestions, suggest

LEAF = "fabric.topograph.run/tier-0"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def node_with(name: str, labels: Mapping[str, str]) -> NodeView:
    labels = {HOSTNAME: name} | dict(labels)
    return NodeView(
        name=name,
        uid=name,
        places={key: place for place, key in enumerate(labels)},
        values=tuple(labels.values()),
        ready=True,
        schedulable=True,
        taints=(),
        allocatable=NOTHING,
        conditions={},
        matrix=None,
    )


def gpu_node(name: str, labels: Mapping[str, str]) -> NodeView:
    """A node of 8 GPUs with an agent."""
    of_agent = {GPUS: "8", NVLINK_DOMAIN: name}
    return node_with(name, of_agent | dict(labels))


def node_without_agent(name: str, labels: Mapping[str, str]) -> NodeView:
    return node_with(name, {GPU_PRESENT: "true"} | dict(labels))


def only(suggested: Suggestions) -> Suggestion:
    (suggestion,) = suggested.suggestions
    return suggestion


def levels_of(suggestion: Suggestion) -> str:
    domains = [level.domain for level in suggestion.levels]
    return " > ".join(domains)


def nodes_of(suggestion: Suggestion) -> str:
    names = [node.name for node in suggestion.nodes]
    return " ".join(names)


def selector_of(suggestion: Suggestion) -> list[str]:
    return [f"{requirement.operator} {requirement.key}" for requirement in suggestion.selector]


def described(crossing: Crossing) -> dict[str, Any]:
    return {
        "level": crossing.level.domain,
        "crossed": crossing.crossed.domain,
        "value": crossing.value,
        "parents": crossing.parents,
    }


def test_suggest_when_all_nodes_are_alike_returns_one_topology() -> None:
    nodes = []
    for number in range(6):
        labels = {ZONE: "z", RACK: f"r{number // 2}"}
        nodes.append(gpu_node(f"n{number}", labels))

    suggested = suggest(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "zone > rack > nvlink-domain > host"
    assert suggestion.gpus == 48
    assert nodes_of(suggestion) == "n0 n1 n2 n3 n4 n5"
    assert selector_of(suggestion) == []
    assert suggestion.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_kinds_carry_different_keys_selects_by_key() -> None:
    nodes = []
    for number in range(6):
        labels = {
            ZONE: "z",
            RACK: f"r{number}",
            GPU_PRODUCT: "NVIDIA-GB200",
        }
        nodes.append(gpu_node(f"g{number}", labels))
    for number in range(4):
        labels = {ZONE: "z", GPU_PRODUCT: "NVIDIA-H100"}
        nodes.append(gpu_node(f"h{number}", labels))

    suggested = suggest(nodes)

    gb200, h100 = suggested.suggestions
    assert gb200.name == "nvidia-gb200"
    assert levels_of(gb200) == "zone > rack > nvlink-domain > host"
    assert gb200.gpus == 48
    assert nodes_of(gb200) == "g0 g1 g2 g3 g4 g5"
    assert selector_of(gb200) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert gb200.crossings == ()
    assert h100.name == "nvidia-h100"
    assert levels_of(h100) == "zone > nvlink-domain > host"
    assert h100.gpus == 32
    assert nodes_of(h100) == "h0 h1 h2 h3"
    assert selector_of(h100) == [f"Exists {GPUS}", f"DoesNotExist {RACK}"]
    assert h100.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_products_are_unknown_names_topologies_by_level() -> None:
    nodes = [
        gpu_node("a", {RACK: "r"}),
        gpu_node("b", {BLOCK: "b"}),
        gpu_node("c", {}),
    ]

    suggested = suggest(nodes)

    by_rack, by_block, others = suggested.suggestions
    assert by_rack.name == "by-rack"
    assert levels_of(by_rack) == "rack > nvlink-domain > host"
    assert by_rack.gpus == 8
    assert nodes_of(by_rack) == "a"
    assert selector_of(by_rack) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert by_rack.crossings == ()
    assert by_block.name == "by-block"
    assert levels_of(by_block) == "block > nvlink-domain > host"
    assert by_block.gpus == 8
    assert nodes_of(by_block) == "b"
    assert selector_of(by_block) == [f"Exists {GPUS}", f"Exists {BLOCK}"]
    assert by_block.crossings == ()
    assert others.name == "others"
    assert levels_of(others) == "nvlink-domain > host"
    assert others.gpus == 8
    assert nodes_of(others) == "c"
    assert selector_of(others) == [
        f"Exists {GPUS}",
        f"DoesNotExist {BLOCK}",
        f"DoesNotExist {RACK}",
    ]
    assert others.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_products_are_equal_numbers_the_names() -> None:
    nodes = [
        gpu_node("a", {RACK: "r", GPU_PRODUCT: "X"}),
        gpu_node("b", {GPU_PRODUCT: "X"}),
    ]

    suggested = suggest(nodes)

    with_rack, without_rack = suggested.suggestions
    assert with_rack.name == "x-1"
    assert levels_of(with_rack) == "rack > nvlink-domain > host"
    assert with_rack.gpus == 8
    assert nodes_of(with_rack) == "a"
    assert selector_of(with_rack) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert with_rack.crossings == ()
    assert without_rack.name == "x-2"
    assert levels_of(without_rack) == "nvlink-domain > host"
    assert without_rack.gpus == 8
    assert nodes_of(without_rack) == "b"
    assert selector_of(without_rack) == [f"Exists {GPUS}", f"DoesNotExist {RACK}"]
    assert without_rack.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_a_rack_spans_blocks_leaves_racks_out() -> None:
    nodes = []
    for number in range(20):
        labels = {
            ZONE: "z",
            BLOCK: f"b{number // 10}",
            RACK: f"r{number // 7}",
        }
        nodes.append(gpu_node(f"n{number}", labels))

    suggested = suggest(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "zone > block > nvlink-domain > host"
    assert suggestion.gpus == 160
    assert suggestion.nodes == tuple(nodes)
    assert selector_of(suggestion) == []
    (crossing,) = suggestion.crossings
    assert described(crossing) == {
        "level": "rack",
        "crossed": "block",
        "value": "r1",
        "parents": ("b0", "b1"),
    }
    assert suggested.reasons == ()


def test_suggest_when_an_nvlink_domain_spans_leaves_leaves_the_leaf_out() -> None:
    nodes = []
    for number in range(8):
        labels = {LEAF: f"l{number % 2}", NVLINK_DOMAIN: f"u.{number // 4}"}
        nodes.append(gpu_node(f"n{number}", labels))

    suggested = suggest(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "nvlink-domain > host"
    assert suggestion.gpus == 64
    assert nodes_of(suggestion) == "n0 n1 n2 n3 n4 n5 n6 n7"
    assert selector_of(suggestion) == []
    (crossing,) = suggestion.crossings
    assert described(crossing) == {
        "level": "leaf",
        "crossed": "nvlink-domain",
        "value": "u.0",
        "parents": ("l0", "l1"),
    }
    assert suggested.reasons == ()


def test_suggest_without_agents_says_that_the_daemonset_is_missing() -> None:
    nodes = [
        node_without_agent("a", {RACK: "r"}),
        node_without_agent("b", {}),
    ]

    suggested = suggest(nodes)

    assert suggested.suggestions == ()
    assert suggested.reasons == (
        "2 nodes have (a, b) GPUs but no label gpu.topology/gpus: is the agent's DaemonSet running there?",
    )


def test_suggest_without_nodes_says_so() -> None:
    suggested = suggest([])

    assert suggested.suggestions == ()
    assert suggested.reasons == ("there are no nodes with GPUs",)


def test_suggest_when_a_value_is_a_placeholder_selects_around_it() -> None:
    """The default selector would take the node in."""
    nodes = [
        gpu_node("a", {RACK: "r"}),
        gpu_node("b", {RACK: "no-topology"}),
    ]

    suggested = suggest(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "others"
    assert levels_of(suggestion) == "rack > nvlink-domain > host"
    assert suggestion.gpus == 8
    assert nodes_of(suggestion) == "a"
    assert selector_of(suggestion) == [f"Exists {GPUS}", f"NotIn {RACK}"]
    assert suggestion.crossings == ()
    assert suggested.reasons == (
        "1 node has (b) a placeholder (no-topology or an empty value) for a level; make sure it gets a value",
    )


def test_suggest_when_no_selector_tells_kinds_apart_returns_one_topology() -> None:
    """Node `a` has every key that `b` has."""
    nodes = [
        gpu_node("a", {ZONE: "z", OLD_ZONE: "z"}),
        gpu_node("b", {ZONE: "z"}),
    ]

    suggested = suggest(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "zone > nvlink-domain > host"
    assert suggestion.gpus == 16
    assert nodes_of(suggestion) == "a b"
    assert selector_of(suggestion) == []
    assert suggestion.crossings == ()
    assert suggested.reasons == ()


def catalogue_keys() -> list[str]:
    """The keys of all levels but those that every node has."""
    catalogue = []
    for keys in platforms.KEYS.values():
        for key in keys:
            if key not in {HOSTNAME, NVLINK_DOMAIN}:
                catalogue.append(key)
    return catalogue


def random_nodes(seed: int) -> list[NodeView]:
    """Up to 25 nodes, each with some of up to 6 keys of the catalogue."""
    rng = random.Random(seed)
    used_keys = rng.sample(catalogue_keys(), rng.randint(1, 6))
    nodes = []
    for number in range(rng.randint(1, 25)):
        labels = {}
        for key in used_keys:
            if rng.random() < 0.7:
                labels[key] = rng.choice(["1", "2", "3"])
        nodes.append(gpu_node(f"n{number}", labels))
    return nodes


def selected(suggestion: Suggestion, nodes: list[NodeView]) -> list[NodeView]:
    """The nodes that the selector of a suggestion takes in."""
    found = []
    for node in nodes:
        if all(requirement.holds(node) for requirement in suggestion.selector):
            found.append(node)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_selectors_of_random_clusters_select_exactly_their_nodes(seed: int) -> None:
    nodes = random_nodes(seed)

    suggested = suggest(nodes)

    selected_once: list[str] = []
    for suggestion in suggested.suggestions:
        own_nodes = selected(suggestion, nodes)
        assert own_nodes == sorted(suggestion.nodes, key=nodes.index)
        for node in own_nodes:
            selected_once.append(node.name)
            for level in suggestion.levels:
                assert node.label(level.key), f"{node.name} has no {level.key}"
    assert len(selected_once) == len(set(selected_once))
    names = {suggestion.name for suggestion in suggested.suggestions}
    assert len(names) == len(suggested.suggestions)
    assert len(selected_once) == len(nodes) or suggested.reasons
