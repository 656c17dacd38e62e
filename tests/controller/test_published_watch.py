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
CRDS = (
    "grove-clustertopologybindings-alpha10",
    "kai-topologies-v0.17",
    "kueue-topologies-v0.19",
)
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
        make_publishers = publishing.make_publishers(self.time)
        backoff = publishing.backoff_on(self.watched, self.time)
        self.publishers = make_publishers(backoff)

    def _note(self, request: Request) -> None:
        self.asked[request.method] += 1

    def look(self) -> None:
        """Find out what is served."""
        served = discover(self.client, FOLLOWED)
        self.watched.refresh(served, self.news.set)

    def settle(self, *keys: str) -> None:
        """Publish, follow what is served, and wait until all of it is known."""
        self.publish(*keys)
        self.look()
        wait_until(lambda: self.asks_nothing(*keys), "what is published is known")
        self.news.clear()

    def publish(self, *keys: str) -> list[Published]:
        """One pass of all publishers whose kind is served."""
        levels = publishing.levels(*keys)

        def outcomes() -> list[Published]:
            published = []
            for publisher in self.publishers:
                if publisher.served():
                    published.append(publisher.publish(TOPOLOGY, levels))
            return published

        return self.watched.decide(outcomes)

    def asks_nothing(self, *keys: str) -> bool:
        """Whether a pass gets along without a request."""
        self.asked.clear()
        self.publish(*keys)
        return not self.asked

    def publish_first(self, *keys: str) -> Published:
        """The first publisher's outcome of a pass."""
        return self.publish(*keys)[0]


@pytest.fixture
def site(clients: Clients) -> Iterator[Site]:
    made = Site(clients())
    yield made
    made.watched.close()
    for thread in following():
        thread.join(30)
    assert not following()


def following() -> list[threading.Thread]:
    threads = []
    for thread in threading.enumerate():
        if thread.name in THREADS:
            threads.append(thread)
    return threads


def bound_levels(api: ApiUnderTest) -> list[dict[str, str]]:
    """The levels of the binding."""
    levels: list[dict[str, str]] = api.get(f"{publishing.BINDINGS}/cluster")["spec"]["levels"]
    return levels


def test_once_everything_is_in_sync_nothing_is_asked(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS)
    first = site.publish_first(*publishing.FOUR)
    assert first.is_in_sync  # nothing is followed yet
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
    assert len(bound_levels(api)) == 4


def test_what_grove_finds_of_a_topology_that_is_named_is_news(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, CRDS[1])
    site.publish(*publishing.FOUR)
    publishing.install(api, CRDS[0])
    site.settle(*publishing.FOUR)
    differs = {
        "schedulerName": "kai-scheduler",
        "topologyReference": "cluster",
        "inSync": False,
        "message": "differs",
    }
    binding = api.get(f"{publishing.BINDINGS}/cluster")
    status = {
        "observedGeneration": binding["metadata"]["generation"],
        "schedulerTopologyStatuses": [differs],
    }
    api.patch(f"{publishing.BINDINGS}/cluster/status", {"status": status})
    assert site.news.wait(30)
    outcome = site.publish_first(*publishing.FOUR)
    assert outcome.message == "Grove reports on KAI's Topology cluster: differs"
    assert site.asks_nothing(*publishing.FOUR)


def test_what_memory_shows_is_looked_at_again_before_anything_is_written(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS[:2])
    api.create(publishing.KAI, publishing.kai_topology(RACK))
    site.look()
    kai = site.watched._followed[KAI_TOPOLOGIES].cache
    wait_until(lambda: kai.get("cluster") is not None, "KAI's Topology is followed")
    wait_until(lambda: len(following()) == 2, "both are followed")
    kai.gone("cluster")  # as if the watch had not come that far
    outcome = site.publish_first(*publishing.FOUR)
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
    (thread,) = following()
    assert thread.name == "topologies.kai.scheduler"
    site.publish(*publishing.FOUR)
    wait_until(lambda: site.asks_nothing(*publishing.FOUR), "KAI's Topology is known")
    api.remove_crd("topologies.kai.scheduler")
    if api.is_real:  # the embedded one lets watches of a kind outlive it
        wait_until(lambda: site.watched.is_outdated, "the watch notices")
    site.look()
    for thread in following():
        thread.join(30)
    assert not following()
    assert not site.watched.is_outdated
    assert site.publish(*publishing.FOUR) == []


def flavor(name: str, topology_name: str = "cluster") -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {
            "nodeLabels": {"example.com/pool": "gpu"},
            "topologyName": topology_name,
        },
    }


def delete(api: ApiUnderTest, path: str) -> None:
    status, _ = api.request("DELETE", path)
    assert status == 200


@pytest.mark.regression
@pytest.mark.real_api("immutability is a CEL rule")
def test_topology_while_a_flavor_holds_it_is_not_asked_for(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *KUEUE)
    api.create(FLAVORS, flavor("gpu"))
    api.create(FLAVORS, flavor("other", "another"))
    site.settle(*publishing.FOUR)
    held = site.publish_first(*publishing.THREE)
    assert "still held by ResourceFlavor gpu" in held.message
    wait_until(lambda: site.asks_nothing(*publishing.THREE), "that it cannot be changed in place is known")
    site.news.clear()
    delete(api, f"{FLAVORS}/gpu")
    assert site.news.wait(30)
    outcome = site.publish_first(*publishing.THREE)
    assert outcome.is_in_sync
    assert publishing.node_labels(api, OURS) == publishing.THREE


def test_flavors_are_not_followed_without_kueue(api: ApiUnderTest, site: Site) -> None:
    publishing.install(api, *CRDS[:2])
    site.look()
    names = {thread.name for thread in following()}
    assert "resourceflavors.kueue.x-k8s.io" not in names


def published_message(api: ApiUnderTest) -> str:
    """The condition Published, as text; there may be none yet."""
    return str(condition(api, "Published"))


def uid_of(api: ApiUnderTest, path: str) -> str | None:
    """The object's UID while it is there."""
    there = publishing.found(api, path)
    if there is None:
        return None
    uid: str = there["metadata"]["uid"]
    return uid


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.real_api("immutability is a CEL rule")
def test_what_goes_while_a_publisher_waits_is_acted_on_without_debounce(api: ApiUnderTest, clients: Clients) -> None:
    """An admin who deletes a flavor and applies it again leaves a moment in which Kueue lets go of its Topology."""
    share_crd(api)
    publishing.install(api, *KUEUE)
    make_node(
        api,
        "n0",
        {ZONE: "z", BLOCK: "b", RACK: "r"},
    )
    make_topology(api, levels=publishing.spec_levels(*publishing.FOUR))
    api.create(FLAVORS, flavor("gpu"))
    debounce = 4.0
    took: list[float] = []
    options = replace(OPTIONS, debounce=debounce)
    with running(full_controller(clients(), publishing.Time(), options)):
        wait_until(lambda: publishing.found(api, OURS) is not None, "the Topology is written")
        old = uid_of(api, OURS)
        edit_topology(api, levels=publishing.spec_levels(*publishing.THREE))
        wait_until(lambda: "ResourceFlavor gpu" in published_message(api), "the flavor holds it")
        with publishing.finalizer(api, OURS, "kueue.x-k8s.io/resource-in-use"):  # as Kueue does
            began = time.monotonic()
            delete(api, f"{FLAVORS}/gpu")
            wait_until(lambda: "deletionTimestamp" in api.get(OURS)["metadata"], "it is deleted")
            took.append(time.monotonic() - began)
            wait_until(lambda: "is being deleted" in published_message(api), "it waits for Kueue")
            began = time.monotonic()
        wait_until(lambda: uid_of(api, OURS) not in (None, old), "it is a new one")
        took.append(time.monotonic() - began)
    assert max(took) < debounce / 2
    assert publishing.node_labels(api, OURS) == publishing.THREE


def reason_published(api: ApiUnderTest) -> str | None:
    reason: str | None = condition(api, "Published").get("reason")
    return reason


@pytest.mark.regression
@pytest.mark.real_api("limits of a list")
def test_what_a_crd_refused_is_tried_again_when_the_crd_changes(api: ApiUnderTest, clients: Clients) -> None:
    share_crd(api)
    publishing.install_narrowed(api, CRDS[1], most=3)
    make_node(
        api,
        "n0",
        {ZONE: "z", BLOCK: "b", RACK: "r"},
    )
    make_topology(api, levels=publishing.spec_levels(*publishing.FOUR))
    with running(full_controller(clients(), publishing.Time())):  # time stands still: no pause ends
        wait_until(lambda: reason_published(api) == "Rejected", "four levels are too many")
        path = f"{CRD_PATH}/topologies.kai.scheduler"
        versions = upstream_crd(CRDS[1])["spec"]["versions"]
        api.patch(path, {"spec": {"versions": versions}})
        wait_until(lambda: reason_published(api) == "InSync", "they are published")


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

    behind = clients()
    stop = threading.Event()
    watched = CachedReader(behind, InformerFactory(Blind(), stop))
    watched.refresh(discover(behind, FOLLOWED), threading.Event().set)
    grove = GrovePublisher(watched)
    levels = publishing.levels(*publishing.FOUR)
    created = watched.decide(lambda: grove.publish(TOPOLOGY, levels))
    assert created.is_in_sync
    api.patch(f"{publishing.BINDINGS}/cluster", EDIT)
    repaired = watched.decide(lambda: grove.publish(TOPOLOGY, levels))
    assert repaired.is_in_sync
    assert len(bound_levels(api)) == 4
    stop.set()
    watched.close()
