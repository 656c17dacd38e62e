"""Segments: when one counts, what it is called, when it goes."""

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, History, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
PAST_GRACE_PERIOD = 601
"""Seconds."""
TIER = "fabric.topograph.run/tier-0"
UPPER_TIER = "fabric.topograph.run/tier-1"
PLAIN = {"block": None, "rack": None}
LEAF_ONLY = {**PLAIN, TIER: "leaf"}
LEAF_AND_SPINE = {**PLAIN, TIER: "l", UPPER_TIER: "s"}
FOUR_H100 = gpu_nodes("h100-", 4)
TWO_GB200 = gpu_nodes("gb200-", 2, LEAF_ONLY)
TWO_KINDS = [*FOUR_H100, *TWO_GB200]
THREE_SPINE = gpu_nodes("spine-", 3, LEAF_AND_SPINE)
ONE_SPINE = gpu_node("liar", LEAF_AND_SPINE)


def test_identical_nodes_have_no_segments_and_no_condition(history: History) -> None:
    history.look(FOUR_H100)
    history.look(FOUR_H100, after=PAST_GRACE_PERIOD)
    assert "segments" not in history.status
    assert history.condition("SegmentsPublished") == {}


def test_two_kinds_of_hardware_are_no_segments_at_first(history: History) -> None:
    history.look(TWO_KINDS)
    assert history.segments == {}
    assert history.verdict("SegmentsPublished") == ("True", "SegmentsOff")
    expected = "gb200-0, gb200-1 (2 nodes: zone > leaf > nvlink-domain > host)"
    assert expected in history.message("SegmentsPublished")
    assert ("PartlyCovered", BLOCK) in history.hints
    assert ("PartlyCovered", RACK) in history.hints
    assert ("PartlyCovered", TIER) in history.hints


def test_two_kinds_of_hardware_are_segments_after_the_grace_period(history: History) -> None:
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    assert history.segments == {"rack": 4, "leaf": 2}
    assert "hints" not in history.status
    assert history.status["segments"][0] == {
        "name": "rack",
        "nodes": 4,
        "gpus": 32,
        "firstNodes": ["h100-0", "h100-1", "h100-2"],
        "levels": [
            {"domain": "zone", "key": ZONE},
            {"domain": "block", "key": BLOCK},
            {"domain": "rack", "key": RACK},
            {"domain": "nvlink-domain", "key": NVLINK_DOMAIN},
            {"domain": "host", "key": HOSTNAME},
        ],
        "nodeSelector": {
            "matchExpressions": [
                {"key": GPUS, "operator": "Exists"},
                {"key": BLOCK, "operator": "Exists"},
                {"key": RACK, "operator": "Exists"},
            ]
        },
    }
    assert history.verdict("SegmentsPublished") == ("True", "SegmentsOff")
    message = history.message("SegmentsPublished")
    assert "rack (4 nodes: zone > block > rack > nvlink-domain > host), leaf (2 nodes: zone > leaf" in message
    assert "set spec.segments to Auto to get one ClusterTopology for each group" in message
    assert history.condition("Ready")["status"] == "Unknown"
    assert history.message("Ready") == "Published: No level is in effect yet, so nothing is published"


def test_levels_of_a_segment_are_missing_on_no_other_node(history: History) -> None:
    three_plain = gpu_nodes("plain", 3, PLAIN)
    nodes = [*FOUR_H100, *three_plain]
    history.look(nodes)
    history.look(nodes, after=PAST_GRACE_PERIOD)
    assert history.segments == {"rack": 4, "base": 3}
    assert history.verdict("LevelsCovered") == ("False", "NodesMissingLevels")
    expected = "'block' (*) is on 4 of 7 nodes and not a level*; 'rack' (*"
    assert says(history.message("LevelsCovered"), expected)

    history.spec = {"segments": "Auto", "required": ["rack", "spare"]}
    history.look(nodes)
    assert history.verdict("LevelsCovered") == ("True", "AllNodesCovered")
    assert history.message("LevelsCovered") == "All 7 nodes carry every level: zone > nvlink-domain > host"

    history.look(nodes, after=PAST_GRACE_PERIOD)
    assert history.verdict("TopologyLevelsAvailable") == ("False", "TopologyLevelsUnavailable")
    assert history.message("TopologyLevelsAvailable") == (
        "Topology level 'spare' is no longer available in the cluster topology"
    )

    history.look([*nodes, gpu_node("new", {**PLAIN, TIER: "l"})])
    assert history.verdict("LevelsCovered") == ("True", "AllNodesCovered")
    expected = (
        "All 8 nodes carry every level: zone > nvlink-domain > host; "
        "'leaf' (*) is not a level, because only 1 of 8 nodes carry it: new"
    )
    assert says(history.message("LevelsCovered"), expected)


def test_node_that_joins_before_its_labels_is_no_segment(history: History) -> None:
    history.spec = {"segments": "Auto"}
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    joined = [*TWO_KINDS, gpu_node("h100-9", PLAIN)]
    history.look(joined, after=60)
    assert history.segments == {"rack": 4, "leaf": 2}
    message = history.message("SegmentsPublished")
    assert "1 node is in no segment: h100-9" in message
    assert "older than gracePeriod (10m): h100-9 (1 node: zone > nvlink-domain > host)" in message

    # Its labels come, and there never was anything.
    history.look([*TWO_KINDS, gpu_node("h100-9")], after=60)
    assert history.segments == {"rack": 5, "leaf": 2}
    # Another node, much later, is as new.
    history.look(joined, after=600)
    assert history.segments == {"rack": 4, "leaf": 2}


@pytest.mark.parametrize(
    ("nodes", "segments"),
    [
        pytest.param([*TWO_KINDS, *gpu_nodes("plain-", 9, PLAIN)], {"base": 9, "rack": 4, "leaf": 2}, id="by-levels"),
        pytest.param(
            [*gpu_nodes("h100-", 5), *gpu_nodes("gb200-", 7, LEAF_ONLY), gpu_node("plain-", PLAIN)],
            {"leaf": 7, "rack": 5, "base": 1},
            id="not-by-counts",
        ),
        pytest.param(
            [*TWO_KINDS, *THREE_SPINE], {"rack": 4, "leaf-6c383a": 3, "leaf-d63ce6": 2}, id="one-name-gets-a-hash"
        ),
        pytest.param(
            [*THREE_SPINE, *gpu_nodes("h100-", 9), *gpu_nodes("gb200-", 7, LEAF_ONLY)],
            {"rack": 9, "leaf-d63ce6": 7, "leaf-6c383a": 3},
            id="one-name-whatever-the-counts",
        ),
        pytest.param(
            [*TWO_KINDS, ONE_SPINE], {"rack": 4, "leaf": 2, "leaf-6c383a": 1}, id="single-node-renames-none-of-several"
        ),
        pytest.param(
            [*FOUR_H100, ONE_SPINE, gpu_node("gb200-0", LEAF_ONLY)],
            {"rack": 4, "leaf-6c383a": 1, "leaf-d63ce6": 1},
            id="two-single-nodes-get-a-hash",
        ),
    ],
)
def test_segments_are_named_by_their_levels(history: History, nodes: list[NodeFacts], segments: dict[str, int]) -> None:
    history.look(nodes)
    history.look(nodes, after=PAST_GRACE_PERIOD)
    assert history.segments == segments


def test_segment_that_was_there_first_keeps_the_short_name(history: History) -> None:
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    with_spine = [*TWO_KINDS, *THREE_SPINE]
    history.look(with_spine)
    history.look(with_spine, after=PAST_GRACE_PERIOD)
    assert history.segments == {"rack": 4, "leaf-6c383a": 3, "leaf": 2}


def test_segments_off_leave_no_trace_once_nodes_are_alike(history: History) -> None:
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    alike = [*FOUR_H100, *gpu_nodes("gb200-", 2)]
    history.look(alike)
    history.look(alike, after=PAST_GRACE_PERIOD)
    history.look(alike, after=1)
    assert "segments" not in history.status
    assert history.condition("SegmentsPublished") == {}


def test_level_that_one_node_lost_is_no_new_segment_at_once(history: History) -> None:
    history.look(FOUR_H100)
    history.look(FOUR_H100, after=PAST_GRACE_PERIOD)
    history.look([*gpu_nodes("h100-", 3), gpu_node("h100-3", {"rack": None})], after=1)
    assert history.segments == {}
    assert history.verdict("LevelsCovered") == ("False", "NodesMissingLevels")
    assert "1 of 4 nodes lacks level 'rack'" in history.message("LevelsCovered")


def test_segment_selectors_contain_the_parents_own(history: History) -> None:
    not_old = {"key": "old", "operator": "DoesNotExist"}
    history.spec = {"nodeSelector": {"matchLabels": {"pool": "a"}, "matchExpressions": [not_old]}}
    in_pool = [*gpu_nodes("h100-", 3, {"pool": "a"}), *gpu_nodes("gb200-", 2, {"pool": "a", **LEAF_ONLY})]
    nodes = [*in_pool, gpu_node("h100-9")]
    history.look(nodes)
    history.look(nodes, after=PAST_GRACE_PERIOD)
    assert history.segments == {"rack": 3, "leaf": 2}
    assert history.status["segments"][1]["nodeSelector"] == {
        "matchLabels": {"pool": "a"},
        "matchExpressions": [not_old, {"key": TIER, "operator": "Exists"}],
    }


def test_levels_of_the_spec_are_not_divided(history: History) -> None:
    history.spec = {"levels": [{"domain": "rack", "key": RACK}]}
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    assert history.segments == {}


@pytest.mark.parametrize(
    ("segments", "available"), [pytest.param("Auto", "True", id="auto"), pytest.param("Off", "False", id="off")]
)
def test_required_level_of_one_segment_is_missed_where_segments_are_off(
    history: History, segments: str, available: str
) -> None:
    history.spec = {"segments": segments, "required": ["rack"]}
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    assert history.condition("TopologyLevelsAvailable")["status"] == available


def test_renumbered_values_change_no_segment(history: History) -> None:
    """Hashed values of Topograph and AWS may all be others after a run; only which key is there counts."""
    history.spec = {"segments": "Auto"}
    history.look(TWO_KINDS)
    history.look(TWO_KINDS, after=PAST_GRACE_PERIOD)
    before = history.status
    renumbered = gpu_nodes("h100-", 4, {"block": "x00ff00ff00ff00ff", "rack": "x1234567812345678"})
    history.look([*renumbered, *TWO_GB200], after=1)
    assert history.status == before
