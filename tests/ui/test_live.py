"""A running cluster as a source: only reads, and warnings where something cannot be read."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.api import MERGE, NODES, ApiUnderTest, create_service_account, node, wait_until
from tests.support.saved import pod
from tests.ui.serving import decoded, fetched
from toposcope.api import label_keys
from toposcope.api.cluster_topology import PATH
from toposcope.kube.client import Request
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import requests
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.facts import Facts
from toposcope.ui.live import EXPECTED, GetClient, LiveSource

POD = "/api/v1/namespaces/default/pods"
LABELS = {
    label_keys.GPUS: "8",
    label_keys.STATE: "ok",
    label_keys.HOSTNAME: "n1",
    "example.com/rack": "r1",
}


class Watching:
    """The source of an API server, with a broadcaster that a test has tick."""

    def __init__(self, api: ApiUnderTest) -> None:
        self.wake = threading.Event()
        self.facts = Facts(api.url, EXPECTED, self.wake.set)
        self.source = LiveSource(load(str(api.kubeconfig)), self.facts)
        self.broadcaster = Broadcaster(self.facts, "cluster", "e1")
        self.source.start()

    def until(self, done: Callable[[], Any], what: str) -> None:
        """Tick until it is so."""

        def ticked() -> bool:
            self.broadcaster.tick()
            return bool(done())

        wait_until(ticked, what)

    def until_read(self) -> None:
        """Tick until the cluster has been read for the first time."""
        self.until(lambda: self.broadcaster.state, "everything was read")

    def rows(self) -> dict[str, dict[str, Any]]:
        """The nodes as a page gets them."""
        return decoded(fetched(self.broadcaster))


@pytest.fixture
def watching(api: ApiUnderTest) -> Iterator[Watching]:
    """A node and a ClusterTopology, watched."""
    topology = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "c"},
    }
    api.install_crd(manifests.cluster_topology_crd())
    api.create(PATH, topology)
    api.create(NODES, node("n1", labels=LABELS))
    found = Watching(api)
    found.until_read()
    yield found
    found.source.close()


def test_change_in_the_cluster_reaches_the_page(api: ApiUnderTest, watching: Watching) -> None:
    shown = fetched(watching.broadcaster)
    rows = decoded(shown)
    assert rows["n1"]["labels"] == {label_keys.HOSTNAME: "n1"}
    (view,) = shown["views"]
    assert view["id"] == "c"

    degraded = {"metadata": {"labels": {label_keys.STATE: "degraded"}}}
    api.request("PATCH", f"{NODES}/n1", degraded, content_type=MERGE)
    watching.until(lambda: watching.broadcaster.recent.since, "the node is degraded")
    rows = watching.rows()
    assert rows["n1"]["marks"] == ["not-ready", "degraded"]

    labels = LABELS | {label_keys.HOSTNAME: "n2"}
    api.create(NODES, node("n2", labels=labels))
    watching.until(lambda: "n2" in watching.rows(), "a node came")
    api.request("DELETE", f"{NODES}/n2")
    watching.until(lambda: "n2" not in watching.rows(), "a node went")
    seen = watching.source.node("n1")
    assert seen
    assert seen.node.label(label_keys.STATE) == "degraded"
    assert watching.source.node("n2") is None


def test_pods_take_gpus_until_they_finish(api: ApiUnderTest, watching: Watching) -> None:
    status = {
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.request(
        "PATCH",
        f"{NODES}/n1/status",
        {"status": status},
        content_type=MERGE,
    )

    def free() -> int | None:
        found = watching.facts.node("n1")
        assert found
        return watching.facts.snapshot().free_gpus(found)

    watching.until(lambda: free() == 8, "the node offers its GPUs")
    body = pod("p", "n1", 3, automountServiceAccountToken=False)
    body["metadata"] = {"name": "p"}
    if api.is_real:
        create_service_account(api, "default", "default")
    api.create(POD, body)
    watching.until(lambda: free() == 5, "the pod takes three")
    api.request(
        "PATCH",
        f"{POD}/p/status",
        {"status": {"phase": "Succeeded"}},
        content_type=MERGE,
    )
    watching.until(lambda: free() == 8, "it has finished")


@pytest.mark.embedded_api("counts requests")
def test_client_sends_nothing_but_get(api: ApiUnderTest) -> None:
    client = GetClient(load(str(api.kubeconfig)))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        request = Request(method, NODES, {}, b"{}")
        with pytest.raises(KubeError, match="toposcope ui only reads"):
            client.call(request)
    answer = client.call(Request("GET", NODES, {}))
    assert answer["items"] == []
    client.close()
    assert api.embedded
    for method, _ in api.embedded.faults.requests:
        assert method == "GET"


@pytest.mark.embedded_api("fails on demand")
def test_data_is_stale_while_the_server_is_gone(api: ApiUnderTest) -> None:
    assert api.embedded
    faults = api.embedded.faults
    found = Watching(api)
    found.until_read()
    assert found.facts.warnings() == []  # without the CRD there is no controller, and that is fine
    faults.reject(503, times=1_000_000)
    faults.cut_watches()
    found.until(lambda: found.broadcaster.status().stale, "it is stale")
    stale = found.broadcaster.status().stale
    assert stale
    for why in stale.why:
        what, _, _ = why.partition(":")
        assert what in EXPECTED
    assert found.broadcaster.state
    faults.stop_rejecting()
    # A watch is known to be well when the server says something: soon a bookmark, here an event.
    api.create(NODES, node("n1"))
    api.create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": []},
        },
    )
    found.until(lambda: found.broadcaster.status().stale is None, "it is back")
    found.source.close()


@pytest.mark.embedded_api("refuses on demand; tests/manifests has real tokens")
@pytest.mark.parametrize(
    ("what", "where"), [("pods", "/api/v1/pods"), ("ClusterTopologies", PATH)], ids=["pods", "topologies"]
)
def test_forbidden_collections_are_done_without(api: ApiUnderTest, what: str, where: str) -> None:
    assert api.embedded

    def is_forbidden(request: requests.HttpRequest) -> bool:
        return request.path == where

    api.embedded.faults.reject(403, times=1_000_000, applies=is_forbidden)
    api.create(NODES, node("n1", labels=LABELS))
    found = Watching(api)
    found.until(lambda: found.broadcaster.state, "everything was read that may be")
    shown = fetched(found.broadcaster)
    status, nodes = shown["status"], shown["nodes"]
    (warning,) = status["warnings"]
    assert warning.startswith(f"these credentials cannot watch {what}")
    assert status["stale"] is None
    assert nodes["name"] == ["n1"]
    is_unknown = nodes["free"] is None
    assert is_unknown == (what == "pods")
    found.source.close()
