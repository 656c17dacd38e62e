"""Availability of a required level over time, and whether it is published."""

from dataclasses import dataclass

import pytest
from tests.support.cluster import History, gpu_node, gpu_nodes
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
WITH_RACK = "zone > block > rack > nvlink-domain > host"
WITHOUT_RACK = "zone > block > nvlink-domain > host"
LABELLED = gpu_nodes("n", 4)
UNLABELLED = gpu_nodes("n", 4, {"rack": None})
UNUSABLE = [
    gpu_node("n0", is_ready=False, is_schedulable=True),
    gpu_node("n1", is_ready=True, is_schedulable=False),
    gpu_node("n2", is_ready=False, is_schedulable=True),
    gpu_node("n3", is_ready=True, is_schedulable=False),
]


@dataclass(frozen=True)
class Outcome:
    """The status of the condition, the levels that are published, and those that count as unavailable."""

    status: str
    published: str | None
    """None: what is published stays as it is."""
    unavailable: tuple[str, ...] = ()


AVAILABLE = Outcome("True", WITH_RACK)
GONE = Outcome("False", WITHOUT_RACK, ("rack",))


@pytest.fixture
def history() -> History:
    return History(required=["rack"], gracePeriod="1m")


def look(history: History, nodes: list[NodeFacts], after: float = 0) -> Outcome:
    found = history.look(nodes, after=after)
    published = None
    if found.publishable is not None:
        published = " > ".join(level.domain for level in found.publishable)
    status = history.condition("TopologyLevelsAvailable")["status"]
    return Outcome(status, published, found.unavailable)


def check_no_nodes(history: History) -> None:
    assert history.verdict("TopologyLevelsAvailable") == ("Unknown", "NoNodes")
    assert history.message("TopologyLevelsAvailable") == ("No node is selected, so the levels are unknown")


def check_not_seen(history: History) -> None:
    assert history.verdict("TopologyLevelsAvailable") == ("Unknown", "LevelsNotSeen")
    assert history.message("TopologyLevelsAvailable") == (
        "No selected node has carried level 'rack' yet; without one it counts as unavailable after gracePeriod (1m)"
    )


def test_level_back_within_the_grace_period_was_never_gone(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    for _ in range(10):
        assert look(history, UNLABELLED, after=50) == AVAILABLE
        assert look(history, LABELLED, after=1) == AVAILABLE


def test_level_back_later_is_available_at_once(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, UNLABELLED) == AVAILABLE
    assert look(history, UNLABELLED, after=61) == GONE
    assert look(history, LABELLED, after=1) == AVAILABLE


def test_no_nodes_are_unknown_and_remove_nothing(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, [], after=100000) == Outcome("Unknown", None)
    check_no_nodes(history)
    assert look(history, LABELLED, after=1) == AVAILABLE


def test_time_without_nodes_is_no_evidence(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, UNLABELLED) == AVAILABLE
    assert look(history, [], after=99999) == Outcome("Unknown", None)
    check_no_nodes(history)
    assert look(history, UNLABELLED, after=1) == Outcome("Unknown", WITH_RACK)
    check_not_seen(history)
    assert look(history, UNLABELLED, after=59) == Outcome("Unknown", WITH_RACK)
    check_not_seen(history)
    assert look(history, UNLABELLED, after=2) == GONE


def test_unready_and_cordoned_nodes_change_nothing(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, UNUSABLE, after=100000) == AVAILABLE


def test_restart_neither_hastens_a_verdict_nor_revokes_one(history: History) -> None:
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, UNLABELLED) == AVAILABLE
    history.restart()
    assert look(history, UNLABELLED, after=30) == AVAILABLE
    assert look(history, UNLABELLED, after=61) == GONE
    history.restart()
    assert look(history, UNLABELLED, after=1) == GONE


def test_level_that_was_never_there_is_unknown_and_then_missing(history: History) -> None:
    assert look(history, UNLABELLED) == Outcome("Unknown", WITHOUT_RACK)
    check_not_seen(history)
    assert look(history, UNLABELLED, after=61) == GONE


def test_retain_keeps_an_unavailable_level_published(history: History) -> None:
    history.spec["removalPolicy"] = "Retain"
    assert look(history, LABELLED) == AVAILABLE
    assert look(history, UNLABELLED) == AVAILABLE
    assert look(history, UNLABELLED, after=61) == Outcome("False", WITH_RACK, ("rack",))


def test_nodes_that_take_no_pods_yet_are_waited_for(history: History) -> None:
    assert look(history, UNUSABLE) == Outcome("Unknown", WITH_RACK)
    assert history.verdict("TopologyLevelsAvailable") == ("Unknown", "NoUsableNodes")
    assert history.message("TopologyLevelsAvailable") == "Waiting for a Ready, schedulable node with level 'rack'"
    assert look(history, LABELLED, after=1) == AVAILABLE
