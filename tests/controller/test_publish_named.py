"""A KAI Topology of ours beside Grove's binding: named in it, kept by us, never in the way of Grove's start."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from tests.support import publishing
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import topology
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.grove_operator import start_grove
from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.published import Published
from toposcope.integrations.grove.publisher import GrovePublisher
from toposcope.integrations.kai.publisher import KaiPublisher
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError

BINDING = f"{publishing.BINDINGS}/cluster"
OURS = f"{publishing.KAI}/cluster"
GROVE_CRD = "grove-clustertopologybindings-alpha10"
KAI_CRD = "kai-topologies-v0.17"
ENTRY = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
TOPOLOGY = topology()
WITHOUT_KAI = topology(publish={"kai": "Never"})
WITHOUT_GROVE = topology(publish={"grove": "Never"})


class Site:
    """Publishers as a pass asks them, on one API server, and what they write."""

    def __init__(self, api: ApiUnderTest, client: ApiClient) -> None:
        self.api = api
        self._client = client
        self.time = publishing.Time()
        self.writes: list[str] = []
        self.last: int | None = None
        """How many writes there are before the controller dies; None: it lives."""
        self.refused: Callable[[Request], None] = lambda _: None
        self.restart()

    def restart(self) -> None:
        """Begin with a controller that remembers nothing."""
        watched = publishing.WatchedClient(self._client, self._before)
        client = publishing.backoff_on(watched, self.time)
        self.grove = GrovePublisher(client, self.time)
        self.kai = KaiPublisher(client, self.time, 0.0)

    def _before(self, request: Request) -> None:
        self.refused(request)
        is_trial = request.query.get("dryRun") == "All"
        if request.method == "GET" or is_trial:
            return
        if len(self.writes) == self.last:
            raise UnreachableError("the controller is killed")
        _, resource, _ = request.path.rsplit("/", 2)
        self.writes.append(f"{request.method} {resource}")

    def turn(self, wanted: Topology = TOPOLOGY, *keys: str) -> list[Published]:
        """One pass; the results that are not in sync."""
        levels = publishing.levels(*(keys or publishing.FOUR))
        pending = []
        for publisher in (self.grove, self.kai):
            if not publisher.served():
                continue
            outcome: Published | None
            if wanted.publish.get(publisher.name) == "Never":
                outcome = publisher.retract(wanted)
            else:
                outcome = publisher.publish(wanted, levels)
            if outcome and not outcome.is_in_sync:
                pending.append(outcome)
        return pending

    def entries(self) -> Any:
        """What the binding names."""
        return self.api.get(BINDING)["spec"].get("schedulerTopologyBindings")

    def owner(self) -> str:
        """Whose the KAI Topology is."""
        return str(self.api.get(OURS)["metadata"]["ownerReferences"][0]["kind"])


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients) -> Site:
    return Site(api, clients())


def both(site: Site) -> Site:
    """KAI first, Grove later."""
    publishing.install(site.api, KAI_CRD)
    assert site.turn() == []
    publishing.install(site.api, GROVE_CRD)
    assert site.turn() == []
    return site


def test_entry_when_grove_refuses_it_then_is_tried_ever_more_rarely(site: Site) -> None:
    publishing.install(site.api, KAI_CRD)
    site.turn()
    crd = upstream_crd(GROVE_CRD)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    entry = spec["schedulerTopologyBindings"]["items"]["properties"]
    entry["schedulerName"]["enum"] = ["none"]
    site.api.install_crd(crd)
    attempts = []
    for site.time.seconds in range(0, 300, 10):
        before = len(site.writes)
        (result,) = site.turn()
        attempts += [site.time.seconds] * (len(site.writes) - before)
        assert result.reason == "Rejected"
        assert "spec.schedulerTopologyBindings[0].schedulerName" in result.message
        assert "enable the backend kai-scheduler in Grove's configuration, or set spec.publish.grove" in result.message
    assert attempts == [0, 30, 90, 210]
    assert (publishing.found(site.api, BINDING), publishing.node_labels(site.api, OURS)) == (None, publishing.FOUR)
    # As advised.
    assert site.turn(WITHOUT_KAI) == []
    start_grove(site.api)
    assert (site.entries(), site.owner()) == (None, "ClusterTopologyBinding")


def test_the_words_of_grove_s_webhook_are_understood_and_others_are_not(site: Site) -> None:
    publishing.install(site.api, KAI_CRD)
    site.turn()
    publishing.install(site.api, GROVE_CRD)
    disabled = "spec.schedulerTopologyReferences[0].schedulerName: scheduler backend is not enabled in Grove"
    words = [disabled, "scheduler backend does not implement topology-aware scheduling", "too many levels"]

    def refuse(request: Request) -> None:
        if request.method == "PATCH":
            raise ApiError(403, "Forbidden", words[0])

    site.refused = refuse
    advised = []
    while words:
        site.restart()
        (result,) = site.turn()
        assert result.message.startswith(words.pop(0))
        advised.append("enable the backend" in result.message)
    assert advised == [True, True, False]


def test_ours_is_not_made_anew_while_grove_does_not_take_the_entry_back(site: Site) -> None:
    both(site)
    site.api.patch(BINDING, {"spec": {"schedulerTopologyBindings": []}})

    def refuse(request: Request) -> None:
        if request.path == BINDING and request.method == "PATCH":
            raise ApiError(403, "Forbidden", "scheduler backend is not enabled in Grove")

    site.refused = refuse
    binding, kai = site.turn(TOPOLOGY, *publishing.THREE)
    assert (binding.reason, kai.reason) == ("Rejected", "Waiting")
    assert kai.message == "stays unchanged until Grove's ClusterTopologyBinding names it"
    assert publishing.node_labels(site.api, OURS) == publishing.FOUR


LIFE: Final[tuple[tuple[Topology, tuple[str, ...], str, list[dict[str, str]] | None], ...]] = (
    (WITHOUT_GROVE, publishing.FOUR, "ClusterTopology", None),
    (TOPOLOGY, publishing.FOUR, "ClusterTopology", [ENTRY]),
    (TOPOLOGY, publishing.THREE, "ClusterTopology", [ENTRY]),
    (WITHOUT_KAI, publishing.THREE, "ClusterTopologyBinding", []),
    (TOPOLOGY, publishing.FOUR, "ClusterTopologyBinding", []),
    (WITHOUT_GROVE, publishing.FOUR, "ClusterTopology", None),
    (TOPOLOGY, publishing.FOUR, "ClusterTopology", [ENTRY]),
)
"""What is wanted one after the other, whose the KAI Topology is then, and what the binding names."""


def live(site: Site) -> Iterator[tuple[Any, ...]]:
    """Go through it until a controller is killed and another has followed. Grove starts anew after outcome pass."""
    mortal = site.last is not None
    for wanted, keys, owner, entries in LIFE:
        for _ in range(4):
            try:
                result = site.turn(wanted, *keys)
            except UnreachableError:
                start_grove(site.api)
                site.last = None
                site.restart()
                continue
            start_grove(site.api)
            if not result and publishing.found(site.api, OURS) and site.owner() == owner:
                break
        binding = publishing.found(site.api, BINDING)
        named = binding["spec"].get("schedulerTopologyBindings") if binding else None
        yield (site.owner(), named, publishing.node_labels(site.api, OURS)), (owner, entries, keys)
        if mortal and site.last is None:
            return


@pytest.mark.slow
def test_controller_when_it_ends_at_any_write_then_the_next_finishes(site: Site) -> None:
    publishing.install(site.api, KAI_CRD, GROVE_CRD)
    for found_then, expected in live(site):
        assert found_then == expected
    total = len(site.writes)
    assert total > 8
    for last in range(1, total):
        for path in (BINDING, OURS):
            site.api.request("DELETE", path)
        site.restart()
        site.writes, site.last = [], last
        for found_then, expected in live(site):
            assert (last, found_then) == (last, expected)
        assert site.last is None
