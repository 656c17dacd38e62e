"""The controller against API servers: what it writes, what it leaves alone, what it survives."""

import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.api import ApiUnderTest, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import (
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
from tests.support.publishing import BINDINGS, Time, install, patch
from tests.support.tables import each_case
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPUS, STATE
from toposcope.controller.loop import Controller
from toposcope.controller.reconcile import Reconciler
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import KubeError


@pytest.fixture
def controller(api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time) -> Controller:
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
    found = api.get("/apis/events.k8s.io/v1/events")["items"]
    about = [event for event in found if event["regarding"].get("kind") == "ClusterTopology"]
    return [event for event in about if "TopologyLevels" in event["reason"]]


@pytest.mark.real_api("Events as kubectl searches them")
def test_kubectl_describe_tells_when_conditions_turned_once_and_across_a_failover(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
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


@each_case("tables/controller.yaml")
def test_ready_says_whether_what_should_be_published_is(
    api: ApiUnderTest, controller: Controller, crd: str | None, publish: dict[str, str], reason: str, message: str
) -> None:
    """A script can wait for Ready where no scheduler is installed yet."""
    if crd:
        upstream(api, crd)
    make_nodes(api)
    make_topology(api, publish=publish)
    controller.once()
    ready = condition(api, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", reason)
    assert message in ready["message"]


def test_a_level_that_goes_from_every_node_becomes_unavailable_and_comes_back(
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
    patch(api, f"{BINDINGS}/cluster", {"spec": {"levels": [{"domain": "rack", "key": "wrong/rack"}]}})
    wait_until(lambda: len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 5, "the binding is put back")
    patch(api, kueue, {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}})
    wait_until(lambda: len(api.get(kueue)["spec"]["levels"]) == 5, "Kueue's Topology is put back")
    for path in (kueue, f"{BINDINGS}/cluster"):
        assert api.request("DELETE", path)[0] == 200
        wait_until(lambda path=path: api.request("GET", path)[0] == 200, f"{path} is made again")  # type: ignore[misc]  # mypy infers no default
    assert running.healthy() == ""


def test_never_takes_back_what_was_published_and_auto_publishes_again(api: ApiUnderTest, running: Controller) -> None:
    for crd in ("grove-clustertopologybindings-alpha10", "kueue-topologies-v0.19"):
        upstream(api, crd)
    paths = (f"{BINDINGS}/cluster", "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster")
    make_nodes(api)
    make_topology(api)
    for mode, code in (("Auto", 200), ("Never", 404), ("Auto", 200)):
        edit_topology(api, publish={"grove": mode, "kueue": mode})
        for path in paths:
            wait_until(lambda path=path, code=code: api.request("GET", path)[0] == code, f"{mode}: {path}")  # type: ignore[misc]  # mypy infers no default
    assert running.healthy() == ""


def test_a_label_that_a_new_spec_names_is_found_without_a_restart(api: ApiUnderTest, running: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    wait_until(lambda: status_of(api).get("nodes") == 3, "assessed")
    for i in range(3):
        relabel(api, f"n{i}", {"example.com/row": f"row-{i}"})
    edit_topology(api, levels=[{"domain": "row", "key": "example.com/row"}])
    wait_until(
        lambda: status_of(api)["levelPath"] == "row" and status_of(api)["levels"][0]["domains"] == 3, "rows counted"
    )
    assert running.ready() == ""


def test_what_follows_the_cluster_ends_with_the_controller_though_nothing_comes(
    api: ApiUnderTest, controller: Controller
) -> None:
    make_nodes(api)
    make_topology(api)
    before = set(threading.enumerate())

    def names() -> set[str]:
        return {thread.name for thread in set(threading.enumerate()) - before}

    with in_a_thread(controller):
        wait_until(lambda: {"topologies", "nodes", "crds"} <= names(), "everything is followed")
        wait_until(lambda: not controller.ready(), "all has been read")
    wait_until(lambda: not names() & {"topologies", "nodes", "crds"}, "the reflectors have ended")


def test_before_the_crd_is_there_nothing_is_ready_and_the_reason_is_shown(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    api.remove_crd("clustertopologies.gpu.topology")
    wait_until(lambda: api.request("GET", PATH)[0] == 404, "ClusterTopologies are not served")
    client = clients()
    controller = controller_of(client, Reconciler(client, [], time))
    with pytest.raises(KubeError):
        controller.once()
    assert "ClusterTopologies have not been listed yet" in controller.ready()


def pod_group(api: ApiUnderTest, name: str, level: str) -> dict[str, Any]:
    body = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 2, "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": level}},
    }
    return api.create("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups", body)


def events_of(api: ApiUnderTest, uid: str) -> list[tuple[str, str]]:
    found = api.get("/apis/events.k8s.io/v1/events")["items"]
    return sorted((e["type"], e["note"]) for e in found if e["regarding"].get("uid") == uid)


def test_a_level_that_a_workload_asks_for_is_required_and_the_workload_hears_of_it(
    api: ApiUnderTest, running: Controller, time: Time
) -> None:
    upstream(api, "kai-podgroups-v0.17")
    make_nodes(api)
    make_topology(api, gracePeriod="10m")
    asks = pod_group(api, "training", RACK)["metadata"]["uid"]
    other = pod_group(api, "other", BLOCK)["metadata"]["uid"]
    running.workloads.refresh()
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
