"""A level that nodes lost stays in Grove's binding as long as Grove's workloads require it."""

from collections.abc import Sequence
from enum import Enum

import pytest
from tests.support.cluster import RACK, ZONE, History, gpu_node, gpu_nodes
from toposcope.api.levels import Level
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
LABELLED = gpu_nodes("n", 4)
UNLABELLED = gpu_nodes("n", 4, {"rack": None})
LISTED_LEVELS = [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}]


class Published(Enum):
    """Where the level `rack` is published."""

    EVERYWHERE = "everywhere"
    GROVE_ONLY = "grove-only"
    NOWHERE = "nowhere"


EVERYWHERE, GROVE_ONLY, NOWHERE = Published


@pytest.fixture(params=["inferred", "listed"])
def history(request: pytest.FixtureRequest) -> History:
    """Where nodes had racks, which the spec requires."""
    history = History(gracePeriod="1m", required=["rack"])
    if request.param == "listed":
        history.spec["levels"] = LISTED_LEVELS
    history.look(LABELLED)
    return history


def look(history: History, nodes: list[NodeFacts], after: float = 0) -> Published:
    """Where the level is published; the status says of a level of Grove's binding alone that it is retained."""
    found = history.look(nodes, after=after)
    published = _published(found.publishable, found.bindable)
    if not nodes:
        return published

    is_retained = False
    for level in history.status["levels"]:
        is_retained |= level["domain"] == "rack" and bool(level.get("retained"))
    assert is_retained == (published is GROVE_ONLY)
    if history.condition("TopologyLevelsAvailable")["status"] == "False":
        assert ("(kept in Grove's" in history.message("TopologyLevelsAvailable")) == is_retained
    return published


def _published(for_all: Sequence[Level] | None, for_grove: Sequence[Level] | None) -> Published:
    is_for_all = any(level.key == RACK for level in for_all or ())
    is_for_grove = any(level.key == RACK for level in for_grove or ())
    if is_for_all:
        assert is_for_grove
        return EVERYWHERE
    return GROVE_ONLY if is_for_grove else NOWHERE


def test_level_that_groves_workloads_require_is_kept_for_grove(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    assert look(history, UNLABELLED, after=9999) is GROVE_ONLY
    assert look(history, LABELLED, after=1) is EVERYWHERE
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY


def test_level_that_no_workload_requires_is_removed(history: History) -> None:
    history.bound = ("zone",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_when_its_workload_ends_goes_after_the_grace_period(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    history.bound = ()
    assert look(history, UNLABELLED, after=9) is GROVE_ONLY
    assert look(history, UNLABELLED, after=59) is GROVE_ONLY
    history.bound = ("rack",)
    assert look(history, UNLABELLED, after=2) is GROVE_ONLY
    history.bound = ()
    assert look(history, UNLABELLED, after=1) is GROVE_ONLY
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_nodes_that_are_gone_for_a_while_do_not_prolong_it(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    history.bound = ()
    assert look(history, UNLABELLED, after=1) is GROVE_ONLY
    assert look(history, [], after=9) is NOWHERE
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_not_required_when_the_grace_period_ends_is_removed(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    history.bound = ()
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_is_kept_while_requirements_are_unknown(history: History) -> None:
    history.bound = None
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    assert look(history, UNLABELLED, after=9999) is GROVE_ONLY
    history.bound = ()
    assert look(history, UNLABELLED, after=1) is GROVE_ONLY
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_unknown_requirements_bring_no_level_back(history: History) -> None:
    history.bound = ()
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is NOWHERE
    history.bound = None
    assert look(history, UNLABELLED, after=9) is NOWHERE
    history.restart()
    assert look(history, UNLABELLED, after=9) is NOWHERE
    history.bound = ()
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_new_leader_goes_on_keeping_the_level(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    history.restart()
    history.bound = None
    assert look(history, UNLABELLED, after=9) is GROVE_ONLY
    history.bound = ("rack",)
    assert look(history, UNLABELLED, after=99) is GROVE_ONLY
    history.restart()
    history.bound = ()
    assert look(history, UNLABELLED, after=9) is GROVE_ONLY
    history.restart()
    assert look(history, UNLABELLED, after=59) is GROVE_ONLY
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_is_kept_where_nodes_come_and_go(history: History) -> None:
    history.bound = ("rack",)
    assert look(history, []) is NOWHERE
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is GROVE_ONLY
    assert look(history, [], after=99) is NOWHERE
    assert look(history, UNLABELLED, after=9) is GROVE_ONLY


def test_level_without_a_binding_of_ours_is_removed(history: History) -> None:
    history.spec["publish"] = {"grove": "Never"}
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_with_retain_is_kept_everywhere(history: History) -> None:
    history.spec["removalPolicy"] = "Retain"
    history.bound = ("rack",)
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is EVERYWHERE


def test_level_when_retain_ends_is_kept_until_it_is_known_to_be_unused(history: History) -> None:
    history.spec["removalPolicy"] = "Retain"
    history.bound = ()
    assert look(history, UNLABELLED) is EVERYWHERE
    assert look(history, UNLABELLED, after=61) is EVERYWHERE

    history.spec["removalPolicy"] = "Remove"
    history.status["observedGeneration"] = 2
    history.bound = None
    assert look(history, UNLABELLED, after=1) is GROVE_ONLY
    assert look(history, UNLABELLED, after=99) is GROVE_ONLY
    history.bound = ()
    assert look(history, UNLABELLED, after=1) is GROVE_ONLY
    assert look(history, UNLABELLED, after=61) is NOWHERE


def test_level_that_nodes_carry_by_another_key_needs_no_retention() -> None:
    other_key = "cloud.provider.com/topology-rack"
    history = History(gracePeriod="1m")
    history.bound = ("rack",)
    history.look(LABELLED)
    moved = []
    for number in range(4):
        moved.append(gpu_node(f"n{number}", {"rack": None, other_key: "r"}))
    history.look(moved)
    found = history.look(moved, after=61)
    assert found.bindable == found.publishable
    assert [level.key for level in found.bindable or () if level.domain == "rack"] == [other_key]
