"""ClusterTopologies suggested from nodes alone: kinds of nodes, what tells them apart, what is left out and why."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, History
from toposcope.api.cluster_topology import Topology, read
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.hierarchy import platforms
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot
from toposcope.snapshot.suggest import LeftOutLevel, Suggestion, Suggestions, suggest

LEAF = "fabric.topograph.run/tier-0"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NVLINK_AND_HOST = [{"domain": "nvlink-domain", "key": NVLINK_DOMAIN}, {"domain": "host", "key": HOSTNAME}]


def node_with(name: str, labels: Mapping[str, str]) -> NodeView:
    labels = {HOSTNAME: name} | dict(labels)
    return NodeView(
        name=name,
        uid=name,
        places={key: place for place, key in enumerate(labels)},
        values=tuple(labels.values()),
        is_ready=True,
        is_schedulable=True,
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
    expressions = suggestion.selector.get("matchExpressions", [])
    return [f"{expression['operator']} {expression['key']}" for expression in expressions]


def suggested_for(nodes: list[NodeView], *topologies: Topology) -> Suggestions:
    """What is suggested for these nodes."""
    return suggest(Snapshot("a test", None, tuple(nodes), None, topologies))


def described(crossing: LeftOutLevel) -> dict[str, Any]:
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

    suggested = suggested_for(nodes)

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

    suggested = suggested_for(nodes)

    gb200, h100 = suggested.suggestions
    assert gb200.name == "cluster-rack"
    assert levels_of(gb200) == "zone > rack > nvlink-domain > host"
    assert gb200.gpus == 48
    assert nodes_of(gb200) == "g0 g1 g2 g3 g4 g5"
    assert selector_of(gb200) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert gb200.crossings == ()
    assert h100.name == "cluster-base"
    assert levels_of(h100) == "zone > nvlink-domain > host"
    assert h100.gpus == 32
    assert nodes_of(h100) == "h0 h1 h2 h3"
    assert selector_of(h100) == [f"Exists {GPUS}", f"DoesNotExist {RACK}"]
    assert h100.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_kinds_differ_names_topologies_by_level() -> None:
    nodes = [
        gpu_node("a", {RACK: "r"}),
        gpu_node("b", {BLOCK: "b1"}),
        gpu_node("c", {}),
    ]

    suggested = suggested_for(nodes)

    by_rack, by_block, others = suggested.suggestions
    assert by_rack.name == "cluster-rack"
    assert levels_of(by_rack) == "rack > nvlink-domain > host"
    assert by_rack.gpus == 8
    assert nodes_of(by_rack) == "a"
    assert selector_of(by_rack) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert by_rack.crossings == ()
    assert by_block.name == "cluster-block"
    assert levels_of(by_block) == "block > nvlink-domain > host"
    assert by_block.gpus == 8
    assert nodes_of(by_block) == "b"
    assert selector_of(by_block) == [f"Exists {GPUS}", f"Exists {BLOCK}"]
    assert by_block.crossings == ()
    assert others.name == "cluster-base"
    assert levels_of(others) == "host"
    assert [level.domain for level in others.idle] == ["nvlink-domain"]
    assert others.gpus == 8
    assert nodes_of(others) == "c"
    assert selector_of(others) == [
        f"Exists {GPUS}",
        f"DoesNotExist {BLOCK}",
        f"DoesNotExist {RACK}",
    ]
    assert others.crossings == ()
    assert suggested.reasons == ()


def test_suggest_when_kinds_want_one_name_adds_the_controllers_hash() -> None:
    """Two kinds of nodes with a leaf of another key each; `test_assess_segments.py` has the same of the controller."""
    nodes = []
    for number in range(2):
        nodes.append(gpu_node(f"a{number}", {LEAF: "l"}))
        nodes.append(gpu_node(f"b{number}", {"topology.nebius.com/tier-1": "l"}))

    suggested = suggested_for(nodes)

    history = History(segments="Auto")
    facts = [gpu_facts(node) for node in nodes]
    history.look(facts)
    history.look(facts, 601)
    by_controller = {}
    for entry in history.status["segments"]:
        by_controller[f"cluster-{entry['name']}"] = entry["nodeSelector"]
    assert len(by_controller) == 2
    assert {suggestion.name: suggestion.selector for suggestion in suggested.suggestions} == by_controller


def gpu_facts(node: NodeView) -> NodeFacts:
    """The node as the controller keeps it."""
    return node_facts(node.name, node.uid, tuple(node.places), node.values, is_ready=True, is_schedulable=True, gpus=8)


def test_suggest_keeps_the_names_of_the_status() -> None:
    """A segment keeps its name for its lifetime."""
    levels = [{"domain": "rack", "key": RACK}, *NVLINK_AND_HOST]
    status = {"segments": [{"name": "mine", "levels": levels}]}
    topology = read({"metadata": {"name": "cluster"}, "status": status})
    nodes = [gpu_node("a", {RACK: "r"}), gpu_node("b", {})]

    suggested = suggested_for(nodes, topology)

    assert [suggestion.name for suggestion in suggested.suggestions] == ["cluster-mine", "cluster-base"]


def test_suggest_narrows_the_selector_of_the_topology_down() -> None:
    labels = {"pool": "gpu"}
    spec = {"nodeSelector": {"matchLabels": labels}, "minCoveragePercent": 90}
    topology = read({"metadata": {"name": "cluster"}, "spec": spec})
    nodes = [gpu_node("a", {RACK: "r", **labels}), gpu_node("b", labels), gpu_node("c", {})]

    suggested = suggested_for(nodes, topology)

    with_rack, without_rack = suggested.suggestions
    assert with_rack.document()["nodeSelector"] == {
        "matchLabels": labels,
        "matchExpressions": [{"key": RACK, "operator": "Exists"}],
    }
    assert with_rack.coverage == 90
    assert nodes_of(with_rack) == "a"
    assert nodes_of(without_rack) == "b"


def test_suggest_keeps_names_that_each_fabric_uses() -> None:
    """Superpod 1 is in both fabrics: two domains by their paths, and no reason to leave a level out."""
    nodes = []
    for number in range(8):
        labels = {
            ZONE: f"z{number // 4}",
            "backend.coreweave.cloud/fabric": f"F{number // 4}",
            "backend.coreweave.cloud/superpod": "1",
            "backend.coreweave.cloud/leafgroup": f"{number // 2 % 2}",
        }
        nodes.append(gpu_node(f"n{number}", labels))

    suggestion = only(suggested_for(nodes))

    assert levels_of(suggestion) == "zone > fabric > block > leaf > nvlink-domain > host"
    assert suggestion.crossings == ()


def test_suggest_keeps_an_idle_level_that_the_topology_requires() -> None:
    topology = read({"metadata": {"name": "cluster"}, "spec": {"required": ["nvlink-domain"]}})

    suggestion = only(suggested_for([gpu_node("a", {}), gpu_node("b", {})], topology))

    assert levels_of(suggestion) == "nvlink-domain > host"
    assert suggestion.idle == ()


def test_suggest_when_a_rack_spans_blocks_leaves_racks_out() -> None:
    nodes = []
    for number in range(20):
        labels = {
            ZONE: "z",
            BLOCK: f"b{number // 10}",
            RACK: f"r{number // 7}",
        }
        nodes.append(gpu_node(f"n{number}", labels))

    suggested = suggested_for(nodes)

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

    suggested = suggested_for(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "nvlink-domain > host"
    assert suggestion.idle == ()
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


def test_suggest_before_there_are_agents_goes_by_the_other_labels() -> None:
    nodes = [
        node_without_agent("a", {ZONE: "z", RACK: "r"}),
        node_without_agent("b", {ZONE: "z", RACK: "r"}),
    ]

    suggested = suggested_for(nodes)

    suggestion = only(suggested)
    assert suggestion.name == "cluster"
    assert levels_of(suggestion) == "zone > rack > host"
    assert selector_of(suggestion) == []
    assert suggested.is_before_agents
    assert suggested.reasons == ()


def test_suggest_before_there_are_agents_divides_the_nodes() -> None:
    """The selectors hold as soon as agents have labelled the nodes."""
    nodes = [
        node_without_agent("a", {RACK: "r"}),
        node_without_agent("b", {}),
    ]

    suggested = suggested_for(nodes)

    with_rack, without_rack = suggested.suggestions
    assert selector_of(with_rack) == [f"Exists {GPUS}", f"Exists {RACK}"]
    assert selector_of(without_rack) == [f"Exists {GPUS}", f"DoesNotExist {RACK}"]


def test_suggest_where_some_nodes_have_no_agent_says_so() -> None:
    suggested = suggested_for([gpu_node("a", {RACK: "r"}), node_without_agent("b", {RACK: "r"})])

    assert nodes_of(only(suggested)) == "a"
    assert suggested.reasons == (
        "1 node has GPUs but no label gpu.topology/gpus: b; is the agent's DaemonSet running there?",
    )


def test_suggest_without_nodes_says_so() -> None:
    suggested = suggested_for([])

    assert suggested.suggestions == ()
    assert suggested.reasons == ("there are no nodes with GPUs",)


def test_suggest_when_a_value_is_a_placeholder_selects_around_it() -> None:
    """Where other nodes lack the label; the default selector would take the node in."""
    nodes = [
        gpu_node("a", {RACK: "r"}),
        gpu_node("b", {RACK: "no-topology"}),
        gpu_node("c", {}),
    ]

    suggested = suggested_for(nodes)

    with_rack, without_rack = suggested.suggestions
    assert levels_of(with_rack) == "rack > nvlink-domain > host"
    assert nodes_of(with_rack) == "a"
    assert selector_of(with_rack) == [f"Exists {GPUS}", f"Exists {RACK}", f"NotIn {RACK}"]
    assert nodes_of(without_rack) == "c"
    assert suggested.reasons == (
        "1 node has a placeholder (no-topology or an empty value) for a level: b; set the label to the real value",
    )


def test_suggest_when_no_selector_tells_kinds_apart_returns_one_topology() -> None:
    """Node `a` has every key that `b` has."""
    nodes = [
        gpu_node("a", {ZONE: "z", OLD_ZONE: "z"}),
        gpu_node("b", {ZONE: "z"}),
    ]

    suggested = suggested_for(nodes)

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
    """The nodes that a ClusterTopology of the suggestion takes in."""
    topology = read({"metadata": {"name": "cluster"}, "spec": suggestion.document()})
    return [node for node in nodes if topology.selects(node)]


@pytest.mark.parametrize("seed", range(150))
def test_selectors_of_random_clusters_select_exactly_their_nodes(seed: int) -> None:
    nodes = random_nodes(seed)

    suggested = suggested_for(nodes)

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
