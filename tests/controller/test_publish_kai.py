"""KAI's Topology: made at once, replaced with care, left to Grove where Grove makes it."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.support.api import ApiUnderTest
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.publishing import (
    BINDINGS,
    FOUR,
    KAI,
    THREE,
    Time,
    WatchedClient,
    binding,
    finalizer,
    found,
    install,
    install_narrowed,
    kai_topology,
    levels,
    made_by_grove,
    node_labels,
    patch,
)
from toposcope.api.label_keys import HOSTNAME
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import UnreachableError

OURS = f"{KAI}/cluster"
CRDS = ["kai-topologies-v0.12", "kai-topologies-v0.14", "kai-topologies-v0.17"]
NEWEST = CRDS[-1]
TOPOLOGY = topology()
IMMUTABLE = pytest.mark.real_api("immutability is a CEL rule")


@pytest.fixture
def kai(clients: Callable[[], ApiClient], time: Time) -> KaiPublisher:
    return KaiPublisher(clients(), time)


def owned_by(uid: str) -> dict[str, Any]:
    """Metadata of what Toposcope made from the ClusterTopology `cluster` with this uid."""
    owner = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "name": "cluster", "uid": uid}
    return {"labels": {"app.kubernetes.io/managed-by": "toposcope"}, "ownerReferences": [owner]}


def watched(client: ApiClient, time: Time, before: Callable[[Request], None]) -> KaiPublisher:
    return KaiPublisher(cast("ApiClient", WatchedClient(client, before)), time)


def test_is_served_with_its_crd_only(api: ApiUnderTest, kai: KaiPublisher) -> None:
    assert not kai.served()
    install(api, NEWEST)
    assert kai.served()


@pytest.mark.parametrize("crd", CRDS)
def test_every_version_takes_it_and_gets_new_levels_when_they_have_been_wanted_for_a_while(
    api: ApiUnderTest, kai: KaiPublisher, time: Time, crd: str
) -> None:
    install(api, crd)
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync
    made = api.get(OURS)
    assert node_labels(api, OURS) == FOUR
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == [TOPOLOGY.uid]
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync
    assert api.get(OURS) == made

    waiting = kai.publish(TOPOLOGY, levels(*THREE))
    assert (waiting.reason, waiting.again_in) == ("Waiting", 30)
    assert waiting.message == f"gets the levels {ZONE} > {RACK} > {HOSTNAME} once they have been wanted for 30 s"
    time.seconds = 29
    assert kai.publish(TOPOLOGY, levels(*THREE)).again_in == 1
    assert api.get(OURS) == made
    time.seconds = 30
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, OURS) == THREE
    # The embedded server lets levels be changed.
    assert (api.get(OURS)["metadata"]["uid"] != made["metadata"]["uid"]) == api.is_real


def test_levels_that_flap_change_nothing(api: ApiUnderTest, kai: KaiPublisher, time: Time) -> None:
    install(api, NEWEST)
    kai.publish(TOPOLOGY, levels(*FOUR))
    made = api.get(OURS)
    for wanted in (THREE, FOUR, THREE, (RACK, HOSTNAME), THREE):
        assert kai.publish(TOPOLOGY, levels(*wanted)).in_sync == (wanted == FOUR)
        time.seconds += 29
    assert api.get(OURS) == made


def test_what_somebody_edited_is_put_back_at_once_if_it_has_been_wanted_for_a_while(
    api: ApiUnderTest, kai: KaiPublisher, time: Time
) -> None:
    install(api, NEWEST)
    kai.publish(TOPOLOGY, levels(*FOUR))
    time.seconds = 30
    if api.is_real:  # there it cannot be edited, only be made anew
        assert api.request("DELETE", OURS)[0] == 200
        api.create(KAI, kai_topology(RACK, **owned_by(TOPOLOGY.uid)))
    else:
        patch(api, OURS, {"spec": {"levels": [{"nodeLabel": RACK}]}})
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync
    assert node_labels(api, OURS) == FOUR


def test_an_alias_given_by_hand_stays(api: ApiUnderTest, kai: KaiPublisher, time: Time) -> None:
    install(api, "kai-topologies-v0.17")
    kai.publish(TOPOLOGY, levels(*THREE))
    named = [{"nodeLabel": key, "alias": f"level-{i}"} for i, key in enumerate(THREE)]
    patch(api, OURS, {"spec": {"levels": named}})
    time.seconds = 100
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert api.get(OURS)["spec"]["levels"] == named


def test_somebody_elses_is_a_conflict_and_stays_as_it_is(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST)
    theirs = api.create(KAI, kai_topology(RACK))
    result = kai.publish(TOPOLOGY, levels(*FOUR))
    assert (result.reason, result.handle) == ("Conflict", "topology.kai.scheduler/cluster")
    assert "was not made by Toposcope; delete it, or" in result.message
    assert kai.retract(TOPOLOGY) is None
    assert api.get(OURS) == theirs


def test_one_of_another_topology_of_this_name_is_not_ours(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST)
    api.create(KAI, kai_topology(RACK, **owned_by("before")))
    assert kai.publish(TOPOLOGY, levels(*FOUR)).reason == "Conflict"


def test_levels_that_no_scheduler_takes_are_not_even_sent(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST)
    result = kai.publish(TOPOLOGY, levels(HOSTNAME, RACK))
    assert (result.reason, "must be the last level" in result.message) == ("Rejected", True)
    assert found(api, OURS) is None


@pytest.mark.real_api("limits of a list")
def test_what_the_server_refuses_is_reported_in_its_words_and_costs_nothing(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    install_narrowed(api, NEWEST, most=3)
    writes: list[str] = []
    kai = watched(clients(), time, lambda r: writes.append(r.method) if r.method != "GET" else None)
    kai.publish(TOPOLOGY, levels(*THREE))
    made = api.get(OURS)
    kai.publish(TOPOLOGY, levels(*FOUR))
    time.seconds = 30
    result = kai.publish(TOPOLOGY, levels(*FOUR))
    assert result.reason == "Rejected"
    assert "spec.levels: Too many: 4: must have at most 3 items" in result.message
    assert api.get(OURS) == made
    assert writes == ["PATCH", "PATCH", "POST"]
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync


@IMMUTABLE
def test_what_somebody_holds_is_not_deleted(api: ApiUnderTest, kai: KaiPublisher, time: Time) -> None:
    install(api, NEWEST)
    kai.publish(TOPOLOGY, levels(*FOUR))
    with finalizer(api, OURS, "example.com/keep"):
        kai.publish(TOPOLOGY, levels(*THREE))
        time.seconds = 30
        result = kai.publish(TOPOLOGY, levels(*THREE))
        assert (result.reason, result.again_in) == ("Waiting", None)  # the watch shows when it lets go
        assert result.message == (
            f"waits to be deleted to get the levels {' > '.join(THREE)} (until then schedulers leave out nodes without "
            f"{BLOCK}, at every level); still held by finalizer example.com/keep"
        )
        withdrawn = kai.retract(TOPOLOGY)
        assert withdrawn is not None
        assert "because spec.publish.kai is Never; still held by finalizer example.com/keep" in withdrawn.message
        assert "deletionTimestamp" not in api.get(OURS)["metadata"]
        assert node_labels(api, OURS) == FOUR
    kai.publish(TOPOLOGY, levels(*THREE))
    time.seconds = 60
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, OURS) == THREE


def test_one_that_somebody_deletes_is_waited_for_ever_more_patiently(
    api: ApiUnderTest, kai: KaiPublisher, time: Time
) -> None:
    install(api, NEWEST)
    kai.publish(TOPOLOGY, levels(*FOUR))
    with finalizer(api, OURS, "example.com/keep"):
        assert api.request("DELETE", OURS)[0] == 200
        waits = []
        for time.seconds in (0, 1, 2, 4, 100):
            result = kai.publish(TOPOLOGY, levels(*FOUR))
            assert result.reason == "Waiting"
            assert result.message == "is being deleted; still held by finalizer example.com/keep"
            waits.append(result.again_in)
        assert waits == [1, 1, 2, 4, 60]
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync


@IMMUTABLE
def test_a_crash_between_deletion_and_creation_heals_at_the_next_pass(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    install(api, NEWEST)
    sent: list[str] = []

    def crash_after_deletion(request: Request) -> None:
        if "DELETE" in sent and request.method == "PATCH":
            raise UnreachableError("gone")
        sent.append(request.method)

    kai = watched(clients(), time, crash_after_deletion)
    kai.publish(TOPOLOGY, levels(*FOUR))
    kai.publish(TOPOLOGY, levels(*THREE))
    time.seconds = 30
    with pytest.raises(UnreachableError):
        kai.publish(TOPOLOGY, levels(*THREE))
    assert found(api, OURS) is None
    assert KaiPublisher(clients(), time).publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, OURS) == THREE


@IMMUTABLE
def test_what_changed_since_it_was_looked_at_is_not_deleted(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    install(api, NEWEST)

    def meddle(request: Request) -> None:
        if request.method == "DELETE":
            patch(api, OURS, {"metadata": {"annotations": {"example.com/note": "mine"}}})

    kai = watched(clients(), time, meddle)
    kai.publish(TOPOLOGY, levels(*FOUR))
    kai.publish(TOPOLOGY, levels(*THREE))
    time.seconds = 30
    result = kai.publish(TOPOLOGY, levels(*THREE))
    assert (result.reason, result.again_in) == ("Waiting", 5)
    assert "The object might have been modified" in result.message
    assert node_labels(api, OURS) == FOUR


def test_one_that_somebody_makes_at_the_last_moment_is_theirs(
    api: ApiUnderTest, clients: Callable[[], ApiClient], time: Time
) -> None:
    """Also where it has the very levels: a forced apply would take it over, and the next levels would replace it."""
    install(api, NEWEST)

    def be_quicker(request: Request) -> None:
        if request.method == "PATCH":
            api.create(KAI, kai_topology(*FOUR))

    assert watched(clients(), time, be_quicker).publish(TOPOLOGY, levels(*FOUR)).reason == "Waiting"
    assert "ownerReferences" not in api.get(OURS)["metadata"]
    assert KaiPublisher(clients(), time).publish(TOPOLOGY, levels(*FOUR)).reason == "Conflict"


def test_grove_makes_it_where_its_binding_is_published(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST, "grove-clustertopologybindings-alpha10")
    before = kai.publish(TOPOLOGY, levels(*THREE))
    assert (before.reason, before.again_in) == ("Waiting", 1)
    assert "Grove makes it from its ClusterTopologyBinding and has not yet" in before.message
    assert found(api, OURS) is None

    ours = binding()
    ours["metadata"] |= owned_by(TOPOLOGY.uid)
    uid = api.create(BINDINGS, ours)["metadata"]["uid"]
    api.create(KAI, kai_topology(*FOUR, ownerReferences=made_by_grove(uid)))
    assert "not brought it in line" in kai.publish(TOPOLOGY, levels(*THREE)).message
    result = kai.publish(TOPOLOGY, levels(*FOUR))
    assert (result.in_sync, result.message) == (True, "made by Grove from its ClusterTopologyBinding")
    assert kai.retract(TOPOLOGY) is None
    assert node_labels(api, OURS) == FOUR


def test_somebody_elses_binding_makes_it_too(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST, "grove-clustertopologybindings-alpha10")
    alone = topology(publish={"grove": "Never"})
    assert kai.publish(alone, levels(*THREE)).in_sync
    uid = api.create(BINDINGS, binding())["metadata"]["uid"]
    # Ours would keep Grove from starting.
    assert kai.publish(alone, levels(*THREE)).reason == "Waiting"
    assert found(api, OURS) is None
    api.create(KAI, kai_topology(RACK, ownerReferences=made_by_grove(uid)))
    result = kai.publish(alone, levels(*THREE))
    assert (result.reason, "that Toposcope did not write" in result.message) == ("Conflict", True)
    assert kai.publish(alone, levels(RACK)).in_sync


def test_a_binding_that_names_one_leaves_it_to_us(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST, "grove-clustertopologybindings-alpha10")
    entry = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
    api.create(BINDINGS, binding(schedulerTopologyBindings=[entry]))
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, OURS) == THREE


def test_what_grove_leaves_behind_is_waited_for(api: ApiUnderTest, kai: KaiPublisher) -> None:
    install(api, NEWEST, "grove-clustertopologybindings-alpha10")
    api.create(KAI, kai_topology(BLOCK, ownerReferences=made_by_grove("gone")))
    result = kai.publish(topology(publish={"grove": "Never"}), levels(*THREE))
    assert (result.reason, result.again_in) == ("Waiting", 1)
    assert api.request("DELETE", OURS)[0] == 200
    assert kai.publish(topology(publish={"grove": "Never"}), levels(*THREE)).in_sync


def test_ours_is_kept_while_grove_s_binding_is_still_to_come(api: ApiUnderTest, kai: KaiPublisher, time: Time) -> None:
    install(api, NEWEST)
    kai.publish(TOPOLOGY, levels(*THREE))
    install(api, "grove-clustertopologybindings-alpha10")
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    kai.publish(TOPOLOGY, levels(*FOUR))
    time.seconds = 30
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync
    assert node_labels(api, OURS) == FOUR
