"""Hints: why a label is not used as a level."""

import pytest
from tests.support.cluster import RACK, History, configured_catalogue, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
FULL = "zone > block > rack > nvlink-domain > host"
FOUR = gpu_nodes("n", 4)
NO_RACK = {"rack": None}
CLIQUE = "nvidia.com/gpu.clique"
MISSPELT_CLIQUE = "nvidia.com/gpu-clique"
TIER = "fabric.topograph.run/tier-0"
LEAF = "network.topology.nvidia.com/leaf"
"""The key that Topograph wrote before TIER."""
LONG_KEY = "rack.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.example.com/position"


def test_near_miss_is_reported_with_the_right_key(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 3, {MISSPELT_CLIQUE: "c"}),
            gpu_node("n9"),
        ]
    )
    assert history.status["hints"] == [
        {
            "key": MISSPELT_CLIQUE,
            "reason": "NearMiss",
            "nodes": 3,
            "message": (
                "nvidia.com/gpu-clique is on 3 of 4 nodes and is not a level: "
                "no known platform writes it; the key is nvidia.com/gpu.clique (on 0)"
            ),
        }
    ]


def test_key_that_stands_for_no_other_says_why_it_is_no_level(history: History) -> None:
    history.look([gpu_node("n", {"ib/torset": "t"})])
    assert history.status["hints"] == [
        {
            "key": "ib/torset",
            "reason": "NearMiss",
            "nodes": 1,
            "message": (
                "ib/torset is on 1 of 1 node and is not a level: "
                "the job that writes it renumbers its values on every run"
            ),
        }
    ]


def test_near_miss_in_the_spec_is_reported_with_its_place(history: History) -> None:
    levels = [
        {"domain": "rack", "key": RACK},
        {"domain": "nvlink-domain", "key": MISSPELT_CLIQUE},
    ]
    history.spec = {"levels": levels}
    history.look(gpu_nodes("n", 4, {CLIQUE: "c"}))
    assert says(
        history.hints["NearMiss", MISSPELT_CLIQUE]["message"],
        "spec.levels[1].key: nvidia.com/gpu-clique is on 0 of 4 nodes*the key is nvidia.com/gpu.clique (on 4)",
    )


def test_unknown_key_in_the_spec_is_no_near_miss(history: History) -> None:
    unknown = {"domain": "rack", "key": "cloud.google.com/subblock"}
    history.spec = {"levels": [unknown]}
    history.look(FOUR)
    assert "hints" not in history.status


def test_other_spelling_in_the_spec_is_reported(history: History) -> None:
    misspelt = "cloud.google.com/GCE_topology.subblock"
    history.spec = {"levels": [{"domain": "rack", "key": misspelt}]}
    history.look(FOUR)
    expected = "the key is cloud.google.com/gce-topology-subblock (on 4)"
    assert expected in history.hints["NearMiss", misspelt]["message"]


def test_key_in_the_spec_that_all_nodes_carry_is_no_near_miss(history: History) -> None:
    carried = {"domain": "rack", "key": "kubernetes.io/rack"}
    history.spec = {"levels": [carried]}
    history.look(gpu_nodes("n", 4, {"kubernetes.io/rack": "r"}))
    assert "hints" not in history.status


def test_partly_covered_level_names_the_nodes_that_lack_it(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 14),
            gpu_node("x1", NO_RACK),
            gpu_node("x2", NO_RACK),
        ]
    )
    assert history.hints["PartlyCovered", RACK] == {
        "key": RACK,
        "domain": "rack",
        "reason": "PartlyCovered",
        "nodes": 14,
        "message": (
            "level 'rack' (cloud.google.com/gce-topology-subblock) is on 14 of 16 nodes, so it is not published: "
            "schedulers would skip the others; lacking: x1, x2"
        ),
    }


def test_partly_covered_level_names_ten_nodes_and_a_number(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 40),
            *gpu_nodes("x", 12, NO_RACK),
        ]
    )
    message = history.hints["PartlyCovered", RACK]["message"]
    assert message.endswith("lacking: x0, x1, x10, x11, x2, x3, x4, x5, x6, x7 and 2 more")


def test_placeholder_is_no_place(history: History) -> None:
    """Topograph's no-topology would make neighbours of strangers."""
    found = history.look(
        [
            *gpu_nodes("n", 3, {TIER: "l"}),
            gpu_node("n9", {TIER: "no-topology"}),
        ]
    )
    assert found.effective.path == FULL
    assert says(
        history.hints["PartlyCovered", TIER]["message"],
        "*is on 3 of 4 nodes*lacking: n9 (1 with the placeholder 'no-topology')*",
    )


def test_placeholder_of_a_level_is_in_hint_and_condition(history: History) -> None:
    history.look(
        [
            *gpu_nodes("n", 39),
            gpu_node("n99", {"rack": "no-topology"}),
        ]
    )
    placeholder = "(1 with the placeholder 'no-topology')"
    lacking = f"1 of 40 nodes lacks level 'rack' (cloud.google.com/gce-topology-subblock): n99 {placeholder}"
    assert history.verdict("LevelsCovered") == ("False", "NodesMissingLevels")
    assert lacking in history.message("LevelsCovered")
    hint = history.hints["PlaceholderValue", RACK]
    assert hint["nodes"] == 39
    assert hint["domain"] == "rack"
    assert f"level 'rack' has no real value {placeholder} on n99" in hint["message"]


def test_placeholder_among_selected_nodes_is_reported(history: History) -> None:
    in_pool = {"matchLabels": {"pool": "gpu"}}
    history.spec = {"nodeSelector": in_pool}
    history.catalogue = configured_catalogue("{placeholders: [somewhere]}")
    pool = gpu_nodes("n", 39, {"pool": "gpu"})
    history.look(
        [
            *pool,
            gpu_node("n99", {"pool": "gpu", "rack": "somewhere"}),
            gpu_node("other"),
        ]
    )
    assert history.hints["PlaceholderValue", RACK]["nodes"] == 39


@pytest.mark.parametrize("clique", ["0", "1", "32766"])
def test_all_zero_fabric_is_no_nvlink_domain(history: History, clique: str) -> None:
    """HGX H100 reports it of a completed fabric."""
    value = f"00000000-0000-0000-0000-000000000000.{clique}"
    nodes = gpu_nodes("n", 3, {NVLINK_DOMAIN: None, CLIQUE: value})
    found = history.look(nodes)
    assert found.effective.path == "zone > block > rack > host"
    assert history.hints["PartlyCovered", CLIQUE]["nodes"] == 0


def test_retired_key_is_reported_beside_its_successor(history: History) -> None:
    """The two group the nodes alike, so they agree."""
    history.look(
        [
            *gpu_nodes("a", 2, {TIER: "t0", LEAF: "l0"}),
            *gpu_nodes("b", 2, {TIER: "t1", LEAF: "l1"}),
        ]
    )
    assert ("KeysDisagree", LEAF) not in history.hints
    hint = history.hints["RetiredKey", LEAF]
    assert "domain" not in hint
    assert hint["message"] == (
        "network.topology.nvidia.com/leaf is on 4 of 4 nodes and is retired: Topograph 0.3 to 0.5 wrote it, "
        "and later versions leave it behind; its successor is fabric.topograph.run/tier-0 (on 4)"
    )


def test_retired_key_alone_makes_the_level_and_is_reported(history: History) -> None:
    found = history.look(gpu_nodes("n", 4, {LEAF: "l"}))
    assert found.effective.path == "zone > block > leaf > rack > nvlink-domain > host"
    hint = history.hints["RetiredKey", LEAF]
    assert hint["domain"] == "leaf"
    assert hint["message"].endswith("level 'leaf' uses it for as long as nodes carry it")


def test_retired_key_in_the_spec_is_reported_with_its_place(history: History) -> None:
    retired = {"domain": "leaf", "key": LEAF}
    history.spec = {"levels": [retired]}
    history.look(gpu_nodes("n", 4, {LEAF: "l"}))
    hint = history.hints["RetiredKey", LEAF]
    assert hint["domain"] == "leaf"
    assert hint["nodes"] == 4
    assert says(hint["message"], "spec.levels[0].key: *is retired*")


def test_two_keys_that_group_nodes_differently_disagree(history: History) -> None:
    history.look(
        [
            *gpu_nodes("a", 2, {TIER: "t0", LEAF: "l"}),
            *gpu_nodes("b", 2, {TIER: "t1", LEAF: "l"}),
        ]
    )
    hint = history.hints["KeysDisagree", LEAF]
    assert hint["domain"] == "leaf"
    assert says(hint["message"], "*from fabric.topograph.run/tier-0, which is used*list it in spec.levels")


def with_both_keys(*values: tuple[str | None, str | None]) -> list[NodeFacts]:
    """A node for each pair of values of TIER and LEAF."""
    nodes = []
    for number, (tier, leaf) in enumerate(values):
        nodes.append(gpu_node(f"n{number}", {TIER: tier, LEAF: leaf}))
    return nodes


@pytest.mark.parametrize(
    ("nodes", "disagree"),
    [
        pytest.param(with_both_keys(("n0", "n0"), ("n1", "n1")), False, id="each-its-own-name"),
        pytest.param(with_both_keys(("n0", "l0"), ("n1", "l1")), False, id="alone-by-other-names"),
        pytest.param(with_both_keys(("t0", "n0"), ("t1", "n1")), False, id="other-says-their-names"),
        pytest.param(with_both_keys(("n0", "l"), ("n1", "l")), True, id="alone-and-together"),
        pytest.param(with_both_keys(("n0", "n0"), ("n1", "l")), False, id="single-under-a-shared-name"),
        pytest.param(with_both_keys(("t", "l"), ("t", None), (None, "l"), ("t", "l")), False, id="one-key-lacking"),
        pytest.param(
            [*gpu_nodes("n", 39, {TIER: "t", LEAF: "l"}), gpu_node("x", {TIER: "t"})], False, id="unused-key-lacking"
        ),
    ],
)
def test_two_keys_disagree_only_about_which_nodes_are_together(
    history: History, nodes: list[NodeFacts], disagree: bool
) -> None:
    history.look(nodes)
    assert (("KeysDisagree", LEAF) in history.hints) == disagree


def test_disagreement_counts_the_nodes_with_the_other_key(history: History) -> None:
    nodes = with_both_keys(
        ("t", None),
        ("n1", "l1"),
        ("t", "l2"),
        ("t", "l3"),
    )
    history.look(nodes)
    hint = history.hints["KeysDisagree", LEAF]
    assert hint["nodes"] == 3
    assert "(on 3 of 4 nodes)" in hint["message"]


def test_key_too_long_for_grove_says_so(history: History) -> None:
    history.catalogue = configured_catalogue(f"{{keys: [{{key: {LONG_KEY}, domain: rack}}]}}")
    found = history.look(gpu_nodes("n", 4, {"rack": None, LONG_KEY: "r"}))
    assert found.effective.path == "zone > block > nvlink-domain > host"
    assert says(
        history.hints["NotAccepted", LONG_KEY]["message"],
        f"{LONG_KEY} is on 4 of 4 nodes, but it cannot carry the level 'rack'*"
        "has 66 characters with its prefix; Grove takes 63",
    )
