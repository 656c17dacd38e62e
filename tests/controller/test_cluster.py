"""The controller against API servers: what it writes, what it leaves alone, what it survives."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.support.api import NODES, ApiUnderTest, node, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.paths import CRD
from tests.support.publishing import install
from toposcope.api.cluster_topology import PATH
from toposcope.controller.loop import Controller
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.options import Options
from toposcope.controller.publishers.cached_reader import CachedReader
from toposcope.controller.publishers.dry_run import DryRun
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.run import make_publishers
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import KubeError

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
OPTIONS = Options(kubeconfig=None, once=False, debounce=0.0, metrics_port=None, log_format="text")
MERGE = "application/merge-patch+json"


class Time:
    """Monotonic time that only tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def controller(api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time) -> Controller:
    api.share_crd(yaml.safe_load(CRD.read_text(encoding="utf-8")))
    client, stop = clients(), threading.Event()
    published = CachedReader(client, stop)
    dry_runner = DryRun(published, make_publishers, time)
    publishers = make_publishers(published)
    reconciler = Reconciler(client, publishers, time, instance="test", cached_reader=published, dry_run=dry_runner)
    return Controller(
        client, lambda: reconciler, ControllerMetrics(CollectorRegistry()), OPTIONS, stop, published=published
    )


@pytest.fixture
def running(controller: Controller) -> Iterator[Controller]:
    thread = threading.Thread(target=controller.run)
    thread.start()
    yield controller
    controller.end()
    thread.join()


def upstream(api: ApiUnderTest, name: str) -> None:
    # Grove's binding is written where KAI's Topology is served, from which Grove makes KAI's.
    beside = ["kai-topologies-v0.17"] if name.startswith("grove-clustertopologybindings") else []
    install(api, name, *beside)


def make_topology(api: ApiUnderTest, **spec: Any) -> dict[str, Any]:
    body = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "cluster"},
        "spec": spec,
    }
    made: dict[str, Any] = api.create(PATH, body)
    return made


def make_nodes(api: ApiUnderTest, count: int = 3) -> None:
    for i in range(count):
        labels = {ZONE: "z", BLOCK: "b", RACK: f"r{i}", "kubernetes.io/hostname": f"n{i}"}
        ours = {"gpu.topology/gpus": "8", "gpu.topology/nvlink-domain": f"n{i}"}
        made = api.create(NODES, node(f"n{i}", labels=labels | ours))
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": None}
        status = {"conditions": [ready], "allocatable": {"nvidia.com/gpu": "8"}}
        name = made["metadata"]["name"]
        code, answer = api.request("PATCH", f"{NODES}/{name}/status", {"status": status}, content_type=MERGE)
        assert code == 200, answer
        # A kube-apiserver taints new nodes as not ready; nobody here would take the taint away.


def label(api: ApiUnderTest, name: str, **labels: str | None) -> None:
    patch = {"metadata": {"labels": {{"rack": RACK, "block": BLOCK}[key]: value for key, value in labels.items()}}}
    assert api.request("PATCH", f"{NODES}/{name}", patch, content_type=MERGE)[0] == 200


def status(api: ApiUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{PATH}/cluster").get("status") or {}
    return found


def condition(api: ApiUnderTest, kind: str) -> dict[str, Any]:
    return next((c for c in status(api).get("conditions", ()) if c["type"] == kind), {})


def events(api: ApiUnderTest) -> list[dict[str, Any]]:
    found = api.get("/apis/events.k8s.io/v1/events")["items"]
    return [event for event in found if event["regarding"].get("kind") == "ClusterTopology"]


def test_one_pass_writes_a_status_that_the_crd_accepts(api: ApiUnderTest, controller: Controller) -> None:
    make_nodes(api)
    generation = make_topology(api, required=["rack"])["metadata"]["generation"]
    controller.once()
    found = status(api)
    assert found["levelPath"] == "zone > block > rack > nvlink-domain > host"
    assert (found["nodes"], found["gpus"], found["observedGeneration"]) == (3, 24, generation)
    assert [(e["domain"], e["domains"], e["nodes"], e["missing"], e["available"]) for e in found["levels"]] == [
        ("zone", 1, 3, 0, True),
        ("block", 1, 3, 0, True),
        ("rack", 3, 3, 0, True),
        ("nvlink-domain", 3, 3, 0, True),
        ("host", 3, 3, 0, True),
    ]
    assert condition(api, "TopologyLevelsAvailable")["reason"] == "AllTopologyLevelsAvailable"
    assert (condition(api, "Published")["status"], condition(api, "Published")["reason"]) == ("False", "NotServed")


def test_nothing_is_written_at_rest(api: ApiUnderTest, controller: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    controller.once()
    before = api.get(f"{PATH}/cluster")["metadata"]["resourceVersion"]
    controller.once()
    assert api.get(f"{PATH}/cluster")["metadata"]["resourceVersion"] == before


def test_a_level_that_goes_from_every_node_is_told_and_taken_back(
    api: ApiUnderTest, running: Controller, time: Time
) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api, required=["rack"], gracePeriod="10m", publish={"kai": "Never"})
    wait_until(lambda: condition(api, "Ready").get("status") == "True" and status(api)["nodes"] == 3, "ready")
    assert running.ready() == running.healthy() == ""
    for i in range(3):
        label(api, f"n{i}", rack=None)
    wait_until(lambda: [level["missing"] for level in status(api)["levels"]] == [0, 0, 3, 0, 0], "all racks missed")
    assert condition(api, "TopologyLevelsAvailable")["status"] == "True"
    time.seconds = 601
    label(api, "n0", block="b")
    label(api, "n0", block="other")  # any change makes it look
    wait_until(lambda: condition(api, "TopologyLevelsAvailable")["status"] == "False", "unavailable")
    said = condition(api, "TopologyLevelsAvailable")["message"]
    assert said == "Topology level 'rack' is no longer available in the cluster topology"
    wait_until(lambda: len(events(api)) == 1, "one Event")
    assert (events(api)[0]["type"], events(api)[0]["note"]) == ("Warning", said)
    levels = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    assert [level["domain"] for level in levels] == ["zone", "block", "nvlink-domain", "host"]
    for i in range(3):
        label(api, f"n{i}", rack="r")
    wait_until(lambda: condition(api, "TopologyLevelsAvailable")["status"] == "True", "available again")
    wait_until(lambda: len(events(api)) == 2, "a second Event")
    assert {event["type"] for event in events(api)} == {"Warning", "Normal"}


@pytest.mark.parametrize("crd", ["grove-clustertopologybindings-alpha9", "grove-clustertopologybindings-alpha10"])
def test_grove_accepts_what_is_published(api: ApiUnderTest, controller: Controller, crd: str) -> None:
    upstream(api, crd)
    make_nodes(api)
    owner = make_topology(api, publish={"kai": "Never"})["metadata"]["uid"]
    controller.once()
    binding = api.get(f"{BINDINGS}/cluster")
    assert binding["spec"]["levels"] == [
        {"domain": "zone", "key": ZONE},
        {"domain": "block", "key": BLOCK},
        {"domain": "rack", "key": RACK},
        {"domain": "nvlink-domain", "key": "gpu.topology/nvlink-domain"},
        {"domain": "host", "key": "kubernetes.io/hostname"},
    ]
    assert binding["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    assert [reference["uid"] for reference in binding["metadata"]["ownerReferences"]] == [owner]
    assert status(api)["published"] == [
        {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "name": "cluster", "inSync": True}
    ]
    assert condition(api, "Ready")["status"] == "True"


def test_what_was_edited_or_deleted_by_hand_is_put_back_at_once(api: ApiUnderTest, running: Controller) -> None:
    for crd in ("grove-clustertopologybindings-alpha10", "kueue-topologies-main"):
        upstream(api, crd)
    kueue = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
    make_nodes(api)
    make_topology(api, publish={"kai": "Never"})
    wait_until(lambda: condition(api, "Ready").get("status") == "True" and status(api)["nodes"] == 3, "ready")
    # All of this within the patience of a test, which is half of the time between two looks at everything.
    edit = {"spec": {"levels": [{"domain": "rack", "key": "wrong/rack"}]}}
    assert api.request("PATCH", f"{BINDINGS}/cluster", edit, content_type=MERGE)[0] == 200
    wait_until(lambda: len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 5, "the binding is put back")
    edit = {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    assert api.request("PATCH", kueue, edit, content_type=MERGE)[0] == 200
    wait_until(lambda: len(api.get(kueue)["spec"]["levels"]) == 5, "Kueue's Topology is put back")
    for path in (kueue, f"{BINDINGS}/cluster"):
        assert api.request("DELETE", path)[0] == 200
        wait_until(lambda path=path: api.request("GET", path)[0] == 200, f"{path} is made again")  # type: ignore[misc]  # mypy infers no default
    assert running.healthy() == ""


def test_a_binding_edited_by_hand_is_put_back(api: ApiUnderTest, controller: Controller) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api)
    controller.once()
    edit = {"spec": {"levels": [{"domain": "rack", "key": "wrong/rack"}]}}
    assert api.request("PATCH", f"{BINDINGS}/cluster", edit, content_type=MERGE)[0] == 200
    controller.once()
    assert len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 5


def test_somebody_elses_binding_is_a_conflict_and_stays_as_it_is(api: ApiUnderTest, controller: Controller) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api)
    theirs = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "cluster"},
        "spec": {"levels": [{"domain": "rack", "key": "their/rack"}]},
    }
    api.create(BINDINGS, theirs)
    controller.once()
    assert api.get(f"{BINDINGS}/cluster")["spec"] == theirs["spec"]
    published = condition(api, "Published")
    assert (published["status"], published["reason"]) == ("False", "Conflict")
    assert "was not made by Toposcope; delete it, or" in published["message"]
    assert status(api)["published"][0]["inSync"] is False
    assert condition(api, "Ready")["status"] == "False"


def test_never_means_never(api: ApiUnderTest, controller: Controller) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api, publish={"grove": "Never", "kai": "Never", "kueue": "Never"})
    controller.once()
    assert api.get(BINDINGS)["items"] == []
    assert condition(api, "Published")["reason"] == "PublishingOff"


def test_never_takes_back_what_was_published_and_auto_publishes_again(api: ApiUnderTest, running: Controller) -> None:
    for crd in ("grove-clustertopologybindings-alpha10", "kueue-topologies-v0.19"):
        upstream(api, crd)
    paths = (f"{BINDINGS}/cluster", "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster")
    make_nodes(api)
    make_topology(api)
    for mode, code in (("Auto", 200), ("Never", 404), ("Auto", 200)):
        change = {"spec": {"publish": {"grove": mode, "kueue": mode}}}
        assert api.request("PATCH", f"{PATH}/cluster", change, content_type=MERGE)[0] == 200
        for path in paths:
            wait_until(lambda path=path, code=code: api.request("GET", path)[0] == code, f"{mode}: {path}")  # type: ignore[misc]  # mypy infers no default
    assert running.healthy() == ""


def test_no_nodes_take_nothing_from_a_binding(api: ApiUnderTest, controller: Controller) -> None:
    upstream(api, "grove-clustertopologybindings-alpha10")
    make_nodes(api)
    make_topology(api)
    controller.once()
    assert api.request("DELETE", NODES)[0] == 200
    controller.once()
    assert len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 5
    assert condition(api, "TopologyLevelsAvailable")["reason"] == "NoNodes"
    assert status(api)["published"][0]["inSync"] is True


def test_a_label_that_a_new_spec_names_is_found_without_a_restart(api: ApiUnderTest, running: Controller) -> None:
    make_nodes(api)
    make_topology(api)
    wait_until(lambda: status(api).get("nodes") == 3, "assessed")
    for i in range(3):
        patch = {"metadata": {"labels": {"example.com/row": f"row-{i}"}}}
        assert api.request("PATCH", f"{NODES}/n{i}", patch, content_type=MERGE)[0] == 200
    change = {"spec": {"levels": [{"domain": "row", "key": "example.com/row"}]}}
    assert api.request("PATCH", f"{PATH}/cluster", change, content_type=MERGE)[0] == 200
    wait_until(lambda: status(api)["levelPath"] == "row" and status(api)["levels"][0]["domains"] == 3, "rows counted")
    assert running.ready() == ""


def test_what_follows_the_cluster_ends_with_the_controller_though_nothing_comes(
    api: ApiUnderTest, controller: Controller
) -> None:
    make_nodes(api)
    make_topology(api)
    before = set(threading.enumerate())

    def names() -> set[str]:
        return {each.name for each in set(threading.enumerate()) - before}

    loop = threading.Thread(target=controller.run, name="loop")
    loop.start()
    try:
        wait_until(lambda: {"topologies", "nodes", "crds"} <= names(), "everything is followed")
        wait_until(lambda: not controller.ready(), "all has been read")
    finally:
        controller.end()
        loop.join()
    wait_until(lambda: not names() & {"topologies", "nodes", "crds"}, "nobody follows any more")


def test_before_the_crd_is_there_nothing_is_ready_and_the_reason_is_told(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    api.remove_crd("clustertopologies.gpu.topology")
    wait_until(lambda: api.request("GET", PATH)[0] == 404, "ClusterTopologies are not served")
    client = clients()
    reconciler = Reconciler(client, [], time)
    controller = Controller(
        client, lambda: reconciler, ControllerMetrics(CollectorRegistry()), OPTIONS, threading.Event()
    )
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
    made: dict[str, Any] = api.create("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups", body)
    return made


def told(api: ApiUnderTest, uid: str) -> list[tuple[str, str]]:
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
    wait_until(lambda: status(api).get("requiredBy") == wanted, "both asked for")
    assert condition(api, "TopologyLevelsAvailable")["status"] == "True"
    for i in range(3):
        label(api, f"n{i}", rack=None)
    wait_until(lambda: [level["missing"] for level in status(api)["levels"]] == [0, 0, 3, 0, 0], "all racks missed")
    time.seconds = 601
    label(api, "n0", block="other")
    gone = "Topology level 'rack' is no longer available in the cluster topology"
    wait_until(lambda: told(api, asks) == [("Warning", gone)], "the workload is told")
    assert condition(api, "TopologyLevelsAvailable")["message"] == gone
    assert status(api)["requiredBy"] == wanted
    for i in range(3):
        label(api, f"n{i}", rack="r")
    back = "Topology level 'rack' is available again in the cluster topology"
    wait_until(lambda: told(api, asks) == [("Normal", back), ("Warning", gone)], "and told again")
    assert told(api, other) == []


def test_kai_and_kueue_get_the_same_levels(api: ApiUnderTest, controller: Controller) -> None:
    for crd in ("kai-topologies-v0.17", "kueue-topologies-v0.19"):
        upstream(api, crd)
    make_nodes(api)
    make_topology(api)
    controller.once()
    keys = [ZONE, BLOCK, RACK, "gpu.topology/nvlink-domain", "kubernetes.io/hostname"]
    for path in ("/apis/kai.scheduler/v1alpha1/topologies", "/apis/kueue.x-k8s.io/v1beta2/topologies"):
        found = api.get(f"{path}/cluster")
        assert [level["nodeLabel"] for level in found["spec"]["levels"]] == keys
        assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    assert condition(api, "Ready")["status"] == "True"
