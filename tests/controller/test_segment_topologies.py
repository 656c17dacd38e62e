"""ClusterTopologies of segments, on API servers: made, published, kept, taken back, and never another's."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.support.api import NODES, ApiUnderTest, wait_until
from tests.support.cluster import BLOCK, RACK, START, ZONE
from tests.support.controller import (
    condition,
    controller_of,
    edit_topology,
    make_node,
    make_topology,
    relabel,
    running,
    share_crd,
    status_of,
)
from tests.support.publishing import KAI, Time, WatchedClient, found, install, node_labels
from tests.support.upstream_crds import stand_in
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.loop import Controller
from toposcope.controller.options import Options
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.controller.publishers.kueue import KueuePublisher
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.segments import child_name
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
TIER = "fabric.topograph.run/tier-0"
GRACE = 601.0
FLAT = (ZONE, NVLINK_DOMAIN, HOSTNAME)
H100 = {BLOCK: "b", RACK: "r"}
GB200 = {TIER: "leaf"}


@pytest.fixture
def controller(api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time) -> Controller:
    share_crd(api)
    make_nodes(api)
    client = clients()
    publishers = (KaiPublisher(client, time, 0.0), KueuePublisher(client, time, 0.0))
    return controller_of(client, Reconciler(client, publishers, time, instance="test"))


def make_nodes(api: ApiUnderTest) -> None:
    for i in range(3):
        make_node(api, f"h100-{i}", {ZONE: "z", **H100})
    for i in range(2):
        make_node(api, f"gb200-{i}", {ZONE: "z", **GB200})


def topologies(api: ApiUnderTest) -> list[str]:
    return sorted(fields(api, "name"))


def fields(api: ApiUnderTest, field: str) -> dict[str, Any]:
    """A field of the metadata of each ClusterTopology by name."""
    return {item["metadata"]["name"]: item["metadata"][field] for item in api.get(PATH)["items"]}


def run_passes(controller: Controller, time: Time, *after: float) -> None:
    """One pass now, and one after each of these seconds; what one wrote the next one reads."""
    controller.once()
    for seconds in after:
        time.seconds += seconds
        controller.once()


@pytest.fixture
def passes(controller: Controller, time: Time) -> Callable[..., None]:
    return partial(run_passes, controller, time)


def test_each_segment_gets_a_topology_with_all_of_its_levels(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    install(api, "kai-topologies-v0.17", "kueue-topologies-v0.19")
    parent = make_topology(api, segments="Auto", required=["rack"], gracePeriod="10m", publish={"grove": "Never"})
    passes()
    assert topologies(api) == ["cluster"]
    assert condition(api, "SegmentsPublished")["status"] == "Unknown"
    passes(GRACE, 1)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    child = api.get(f"{PATH}/cluster-rack")
    assert child["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    (owner,) = child["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ClusterTopology", parent["metadata"]["uid"], True)
    assert child["spec"] == {
        "nodeSelector": {
            "matchExpressions": [
                {"key": GPUS, "operator": "Exists"},
                {"key": BLOCK, "operator": "Exists"},
                {"key": RACK, "operator": "Exists"},
            ]
        },
        "required": ["rack"],
        "minCoveragePercent": 95,
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {"grove": "Never", "kai": "Auto", "kueue": "Auto"},
    }
    assert (child["status"]["nodes"], child["status"]["levelPath"]) == (3, "zone > block > rack > nvlink-domain > host")
    for path in (KAI, KUEUE):
        assert node_labels(api, f"{path}/cluster") == FLAT  # who names it goes on as before
        assert node_labels(api, f"{path}/cluster-rack") == (ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
        assert node_labels(api, f"{path}/cluster-leaf") == (ZONE, TIER, NVLINK_DOMAIN, HOSTNAME)
    status = status_of(api)
    assert [(segment["name"], segment["clusterTopology"]) for segment in status["segments"]] == [
        ("rack", "cluster-rack"),
        ("leaf", "cluster-leaf"),
    ]
    assert (
        condition(api, "SegmentsPublished")["message"]
        == "Each segment has a ClusterTopology: cluster-rack, cluster-leaf"
    )
    assert {name: condition(api, "Ready", name)["status"] for name in topologies(api)} == {
        "cluster": "True",
        "cluster-leaf": "True",
        "cluster-rack": "True",
    }


def test_nothing_is_written_at_rest(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api, segments="Auto")
    passes(GRACE, 1, 1)
    before = fields(api, "resourceVersion")
    assert len(before) == 3
    passes(1, GRACE, GRACE)
    assert fields(api, "resourceVersion") == before


def test_off_writes_nothing_and_takes_back_what_auto_made(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api)
    passes(GRACE, 1)
    assert topologies(api) == ["cluster"]
    status = status_of(api)
    assert [segment["name"] for segment in status["segments"]] == ["rack", "leaf"]
    assert condition(api, "SegmentsPublished")["reason"] == "SegmentsOff"
    edit_topology(api, segments="Auto")
    passes(1)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]  # known well enough by now
    edit_topology(api, segments="Off")
    passes()
    assert topologies(api) == ["cluster"]


def test_a_foreign_topology_of_that_name_is_a_conflict_and_stays(
    api: ApiUnderTest, passes: Callable[..., None]
) -> None:
    theirs = make_topology(api, "cluster-leaf", required=["leaf"])
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    assert api.get(f"{PATH}/cluster-leaf")["spec"] == theirs["spec"]
    assert "ownerReferences" not in api.get(f"{PATH}/cluster-leaf")["metadata"]
    conflict = condition(api, "SegmentsPublished")
    assert (conflict["status"], conflict["reason"]) == ("False", "Conflict")
    assert conflict["message"].startswith(
        "cluster-leaf: a ClusterTopology of that name exists and does not belong to this"
    )
    assert condition(api, "Ready")["status"] == "False"
    segments = {segment["name"]: segment.get("clusterTopology") for segment in status_of(api)["segments"]}
    assert segments == {"rack": "cluster-rack", "leaf": None}
    edit_topology(api, segments="Off")
    passes()
    assert topologies(api) == ["cluster", "cluster-leaf"]


def test_an_edit_by_hand_is_put_back_and_settings_are_inherited(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    uid = api.get(f"{PATH}/cluster-rack")["metadata"]["uid"]
    edit_topology(api, "cluster-rack", nodeSelector={"matchLabels": {"mine": "yes"}}, required=["block"])
    edit_topology(api, "cluster-leaf", levels=[{"domain": "leaf", "key": TIER}])
    edit_topology(api, gracePeriod="20m", publish={"kueue": "Never"}, required=["leaf", "zone"])
    passes()
    child = api.get(f"{PATH}/cluster-rack")
    assert child["metadata"]["uid"] == uid
    assert "matchLabels" not in child["spec"]["nodeSelector"]
    assert (child["spec"]["gracePeriod"], child["spec"]["publish"]["kueue"]) == ("20m", "Never")
    assert child["spec"]["required"] == ["zone"]
    assert api.get(f"{PATH}/cluster-leaf")["spec"]["required"] == ["leaf", "zone"]
    assert "levels" not in api.get(f"{PATH}/cluster-leaf")["spec"]
    before = fields(api, "generation")
    passes(1)
    assert fields(api, "generation") == before


def test_one_that_somebody_makes_at_the_same_moment_is_not_merged_with(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time, controller: Controller
) -> None:
    del controller  # its nodes are what is wanted

    def before(request: Request) -> None:
        if request.method == "POST" and request.path == PATH and "cluster-leaf" not in topologies(api):
            make_topology(api, "cluster-leaf", gracePeriod="10m")

    watched = cast("ApiClient", WatchedClient(clients(), before))
    reconciler = Reconciler(watched, (), time, instance="test")
    late = controller_of(clients(), reconciler)
    make_topology(api, segments="Auto")
    run_passes(late, time, GRACE)
    theirs = api.get(f"{PATH}/cluster-leaf")
    assert ("ownerReferences" in theirs["metadata"], "nodeSelector" in theirs["spec"]) == (False, False)
    assert condition(api, "SegmentsPublished")["reason"] == "Conflict"


def test_one_that_a_webhook_denies_is_tried_ever_more_rarely(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time, controller: Controller
) -> None:
    del controller  # its nodes are what is wanted
    tries: dict[str, int] = {"cluster-leaf": 0, "cluster-rack": 0}

    def deny(request: Request) -> None:
        if request.method == "POST" and request.path == PATH:
            tries[msgspec.json.decode(request.body or b"")["metadata"]["name"]] += 1
            raise ApiError(403, "Forbidden", "the webhook says no")

    reconciler = Reconciler(cast("ApiClient", WatchedClient(clients(), deny)), (), time, lambda: START)
    make_topology(api, segments="Auto")
    run_passes(controller_of(clients(), reconciler), time, GRACE, *([10.0] * 30))
    assert tries == {"cluster-leaf": 4, "cluster-rack": 4}  # after 0, 30 to 33, 90 to 99 and 210 to 231 s
    message = condition(api, "SegmentsPublished")["message"]
    assert "cluster-leaf: the webhook says no; next try at " in message


def test_a_segment_without_nodes_goes_after_the_grace_period(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    for i in range(2):
        relabel(api, f"gb200-{i}", {TIER: None, **H100})
    passes(GRACE - 2)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    passes(3)
    assert topologies(api) == ["cluster", "cluster-rack"]
    assert api.get(f"{PATH}/cluster-rack")["status"]["nodes"] == 5


def test_a_segment_that_grove_s_workloads_are_bound_to_goes_with_the_last_of_them(
    api: ApiUnderTest, passes: Callable[..., None]
) -> None:
    """With its ClusterTopology would go the binding, and with that every constraint."""
    api.install_crd(stand_in("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets"))
    sets = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
    constraint = {"topologyName": "cluster-leaf", "pack": {"required": "leaf"}}
    template = {
        "topologyConstraint": constraint,
        "cliques": [{"name": "w", "spec": {"roleName": "w", "replicas": 1, "podSpec": {"containers": []}}}],
    }
    body = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm"},
        "spec": {"replicas": 1, "template": template},
    }
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    api.create(sets, body)
    for i in range(2):
        relabel(api, f"gb200-{i}", {TIER: None, **H100})
    passes(GRACE, GRACE, GRACE)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    assert api.request("DELETE", f"{sets}/llm")[0] == 200
    passes(GRACE, GRACE)
    assert topologies(api) == ["cluster", "cluster-rack"]


def test_no_nodes_and_a_lost_status_take_nothing_away_at_once(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    uids = fields(api, "uid")
    three = ["cluster", "cluster-leaf", "cluster-rack"]
    assert api.request("DELETE", NODES)[0] == 200
    passes(GRACE, GRACE)
    assert topologies(api) == three
    assert condition(api, "SegmentsPublished")["message"] == "No segment has nodes at the moment"
    api.patch(f"{PATH}/cluster/status", {"status": None})
    make_nodes(api)
    passes(GRACE - 2)
    assert topologies(api) == three
    passes(3, GRACE)
    assert fields(api, "uid") == uids


def test_a_child_that_no_segment_asks_for_is_cleared_away(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    parent = make_topology(api, segments="Auto")
    kind = {key: parent[key] for key in ("apiVersion", "kind")}
    owner = {**kind, "name": "cluster", "uid": parent["metadata"]["uid"], "controller": True}
    labels = {"app.kubernetes.io/managed-by": "toposcope"}
    api.create(PATH, {**kind, "metadata": {"name": "cluster-gone", "labels": labels, "ownerReferences": [owner]}})
    passes()
    assert "cluster-gone" in topologies(api)
    passes(GRACE)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]


@pytest.mark.embedded_api("takes a spec that a kube-apiserver refuses, as it should")
def test_a_bad_spec_leaves_its_children_alone(api: ApiUnderTest, passes: Callable[..., None]) -> None:
    make_topology(api, segments="Auto")
    passes(GRACE, 1)
    edit_topology(api, segments="Off", required=["numa"])
    passes(GRACE)
    assert topologies(api) == ["cluster", "cluster-leaf", "cluster-rack"]
    published = condition(api, "Published")
    assert published["reason"] == "InvalidSpec"
    assert "'numa' lies inside a node" in published["message"]


def test_a_running_controller_makes_them_and_looks_after_them(
    api: ApiUnderTest, controller: Controller, time: Time
) -> None:
    install(api, "kueue-topologies-v0.19")
    make_topology(api, segments="Auto")
    with running(controller):
        wait_until(lambda: condition(api, "SegmentsPublished").get("reason") == "Settling", "the segments are seen")
        assert controller.ready() == ""
        time.seconds = GRACE
        relabel(api, "h100-0", {RACK: "other"})  # any change makes it look
        wait_until(lambda: found(api, f"{KUEUE}/cluster-leaf") is not None, "published")
        wait_until(lambda: condition(api, "Ready", "cluster-rack").get("status") == "True", "ready")
    assert condition(api, "SegmentsPublished")["status"] == "True"


CONFIG = """apiVersion: config.gpu.topology/v1alpha1
kind: ControllerConfig
catalogue:
  domains:
  - {name: row, after: block, keys: [example.com/row]}
  keys:
  - {key: example.com/rack, domain: rock}
"""


def test_a_configuration_file_adds_levels_and_its_faults_are_logged(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    share_crd(api)
    make_topology(api)
    for i in range(2):
        make_node(api, f"n{i}", {ZONE: "z", "example.com/row": f"row-{i}", "nvidia.com/gpu-clique": "c"})
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    client, registry = clients(), CollectorRegistry()
    options = Options(None, once=True, debounce=0.0, metrics_port=None, log_format="text", config=str(file))
    reconciler = Reconciler(client, [], time, instance="test")
    controller = controller_of(client, reconciler, options=options, registry=registry)
    run_passes(controller, time, 1)
    status = status_of(api)
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
