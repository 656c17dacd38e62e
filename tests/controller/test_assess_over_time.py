"""Levels over time: they come when nearly all nodes carry them, and go when none has for the grace period."""

import pytest
from tests.support.cluster import BLOCK, History, configured_catalogue, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
FULL = "zone > block > rack > nvlink-domain > host"
WITHOUT_RACK = "zone > block > nvlink-domain > host"
WITH_ROW = "zone > block > row > rack > nvlink-domain > host"
GRACE_PERIOD = 600
"""Seconds, as it is by default."""
NO_RACK = {"rack": None}
FOUR = gpu_nodes("n", 4)
BARE = gpu_nodes("n", 4, NO_RACK)
TIER = "fabric.topograph.run/tier-0"
LEAF = "network.topology.nvidia.com/leaf"


def hundred_nodes(bare: int) -> list[NodeFacts]:
    """A hundred nodes, of which so many have no rack."""
    return [*gpu_nodes("n", 100 - bare), *gpu_nodes("bare-", bare, NO_RACK)]


def path_after(history: History, nodes: list[NodeFacts], seconds: float = 0) -> str:
    """The levels so many seconds later."""
    found = history.look(nodes, after=seconds)
    return found.effective.path


def available(history: History) -> str:
    """Whether the required levels are available."""
    status: str = history.condition("TopologyLevelsAvailable")["status"]
    return status


def test_level_that_nearly_all_carry_stays_however_few_are_left(history: History) -> None:
    with_5_bare = hundred_nodes(bare=5)
    with_6_bare = hundred_nodes(bare=6)
    all_bare = hundred_nodes(bare=100)
    assert path_after(history, with_6_bare) == WITHOUT_RACK
    assert path_after(history, with_5_bare, 1) == FULL
    assert path_after(history, with_6_bare, 1) == FULL
    assert path_after(history, hundred_nodes(bare=99), 1) == FULL
    assert path_after(history, with_5_bare, 1) == FULL
    assert path_after(history, all_bare, 1) == FULL
    assert path_after(history, all_bare, GRACE_PERIOD + 1) == WITHOUT_RACK


def test_level_stays_while_any_node_carries_it(history: History) -> None:
    history.spec = {"required": ["rack"]}
    three = gpu_nodes("n", 3)
    history.look(three)
    without_rack = gpu_node("n9", NO_RACK)
    found = history.look([*three, without_rack], after=100000)
    assert found.effective.path == FULL
    assert available(history) == "True"
    assert history.verdict("LevelsCovered") == ("False", "NodesMissingLevels")
    expected = "1 of 4 nodes lacks level 'rack' (cloud.google.com/gce-topology-subblock): n9*"
    assert says(history.message("LevelsCovered"), expected)


def test_level_never_seen_is_waited_for_as_long_as_the_grace_period(history: History) -> None:
    history.spec = {"required": ["rack"]}
    history.look(gpu_nodes("n", 2, NO_RACK))
    assert history.verdict("TopologyLevelsAvailable") == ("Unknown", "LevelsNotSeen")
    message = history.message("TopologyLevelsAvailable")
    assert message.endswith("counts as unavailable after gracePeriod (10m)")


def test_level_that_is_gone_is_unavailable_after_the_grace_period(history: History) -> None:
    """Seen gone at 100 s: 600 s later is not yet longer than the grace period, 601 s is."""
    history.spec = {"required": ["rack"], "gracePeriod": "10m"}
    history.look(FOUR)
    for _ in range(7):
        found = history.look(BARE, after=100)
        assert found.effective.path == FULL
        assert available(history) == "True"
    assert found.publishable is not None
    assert found.bindable is not None

    found = history.look(BARE, after=1)
    assert found.effective.path == WITHOUT_RACK
    assert found.publishable is not None
    assert found.bindable is not None
    assert history.condition("TopologyLevelsAvailable") == {
        "type": "TopologyLevelsAvailable",
        "status": "False",
        "reason": "TopologyLevelsUnavailable",
        "message": "Topology level 'rack' is no longer available in the cluster topology",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def test_grace_period_of_zero_means_at_once(history: History) -> None:
    history.spec = {"required": ["rack"], "gracePeriod": "0s"}
    history.look(FOUR)
    assert path_after(history, BARE, 1) == WITHOUT_RACK
    assert available(history) == "False"


def test_single_look_says_what_is_gone_and_takes_nothing_away(history: History) -> None:
    """`controller --once`: nobody looks again when the grace period is over."""
    history.spec = {"required": ["rack"]}
    history.look(FOUR)
    history.restart(is_single_look=True)
    assert path_after(history, BARE, 1) == FULL
    assert available(history) == "False"


def test_single_look_without_a_look_before_says_what_is_missing(history: History) -> None:
    history.spec = {"required": ["rack"]}
    history.restart(is_single_look=True)
    assert path_after(history, BARE) == WITHOUT_RACK
    assert available(history) == "False"


def test_several_unavailable_levels_are_sorted_and_joined(history: History) -> None:
    history.spec = {
        "required": ["zone", "rack", "block"],
        "gracePeriod": "1m",
    }
    history.look(FOUR)
    without_both = gpu_nodes("n", 4, {"rack": None, "block": None})
    history.look(without_both)
    history.look(without_both, after=61)
    assert history.verdict("TopologyLevelsAvailable") == ("False", "TopologyLevelsUnavailable")
    assert history.message("TopologyLevelsAvailable") == (
        "Topology level 'block' is no longer available in the cluster topology; "
        "Topology level 'rack' is no longer available in the cluster topology"
    )


def test_renumbered_values_are_no_news(history: History) -> None:
    history.look(
        [
            *gpu_nodes("a", 2, {TIER: "t0", "rack": "r0"}),
            *gpu_nodes("b", 2, {TIER: "t1", "rack": "r1"}),
        ]
    )
    before = history.status
    history.look(
        [
            *gpu_nodes("a", 2, {TIER: "x0000000000000011", "rack": "r1"}),
            *gpu_nodes("b", 2, {TIER: "x0000000000000012", "rack": "r0"}),
        ]
    )
    assert history.status == before


def test_key_of_the_configuration_takes_a_level_over(history: History) -> None:
    """What the catalogue itself prefers does not."""
    history.look(gpu_nodes("n", 4, {LEAF: "l"}))
    both_keys = gpu_nodes("n", 4, {LEAF: "l", TIER: "t"})
    history.look(both_keys)
    assert history.level("leaf")["key"] == LEAF

    history.catalogue = configured_catalogue(f"{{keys: [{{key: {TIER}, domain: leaf}}]}}")
    history.look(both_keys)
    assert history.level("leaf")["key"] == TIER
    # And stays, should some nodes lack it later.
    history.look([*both_keys, gpu_node("n9", {LEAF: "l"})])
    assert history.level("leaf")["key"] == TIER


ROWS = gpu_nodes("n", 4, {"example.com/row": "r"})


def test_domain_that_left_the_configuration_goes_after_the_grace_period(history: History) -> None:
    history.catalogue = configured_catalogue("{domains: [{name: row, after: block, keys: [example.com/row]}]}")
    assert path_after(history, ROWS) == WITH_ROW
    history.catalogue = configured_catalogue("{}")
    assert path_after(history, ROWS) == WITH_ROW
    assert path_after(history, ROWS, GRACE_PERIOD) == WITH_ROW
    assert path_after(history, ROWS, 1) == FULL


def test_levels_of_a_spec_that_was_taken_back_do_not_linger(history: History) -> None:
    history.spec = {
        "levels": [
            {"domain": "row", "key": "example.com/row"},
            {"domain": "block", "key": BLOCK},
        ]
    }
    history.look(ROWS)
    history.status["observedGeneration"] = 2
    history.spec = {}
    assert path_after(history, ROWS) == FULL
