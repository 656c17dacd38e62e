"""The controller against API servers: what it writes, what it leaves alone, what it survives."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import (
    READY,
    condition,
    controller_of,
    edit_topology,
    full_controller,
    make_node,
    make_topology,
    relabel,
    sees_its_status,
    share_crd,
    status_of,
)
from tests.support.controller import running as in_a_thread
from tests.support.publishing import BINDINGS, Time, install
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPUS, RAILS, STATE
from toposcope.controller.loop import Controller
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.kube.errors import KubeError

EVENTS = "/apis/events.k8s.io/v1/events"


@pytest.fixture
def controller(api: ApiUnderTest, clients: Clients, time: Time) -> Controller:
    share_crd(api)
    return full_controller(clients(), time)


@pytest.fixture
def running(controller: Controller) -> Iterator[Controller]:
    with in_a_thread(controller):
        yield controller


def upstream(api: ApiUnderTest, name: str) -> None:
    # Grove's binding is written where KAI's Topology is served, from which Grove makes KAI's.
    beside = ["kai-topologies-v0.17"] if name.startswith("grove-clustertopologybindings") else []
    install(api, name, *beside)


def make_nodes(api: ApiUnderTest, count: int = 3) -> None:
    for i in range(count):
        labels = {
            ZONE: "z",
            BLOCK: "b",
            RACK: f"r{i}",
        }
        make_node(api, f"n{i}", labels)


def relabel_all(api: ApiUnderTest, labels: dict[str, str | None]) -> None:
    """Change labels of the three nodes of `make_nodes`."""
    for i in range(3):
        relabel(api, f"n{i}", labels)


def all_events(api: ApiUnderTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(EVENTS)["items"]
    return found


def level_events(api: ApiUnderTest) -> list[dict[str, Any]]:
    """Those about levels, on the ClusterTopology."""
    about_levels = []
    for event in all_events(api):
        is_about_topology = event["regarding"].get("kind") == "ClusterTopology"
        if is_about_topology and "TopologyLevels" in event["reason"]:
            about_levels.append(event)
    return about_levels


def is_ready_with_three_nodes(api: ApiUnderTest) -> bool:
    if condition(api, "Ready").get("status") != "True":
        return False
    nodes: int = status_of(api)["nodes"]
    return nodes == 3


def missing_nodes(api: ApiUnderTest) -> list[int]:
    """How many nodes lack each level."""
    levels = status_of(api)["levels"]
    return [level["missing"] for level in levels]


def levels_available(api: ApiUnderTest) -> str:
    """The status of the condition."""
    status: str = condition(api, "TopologyLevelsAvailable")["status"]
    return status


def binding_levels(api: ApiUnderTest) -> list[dict[str, str]]:
    levels: list[dict[str, str]] = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    return levels


@pytest.mark.regression
@pytest.mark.real_api("Events as kubectl searches them")
def test_kubectl_describe_tells_once_when_conditions_turned(
    api: ApiUnderTest, clients: Clients, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    share_crd(api)
    make_nodes(api)
    made = make_topology(api)
    selector = {
        "involvedObject.name": "cluster",
        "involvedObject.kind": made["kind"],
        "involvedObject.uid": made["metadata"]["uid"],
    }
    about = ",".join(f"{field}={value}" for field, value in selector.items())

    def told() -> list[tuple[str, str]]:
        """Of a cluster-scoped object kubectl asks for the Events of all namespaces."""
        found = api.get(f"/api/v1/events?fieldSelector={quote(about)}")["items"]
        reasons = []
        for event in found:
            assert event["metadata"]["namespace"] == "default"
            reasons.append((event["type"], event["reason"]))
        return sorted(reasons)

    def look() -> None:
        for _ in range(2):  # the second is a new leader
            full_controller(clients(), time).once()

    look()
    assert told() == []
    caplog.set_level("INFO")
    state = {
        RACK: None,
        STATE: "degraded",
        BLOCK: "b2",
        GPUS: "x",
    }
    relabel(api, "n0", state)
    relabel(
        api,
        "n1",
        {RACK: "r2", BLOCK: "b3"},
    )
    look()
    bad = [
        ("Warning", "ImplausibleLabels"),
        ("Warning", "LevelsDoNotNest"),
        ("Warning", "NodesDegraded"),
        ("Warning", "NodesMissingLevels"),
    ]
    assert told() == bad
    relabel(
        api,
        "n0",
        {RACK: "r0", STATE: "ok", BLOCK: "b", GPUS: "8"},
    )
    relabel(api, "n1", {RACK: "r1"})
    look()
    good = [
        ("Normal", "AllAgentsReport"),
        ("Normal", "AllHealthy"),
        ("Normal", "AllNodesCovered"),
        ("Normal", "LevelsNest"),
    ]
    assert told() == [*good, *bad]
    assert "ClusterTopology cluster: Every node with GPUs carries the labels of an agent" in caplog.messages


def test_a_level_that_goes_is_unavailable_until_it_comes_back(
    api: ApiUnderTest, running: Controller, time: Time
) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(
        api,
        required=["rack"],
        gracePeriod="10m",
        publish={"kai": "Never"},
    )
    wait_until(lambda: is_ready_with_three_nodes(api), "ready")
    assert running.ready() == ""
    assert running.healthy() == ""
    relabel_all(api, {RACK: None})
    wait_until(lambda: missing_nodes(api) == [0, 0, 3, 0, 0], "all racks missed")
    assert levels_available(api) == "True"
    wait_until(lambda: sees_its_status(api, running), "seen")
    time.seconds = 601
    relabel(api, "n0", {BLOCK: "b"})
    relabel(api, "n0", {BLOCK: "other"})  # any change makes it look
    wait_until(lambda: levels_available(api) == "False", "unavailable")
    message = condition(api, "TopologyLevelsAvailable")["message"]
    assert message == "Topology level 'rack' is no longer available in the cluster topology"
    wait_until(lambda: len(level_events(api)) == 1, "one Event")
    (event,) = level_events(api)
    assert event["type"] == "Warning"
    assert event["note"] == message
    domains = [level["domain"] for level in binding_levels(api)]
    assert domains == [
        "zone",
        "block",
        "nvlink-domain",
        "host",
    ]
    relabel_all(api, {RACK: "r"})
    wait_until(lambda: levels_available(api) == "True", "available again")
    wait_until(lambda: len(level_events(api)) == 2, "a second Event")
    assert {event["type"] for event in level_events(api)} == {"Warning", "Normal"}


def test_what_was_edited_or_deleted_by_hand_is_put_back_at_once(api: ApiUnderTest, running: Controller) -> None:
    for crd in ("grove-clustertopologybindings-alpha10", "kueue-topologies-main"):
        upstream(api, crd)
    kueue = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
    make_nodes(api)
    make_topology(api, publish={"kai": "Never"})
    wait_until(lambda: is_ready_with_three_nodes(api), "ready")
    # All of this within the patience of a test, which is half of the time between two looks at everything.
    wrong_levels = [{"domain": "rack", "key": "wrong/rack"}]
    api.patch(f"{BINDINGS}/cluster", {"spec": {"levels": wrong_levels}})
    wait_until(lambda: len(binding_levels(api)) == 5, "the binding is put back")
    only_hosts = [{"nodeLabel": "kubernetes.io/hostname"}]
    api.patch(kueue, {"spec": {"levels": only_hosts}})
    wait_until(lambda: len(api.get(kueue)["spec"]["levels"]) == 5, "Kueue's Topology is put back")
    for path in (kueue, f"{BINDINGS}/cluster"):
        assert api.request("DELETE", path)[0] == 200
        # mypy infers no default
        wait_until(lambda path=path: api.request("GET", path)[0] == 200, f"{path} is made again")  # type: ignore[misc]
    assert running.healthy() == ""


def test_a_label_that_a_new_spec_names_is_found_without_a_restart(api: ApiUnderTest, running: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    wait_until(lambda: status_of(api).get("nodes") == 3, "assessed")
    for i in range(3):
        relabel(api, f"n{i}", {"example.com/row": f"row-{i}"})
    edit_topology(api, levels=[{"domain": "row", "key": "example.com/row"}])

    def has_three_rows() -> bool:
        status = status_of(api)
        if status["levelPath"] != "row":
            return False
        rows: int = status["levels"][0]["domains"]
        return rows == 3

    wait_until(has_three_rows, "rows")
    assert running.ready() == ""


def test_what_follows_the_cluster_ends_though_nothing_comes(api: ApiUnderTest, controller: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    before = set(threading.enumerate())
    reflectors = {"topologies", "nodes", "crds"}

    def running_reflectors() -> set[str]:
        started = set(threading.enumerate()) - before
        return reflectors & {thread.name for thread in started}

    with in_a_thread(controller):
        wait_until(lambda: running_reflectors() == reflectors, "everything is followed")
        wait_until(lambda: not controller.ready(), "all has been read")
    wait_until(lambda: not running_reflectors(), "the reflectors have ended")


def test_before_the_crd_is_there_nothing_is_ready(api: ApiUnderTest, clients: Clients, time: Time) -> None:
    api.remove_crd("clustertopologies.gpu.topology")
    wait_until(lambda: api.request("GET", PATH)[0] == 404, "ClusterTopologies are not served")
    client = clients()
    controller = controller_of(client, Reconciler(Wiring(client, runtime=time)))
    with pytest.raises(KubeError):
        controller.once()
    assert "ClusterTopologies have not been listed yet" in controller.ready()


def pod_group(api: ApiUnderTest, name: str, level: str) -> dict[str, Any]:
    body = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
        },
        "spec": {
            "minMember": 2,
            "topologyConstraint": {
                "topology": "cluster",
                "requiredTopologyLevel": level,
            },
        },
    }
    return api.create("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups", body)


def events_of(api: ApiUnderTest, uid: str) -> list[tuple[str, str]]:
    found = []
    for event in all_events(api):
        if event["regarding"].get("uid") == uid:
            found.append((event["type"], event["note"]))
    return sorted(found)


def test_a_level_that_a_workload_asks_for_is_required(api: ApiUnderTest, running: Controller, time: Time) -> None:
    upstream(api, "kai-podgroups-v0.17")
    make_nodes(api)
    make_topology(api, gracePeriod="10m")
    asks = pod_group(api, "training", RACK)["metadata"]["uid"]
    other = pod_group(api, "other", BLOCK)["metadata"]["uid"]
    running.watches.workloads.refresh()
    wanted = [
        {"domain": "block", "workloads": 1},
        {"domain": "rack", "workloads": 1},
    ]
    wait_until(lambda: status_of(api).get("requiredBy") == wanted, "both asked for")
    assert levels_available(api) == "True"
    relabel_all(api, {RACK: None})
    wait_until(lambda: missing_nodes(api) == [0, 0, 3, 0, 0], "all racks missed")
    wait_until(lambda: sees_its_status(api, running), "seen")
    time.seconds = 601
    relabel(api, "n0", {BLOCK: "other"})
    gone = "Topology level 'rack' is no longer available in the cluster topology"
    lost = ("Warning", gone)
    wait_until(lambda: events_of(api, asks) == [lost], "the workload gets an Event")
    assert condition(api, "TopologyLevelsAvailable")["message"] == gone
    assert status_of(api)["requiredBy"] == wanted
    relabel_all(api, {RACK: "r"})
    back = "Topology level 'rack' is available again in the cluster topology"
    regained = ("Normal", back)
    wait_until(lambda: events_of(api, asks) == [regained, lost], "and a second one")
    assert events_of(api, other) == []


def test_a_cable_in_the_wrong_switch_is_in_status_and_one_event(api: ApiUnderTest, controller: Controller) -> None:
    """With the longest texts that an annotation can have."""
    expected, found, nic, port = (letter * 255 for letter in "eanp")
    right = {
        "nic": nic,
        "switch": expected,
        "id": expected[:-1],
        "port": port,
    }
    namesake = right | {"id": "other"}
    wrong = right | {"id": found}
    for i in range(5):
        rails = [namesake, wrong if i == 0 else right]
        body = node(
            f"n{i}",
            labels={GPUS: "8"},
            annotations={RAILS: json.dumps(rails)},
        )
        api.create(NODES, body)
        api.patch(f"{NODES}/n{i}/status", {"status": {"conditions": [READY]}})
    make_topology(api, gracePeriod="0s")
    controller.once()
    miscabled = {
        "node": "n0",
        "nic": nic,
        "port": port,
        "switch": f"{expected} ({found})",
        "expected": f"{expected} ({expected[:-1]})",
    }
    shared_name = {"name": expected, "switches": 3}
    written = api.get(f"{PATH}/cluster")
    assert written["status"]["rails"] == {
        "nodes": 5,
        "miscabledRails": 1,
        "miscabled": [miscabled],
        "sharedNames": [shared_name],
    }
    assert condition(api, "RailsConsistent")["reason"] == "RailsMiscabled"
    for _ in range(3):
        controller.once()
    assert api.get(f"{PATH}/cluster") == written
    about_nodes = []
    for event in all_events(api):
        if event["regarding"]["kind"] == "Node":
            about_nodes.append((event["type"], event["reason"]))
    assert about_nodes == [("Warning", "RailsMiscabled")]
