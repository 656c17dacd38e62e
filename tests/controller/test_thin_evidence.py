"""A controller that cannot see the nodes just now: nothing flips, nothing is removed, and the status says why."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, wait_until
from tests.support.cluster import gpu_node
from tests.support.controller import (
    available,
    controller_of,
    make_node,
    make_topology,
    running,
    sees_its_status,
    share_crd,
    status_of,
)
from tests.support.publishing import Time
from toposcope.api.cluster_topology import PATH, read
from toposcope.controller.loop import Controller
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef
from toposcope.kube.client import ApiClient
from toposcope.simulator.apiserver.server import ServerFaults

pytestmark = pytest.mark.embedded_api("fails on demand")

SPEC: dict[str, Any] = {"required": ["rack"], "gracePeriod": "1m"}
RACK = "cloud.provider.com/topology-rack"
EVENTS = "/apis/events.k8s.io/v1/events"
Start = Callable[[], Controller]


@pytest.fixture
def client(api: ApiUnderTest, clients: Clients) -> ApiClient:
    share_crd(api)
    return clients()


@pytest.fixture
def start(client: ApiClient, time: Time) -> Iterator[Start]:
    """Start a controller; all are ended with the test."""
    with ExitStack() as stack:

        def started() -> Controller:
            reconciler = Reconciler(Wiring(client, runtime=time))
            controller = controller_of(client, reconciler)
            return stack.enter_context(running(controller))

        yield started


def is_nodes(request: Any) -> bool:
    return bool(request.method == "GET" and request.path == NODES)


def cannot_list_nodes(api: ApiUnderTest, controller: Controller) -> bool:
    """Whether it has noticed; the request keeps the server from waiting for one."""
    return bool(api.get("/api")) and controller.watches.nodes.error is not None


def known(api: ApiUnderTest) -> dict[str, Any]:
    """The status of `cluster`, apart from what it shares with other topologies."""
    status = status_of(api)
    conditions = []
    for entry in status["conditions"]:
        if entry["type"] != "SelectorsDisjoint":
            conditions.append(entry)
    return {**status, "conditions": conditions}


def test_nodes_when_they_cannot_be_listed_then_are_reported_in_one_state(
    api: ApiUnderTest, faults: ServerFaults, start: Start
) -> None:
    faults.reject(403, 1_000_000, applies=is_nodes)
    controller = start()
    wait_until(lambda: cannot_list_nodes(api, controller), "refused")
    make_topology(api, **SPEC)
    wait_until(lambda: available(api) != {}, "reported")
    unknown = available(api)
    assert unknown["status"] == "Unknown"
    assert unknown["reason"] == "NodesNotSynced"
    assert unknown["message"].startswith("The nodes of the cluster have not been listed yet: 403")
    before = api.get(f"{PATH}/cluster")
    make_topology(api, "second", **SPEC)  # makes it look again
    wait_until(lambda: available(api, "second") != {}, "reported for the second one")
    assert api.get(f"{PATH}/cluster") == before
    make_node(api, "n1", {RACK: "r1"})
    faults.stop_rejecting()
    wait_until(lambda: available(api)["status"] == "True", "listed in the end")


def test_a_restart_that_cannot_list_nodes_leaves_the_status(
    api: ApiUnderTest, faults: ServerFaults, start: Start
) -> None:
    make_node(api, "n1", {RACK: "r1"})
    make_topology(api, **SPEC)
    first = start()
    wait_until(lambda: available(api).get("status") == "True", "available")
    first.end()
    before = api.get(f"{PATH}/cluster")
    faults.reject(503, 1_000_000, applies=is_nodes)
    again = start()
    wait_until(lambda: cannot_list_nodes(api, again), "refused")
    make_topology(api, "second", **SPEC)
    wait_until(lambda: available(api, "second") != {}, "it looked")
    assert api.get(f"{PATH}/cluster") == before
    assert "nodes have not been listed yet" in again.ready()


def test_while_nodes_are_listed_again_what_is_known_stands(
    api: ApiUnderTest, faults: ServerFaults, start: Start, time: Time
) -> None:
    make_node(api, "n1", {RACK: "r1"})
    make_topology(api, **SPEC)
    controller = start()
    wait_until(lambda: available(api).get("status") == "True", "available")
    wait_until(lambda: sees_its_status(api, controller), "seen")
    before = known(api)
    faults.reject(503, 1_000_000, applies=is_nodes)
    faults.expire_history()
    faults.cut_watches()
    wait_until(lambda: cannot_list_nodes(api, controller), "lost the watch")
    time.seconds = 100_000
    make_topology(api, "second", **SPEC)
    wait_until(lambda: available(api, "second") != {}, "it looked")
    assert available(api, "second")["status"] == "True"
    assert known(api) == before


class Asking:
    """A thousand workloads that ask for a rack."""

    is_synced = True

    def __init__(self, count: int) -> None:
        self._needs: dict[WorkloadRef, tuple[LevelRequest, ...]] = {}
        for i in range(count):
            workload = WorkloadRef("v1", "ConfigMap", "default", f"w{i}", f"uid-{i}")
            self._needs[workload] = (LevelRequest(RACK, is_required=True),)

    def level_requests(self) -> Mapping[WorkloadRef, tuple[LevelRequest, ...]]:
        return self._needs

    def by_value(self) -> Mapping[str, str]:
        return {}

    def bound_requests(self) -> Mapping[WorkloadRef, tuple[LevelRequest, ...]]:
        return {}


def test_level_that_flaps_under_a_thousand_workloads_writes_little(
    api: ApiUnderTest, client: ApiClient, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    make_topology(api, **SPEC)
    reconciler = Reconciler(Wiring(client, runtime=time))

    def look(rack: str | None) -> int:
        current = read(api.get(f"{PATH}/cluster"))
        labels = {
            "zone": None,
            "block": None,
            "rack": None,
            RACK: rack,
        }
        reconciler.reconcile([current], [gpu_node("n1", labels)], Asking(1000))
        about_levels = 0
        for event in api.get(EVENTS)["items"]:
            if "TopologyLevels" in event["reason"]:
                about_levels += 1
        return about_levels

    assert look("r1") == 0
    assert look(None) == 0
    time.seconds = 61
    assert look(None) == 200
    assert "801 Events of 1001 are not recorded" in caplog.text
    assert look("r1") == 200  # back at once: there is no room for a second flood
    time.seconds = 161
    assert look("r1") == 200
    look(None)
    time.seconds = 261
    assert look(None) == 400
