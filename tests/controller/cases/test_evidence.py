"""No verdict on thin evidence, no news twice: over restarts, without nodes, with nodes that are gone for a moment."""

from typing import Any

import pytest
from tests.controller.cases import objects
from tests.controller.cases.model import Workload, gone, levels
from tests.controller.cases.objects import ASKS_RACK
from tests.controller.cases.world import World

pytestmark = pytest.mark.slow

SPEC = {"levels": levels(*objects.THREE), "gracePeriod": "10m", "publish": {"kueue": "Never"}}
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
    at.start(objects.cluster(2), SPEC, (ASKS_RACK,))
    assert at.status_of().conditions == {}


@pytest.mark.parametrize("nodes", [0, 2])
def test_nothing_moves_while_nothing_happens(at: World, nodes: int) -> None:
    """Also the states in which nothing is known are stable."""
    at.start(objects.cluster(nodes), SPEC)
    before = at.topology("cluster")
    assert available(at)["status"] == ("True" if nodes else "Unknown")
    for _ in range(3):
        at.restart()
        at.reconcile(after=100_000)
    assert at.topology("cluster") == before


def test_a_level_that_waits_for_its_first_node_waits_in_one_state(at: World) -> None:
    at.start((), SPEC, (ASKS_RACK,))
    assert (available(at)["status"], available(at)["reason"]) == ("Unknown", "NoNodes")
    since = available(at)["lastTransitionTime"]
    at.add_nodes(objects.cluster(2))
    objects.label_racks(at, None)
    at.reconcile()
    now = available(at)
    assert (now["status"], now["reason"], now["lastTransitionTime"]) == ("Unknown", "LevelsNotSeen", since)
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
    assert (at.events_on("llm"), at.topology("cluster")) == ((GONE,), before)
    at.restart()
    objects.label_racks(at, "rack-0")
    at.reconcile()
    at.restart()
    at.reconcile()
    assert at.events_on("llm") == (BACK, GONE)
    assert at.status_of().conditions == {}


def test_a_level_that_goes_stays_where_its_removal_drops_constraints(at: World) -> None:
    """Grove drops them, KAI and Kueue refuse what asks for a level that they do not have."""
    spec = {key: value for key, value in SPEC.items() if key != "publish"}
    asks = Workload(
        "Workload", "job", {"podSets": [{"name": "worker", "count": 2, "topologyRequest": {"required": objects.RACK}}]}
    )
    at.start(objects.cluster(2), spec, (ASKS_RACK, asks))
    keys = {path: tuple(key for _, key in path) for path in (objects.TWO, objects.THREE)}
    objects.label_racks(at, None)
    at.reconcile()
    at.reconcile(after=601)
    status = at.status_of()
    assert (status.grove, status.kai, status.kueue) == (objects.THREE, keys[objects.THREE], keys[objects.TWO])
    assert status.conditions["TopologyLevelsAvailable"] == gone("rack", kept=True)
    assert (at.events_on("llm"), at.events_on("job")) == ((GONE,), (GONE,))
    # Once the last workload of Grove's is gone, so is the level, after the grace period; Kueue's own does not hold it.
    at.delete(f"{ASKS_RACK.path}/llm")
    at.reconcile()
    at.restart()
    at.reconcile(after=599)
    at.reconcile(after=599)
    assert at.status_of().grove == objects.THREE
    at.reconcile(after=2)
    status = at.status_of()
    assert (status.grove, status.kai, status.kueue) == (objects.TWO, keys[objects.TWO], keys[objects.TWO])
    assert status.conditions["TopologyLevelsAvailable"] == gone("rack")
