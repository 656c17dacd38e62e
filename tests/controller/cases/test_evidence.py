"""No verdict on thin evidence, no news twice: over restarts, without nodes, with nodes that are gone for a moment."""

from typing import Any

import pytest

from tests.controller.cases import grove_objects as grove
from tests.controller.cases.model import Says, gone, levels
from tests.controller.cases.world import World
from tests.support.api import NODES

SPEC = {"levels": levels(*grove.THREE), "gracePeriod": "10m", "publish": {"kueue": "Never"}}
RACK = {grove.RACK: None}
GONE = ("Warning", "Topology level 'rack' is no longer available in the cluster topology")
BACK = ("Normal", "Topology level 'rack' is available again in the cluster topology")


def available(at: World) -> dict[str, Any]:
    conditions = at.topology("cluster")["status"]["conditions"]
    found: dict[str, Any] = next(
        condition for condition in conditions if condition["type"] == "TopologyLevelsAvailable"
    )
    return found


def settle(at: World) -> None:
    """Two nodes, a workload that requires a rack, and all is well."""
    at.begin(grove.cluster(2), (grove.pcs("llm", "rack", topology="cluster"),))
    at.make_topology("cluster", SPEC)
    at.look()
    assert at.said("cluster", Says()).conditions == {}


def lose_racks(at: World) -> None:
    for node in ("worker-00", "worker-01"):
        at.label(node, **RACK)


@pytest.mark.parametrize("nodes", [0, 2])
def test_nothing_moves_while_nothing_happens(at: World, nodes: int) -> None:
    """Also the states in which nothing is known are stable."""
    at.begin(grove.cluster(nodes))
    at.make_topology("cluster", SPEC)
    at.look()
    before = at.topology("cluster")
    assert available(at)["status"] == ("True" if nodes else "Unknown")
    for _ in range(3):
        at.pass_time(100_000)
        at.restart()
        at.look()
    assert at.topology("cluster") == before


def test_a_level_that_waits_for_its_first_node_waits_in_one_state(at: World) -> None:
    at.begin((), (grove.pcs("llm", "rack", topology="cluster"),))
    at.make_topology("cluster", SPEC)
    at.look()
    assert (available(at)["status"], available(at)["reason"]) == ("Unknown", "NoNodes")
    since = available(at)["lastTransitionTime"]
    at.add_nodes(grove.cluster(2))
    lose_racks(at)
    at.look()
    said = available(at)
    assert (said["status"], said["reason"], said["lastTransitionTime"]) == ("Unknown", "NoNodes", since)
    before = at.topology("cluster")
    at.look()
    assert at.topology("cluster") == before


def test_a_restart_tells_nothing_twice_and_forgets_nothing(at: World) -> None:
    settle(at)
    lose_racks(at)
    at.look()
    at.pass_time(601)
    at.look()
    assert at.told("llm") == (GONE,)
    before = at.topology("cluster")
    for _ in range(3):
        at.restart()
        at.look()
        at.pass_time(601)
    assert (at.told("llm"), at.topology("cluster")) == ((GONE,), before)
    at.restart()
    for node in ("worker-00", "worker-01"):
        at.label(node, **{grove.RACK: "rack-0"})
    at.look()
    at.restart()
    at.look()
    assert at.told("llm") == (BACK, GONE)
    assert at.said("cluster", Says()).conditions == {}


def test_a_restart_within_the_grace_period_begins_it_anew(at: World) -> None:
    settle(at)
    lose_racks(at)
    at.look()
    at.pass_time(599)
    at.restart()
    at.look()
    at.pass_time(599)
    at.look()
    assert (available(at)["status"], at.told("llm")) == ("True", ())
    at.pass_time(2)
    at.look()
    assert available(at)["message"] == gone("rack")[2]


def test_nodes_that_are_away_for_a_moment_take_nothing(at: World) -> None:
    settle(at)
    before = at.topology("cluster")["status"]["conditions"]
    machines = grove.cluster(2)
    for condition in (
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""},
        {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": ""},
    ):
        for machine in machines:
            at.patch(f"{NODES}/{machine.name}/status", {"status": {"conditions": [condition]}})
        at.look()
        at.pass_time(100_000)
        at.look()
        assert at.topology("cluster")["status"]["conditions"] == before
    at.delete(NODES)
    at.pass_time(100_000)
    at.look()
    said = at.said("cluster", Says())
    assert said.conditions["TopologyLevelsAvailable"][1] == "NoNodes"
    assert (said.grove, at.told("llm")) == (grove.THREE, ())
    at.add_nodes(machines)
    at.look()
    assert (at.said("cluster", Says()).conditions, at.told("llm")) == ({}, ())
