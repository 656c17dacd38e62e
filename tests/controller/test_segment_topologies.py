"""ClusterTopologies of segments, on API servers: made, published, kept, taken back, and never another's."""

from pathlib import Path
from typing import cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.support.api import ApiUnderTest, Clients, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import (
    condition,
    controller_of,
    make_node,
    make_topology,
    relabel,
    running,
    share_crd,
    status_of,
)
from tests.support.publishing import Time, WatchedClient, found, install
from toposcope.api.cluster_topology import PATH
from toposcope.controller.loop import Controller
from toposcope.controller.options import ControllerOptions
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.hierarchy.segments import child_name
from toposcope.integrations.kai.publisher import KaiPublisher
from toposcope.integrations.kueue.publisher import KueuePublisher
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
TIER = "fabric.topograph.run/tier-0"
GRACE = 601.0
H100 = {BLOCK: "b", RACK: "r"}
GB200 = {TIER: "leaf"}


@pytest.fixture
def controller(api: ApiUnderTest, clients: Clients, time: Time) -> Controller:
    share_crd(api)
    make_nodes(api)
    client = clients()
    publishers = (KaiPublisher(client, time, 0.0), KueuePublisher(client, time, 0.0))
    return controller_of(client, Reconciler(Wiring(client, publishers, time)))


def make_nodes(api: ApiUnderTest) -> None:
    h100 = {ZONE: "z", **H100}
    gb200 = {ZONE: "z", **GB200}
    for i in range(3):
        make_node(api, f"h100-{i}", h100)
    for i in range(2):
        make_node(api, f"gb200-{i}", gb200)


def topologies(api: ApiUnderTest) -> list[str]:
    items = api.get(PATH)["items"]
    return sorted(item["metadata"]["name"] for item in items)


def run_passes(controller: Controller, time: Time, *after: float) -> None:
    """One pass now, and one after each of these seconds; what one wrote the next one reads."""
    controller.once()
    for seconds in after:
        time.seconds += seconds
        controller.once()


def test_what_others_make_is_not_merged_with(
    api: ApiUnderTest, clients: Clients, time: Time, controller: Controller
) -> None:
    del controller  # its nodes are what is wanted

    def before(request: Request) -> None:
        is_new_topology = request.method == "POST" and request.path == PATH
        if is_new_topology and "cluster-leaf" not in topologies(api):
            make_topology(api, "cluster-leaf", gracePeriod="10m")

    watched = cast("ApiClient", WatchedClient(clients(), before))
    reconciler = Reconciler(Wiring(watched, runtime=time))
    late = controller_of(clients(), reconciler)
    make_topology(api, segments="Auto")
    run_passes(late, time, GRACE)
    theirs = api.get(f"{PATH}/cluster-leaf")
    assert "ownerReferences" not in theirs["metadata"]
    assert "nodeSelector" not in theirs["spec"]
    published = condition(api, "SegmentsPublished")
    assert published["reason"] == "Conflict"


@pytest.mark.regression
def test_what_is_denied_is_tried_rarely(
    api: ApiUnderTest, clients: Clients, time: Time, controller: Controller
) -> None:
    del controller  # its nodes are what is wanted
    tries = {"cluster-leaf": 0, "cluster-rack": 0}

    def deny(request: Request) -> None:
        if request.method == "POST" and request.path == PATH:
            body = msgspec.json.decode(request.body or b"")
            name = body["metadata"]["name"]
            tries[name] += 1
            raise ApiError(403, "Forbidden", "the webhook says no")

    client = cast("ApiClient", WatchedClient(clients(), deny))
    reconciler = Reconciler(Wiring(client, runtime=time))
    denied = controller_of(clients(), reconciler)
    make_topology(api, segments="Auto")
    every_ten_seconds = [10.0] * 30
    run_passes(denied, time, GRACE, *every_ten_seconds)
    assert tries == {"cluster-leaf": 4, "cluster-rack": 4}  # after 0, 30 to 33, 90 to 99 and 210 to 231 s
    message = condition(api, "SegmentsPublished")["message"]
    assert "cluster-leaf: the webhook says no; next try at " in message


def test_a_running_controller_makes_and_keeps_them(api: ApiUnderTest, controller: Controller, time: Time) -> None:
    install(api, "kueue-topologies-v0.19")
    make_topology(api, segments="Auto")
    with running(controller):
        wait_until(lambda: condition(api, "SegmentsPublished").get("reason") == "Settling", "the segments are seen")
        assert controller.ready() == ""
        time.seconds = GRACE
        relabel(api, "h100-0", {RACK: "other"})  # any change makes it look
        wait_until(lambda: found(api, f"{KUEUE}/cluster-leaf") is not None, "published")
        wait_until(lambda: condition(api, "Ready", "cluster-rack").get("status") == "True", "ready")
    published = condition(api, "SegmentsPublished")
    assert published["status"] == "True"


CONFIG = """apiVersion: config.gpu.topology/v1alpha1
kind: ControllerConfig
catalogue:
  domains:
  - {name: row, after: block, keys: [example.com/row]}
  keys:
  - {key: example.com/rack, domain: rock}
"""


def test_a_configuration_file_adds_levels_and_its_faults_are_logged(
    api: ApiUnderTest, clients: Clients, time: Time, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    share_crd(api)
    make_topology(api)
    for i in range(2):
        labels = {
            ZONE: "z",
            "example.com/row": f"row-{i}",
            "nvidia.com/gpu-clique": "c",
        }
        make_node(api, f"n{i}", labels)
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    client = clients()
    registry = CollectorRegistry()
    options = ControllerOptions(
        None,
        once=True,
        debounce=0.0,
        metrics_port=None,
        log_format="text",
        config=str(file),
    )
    reconciler = Reconciler(Wiring(client, runtime=time))
    controller = controller_of(client, reconciler, options=options, registry=registry)
    run_passes(controller, time, 1)
    status = status_of(api)
    assert status["levelPath"] == "zone > row > nvlink-domain > host"
    (hint,) = status["hints"]
    assert hint["reason"] == "NearMiss"
    assert registry.get_sample_value("toposcope_config_problems") == 1
    assert f"{file}:7: catalogue.keys[0].domain: 'rock' is not a domain" in caplog.text
    assert caplog.text.count("nvidia.com/gpu-clique is on 2 of 2 nodes and is not a level") == 1  # once is enough


LONGEST_PARENT = "a" * 248


def test_name_of_a_segments_topology_is_the_parents_and_its_own() -> None:
    assert child_name("cluster", "rack") == "cluster-rack"
    assert child_name(LONGEST_PARENT, "rack") == f"{LONGEST_PARENT}-rack"


@pytest.mark.parametrize(
    ("parent", "segment"),
    [
        pytest.param("cluster", "rack", id="short"),
        pytest.param(LONGEST_PARENT, "rack", id="as-long-as-can-be"),
        pytest.param(f"{'a' * 236}.{'b' * 12}", "rack", id="cut-at-a-dot"),
        pytest.param("a" * 253, "nvlink-domain-123456", id="cut"),
    ],
)
def test_name_of_a_segments_topology_is_valid_and_its_own(parent: str, segment: str) -> None:
    name = child_name(parent, segment)
    assert len(name) <= 253
    assert name.endswith(f"-{segment}")
    assert ".-" not in name
    assert child_name(parent, segment) == name
    assert child_name("x" + parent[1:], segment) != name
