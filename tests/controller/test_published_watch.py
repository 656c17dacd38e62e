"""The published kinds, followed: what is answered from memory, what never is, what survives CRDs that come and go."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from tests.support import publishing
from tests.support.api import CRDS as CRD_PATH
from tests.support.api import ApiUnderTest, Clients, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.controller import (
    OPTIONS,
    condition,
    edit_topology,
    full_controller,
    make_node,
    make_topology,
    running,
    share_crd,
)
from tests.support.upstream_crds import upstream_crd
from toposcope.controller.informer import InformerFactory
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.integrations.framework.published import Published
from toposcope.integrations.grove.publisher import GrovePublisher
from toposcope.integrations.kai.api import TOPOLOGIES as KAI_TOPOLOGIES
from toposcope.integrations.registry import FOLLOWED
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.discovery import discover
from toposcope.kube.errors import ApiError

TOPOLOGY = topology()
EDIT = {"spec": {"levels": [{"domain": "rack", "key": RACK}]}}
CRDS = ("grove-clustertopologybindings-alpha10", "kai-topologies-v0.17", "kueue-topologies-v0.19")
KUEUE = ("kueue-topologies-v0.19", "kueue-resourceflavors-v0.19")
OURS = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
THREADS = {f"{kind.plural}.{kind.group}" for kind in FOLLOWED}


@dataclass
class Site:
    """Publishers that read through what is followed, and every request that got past it."""

    client: ApiClient
    time: publishing.Time = field(default_factory=publishing.Time)
    stop: threading.Event = field(default_factory=threading.Event)
    asked: Counter[str] = field(default_factory=Counter)
    news: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        through = cast("ApiClient", publishing.WatchedClient(self.client, self._note))
        self.watched = CachedReader(through, InformerFactory(self.client, self.stop))
        self.publishers = publishing.make_publishers(self.time)(publishing.backoff_on(self.watched, self.time))

    def _note(self, request: Request) -> None:
        self.asked[request.method] += 1

    def look(self) -> None:
        """Find out what is served."""
        self.watched.refresh(discover(self.client, FOLLOWED), self.news.set)

    def settle(self, *keys: str) -> None:
        """Publish, follow what is served, and wait until all of it is known."""
        self.publish(*keys)
        self.look()
        wait_until(lambda: self.asks_nothing(*keys), "what is published is known")
        self.news.clear()

    def publish(self, *keys: str) -> list[Published]:
        """One pass of all publishers whose kind is served."""
        return self.watched.decide(
            lambda: [p.publish(TOPOLOGY, publishing.levels(*keys)) for p in self.publishers if p.served()]
        )

    def asks_nothing(self, *keys: str) -> bool:
        """Whether a pass gets along without a request."""
        self.asked.clear()
        self.publish(*keys)
        return not self.asked


@pytest.fixture
def site(clients: Clients) -> Iterator[Site]:
    made = Site(clients())
    yield made
    made.watched.close()
    for thread in following():
        thread.join(30)
    assert not following()


def following() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in THREADS]


def test_once_everything_is_in_sync_nothing_is_asked(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS)
    assert site.publish(*publishing.FOUR)[0].in_sync  # nothing is followed yet
    assert site.asked["PATCH"] == 2
    site.look()
    wait_until(lambda: site.asks_nothing(*publishing.FOUR), "everything is known")
    reasons = [outcome.reason for outcome in site.publish(*publishing.FOUR)]
    assert reasons == ["", "Waiting", ""]  # Grove does not run here
    site.publish(*publishing.THREE)
    assert site.asked["PATCH"] > 0
    wait_until(lambda: site.asks_nothing(*publishing.THREE), "what was written is known too")


def test_a_change_by_hand_is_news_and_that_of_a_status_is_not(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS[:2])
    site.settle(*publishing.FOUR)
    status = {"status": {"observedGeneration": 7}}
    api.patch(f"{publishing.BINDINGS}/cluster/status", status)
    api.patch(f"{publishing.BINDINGS}/cluster", EDIT)
    assert site.news.wait(30)
    wait_until(lambda: not site.asks_nothing(*publishing.FOUR), "the edit is seen")
    assert len(api.get(f"{publishing.BINDINGS}/cluster")["spec"]["levels"]) == 4


def test_what_grove_finds_of_a_topology_that_is_named_is_news(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, CRDS[1])
    site.publish(*publishing.FOUR)
    publishing.install(api, CRDS[0])
    site.settle(*publishing.FOUR)
    verdict = {"schedulerName": "kai-scheduler", "topologyReference": "cluster", "inSync": False, "message": "differs"}
    generation = api.get(f"{publishing.BINDINGS}/cluster")["metadata"]["generation"]
    status = {"status": {"observedGeneration": generation, "schedulerTopologyStatuses": [verdict]}}
    api.patch(f"{publishing.BINDINGS}/cluster/status", status)
    assert site.news.wait(30)
    assert site.publish(*publishing.FOUR)[0].message == "Grove says of KAI's Topology cluster: differs"
    assert site.asks_nothing(*publishing.FOUR)


def test_what_memory_shows_is_looked_at_again_before_anything_is_written(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS[:2])
    api.create(publishing.KAI, publishing.kai_topology(RACK))
    site.look()
    kai = site.watched._followed[KAI_TOPOLOGIES].cache
    wait_until(lambda: kai.get("cluster") is not None and len(following()) == 2, "both are followed")
    kai.gone("cluster")  # as if the watch had not come that far
    outcome = site.publish(*publishing.FOUR)[0]
    assert outcome.reason == "Conflict"
    assert "a KAI Topology named cluster exists that neither Grove nor Toposcope created" in outcome.message
    assert publishing.found(api, f"{publishing.BINDINGS}/cluster") is None
    assert site.asked["PATCH"] == 0


def test_kinds_are_followed_as_their_crds_come_and_go(api: ApiUnderTest, site: Site) -> None:
    site.look()
    assert not following()
    assert site.publish(*publishing.FOUR) == []
    publishing.install(api, CRDS[1])
    site.look()
    assert [thread.name for thread in following()] == ["topologies.kai.scheduler"]
    site.publish(*publishing.FOUR)
    wait_until(lambda: site.asks_nothing(*publishing.FOUR), "KAI's Topology is known")
    api.remove_crd("topologies.kai.scheduler")
    if api.is_real:  # the embedded one lets watches of a kind outlive it
        wait_until(lambda: site.watched.outdated, "the watch notices")
    site.look()
    for thread in following():
        thread.join(30)
    assert not following()
    assert not site.watched.outdated
    assert site.publish(*publishing.FOUR) == []


def flavor(name: str, topology_name: str = "cluster") -> dict[str, Any]:
    spec = {"nodeLabels": {"example.com/pool": "gpu"}, "topologyName": topology_name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


@pytest.mark.regression
@pytest.mark.real_api("immutability is a CEL rule")
def test_topology_while_a_flavor_holds_it_is_not_asked_for(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *KUEUE)
    api.create(FLAVORS, flavor("gpu"))
    api.create(FLAVORS, flavor("other", "another"))
    site.settle(*publishing.FOUR)
    assert "still held by ResourceFlavor gpu" in site.publish(*publishing.THREE)[0].message
    wait_until(lambda: site.asks_nothing(*publishing.THREE), "that it cannot be changed in place is known")
    site.news.clear()
    assert api.request("DELETE", f"{FLAVORS}/gpu")[0] == 200
    assert site.news.wait(30)
    assert site.publish(*publishing.THREE)[0].in_sync
    assert publishing.node_labels(api, OURS) == publishing.THREE


def test_flavors_are_not_followed_without_kueue(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS[:2])
    site.look()
    assert "resourceflavors.kueue.x-k8s.io" not in {thread.name for thread in following()}


@pytest.mark.regression
@pytest.mark.real_api("immutability is a CEL rule")
def test_what_goes_while_a_publisher_waits_is_acted_on_without_debounce(api: ApiUnderTest, clients: Clients) -> None:
    """An admin who deletes a flavor and applies it again leaves a moment in which Kueue lets go of its Topology."""
    share_crd(api)
    publishing.install(api, *KUEUE)
    make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
    make_topology(api, levels=publishing.spec_levels(*publishing.FOUR))
    api.create(FLAVORS, flavor("gpu"))
    debounce, took = 4.0, list[float]()
    with running(full_controller(clients(), publishing.Time(), replace(OPTIONS, debounce=debounce))):
        wait_until(lambda: publishing.found(api, OURS) is not None, "the Topology is written")
        old = api.get(OURS)
        edit_topology(api, levels=publishing.spec_levels(*publishing.THREE))
        wait_until(lambda: "ResourceFlavor gpu" in str(condition(api, "Published")), "the flavor holds it")
        with publishing.finalizer(api, OURS, "kueue.x-k8s.io/resource-in-use"):  # as Kueue does
            began = time.monotonic()
            assert api.request("DELETE", f"{FLAVORS}/gpu")[0] == 200
            wait_until(lambda: "deletionTimestamp" in api.get(OURS)["metadata"], "it is deleted")
            took.append(time.monotonic() - began)
            wait_until(lambda: "is being deleted" in str(condition(api, "Published")), "it waits for Kueue")
            began = time.monotonic()
        wait_until(
            lambda: (publishing.found(api, OURS) or old)["metadata"]["uid"] != old["metadata"]["uid"], "it is a new one"
        )
        took.append(time.monotonic() - began)
    assert max(took) < debounce / 2
    assert publishing.node_labels(api, OURS) == publishing.THREE


@pytest.mark.regression
@pytest.mark.real_api("limits of a list")
def test_what_a_crd_refused_is_tried_again_when_the_crd_changes(api: ApiUnderTest, clients: Clients) -> None:
    share_crd(api)
    publishing.install_narrowed(api, CRDS[1], most=3)
    make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
    make_topology(api, levels=publishing.spec_levels(*publishing.FOUR))
    with running(full_controller(clients(), publishing.Time())):  # time stands still: no pause ends
        wait_until(lambda: condition(api, "Published").get("reason") == "Rejected", "four levels are too many")
        path = f"{CRD_PATH}/topologies.kai.scheduler"
        versions = upstream_crd(CRDS[1])["spec"]["versions"]
        api.patch(path, {"spec": {"versions": versions}})
        wait_until(lambda: condition(api, "Published").get("reason") == "InSync", "they are published")


def test_what_may_not_be_followed_is_asked_for(clients: Clients, api: ApiUnderTest) -> None:
    publishing.install(api, *CRDS[:2])

    class Blind(ApiClient):
        """May read objects, and neither list nor watch them."""

        def __init__(self) -> None:
            pass

        def read(self, request: Request) -> bytes:
            if request.path == publishing.BINDINGS:
                raise ApiError(403, "Forbidden", "cannot list resource")
            return behind.read(request)

        def stream(self, request: Request, idle_timeout: float) -> Any:
            raise ApiError(403, "Forbidden", f"cannot watch {request.path} for {idle_timeout} s")

    behind, stop = clients(), threading.Event()
    watched = CachedReader(behind, InformerFactory(Blind(), stop))
    watched.refresh(discover(behind, FOLLOWED), threading.Event().set)
    grove = GrovePublisher(watched)
    assert watched.decide(lambda: grove.publish(TOPOLOGY, publishing.levels(*publishing.FOUR))).in_sync
    api.patch(f"{publishing.BINDINGS}/cluster", EDIT)
    assert watched.decide(lambda: grove.publish(TOPOLOGY, publishing.levels(*publishing.FOUR))).in_sync
    assert len(api.get(f"{publishing.BINDINGS}/cluster")["spec"]["levels"]) == 4
    stop.set()
    watched.close()
