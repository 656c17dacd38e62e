"""ClusterTopologies of segments, on API servers: made, published, kept, taken back, and never another's."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.support.api import MERGE, NODES, ApiUnderTest, node, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.paths import CRD
from tests.support.publishing import KAI, Time, WatchedClient, found, install, node_labels
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.loop import Controller
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.options import Options
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.controller.publishers.kueue import KueuePublisher
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.segments import child_name
from toposcope.kube.client import ApiClient, Request

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
OPTIONS = Options(kubeconfig=None, once=False, debounce=0.0, metrics_port=None, log_format="text")
TIER = "fabric.topograph.run/tier-0"
GRACE = 601.0
FLAT = (ZONE, NVLINK_DOMAIN, HOSTNAME)
H100 = {BLOCK: "b", RACK: "r"}
GB200 = {TIER: "leaf"}


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def controller(api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time) -> Controller:
    api.share_crd(yaml.safe_load(CRD.read_text(encoding="utf-8")))
    for i in range(3):
        make_node(api, f"h100-{i}", H100)
    for i in range(2):
        make_node(api, f"gb200-{i}", GB200)
    client = clients()
    publishers = (KaiPublisher(client, time, 0.0), KueuePublisher(client, time, 0.0))
    reconciler = Reconciler(client, publishers, time, instance="test")
    return Controller(client, lambda: reconciler, ControllerMetrics(CollectorRegistry()), OPTIONS, threading.Event())


@pytest.fixture
def running(controller: Controller) -> Iterator[Controller]:
    thread = threading.Thread(target=controller.run)
    thread.start()
    yield controller
    controller.end()
    thread.join()


def make_node(api: ApiUnderTest, name: str, labels: dict[str, str]) -> None:
    common = {ZONE: "z", HOSTNAME: name, GPUS: "8", NVLINK_DOMAIN: name}
    api.create(NODES, node(name, labels=common | labels))
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": None}
    code, answer = api.request(
        "PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [ready]}}, content_type=MERGE
    )
    assert code == 200, answer


def relabel(api: ApiUnderTest, name: str, labels: dict[str, str | None]) -> None:
    assert api.request("PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}}, content_type=MERGE)[0] == 200


def make_topology(api: ApiUnderTest, name: str = "cluster", **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": name}, "spec": spec}
    made: dict[str, Any] = api.create(PATH, body)
    return made


def change(api: ApiUnderTest, name: str, **spec: Any) -> None:
    code, answer = api.request("PATCH", f"{PATH}/{name}", {"spec": spec}, content_type=MERGE)
    assert code == 200, answer


def topologies(api: ApiUnderTest) -> list[str]:
    return sorted(item["metadata"]["name"] for item in api.get(PATH)["items"])


def condition(api: ApiUnderTest, name: str = "cluster", kind: str = "SegmentsPublished") -> dict[str, Any]:
    conditions = (api.get(f"{PATH}/{name}").get("status") or {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == kind), {})


def passes(controller: Controller, time: Time, *after: float) -> None:
    """One pass now, and one after each of these seconds; what one wrote the next one reads."""
    controller.once()
    for seconds in after:
        time.seconds += seconds
        controller.once()


def test_each_segment_gets_a_topology_with_all_of_its_levels(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    install(api, "kai-topologies-v0.17", "kueue-topologies-v0.19")
    parent = make_topology(api, segments="Auto", required=["rack"], gracePeriod="10m", publish={"grove": "Never"})
    passes(controller, time)
    assert topologies(api) == ["cluster"]
    assert condition(api)["status"] == "Unknown"
    passes(controller, time, GRACE, 1)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    child = api.get(f"{PATH}/cluster-rack")
    assert child["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    (owner,) = child["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "ClusterTopology",
        parent["metadata"]["uid"],
        True,
    )
    assert child["spec"] == {
        "nodeSelector": {
            "matchExpressions": [
                {"key": GPUS, "operator": "Exists"},
                {"key": BLOCK, "operator": "Exists"},
                {"key": RACK, "operator": "Exists"},
            ]
        },
        "required": ["rack"],
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {"grove": "Never", "kai": "Auto", "kueue": "Auto"},
    }
    assert (child["status"]["nodes"], child["status"]["levelPath"]) == (
        3,
        "zone > block > rack > nvlink-domain > host",
    )
    for path in (KAI, KUEUE):
        assert node_labels(api, f"{path}/cluster") == FLAT  # who names it goes on as before
        assert node_labels(api, f"{path}/cluster-rack") == (ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
        assert node_labels(api, f"{path}/cluster-leaf") == (ZONE, TIER, NVLINK_DOMAIN, HOSTNAME)
    status = api.get(f"{PATH}/cluster")["status"]
    assert [(each["name"], each["clusterTopology"]) for each in status["segments"]] == [
        ("rack", "cluster-rack"),
        ("leaf", "cluster-leaf"),
    ]
    assert condition(api)["message"] == "Each segment has a ClusterTopology: cluster-rack, cluster-leaf"
    assert {name: condition(api, name, "Ready")["status"] for name in topologies(api)} == {
        "cluster": "True",
        "cluster-leaf": "True",
        "cluster-rack": "True",
    }


def test_nothing_is_written_at_rest(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1, 1)
    before = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in api.get(PATH)["items"]}
    assert len(before) == 3
    passes(controller, time, 1, GRACE, GRACE)
    after = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in api.get(PATH)["items"]}
    assert after == before


def test_off_writes_nothing_and_takes_back_what_auto_made(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    make_topology(api)
    passes(controller, time, GRACE, 1)
    assert topologies(api) == ["cluster"]
    status = api.get(f"{PATH}/cluster")["status"]
    assert [each["name"] for each in status["segments"]] == ["rack", "leaf"]
    assert condition(api)["reason"] == "SegmentsOff"
    change(api, "cluster", segments="Auto")
    passes(controller, time, 1)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]  # known well enough by now
    change(api, "cluster", segments="Off")
    passes(controller, time)
    assert topologies(api) == ["cluster"]


def test_somebody_elses_topology_of_that_name_is_a_conflict_and_stays_as_it_is(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    theirs = make_topology(api, "cluster-leaf", required=["leaf"])
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1)
    assert api.get(f"{PATH}/cluster-leaf")["spec"] == theirs["spec"]
    assert "ownerReferences" not in api.get(f"{PATH}/cluster-leaf")["metadata"]
    said = condition(api)
    assert (said["status"], said["reason"]) == ("False", "Conflict")
    assert said["message"].startswith("cluster-leaf: a ClusterTopology of that name exists and does not belong to this")
    assert condition(api, kind="Ready")["status"] == "False"
    segments = {each["name"]: each.get("clusterTopology") for each in api.get(f"{PATH}/cluster")["status"]["segments"]}
    assert segments == {"rack": "cluster-rack", "leaf": None}
    change(api, "cluster", segments="Off")
    passes(controller, time)
    assert topologies(api) == ["cluster", "cluster-leaf"]


def test_an_edit_by_hand_is_put_back_and_the_parents_settings_are_handed_on(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1)
    uid = api.get(f"{PATH}/cluster-rack")["metadata"]["uid"]
    change(api, "cluster-rack", nodeSelector={"matchLabels": {"mine": "yes"}}, required=["block"])
    change(api, "cluster-leaf", levels=[{"domain": "leaf", "key": TIER}])
    change(api, "cluster", gracePeriod="20m", publish={"kueue": "Never"}, required=["leaf", "zone"])
    passes(controller, time)
    child = api.get(f"{PATH}/cluster-rack")
    assert child["metadata"]["uid"] == uid
    assert "matchLabels" not in child["spec"]["nodeSelector"]
    assert (child["spec"]["gracePeriod"], child["spec"]["publish"]["kueue"]) == ("20m", "Never")
    assert child["spec"]["required"] == ["zone"]
    assert api.get(f"{PATH}/cluster-leaf")["spec"]["required"] == ["leaf", "zone"]
    assert "levels" not in api.get(f"{PATH}/cluster-leaf")["spec"]
    before = {name: api.get(f"{PATH}/{name}")["metadata"]["generation"] for name in topologies(api)}
    passes(controller, time, 1)
    assert {name: api.get(f"{PATH}/{name}")["metadata"]["generation"] for name in topologies(api)} == before


def test_one_that_somebody_makes_at_the_same_moment_is_not_merged_with(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time, controller: Controller
) -> None:
    del controller  # its nodes are what is wanted

    def before(request: Request) -> None:
        if request.method == "POST" and request.path == PATH and "cluster-leaf" not in topologies(api):
            make_topology(api, "cluster-leaf", gracePeriod="10m")

    watched = cast("ApiClient", WatchedClient(clients(), before))
    reconciler = Reconciler(watched, (), time, instance="test")
    metrics = ControllerMetrics(CollectorRegistry())
    late = Controller(clients(), lambda: reconciler, metrics, OPTIONS, threading.Event())
    make_topology(api, segments="Auto")
    passes(late, time, GRACE)
    theirs = api.get(f"{PATH}/cluster-leaf")
    assert ("ownerReferences" in theirs["metadata"], "nodeSelector" in theirs["spec"]) == (False, False)
    assert condition(api)["reason"] == "Conflict"


def test_a_segment_that_changed_its_labels_goes_after_the_grace_period(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1)
    for i in range(2):
        relabel(api, f"gb200-{i}", {TIER: None, **H100})
    passes(controller, time, GRACE - 2)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    passes(controller, time, 3)
    assert topologies(api) == ["cluster", "cluster-rack"]
    assert api.get(f"{PATH}/cluster-rack")["status"]["nodes"] == 5


def test_no_nodes_and_a_lost_status_take_nothing_away_at_once(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1)
    three = ["cluster", "cluster-leaf", "cluster-rack"]
    uids = {name: api.get(f"{PATH}/{name}")["metadata"]["uid"] for name in three}
    assert api.request("DELETE", NODES)[0] == 200
    passes(controller, time, GRACE, GRACE)
    assert topologies(api) == three
    assert condition(api)["message"] == "No segment has nodes at the moment"
    assert api.request("PATCH", f"{PATH}/cluster/status", {"status": None}, content_type=MERGE)[0] == 200
    for i in range(3):
        make_node(api, f"h100-{i}", H100)
    for i in range(2):
        make_node(api, f"gb200-{i}", GB200)
    passes(controller, time, GRACE - 2)
    assert topologies(api) == three
    passes(controller, time, 3, GRACE)
    assert {name: api.get(f"{PATH}/{name}")["metadata"]["uid"] for name in topologies(api)} == uids


def test_a_child_that_no_segment_asks_for_is_cleared_away(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    parent = make_topology(api, segments="Auto")
    owner = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "name": "cluster",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    stale = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {
            "name": "cluster-gone",
            "labels": {"app.kubernetes.io/managed-by": "toposcope"},
            "ownerReferences": [owner],
        },
    }
    api.create(PATH, stale)
    passes(controller, time)
    assert "cluster-gone" in topologies(api)
    passes(controller, time, GRACE)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]


@pytest.mark.embedded_api("takes a spec that a kube-apiserver refuses, as it should")
def test_a_bad_spec_leaves_its_children_alone(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    make_topology(api, segments="Auto")
    passes(controller, time, GRACE, 1)
    change(api, "cluster", segments="Off", required=["numa"])
    passes(controller, time, GRACE)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    published = condition(api, kind="Published")
    assert published["reason"] == "InvalidSpec"
    assert "'numa' lies inside a node" in published["message"]


def test_a_running_controller_makes_them_and_looks_after_them(
    api: ApiUnderTest, running: Controller, time: Time
) -> None:
    install(api, "kueue-topologies-v0.19")
    make_topology(api, segments="Auto")
    wait_until(lambda: condition(api).get("reason") == "Settling", "the segments are seen")
    assert running.ready() == ""
    time.seconds = GRACE
    relabel(api, "h100-0", {RACK: "other"})  # any change makes it look
    wait_until(lambda: found(api, f"{KUEUE}/cluster-leaf") is not None, "published")
    wait_until(lambda: condition(api, "cluster-rack", "Ready").get("status") == "True", "ready")
    assert condition(api)["status"] == "True"


CONFIG = """apiVersion: config.gpu.topology/v1alpha1
kind: ControllerConfig
catalogue:
  domains:
  - {name: row, after: block, keys: [example.com/row]}
  keys:
  - {key: example.com/rack, domain: rock}
"""


def test_a_configuration_file_adds_levels_and_its_faults_are_told(
    api: ApiUnderTest,
    clients: Callable[[], ApiClient],
    time: Time,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.share_crd(yaml.safe_load(CRD.read_text(encoding="utf-8")))
    make_topology(api)
    for i in range(2):
        make_node(api, f"n{i}", {"example.com/row": f"row-{i}", "nvidia.com/gpu-clique": "c"})
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    client, registry = clients(), CollectorRegistry()
    options = Options(None, once=True, debounce=0.0, metrics_port=None, log_format="text", config=str(file))
    reconciler = Reconciler(client, [], time, instance="test")
    controller = Controller(client, lambda: reconciler, ControllerMetrics(registry), options, threading.Event())
    passes(controller, time, 1)
    status = api.get(f"{PATH}/cluster")["status"]
    assert status["levelPath"] == "zone > row > nvlink-domain > host"
    assert [hint["reason"] for hint in status["hints"]] == ["NearMiss"]
    assert registry.get_sample_value("toposcope_config_problems") == 1
    assert f"{file}:7: catalogue.keys[0].domain: 'rock' is not a domain" in caplog.text
    assert caplog.text.count("nvidia.com/gpu-clique is on 2 of 2 nodes and is not a level") == 1  # once is enough


@pytest.mark.parametrize(
    ("parent", "segment", "name"),
    [
        ("cluster", "rack", "cluster-rack"),
        ("a" * 248, "rack", "a" * 248 + "-rack"),
        ("a" * 236 + "." + "b" * 12, "rack", None),
        ("a" * 253, "nvlink-domain-123456", None),
    ],
)
def test_names_fit_where_objects_have_names(parent: str, segment: str, name: str | None) -> None:
    made = child_name(parent, segment)
    assert len(made) <= 253
    assert made.endswith(f"-{segment}")
    assert ".-" not in made
    assert made == name or name is None
    assert made == child_name(parent, segment) != child_name("x" + parent[1:], segment)
