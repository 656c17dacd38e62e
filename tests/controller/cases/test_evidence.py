"""No verdict on thin evidence, no news twice: over restarts, without nodes, with nodes that are gone for a moment."""

from typing import Any

import pytest
from tests.controller.cases import objects
from tests.controller.cases.model import Workload, gone, levels
from tests.controller.cases.objects import ASKS_RACK
from tests.controller.cases.world import World

pytestmark = pytest.mark.slow

SPEC = {
    "levels": levels(*objects.THREE),
    "gracePeriod": "10m",
    "publish": {"kueue": "Never"},
}
GONE = ("Warning", "Topology level 'rack' is no longer available in the cluster topology")
BACK = ("Normal", "Topology level 'rack' is available again in the cluster topology")


def available(at: World) -> dict[str, Any]:
    """The condition TopologyLevelsAvailable."""
    for condition in at.topology("cluster")["status"]["conditions"]:
        if condition["type"] == "TopologyLevelsAvailable":
            found: dict[str, Any] = condition
            return found
    raise AssertionError("no condition TopologyLevelsAvailable")


def settle(at: World) -> None:
    """Two nodes, a workload that requires a rack, and all is well."""
    at.start(objects.cluster(2), SPEC, (ASKS_RACK,))
    assert at.status_of().conditions == {}


@pytest.mark.parametrize("nodes", [0, 2])
def test_nothing_moves_while_nothing_happens(at: World, nodes: int) -> None:
    """Also the states in which nothing is known are stable."""
    at.start(objects.cluster(nodes), SPEC)
    before = at.topology("cluster")
    expected = "True" if nodes else "Unknown"
    assert available(at)["status"] == expected
    for _ in range(3):
        at.restart()
        at.reconcile(after=100_000)
    assert at.topology("cluster") == before


def test_a_level_that_waits_for_its_first_node_waits_in_one_state(at: World) -> None:
    at.start((), SPEC, (ASKS_RACK,))
    before_nodes = available(at)
    assert before_nodes["status"] == "Unknown"
    assert before_nodes["reason"] == "NoNodes"
    at.add_nodes(objects.cluster(2))
    objects.label_racks(at, None)
    at.reconcile()
    now = available(at)
    assert now["status"] == "Unknown"
    assert now["reason"] == "LevelsNotSeen"
    assert now["lastTransitionTime"] == before_nodes["lastTransitionTime"]
    before = at.topology("cluster")
    at.reconcile()
    assert at.topology("cluster") == before


def test_a_restart_tells_nothing_twice_and_forgets_nothing(at: World) -> None:
    settle(at)
    objects.label_racks(at, None)
    at.reconcile()
    at.reconcile(after=601)
    assert at.events_on("llm") == (GONE,)
    before = at.topology("cluster")
    for _ in range(3):
        at.restart()
        at.reconcile()
        at.pass_time(601)
    assert at.events_on("llm") == (GONE,)
    assert at.topology("cluster") == before
    at.restart()
    objects.label_racks(at, "rack-0")
    at.reconcile()
    at.restart()
    at.reconcile()
    assert at.events_on("llm") == (BACK, GONE)
    assert at.status_of().conditions == {}


def test_a_level_that_goes_stays_where_its_removal_drops_constraints(at: World) -> None:
    """Grove drops them, KAI and Kueue refuse what asks for a level that they do not have."""
    spec = dict(SPEC)
    del spec["publish"]
    request = {"required": objects.RACK}
    pods = {
        "name": "worker",
        "count": 2,
        "topologyRequest": request,
    }
    asks = Workload("Workload", "job", {"podSets": [pods]})
    at.start(objects.cluster(2), spec, (ASKS_RACK, asks))
    two_keys = tuple(key for _, key in objects.TWO)
    three_keys = tuple(key for _, key in objects.THREE)
    objects.label_racks(at, None)
    at.reconcile()
    at.reconcile(after=601)
    status = at.status_of()
    assert status.grove == objects.THREE
    assert status.kai == three_keys
    assert status.kueue == two_keys
    assert status.conditions["TopologyLevelsAvailable"] == gone("rack", kept=True)
    assert at.events_on("llm") == (GONE,)
    assert at.events_on("job") == (GONE,)
    # Once the last workload of Grove's is gone, so is the level, after the grace period; Kueue's own does not hold it.
    at.delete(f"{ASKS_RACK.path}/llm")
    at.reconcile()
    at.restart()
    at.reconcile(after=599)
    at.reconcile(after=599)
    assert at.status_of().grove == objects.THREE
    at.reconcile(after=2)
    status = at.status_of()
    assert status.grove == objects.TWO
    assert status.kai == two_keys
    assert status.kueue == two_keys
    assert status.conditions["TopologyLevelsAvailable"] == gone("rack")
