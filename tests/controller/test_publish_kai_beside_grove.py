"""A KAI Topology of ours beside Grove's binding: named in it, kept by us, never in the way of Grove's start."""

from typing import Any

import pytest
from tests.controller.published_site import (
    BINDING,
    GROVE_CRD,
    KAI_CLUSTER,
    KAI_CRD,
    KAI_ENTRY,
    OLDER_BINDINGS,
    THREE_LEVELS,
    Site,
)
from tests.support.cluster import RACK
from tests.support.publishing import KAI, THREE, kai_topology
from tools.apiserver.grove_operator import GroveExitError, start_grove

pytestmark = [pytest.mark.slow, pytest.mark.regression]
BOTH = ("grove", "kai")
WITHOUT_KAI = {"kai": "Never"}
NOT_FOUND = 'Grove reports on KAI\'s Topology cluster: KAI Topology "cluster" not found'
OLDER_OURS = f"{OLDER_BINDINGS}/cluster"
PATCH_TOPOLOGY = "PATCH topologies"
PATCH_BINDING = "PATCH clustertopologybindings"


@pytest.fixture
def named(prompt_site: Site) -> Site:
    """Where our KAI Topology was there first, so that the binding, which came later, names it."""
    prompt_site.serve(KAI_CRD)
    prompt_site.publish(*BOTH)
    prompt_site.serve(GROVE_CRD)
    prompt_site.publish(*BOTH)
    return prompt_site


def patch_entries(site: Site, entries: list[dict[str, str]] | None) -> None:
    """Change how the binding names the topologies of schedulers."""
    site.api.patch(BINDING, {"spec": {"schedulerTopologyBindings": entries}})


def status_entry(site: Site) -> dict[str, Any]:
    """What Grove says of the first topology that the binding names."""
    entry: dict[str, Any] = site.api.get(BINDING)["status"]["schedulerTopologyStatuses"][0]
    return entry


def check_named_again(site: Site) -> None:
    """The next pass puts the entry back, and the KAI Topology stays ours."""
    site.publish(*BOTH)
    assert site.entries() == [KAI_ENTRY]
    assert site.owner_kind(KAI_CLUSTER) == "ClusterTopology"


def test_kai_topology_when_grove_comes_is_named_and_never_away(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD)
    site.publish(*BOTH)
    before = site.api.get(KAI_CLUSTER)
    site.serve(GROVE_CRD)
    site.publish(*BOTH)
    start_grove(site.api)
    site.publish(*BOTH)

    assert site.entries() == [KAI_ENTRY]
    metadata = site.api.get(BINDING)["metadata"]
    assert metadata["annotations"] == {"gpu.topology/names-kai-topology": "cluster"}
    assert status_entry(site)["inSync"] is True
    assert site.api.get(KAI_CLUSTER) == before
    assert site.writes == [PATCH_TOPOLOGY, PATCH_BINDING]


def test_new_levels_reach_kai_and_grove_whose_view_is_reported(site: Site) -> None:
    site.serve(KAI_CRD)
    site.publish(*BOTH)
    site.serve(GROVE_CRD)
    site.publish(*BOTH)
    waiting = site.pending(*BOTH, levels=THREE)
    assert waiting.kind == "Topology"
    assert waiting.reason == "Waiting"
    assert waiting.again_in == 30

    start_grove(site.api)
    of_grove, of_kai = site.ask(*BOTH, levels=THREE)
    assert of_grove.is_in_sync is False
    assert of_grove.kind == "ClusterTopologyBinding"
    assert of_grove.reason == "Waiting"
    assert of_grove.again_in == 1
    assert of_grove.message == (
        "Grove reports on KAI's Topology cluster: KAI Topology levels differ from ClusterTopologyBinding levels"
    )
    assert of_kai.is_in_sync is False
    assert of_kai.kind == "Topology"

    site.advance(30)
    pending = site.pending(*BOTH, levels=THREE)
    assert pending.kind == "ClusterTopologyBinding"
    assert site.levels(KAI_CLUSTER) == THREE_LEVELS
    assert site.entries() == [KAI_ENTRY]
    start_grove(site.api)
    site.publish(*BOTH, levels=THREE)


def test_groves_view_of_a_former_state_is_no_news(named: Site) -> None:
    named.publish(*BOTH, levels=THREE)
    start_grove(named.api)
    named.publish(*BOTH, levels=THREE)
    only_rack = [{"domain": "rack", "key": RACK}]
    named.api.patch(BINDING, {"spec": {"levels": only_rack}})
    start_grove(named.api)
    named.publish(*BOTH, levels=THREE)
    assert status_entry(named)["inSync"] is False
    named.publish(*BOTH, levels=THREE)


@pytest.mark.parametrize("entries", [pytest.param(None, id="removed"), pytest.param([], id="emptied")])
def test_entry_when_taken_from_the_binding_then_is_put_back(named: Site, entries: list[dict[str, str]] | None) -> None:
    patch_entries(named, entries)
    with pytest.raises(GroveExitError, match="is not owned by"):
        start_grove(named.api)
    check_named_again(named)
    start_grove(named.api)


def test_entry_when_renamed_then_is_put_back(named: Site) -> None:
    patch_entries(named, [{**KAI_ENTRY, "topologyReference": "other"}])
    check_named_again(named)
    start_grove(named.api)


def test_named_kai_topology_when_deleted_then_is_made_again(named: Site) -> None:
    """Grove compares, and makes none."""
    named.delete(KAI_CLUSTER)
    start_grove(named.api)
    pending = named.pending(*BOTH)
    assert pending.message == NOT_FOUND
    start_grove(named.api)
    check_named_again(named)


def test_entry_for_another_scheduler_stays(named: Site) -> None:
    another = {"schedulerName": "another", "topologyReference": "theirs"}
    patch_entries(named, [another, KAI_ENTRY])
    named.publish(*BOTH, levels=THREE)
    start_grove(named.api)
    named.publish(*BOTH, levels=THREE)
    assert named.entries() == [another, KAI_ENTRY]

    named.publish(*BOTH, levels=THREE, modes=WITHOUT_KAI)
    start_grove(named.api)
    named.publish(*BOTH, levels=THREE, modes=WITHOUT_KAI)
    assert named.entries() == [another]

    named.publish(*BOTH, modes=WITHOUT_KAI)
    start_grove(named.api)
    named.publish(*BOTH, modes=WITHOUT_KAI)
    assert named.entries() == [another]
    assert named.owner_kind(KAI_CLUSTER) == "ClusterTopologyBinding"


def test_entry_of_an_admin_is_left_alone(prompt_site: Site) -> None:
    """Named before the KAI Topology is made, as one has to: the entry must not be taken away in between."""
    site = prompt_site
    site.serve(KAI_CRD, GROVE_CRD)
    site.publish(*BOTH, modes=WITHOUT_KAI)
    start_grove(site.api)
    patch_entries(site, [KAI_ENTRY])
    site.delete(KAI_CLUSTER)
    start_grove(site.api)

    site.publish(*BOTH, levels=THREE, modes=WITHOUT_KAI)
    start_grove(site.api)
    (result,) = site.publish("grove", levels=THREE, modes=WITHOUT_KAI)
    assert result.message == NOT_FOUND

    site.api.create(KAI, kai_topology(*THREE))
    before = site.api.get(KAI_CLUSTER)
    start_grove(site.api)
    site.publish(*BOTH, levels=THREE, modes=WITHOUT_KAI)
    assert site.entries() == [KAI_ENTRY]
    assert site.api.get(KAI_CLUSTER) == before


def test_kai_topology_that_grove_made_stays_groves(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD, GROVE_CRD)
    site.publish("grove")
    for _ in range(2):
        start_grove(site.api)
        site.publish(*BOTH)
    assert site.entries() is None
    assert site.owner_kind(KAI_CLUSTER) == "ClusterTopologyBinding"
    assert site.writes == [PATCH_BINDING]


def test_kai_never_takes_ours_away_first_and_the_entry_after(named: Site) -> None:
    named.publish(*BOTH, modes=WITHOUT_KAI)
    assert named.writes == [PATCH_TOPOLOGY, PATCH_BINDING, "DELETE topologies", PATCH_BINDING]
    annotations = named.api.get(BINDING)["metadata"].get("annotations", {})
    assert "gpu.topology/names-kai-topology" not in annotations

    start_grove(named.api)
    assert named.entries() == []
    assert named.owner_kind(KAI_CLUSTER) == "ClusterTopologyBinding"
    named.publish(*BOTH)
    assert named.writes == [PATCH_TOPOLOGY, PATCH_BINDING, "DELETE topologies", PATCH_BINDING]


def test_kai_never_while_ours_is_held_then_keeps_the_entry(named: Site) -> None:
    named.hold(KAI_CLUSTER, "example.com/keep")
    results = named.ask(*BOTH, modes=WITHOUT_KAI)
    of_grove, of_kai = results
    assert of_grove.is_in_sync is False
    assert of_grove.reason == "Waiting"
    assert of_kai.is_in_sync is False
    assert of_kai.reason == "Waiting"
    assert named.entries() == [KAI_ENTRY]
    start_grove(named.api)
    named.release()
    named.publish(*BOTH, modes=WITHOUT_KAI)
    named.publish(*BOTH, modes=WITHOUT_KAI)
    assert named.entries() == []


def test_entry_without_kais_kind_lets_grove_start(named: Site) -> None:
    named.api.remove_crd("topologies.kai.scheduler")
    named.publish("grove", modes=WITHOUT_KAI)
    assert named.entries() == [KAI_ENTRY]
    start_grove(named.api)


def test_foreign_kai_topology_in_place_of_ours_keeps_the_entry(named: Site) -> None:
    named.delete(KAI_CLUSTER)
    named.api.create(KAI, kai_topology(RACK))
    before = named.api.get(KAI_CLUSTER)
    outcome = named.pending(*BOTH)
    assert outcome.kind == "Topology"
    assert outcome.reason == "Conflict"
    named.publish(*BOTH, modes=WITHOUT_KAI)
    start_grove(named.api)
    assert named.entries() == [KAI_ENTRY]
    assert named.api.get(KAI_CLUSTER) == before


def test_unreleased_topology_names_ours_by_its_own_field(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD)
    site.publish(*BOTH)
    site.serve("grove-clustertopologies-unreleased")
    site.publish(*BOTH)
    spec = site.api.get(OLDER_OURS)["spec"]
    assert spec["schedulerTopologyReferences"] == [KAI_ENTRY]
    site.publish(*BOTH, modes=WITHOUT_KAI)
    spec = site.api.get(OLDER_OURS)["spec"]
    assert spec["schedulerTopologyReferences"] == []
    assert not site.has(KAI_CLUSTER)
