"""KAI's Topology: made at once, replaced with care, left to Grove where Grove makes it."""

import pytest
from tests.controller.published_site import (
    BINDING,
    FOUR_LEVELS,
    GROVE_CRD,
    KAI_CLUSTER,
    KAI_CRD,
    KAI_ENTRY,
    OURS,
    THREE_LEVELS,
    Site,
    labelled,
    owned_by_cluster,
)
from tests.support.api import ApiUnderTest, Clients, wait_until
from tests.support.cluster import RACK, ZONE
from tests.support.publishing import BINDINGS, FOUR, KAI, THREE, binding, kai_topology, made_by_grove
from tests.support.upstream_crds import upstream_crd
from toposcope.api.label_keys import HOSTNAME
from toposcope.kube.client import Request
from toposcope.kube.errors import UnreachableError

pytestmark = pytest.mark.regression
IMMUTABLE = pytest.mark.real_api("immutability is a CEL rule")
LIST_LIMITS = pytest.mark.real_api("limits of a list")
KEEP = "example.com/keep"
WITHOUT_KAI = {"kai": "Never"}
WITHOUT_GROVE = {"grove": "Never"}


@pytest.fixture
def kai(site: Site) -> Site:
    """Where KAI alone is served."""
    site.serve(KAI_CRD)
    return site


@pytest.fixture
def kai_and_grove(site: Site) -> Site:
    site.serve(KAI_CRD, GROVE_CRD)
    return site


def check_waits_for_three(site: Site) -> None:
    """New levels are not written before they have been wanted for 30 s."""
    before = site.api.get(KAI_CLUSTER)
    outcome = site.pending("kai", levels=THREE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", 30)
    assert outcome.message == (
        "gets the levels topology.kubernetes.io/zone > cloud.google.com/gce-topology-subblock > kubernetes.io/hostname "
        "once they have been wanted for 30 s"
    )

    site.advance(29)
    assert site.pending("kai", levels=THREE).again_in == 1
    assert site.api.get(KAI_CLUSTER) == before


def test_kai_topology_is_served_with_its_crd_only(site: Site) -> None:
    assert not site.serves("kai")
    site.serve(KAI_CRD)
    assert site.serves("kai")


@pytest.mark.parametrize(
    "crd",
    [
        pytest.param("kai-topologies-v0.12", id="v0.12"),
        pytest.param("kai-topologies-v0.14", id="v0.14"),
        pytest.param(KAI_CRD, id="v0.17", marks=IMMUTABLE),
    ],
)
def test_new_kai_levels_when_wanted_for_30_s_then_replace(site: Site, crd: str) -> None:
    site.serve(crd)
    site.publish("kai")
    topology = site.api.get(KAI_CLUSTER)
    assert topology["metadata"]["labels"] == OURS
    assert topology["metadata"]["ownerReferences"][0]["uid"] == "uid-cluster"
    assert topology["spec"]["levels"] == FOUR_LEVELS
    site.publish("kai")
    assert site.writes == ["PATCH topologies"]

    check_waits_for_three(site)
    site.advance(1)
    site.publish("kai", levels=THREE)
    assert site.levels(KAI_CLUSTER) == THREE_LEVELS
    assert site.uid(KAI_CLUSTER) != topology["metadata"]["uid"]


def test_kai_levels_when_they_flap_then_change_nothing(kai: Site) -> None:
    kai.publish("kai")
    before = kai.api.get(KAI_CLUSTER)
    assert kai.pending("kai", levels=THREE).reason == "Waiting"
    kai.advance(29)
    kai.publish("kai")
    kai.advance(29)
    assert kai.pending("kai", levels=THREE).reason == "Waiting"
    kai.advance(29)
    assert kai.pending("kai", levels=(RACK, HOSTNAME)).reason == "Waiting"
    kai.advance(29)
    assert kai.pending("kai", levels=THREE).reason == "Waiting"
    assert kai.api.get(KAI_CLUSTER) == before


@pytest.mark.real_api("there it cannot be edited, only be made anew")
def test_kai_topology_of_other_levels_is_replaced_at_once(kai: Site) -> None:
    kai.publish("kai")
    kai.delete(KAI_CLUSTER)
    kai.advance(30)
    kai.api.create(KAI, kai_topology(RACK, **owned_by_cluster()))
    kai.publish("kai")
    assert kai.levels(KAI_CLUSTER) == FOUR_LEVELS


@pytest.mark.embedded_api("lets it be edited")
def test_kai_topology_when_edited_then_is_put_back_at_once(kai: Site) -> None:
    kai.publish("kai")
    kai.advance(30)
    kai.api.patch(KAI_CLUSTER, {"spec": {"levels": labelled(RACK)}})
    kai.publish("kai")
    assert kai.levels(KAI_CLUSTER) == FOUR_LEVELS


def test_kai_level_alias_given_by_hand_stays(kai: Site) -> None:
    kai.publish("kai", levels=THREE)
    kai.advance(100)
    aliased = {
        "levels": [
            {"nodeLabel": ZONE, "alias": "level-0"},
            {"nodeLabel": RACK, "alias": "level-1"},
            {"nodeLabel": HOSTNAME, "alias": "level-2"},
        ]
    }
    kai.api.patch(KAI_CLUSTER, {"spec": aliased})
    kai.publish("kai", levels=THREE)
    assert kai.api.get(KAI_CLUSTER)["spec"] == aliased


def test_foreign_kai_topology_is_a_conflict_and_stays(kai: Site) -> None:
    kai.api.create(KAI, kai_topology(RACK))
    before = kai.api.get(KAI_CLUSTER)
    outcome = kai.pending("kai")
    assert outcome.reason == "Conflict"
    assert outcome.handle == "topology.kai.scheduler/cluster"
    assert "was not created by Toposcope; delete it, or" in outcome.message
    kai.publish("kai", modes=WITHOUT_KAI)
    assert kai.api.get(KAI_CLUSTER) == before


def test_kai_topology_of_a_former_cluster_topology_is_a_conflict(kai: Site) -> None:
    kai.api.create(KAI, kai_topology(RACK, **owned_by_cluster(uid="before")))
    assert kai.pending("kai").reason == "Conflict"


def test_kai_levels_that_no_scheduler_takes_are_not_sent(kai: Site) -> None:
    outcome = kai.pending("kai", levels=(HOSTNAME, RACK))
    assert outcome.reason == "Rejected"
    assert "must be the last level" in outcome.message
    assert not kai.has(KAI_CLUSTER)


@LIST_LIMITS
def test_kai_levels_when_server_refuses_then_report_its_words(site: Site) -> None:
    site.serve_narrowed(KAI_CRD, most_levels=3)
    site.publish("kai", levels=THREE)
    before = site.api.get(KAI_CLUSTER)
    assert site.pending("kai").reason == "Waiting"
    site.advance(30)
    outcome = site.pending("kai")
    assert outcome.reason == "Rejected"
    assert "spec.levels: Too many: 4: must have at most 3 items" in outcome.message
    assert site.api.get(KAI_CLUSTER) == before
    site.publish("kai", levels=THREE)


@IMMUTABLE
def test_kai_topology_with_a_finalizer_is_not_deleted(kai: Site) -> None:
    kai.publish("kai")
    kai.hold(KAI_CLUSTER, KEEP)
    assert kai.pending("kai", levels=THREE).reason == "Waiting"

    kai.advance(30)
    outcome = kai.pending("kai", levels=THREE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", None)
    assert outcome.message == (
        "waits to be deleted to get the levels topology.kubernetes.io/zone > cloud.google.com/gce-topology-subblock > "
        "kubernetes.io/hostname (until then schedulers ignore nodes without cloud.google.com/gce-topology-block, at "
        "every level); still held by finalizer example.com/keep"
    )
    retracted = kai.pending("kai", modes=WITHOUT_KAI)
    assert "because spec.publish.kai is Never; still held by finalizer example.com/keep" in retracted.message
    assert "deletionTimestamp" not in kai.api.get(KAI_CLUSTER)["metadata"]
    assert kai.levels(KAI_CLUSTER) == FOUR_LEVELS

    kai.release()
    assert kai.pending("kai", levels=THREE).reason == "Waiting"
    kai.advance(30)
    kai.publish("kai", levels=THREE)
    assert kai.levels(KAI_CLUSTER) == THREE_LEVELS


def test_kai_topology_being_deleted_is_waited_for_ever_longer(kai: Site) -> None:
    kai.publish("kai")
    kai.hold(KAI_CLUSTER, KEEP)
    kai.delete(KAI_CLUSTER)
    outcome = kai.pending("kai")
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)
    assert outcome.message == "is being deleted; still held by finalizer example.com/keep"
    kai.advance(1)
    assert kai.pending("kai").again_in == 1
    kai.advance(1)
    assert kai.pending("kai").again_in == 2
    kai.advance(2)
    assert kai.pending("kai").again_in == 4
    kai.advance(96)
    outcome = kai.pending("kai")
    assert outcome.again_in == 60
    assert outcome.message == "is being deleted; still held by finalizer example.com/keep"
    kai.release()
    kai.publish("kai")


def test_kai_topology_where_its_binding_is_published_is_groves(kai_and_grove: Site) -> None:
    site = kai_and_grove
    outcome = site.pending("kai", levels=THREE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)
    assert "Grove has not created it from its ClusterTopologyBinding yet" in outcome.message
    assert not site.has(KAI_CLUSTER)

    ours = binding()
    ours["metadata"] |= owned_by_cluster()
    site.api.create(BINDINGS, ours)
    site.api.create(KAI, kai_topology(*FOUR, ownerReferences=made_by_grove(site.uid(BINDING))))
    assert "not updated it to its ClusterTopologyBinding" in site.pending("kai", levels=THREE).message
    (result,) = site.publish("kai")
    assert result.message == "created by Grove from its ClusterTopologyBinding"
    site.publish("kai", modes=WITHOUT_KAI)
    assert site.levels(KAI_CLUSTER) == FOUR_LEVELS


def test_grove_is_waited_for_ever_longer_and_each_time_anew(kai_and_grove: Site) -> None:
    site = kai_and_grove
    site.api.create(BINDINGS, binding())
    outcome = site.pending("kai")
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)
    site.advance(4)
    outcome = site.pending("kai")
    assert (outcome.reason, outcome.again_in) == ("Waiting", 4)
    site.advance(96)
    outcome = site.pending("kai")
    assert (outcome.reason, outcome.again_in) == ("Waiting", 60)

    site.api.create(KAI, kai_topology(*FOUR, ownerReferences=made_by_grove(site.uid(BINDING))))
    site.publish("kai")
    site.delete(KAI_CLUSTER)
    outcome = site.pending("kai")
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)


def test_foreign_binding_when_grove_is_never_then_replaces_ours(kai_and_grove: Site) -> None:
    """Ours would keep Grove from starting."""
    site = kai_and_grove
    site.publish("kai", levels=THREE, modes=WITHOUT_GROVE)
    site.api.create(BINDINGS, binding())
    assert site.pending("kai", levels=THREE, modes=WITHOUT_GROVE).reason == "Waiting"
    assert not site.has(KAI_CLUSTER)

    site.api.create(KAI, kai_topology(RACK, ownerReferences=made_by_grove(site.uid(BINDING))))
    outcome = site.pending("kai", levels=THREE, modes=WITHOUT_GROVE)
    assert outcome.reason == "Conflict"
    assert "that Toposcope did not create" in outcome.message
    site.publish("kai", levels=(RACK,), modes=WITHOUT_GROVE)


def test_foreign_binding_that_names_a_kai_topology_leaves_it_to_us(kai_and_grove: Site) -> None:
    site = kai_and_grove
    site.api.create(BINDINGS, binding(schedulerTopologyBindings=[KAI_ENTRY]))
    site.publish("kai", levels=THREE)
    assert site.levels(KAI_CLUSTER) == THREE_LEVELS


def test_kai_topology_that_grove_leaves_behind_is_waited_for(kai_and_grove: Site) -> None:
    site = kai_and_grove
    site.api.create(KAI, kai_topology(*FOUR, ownerReferences=made_by_grove("gone")))
    outcome = site.pending("kai", levels=THREE, modes=WITHOUT_GROVE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)
    site.delete(KAI_CLUSTER)
    site.publish("kai", levels=THREE, modes=WITHOUT_GROVE)


def test_our_kai_topology_while_groves_binding_is_to_come_is_kept(kai: Site) -> None:
    kai.publish("kai", levels=THREE)
    kai.serve(GROVE_CRD)
    kai.publish("kai", levels=THREE)
    assert kai.pending("kai").reason == "Waiting"
    kai.advance(30)
    kai.publish("kai")
    assert kai.levels(KAI_CLUSTER) == FOUR_LEVELS


@pytest.fixture
def replacing(kai: Site) -> Site:
    """About to replace four levels by three."""
    kai.publish("kai")
    kai.pending("kai", levels=THREE)
    kai.advance(30)
    return kai


@IMMUTABLE
def test_crash_between_deletion_and_creation_heals(replacing: Site, clients: Clients) -> None:
    def crash(request: Request) -> None:
        if "DELETE topologies" in replacing.writes and request.method == "PATCH":
            raise UnreachableError("gone")

    replacing.before = crash
    with pytest.raises(UnreachableError):
        replacing.ask("kai", levels=THREE)
    assert not replacing.has(KAI_CLUSTER)
    Site(replacing.api, clients()).publish("kai", levels=THREE)
    assert replacing.levels(KAI_CLUSTER) == THREE_LEVELS


@IMMUTABLE
def test_kai_topology_when_changed_meanwhile_then_is_not_deleted(replacing: Site) -> None:
    def meddle(request: Request) -> None:
        if request.method == "DELETE":
            replacing.api.patch(KAI_CLUSTER, {"metadata": {"annotations": {"example.com/note": "mine"}}})

    replacing.before = meddle
    outcome = replacing.pending("kai", levels=THREE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", 5)
    assert "The object might have been modified" in outcome.message
    assert replacing.levels(KAI_CLUSTER) == FOUR_LEVELS


def test_kai_topology_made_at_the_last_moment_is_theirs(kai: Site, clients: Clients) -> None:
    """Also where it has the very levels: a forced apply would take it over, and the next levels would replace it."""

    def be_quicker(request: Request) -> None:
        if request.method == "PATCH":
            kai.api.create(KAI, kai_topology(*FOUR))

    kai.before = be_quicker
    assert kai.pending("kai").reason == "Waiting"
    assert "ownerReferences" not in kai.api.get(KAI_CLUSTER)["metadata"]
    assert Site(kai.api, clients()).pending("kai").reason == "Conflict"


@pytest.mark.real_api("disputed short names")
def test_two_crds_that_want_one_short_name_are_named(api: ApiUnderTest, kai: Site) -> None:
    kai.serve("grove-clustertopologies-alpha4")
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))
    outcome = kai.pending("grove")
    assert outcome.reason == "Conflict"
    assert outcome.message == (
        "the CRD clustertopologybindings.grove.io is not served, because clustertopologies.grove.io of an older Grove "
        'has its short name ("ct" is already in use); delete the CRD clustertopologies.grove.io with its objects'
    )
    api.remove_crd("clustertopologies.grove.io")

    def is_written() -> bool:
        return [result.is_in_sync for result in kai.ask("grove")] == [True]

    # The name is free at once; discovery, which the publisher asks, follows some moments later.
    wait_until(is_written, "the binding is written once its kind is served")
