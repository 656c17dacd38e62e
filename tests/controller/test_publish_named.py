"""A KAI Topology of ours beside Grove's binding: named in it, kept by us, never in the way of Grove's start."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.support.api import ApiUnderTest
from tests.support.cluster import BLOCK, RACK, topology
from tests.support.publishing import (
    BINDINGS,
    FOUR,
    KAI,
    THREE,
    Time,
    WatchedClient,
    backoff_on,
    finalizer,
    found,
    install,
    kai_topology,
    levels,
    node_labels,
    patch,
)
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.grove_operator import GroveExitError, start_grove
from toposcope.api.cluster_topology import Topology
from toposcope.controller.publishers.dry_run import DryRun
from toposcope.controller.publishers.grove import GrovePublisher
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.controller.run import make_publishers
from toposcope.integrations.framework.published import Published
from toposcope.integrations.grove.kai_reference import NAMED
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, UnreachableError

BINDING = f"{BINDINGS}/cluster"
OURS = f"{KAI}/cluster"
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
        self.time = Time()
        self.writes: list[str] = []
        self.last: int | None = None
        """How many writes there are before the controller dies; None: it lives."""
        self.refused: Callable[[Request], None] = lambda _: None
        self.restart()

    def restart(self) -> None:
        """Begin with a controller that remembers nothing."""
        client = backoff_on(WatchedClient(self._client, self._before), self.time)
        self.grove = GrovePublisher(client, self.time)
        self.kai = KaiPublisher(client, self.time, 0.0)

    def _before(self, request: Request) -> None:
        self.refused(request)
        if request.method != "GET" and request.query.get("dryRun") != "All":
            if len(self.writes) == self.last:
                raise UnreachableError("the controller is killed")
            self.writes.append(f"{request.method} {request.path.rsplit('/', 2)[1]}")

    def turn(self, wanted: Topology = TOPOLOGY, *keys: str) -> list[Published]:
        """One pass; the results that are not in sync."""
        results: list[Published | None] = []
        for publisher in (self.grove, self.kai):
            if publisher.served():
                never = wanted.publish.get(publisher.name) == "Never"
                results.append(
                    publisher.retract(wanted) if never else publisher.publish(wanted, levels(*(keys or FOUR)))
                )
        return [outcome for outcome in results if outcome and not outcome.in_sync]

    def entries(self) -> Any:
        """What the binding names."""
        return self.api.get(BINDING)["spec"].get("schedulerTopologyBindings")

    def owner(self) -> str:
        """Whose the KAI Topology is."""
        return str(self.api.get(OURS)["metadata"]["ownerReferences"][0]["kind"])


@pytest.fixture
def site(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> Site:
    return Site(api, clients())


def both(site: Site) -> Site:
    """KAI first, Grove later."""
    install(site.api, KAI_CRD)
    assert site.turn() == []
    install(site.api, GROVE_CRD)
    assert site.turn() == []
    return site


def test_ours_is_named_when_grove_comes_and_is_never_away(site: Site) -> None:
    install(site.api, KAI_CRD)
    assert site.turn() == []
    before = site.api.get(OURS)
    install(site.api, GROVE_CRD)
    assert site.turn() == []
    start_grove(site.api)
    assert site.turn() == []
    assert site.entries() == [ENTRY]
    assert site.api.get(BINDING)["metadata"]["annotations"] == {NAMED: "cluster"}
    assert site.api.get(OURS) == before
    assert site.writes == ["PATCH topologies", "PATCH clustertopologybindings"]
    (status,) = site.api.get(BINDING)["status"]["schedulerTopologyStatuses"]
    assert status["inSync"]


def test_new_levels_reach_both_and_grove_s_view_of_it_is_reported(site: Site) -> None:
    both(site)
    site.kai = KaiPublisher(site._client, site.time)  # with the usual patience
    (waiting,) = site.turn(TOPOLOGY, *THREE)
    assert (waiting.kind, waiting.reason, waiting.again_in) == ("Topology", "Waiting", 30)
    start_grove(site.api)
    binding, _ = site.turn(TOPOLOGY, *THREE)
    assert (binding.kind, binding.reason, binding.again_in) == ("ClusterTopologyBinding", "Waiting", 1)
    assert binding.message == (
        "Grove says of KAI's Topology cluster: KAI Topology levels differ from ClusterTopologyBinding levels"
    )
    site.time.seconds = 30
    site.turn(TOPOLOGY, *THREE)
    assert (node_labels(site.api, OURS), site.entries()) == (THREE, [ENTRY])
    start_grove(site.api)
    assert site.turn(TOPOLOGY, *THREE) == []
    # What Grove has result of a state before is no news.
    patch(site.api, BINDING, {"spec": {"levels": [{"domain": "rack", "key": RACK}]}})
    start_grove(site.api)
    assert site.turn(TOPOLOGY, *THREE) == []
    assert not site.api.get(BINDING)["status"]["schedulerTopologyStatuses"][0]["inSync"]
    assert site.turn(TOPOLOGY, *THREE) == []


@pytest.mark.parametrize("by_hand", ["removed", "emptied", "renamed"])
def test_an_entry_of_ours_that_somebody_takes_away_is_put_back(site: Site, by_hand: str) -> None:
    both(site)
    other = {**ENTRY, "topologyReference": "other"}
    now: Any = {"removed": None, "emptied": [], "renamed": [other]}[by_hand]
    patch(site.api, BINDING, {"spec": {"schedulerTopologyBindings": now}})
    if by_hand != "renamed":
        with pytest.raises(GroveExitError, match="is not owned by"):
            start_grove(site.api)
    assert site.turn() == []
    assert (site.entries(), site.owner()) == ([ENTRY], "ClusterTopology")
    start_grove(site.api)


def test_one_that_somebody_deletes_is_made_again_and_stays_named(site: Site) -> None:
    both(site)
    assert site.api.request("DELETE", OURS)[0] == 200
    start_grove(site.api)  # which compares, and makes none
    (drift,) = site.turn()
    assert drift.message == 'Grove says of KAI\'s Topology cluster: KAI Topology "cluster" not found'
    start_grove(site.api)
    assert site.turn() == []
    assert (site.entries(), site.owner()) == ([ENTRY], "ClusterTopology")


def test_an_entry_for_another_scheduler_stays_through_all_of_it(site: Site) -> None:
    both(site)
    theirs = {"schedulerName": "another", "topologyReference": "theirs"}
    patch(site.api, BINDING, {"spec": {"schedulerTopologyBindings": [theirs, ENTRY]}})
    for wanted, keys, entries in (
        (TOPOLOGY, THREE, [theirs, ENTRY]),
        (WITHOUT_KAI, THREE, [theirs]),
        (WITHOUT_KAI, FOUR, [theirs]),
    ):
        assert site.turn(wanted, *keys) == []
        start_grove(site.api)
        assert site.turn(wanted, *keys) == []
        assert site.entries() == entries
    assert site.owner() == "ClusterTopologyBinding"


def test_an_entry_of_an_admin_is_none_of_our_business(site: Site) -> None:
    """Named before it is made, as one has to: it must not be taken away in between."""
    install(site.api, KAI_CRD, GROVE_CRD)
    assert site.turn(WITHOUT_KAI) == []
    start_grove(site.api)
    patch(site.api, BINDING, {"spec": {"schedulerTopologyBindings": [ENTRY]}})
    assert site.api.request("DELETE", OURS)[0] == 200
    start_grove(site.api)
    assert site.turn(WITHOUT_KAI, *THREE) == []
    start_grove(site.api)
    drift = site.grove.publish(WITHOUT_KAI, levels(*THREE))
    assert drift.in_sync
    assert drift.message == 'Grove says of KAI\'s Topology cluster: KAI Topology "cluster" not found'
    theirs = site.api.create(KAI, kai_topology(*THREE))
    start_grove(site.api)
    assert site.turn(WITHOUT_KAI, *THREE) == []
    assert (site.entries(), site.api.get(OURS)) == ([ENTRY], theirs)


def test_the_one_that_grove_made_stays_grove_s(site: Site) -> None:
    install(site.api, KAI_CRD, GROVE_CRD)
    for _ in range(2):
        site.turn()
        start_grove(site.api)
    assert site.turn() == []
    assert (site.entries(), site.owner()) == (None, "ClusterTopologyBinding")
    assert site.writes == ["PATCH clustertopologybindings"]


def test_never_takes_ours_away_first_and_the_entry_after_it(site: Site) -> None:
    both(site)
    site.writes.clear()
    assert site.turn(WITHOUT_KAI) == []
    assert site.writes == ["DELETE topologies", "PATCH clustertopologybindings"]
    assert NAMED not in site.api.get(BINDING)["metadata"].get("annotations", {})
    start_grove(site.api)
    assert (site.entries(), site.owner()) == ([], "ClusterTopologyBinding")
    assert site.turn() == []
    assert site.writes == ["DELETE topologies", "PATCH clustertopologybindings"]


def test_never_waits_for_who_holds_ours_and_the_entry_with_it(site: Site) -> None:
    both(site)
    with finalizer(site.api, OURS, "example.com/keep"):
        assert {outcome.reason for outcome in site.turn(WITHOUT_KAI)} == {"Waiting"}
        assert site.entries() == [ENTRY]
        start_grove(site.api)
    site.turn(WITHOUT_KAI)
    assert site.turn(WITHOUT_KAI) == []
    assert site.entries() == []


def test_without_kai_s_kind_the_entry_is_what_lets_grove_start(site: Site) -> None:
    both(site)
    site.api.remove_crd("topologies.kai.scheduler")
    assert site.grove.publish(WITHOUT_KAI, levels(*FOUR)).in_sync
    assert site.entries() == [ENTRY]
    start_grove(site.api)


def test_somebody_else_s_that_takes_the_place_of_ours_needs_the_entry_too(site: Site) -> None:
    both(site)
    assert site.api.request("DELETE", OURS)[0] == 200
    theirs = site.api.create(KAI, kai_topology(RACK))
    (result,) = site.turn()
    assert (result.kind, result.reason) == ("Topology", "Conflict")
    site.turn(WITHOUT_KAI)
    start_grove(site.api)
    assert (site.entries(), site.api.get(OURS)) == ([ENTRY], theirs)


def test_dry_runs_show_the_entry_and_write_nothing(site: Site) -> None:
    install(site.api, KAI_CRD)
    site.turn()
    install(site.api, GROVE_CRD)
    dry_runner = DryRun(site._client, make_publishers, site.time)
    result = dry_runner.publish("grove", TOPOLOGY, levels(*FOUR))
    assert result.message.splitlines()[0] == "would create:"
    assert (
        "+  schedulerTopologyBindings:\n+  - schedulerName: kai-scheduler\n+    topologyReference: cluster"
        in result.diff
    )
    assert (found(site.api, BINDING), site.owner()) == (None, "ClusterTopology")
    # One that is only compared stays, and is named all the same.
    assert site.grove.publish(topology(publish={"kai": "DryRun"}), levels(*FOUR)).in_sync
    assert site.entries() == [ENTRY]
    gone = dry_runner.publish("grove", WITHOUT_KAI, levels(*FOUR))
    assert f"-  - nodeLabel: {BLOCK}" in gone.diff
    assert "-  - schedulerName: kai-scheduler" in gone.diff
    assert (site.entries(), node_labels(site.api, OURS)) == ([ENTRY], FOUR)


def test_an_entry_that_grove_refuses_costs_nothing_and_is_tried_ever_more_rarely(site: Site) -> None:
    install(site.api, KAI_CRD)
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
        assert (
            "enable the backend kai-scheduler in Grove's configuration, or set spec.publish.grove to" in result.message
        )
    assert attempts == [0, 30, 90, 210]
    assert (found(site.api, BINDING), node_labels(site.api, OURS)) == (None, FOUR)
    # As advised.
    assert site.turn(WITHOUT_KAI) == []
    start_grove(site.api)
    assert (site.entries(), site.owner()) == (None, "ClusterTopologyBinding")


def test_the_words_of_grove_s_webhook_are_understood_and_others_are_not(site: Site) -> None:
    install(site.api, KAI_CRD)
    site.turn()
    install(site.api, GROVE_CRD)
    words = [
        "spec.schedulerTopologyReferences[0].schedulerName: scheduler backend is not enabled in Grove",
        "scheduler backend does not implement topology-aware scheduling",
        "too many levels",
    ]

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
    patch(site.api, BINDING, {"spec": {"schedulerTopologyBindings": []}})

    def refuse(request: Request) -> None:
        if request.path == BINDING and request.method == "PATCH":
            raise ApiError(403, "Forbidden", "scheduler backend is not enabled in Grove")

    site.refused = refuse
    binding, kai = site.turn(TOPOLOGY, *THREE)
    assert (binding.reason, kai.reason) == ("Rejected", "Waiting")
    assert kai.message == "stays as it is until Grove's ClusterTopologyBinding names it"
    assert node_labels(site.api, OURS) == FOUR


def test_the_unreleased_shape_names_ours_by_its_own_field(site: Site) -> None:
    install(site.api, KAI_CRD)
    site.turn()
    install(site.api, "grove-clustertopologies-unreleased")
    older = "/apis/grove.io/v1alpha1/clustertopologies/cluster"
    assert site.turn() == []
    assert site.api.get(older)["spec"]["schedulerTopologyReferences"] == [ENTRY]
    assert site.turn(WITHOUT_KAI) == []
    assert site.api.get(older)["spec"]["schedulerTopologyReferences"] == []
    assert found(site.api, OURS) is None


LIFE: Final[tuple[tuple[Topology, tuple[str, ...], str, list[dict[str, str]] | None], ...]] = (
    (WITHOUT_GROVE, FOUR, "ClusterTopology", None),
    (TOPOLOGY, FOUR, "ClusterTopology", [ENTRY]),
    (TOPOLOGY, THREE, "ClusterTopology", [ENTRY]),
    (WITHOUT_KAI, THREE, "ClusterTopologyBinding", []),
    (TOPOLOGY, FOUR, "ClusterTopologyBinding", []),
    (WITHOUT_GROVE, FOUR, "ClusterTopology", None),
    (TOPOLOGY, FOUR, "ClusterTopology", [ENTRY]),
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
            if not result and found(site.api, OURS) and site.owner() == owner:
                break
        binding = found(site.api, BINDING)
        named = binding["spec"].get("schedulerTopologyBindings") if binding else None
        yield (site.owner(), named, node_labels(site.api, OURS)), (owner, entries, keys)
        if mortal and site.last is None:
            return


def test_whichever_write_is_the_last_of_a_controller_grove_starts_and_the_next_one_finishes(site: Site) -> None:
    install(site.api, KAI_CRD, GROVE_CRD)
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
