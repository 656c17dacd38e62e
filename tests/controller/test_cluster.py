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
        make_node(api, f"n{i}", {ZONE: "z", BLOCK: "b", RACK: f"r{i}"})


def events(api: ApiUnderTest) -> list[dict[str, Any]]:
    """Those about the level, on the ClusterTopology."""
    found = api.get(EVENTS)["items"]
    about = [event for event in found if event["regarding"].get("kind") == "ClusterTopology"]
    return [event for event in about if "TopologyLevels" in event["reason"]]


@pytest.mark.regression
@pytest.mark.real_api("Events as kubectl searches them")
def test_kubectl_describe_tells_once_when_conditions_turned(api: ApiUnderTest, clients: Clients, time: Time) -> None:
    share_crd(api)
    make_nodes(api)
    made = make_topology(api)
    uid = made["metadata"]["uid"]
    about = f"involvedObject.name=cluster,involvedObject.kind={made['kind']},involvedObject.uid={uid}"

    def told() -> list[tuple[str, str]]:
        """Of a cluster-scoped object kubectl asks for the Events of all namespaces."""
        found = api.get(f"/api/v1/events?fieldSelector={quote(about)}")["items"]
        assert {event["metadata"]["namespace"] for event in found} <= {"default"}
        return sorted((event["type"], event["reason"]) for event in found)

    def look() -> None:
        for _ in range(2):  # the second is a new leader
            full_controller(clients(), time).once()

    look()
    assert told() == []
    state = {RACK: None, STATE: "degraded", BLOCK: "b2", GPUS: "x"}
    relabel(api, "n0", state)
    relabel(api, "n1", {RACK: "r2", BLOCK: "b3"})
    look()
    bad = ["ImplausibleLabels", "LevelsDoNotNest", "NodesDegraded", "NodesMissingLevels"]
    assert told() == [("Warning", reason) for reason in bad]
    relabel(api, "n0", {RACK: "r0", STATE: "ok", BLOCK: "b", GPUS: "8"})
    relabel(api, "n1", {RACK: "r1"})
    look()
    good = ["AllAgentsReport", "AllHealthy", "AllNodesCovered", "LevelsNest"]
    assert told() == [*[("Normal", reason) for reason in good], *[("Warning", reason) for reason in bad]]


def test_a_level_that_goes_is_unavailable_until_it_comes_back(
    api: ApiUnderTest, running: Controller, time: Time
) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api, required=["rack"], gracePeriod="10m", publish={"kai": "Never"})
    wait_until(lambda: condition(api, "Ready").get("status") == "True" and status_of(api)["nodes"] == 3, "ready")
    assert running.ready() == running.healthy() == ""
    for i in range(3):
        relabel(api, f"n{i}", {RACK: None})
    wait_until(lambda: [level["missing"] for level in status_of(api)["levels"]] == [0, 0, 3, 0, 0], "all racks missed")
    assert condition(api, "TopologyLevelsAvailable")["status"] == "True"
    time.seconds = 601
    relabel(api, "n0", {BLOCK: "b"})
    relabel(api, "n0", {BLOCK: "other"})  # any change makes it look
    wait_until(lambda: condition(api, "TopologyLevelsAvailable")["status"] == "False", "unavailable")
    message = condition(api, "TopologyLevelsAvailable")["message"]
    assert message == "Topology level 'rack' is no longer available in the cluster topology"
    wait_until(lambda: len(events(api)) == 1, "one Event")
    assert (events(api)[0]["type"], events(api)[0]["note"]) == ("Warning", message)
    levels = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    assert [level["domain"] for level in levels] == ["zone", "block", "nvlink-domain", "host"]
    for i in range(3):
        relabel(api, f"n{i}", {RACK: "r"})
    wait_until(lambda: condition(api, "TopologyLevelsAvailable")["status"] == "True", "available again")
    wait_until(lambda: len(events(api)) == 2, "a second Event")
    assert {event["type"] for event in events(api)} == {"Warning", "Normal"}


def test_what_was_edited_or_deleted_by_hand_is_put_back_at_once(api: ApiUnderTest, running: Controller) -> None:
    for crd in ("grove-clustertopologybindings-alpha10", "kueue-topologies-main"):
        upstream(api, crd)
    kueue = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
    make_nodes(api)
    make_topology(api, publish={"kai": "Never"})
    wait_until(lambda: condition(api, "Ready").get("status") == "True" and status_of(api)["nodes"] == 3, "ready")
    # All of this within the patience of a test, which is half of the time between two looks at everything.
    api.patch(f"{BINDINGS}/cluster", {"spec": {"levels": [{"domain": "rack", "key": "wrong/rack"}]}})
    wait_until(lambda: len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 5, "the binding is put back")
    api.patch(kueue, {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}})
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
    wait_until(lambda: status_of(api)["levelPath"] == "row" and status_of(api)["levels"][0]["domains"] == 3, "rows")
    assert running.ready() == ""


def test_what_follows_the_cluster_ends_though_nothing_comes(api: ApiUnderTest, controller: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    before = set(threading.enumerate())

    def names() -> set[str]:
        return {thread.name for thread in set(threading.enumerate()) - before}

    with in_a_thread(controller):
        wait_until(lambda: {"topologies", "nodes", "crds"} <= names(), "everything is followed")
        wait_until(lambda: not controller.ready(), "all has been read")
    wait_until(lambda: not names() & {"topologies", "nodes", "crds"}, "the reflectors have ended")


def test_before_the_crd_is_there_nothing_is_ready(api: ApiUnderTest, clients: Clients, time: Time) -> None:
    api.remove_crd("clustertopologies.gpu.topology")
    wait_until(lambda: api.request("GET", PATH)[0] == 404, "ClusterTopologies are not served")
    client = clients()
    controller = controller_of(client, Reconciler(Wiring(client, runtime=time)))
    with pytest.raises(KubeError):
        controller.once()
    assert "ClusterTopologies have not been listed yet" in controller.ready()


def pod_group(api: ApiUnderTest, name: str, level: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    spec = {"minMember": 2, "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": level}}
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return api.create("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups", body)


def events_of(api: ApiUnderTest, uid: str) -> list[tuple[str, str]]:
    found = api.get(EVENTS)["items"]
    return sorted((e["type"], e["note"]) for e in found if e["regarding"].get("uid") == uid)


def test_a_level_that_a_workload_asks_for_is_required(api: ApiUnderTest, running: Controller, time: Time) -> None:
    upstream(api, "kai-podgroups-v0.17")
    make_nodes(api)
    make_topology(api, gracePeriod="10m")
    asks = pod_group(api, "training", RACK)["metadata"]["uid"]
    other = pod_group(api, "other", BLOCK)["metadata"]["uid"]
    running.watches.workloads.refresh()
    wanted = [{"domain": "block", "workloads": 1}, {"domain": "rack", "workloads": 1}]
    wait_until(lambda: status_of(api).get("requiredBy") == wanted, "both asked for")
    assert condition(api, "TopologyLevelsAvailable")["status"] == "True"
    for i in range(3):
        relabel(api, f"n{i}", {RACK: None})
    wait_until(lambda: [level["missing"] for level in status_of(api)["levels"]] == [0, 0, 3, 0, 0], "all racks missed")
    time.seconds = 601
    relabel(api, "n0", {BLOCK: "other"})
    gone = "Topology level 'rack' is no longer available in the cluster topology"
    wait_until(lambda: events_of(api, asks) == [("Warning", gone)], "the workload gets an Event")
    assert condition(api, "TopologyLevelsAvailable")["message"] == gone
    assert status_of(api)["requiredBy"] == wanted
    for i in range(3):
        relabel(api, f"n{i}", {RACK: "r"})
    back = "Topology level 'rack' is available again in the cluster topology"
    wait_until(lambda: events_of(api, asks) == [("Normal", back), ("Warning", gone)], "and a second one")
    assert events_of(api, other) == []


def test_a_cable_in_the_wrong_switch_is_in_status_and_one_event(api: ApiUnderTest, controller: Controller) -> None:
    """With the longest texts that an annotation can have."""
    expected, found, nic, port = (letter * 255 for letter in "eanp")
    for i in range(5):
        leaf = {"nic": nic, "switch": expected, "id": expected[:-1], "port": port}
        rails = [leaf | {"id": "other"}, leaf if i else leaf | {"id": found}]
        api.create(NODES, node(f"n{i}", labels={GPUS: "8"}, annotations={RAILS: json.dumps(rails)}))
        api.patch(f"{NODES}/n{i}/status", {"status": {"conditions": [READY]}})
    make_topology(api, gracePeriod="0s")
    controller.once()
    one = {"node": "n0", "nic": nic, "port": port}
    one |= {"switch": f"{expected} ({found})", "expected": f"{expected} ({expected[:-1]})"}
    told = {"nodes": 5, "miscabledRails": 1, "miscabled": [one], "sharedNames": [{"name": expected, "switches": 3}]}
    written = api.get(f"{PATH}/cluster")
    assert written["status"]["rails"] == told
    assert condition(api, "RailsConsistent")["reason"] == "RailsMiscabled"
    for _ in range(3):
        controller.once()
    assert api.get(f"{PATH}/cluster") == written
    about = [event for event in api.get(EVENTS)["items"] if event["regarding"]["kind"] == "Node"]
    assert [(event["type"], event["reason"]) for event in about] == [("Warning", "RailsMiscabled")]
