"""Grove's binding: what must not be in its way, which older shapes are only reported, what Never takes back."""

from typing import Any

import pytest
from tests.controller.published_site import (
    BINDING,
    GROVE_CRD,
    KAI_CLUSTER,
    KAI_CRD,
    KAI_ENTRY,
    OLDER_BINDINGS,
    Site,
    labelled,
)
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.publishing import BINDINGS, KAI, THREE, binding, kai_topology, made_by_grove
from tests.support.tables import says
from toposcope.api.label_keys import HOSTNAME

pytestmark = pytest.mark.regression
LIST_LIMITS = pytest.mark.real_api("limits of a list")
WITHOUT_GROVE = {"grove": "Never"}
WITHOUT_KAI = {"kai": "Never"}
ALPHA9_CRD = "grove-clustertopologybindings-alpha9"
ALPHA4_CRD = "grove-clustertopologies-alpha4"
UNRELEASED_CRD = "grove-clustertopologies-unreleased"
OLDER_ONE = f"{OLDER_BINDINGS}/grove-topology"
OLDER_OURS = f"{OLDER_BINDINGS}/cluster"
ZONE_LEVEL = {"domain": "zone", "key": ZONE}
BLOCK_LEVEL = {"domain": "block", "key": BLOCK}
RACK_LEVEL = {"domain": "rack", "key": RACK}
HOST_LEVEL = {"domain": "host", "key": HOSTNAME}


@pytest.fixture
def grove(site: Site) -> Site:
    """Where Grove's bindings and KAI's Topologies are served."""
    site.serve(GROVE_CRD, KAI_CRD)
    return site


@pytest.fixture
def older_grove(site: Site) -> Site:
    """Where Grove is v0.1.0-alpha.4, whose operator writes the topology itself."""
    site.serve(ALPHA4_CRD)
    return site


@pytest.mark.parametrize("crd", [pytest.param(ALPHA9_CRD, id="alpha.9"), pytest.param(GROVE_CRD, id="alpha.10")])
def test_binding_levels_are_changed_in_place(site: Site, crd: str) -> None:
    assert not site.serves("grove")
    site.serve(crd, KAI_CRD)
    assert site.serves("grove")
    site.publish("grove")
    uid = site.uid(BINDING)
    site.publish("grove", levels=THREE)
    assert site.uid(BINDING) == uid
    assert site.levels(BINDING) == [ZONE_LEVEL, RACK_LEVEL, HOST_LEVEL]


def test_binding_without_kais_kind_is_not_written(site: Site) -> None:
    site.serve(GROVE_CRD)
    outcome = site.pending("grove")
    assert outcome.reason == "NotServed"
    assert says(
        outcome.message,
        "*Grove's operator, whose chart enables kai-scheduler, does not start while*"
        "install KAI v0.12 or later, or set spec.publish.grove to Never*",
    )
    assert not site.has(BINDING)

    site.serve(KAI_CRD)
    site.publish("grove")
    before = site.api.get(BINDING)
    site.api.remove_crd("topologies.kai.scheduler")
    # What is there already stays, and the danger is reported.
    assert site.pending("grove", levels=THREE).reason == "NotServed"
    assert site.api.get(BINDING) == before


def test_foreign_kai_topology_is_found_before_the_binding_is_written(grove: Site) -> None:
    grove.api.create(KAI, kai_topology(RACK))
    before = grove.api.get(KAI_CLUSTER)
    outcome = grove.pending("grove")
    assert (outcome.reason, outcome.kind) == ("Conflict", "ClusterTopologyBinding")
    assert "a KAI Topology named cluster exists that neither Grove nor Toposcope created" in outcome.message
    assert not grove.has(BINDING)
    assert grove.api.get(KAI_CLUSTER) == before


def test_foreign_kai_topology_beside_our_binding_is_a_conflict(grove: Site) -> None:
    """Grove does not start again then, unless the binding says that others write the KAI Topology."""
    grove.publish("grove")
    grove.api.create(KAI, kai_topology(RACK))
    assert grove.pending("grove").reason == "Conflict"

    grove.api.patch(BINDING, {"spec": {"schedulerTopologyBindings": [KAI_ENTRY]}})
    grove.publish("grove", levels=THREE)
    assert grove.entries() == [KAI_ENTRY]


def test_kai_topology_that_grove_made_is_no_conflict(grove: Site) -> None:
    grove.publish("grove")
    grove.api.create(KAI, kai_topology(RACK, ownerReferences=made_by_grove(grove.uid(BINDING))))
    grove.publish("grove", levels=THREE)
    grove.api.patch(KAI_CLUSTER, {"metadata": {"ownerReferences": made_by_grove("gone")}})
    assert grove.pending("grove", levels=THREE).reason == "Waiting"


@LIST_LIMITS
def test_our_kai_topology_when_grove_rejects_its_binding_then_stays(site: Site) -> None:
    site.serve(KAI_CRD)
    site.publish("kai")
    site.serve_narrowed(GROVE_CRD, most_levels=3)
    outcome = site.pending("grove")
    assert outcome.reason == "Rejected"
    assert "must have at most 3 items" in outcome.message
    site.publish("kai")
    # Then it would be Grove's to make, which no more takes the binding.
    site.publish("kai", modes=WITHOUT_KAI)
    assert not site.has(BINDING)
    assert not site.has(KAI_CLUSTER)


@LIST_LIMITS
def test_rejected_binding_when_kai_is_never_then_ours_stays(site: Site) -> None:
    site.serve(KAI_CRD)
    site.publish("kai")
    before = site.api.get(KAI_CLUSTER)
    site.serve_narrowed(GROVE_CRD, most_levels=3)
    outcome = site.pending("grove", modes=WITHOUT_KAI)
    assert outcome.reason == "Rejected"
    assert "must have at most 3 items" in outcome.message
    assert not site.has(BINDING)
    assert site.api.get(KAI_CLUSTER) == before


def test_alpha4_topology_is_left_to_its_operator(older_grove: Site) -> None:
    outcome = older_grove.pending("grove")
    assert (outcome.reason, outcome.kind) == ("NotServed", "ClusterTopologyBinding")
    assert says(
        outcome.message,
        "*of v0.1.0-alpha.4 to alpha.8, which Grove's operator writes*upgrade Grove to v0.1.0-alpha.9 or later*",
    )
    assert older_grove.serves("grove")
    assert older_grove.names(OLDER_BINDINGS) == []
    older_grove.publish("grove", modes=WITHOUT_GROVE)


def create_older_one(site: Site, *levels: dict[str, str]) -> dict[str, Any]:
    """Create what the operator of alpha.4 writes."""
    document = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "grove-topology"},
        "spec": {"levels": list(levels)},
    }
    return site.api.create(OLDER_BINDINGS, document)


def test_alpha4_topology_with_our_levels_is_in_sync(older_grove: Site) -> None:
    create_older_one(older_grove, ZONE_LEVEL, RACK_LEVEL)
    before = older_grove.api.get(OLDER_ONE)
    (result,) = older_grove.publish("grove")
    assert (result.name, result.kind) == ("grove-topology", "ClusterTopology")
    assert older_grove.api.get(OLDER_ONE) == before


@pytest.mark.parametrize(
    ("levels", "difference"),
    [
        pytest.param(
            [ZONE_LEVEL, {"domain": "rack", "key": "wrong/rack"}],
            "level 'rack' has the key wrong/rack, nodes carry cloud.google.com/gce-topology-subblock for it",
            id="another-key",
        ),
        pytest.param(
            [{"domain": "numa", "key": "a/b"}], "level 'numa' has the key a/b, nodes carry no such level", id="no-level"
        ),
        pytest.param(
            [RACK_LEVEL, ZONE_LEVEL],
            "its order is rack > zone, but the nodes' order is zone > block > rack > host",
            id="another-order",
        ),
    ],
)
def test_alpha4_topology_with_other_levels_is_reported(
    older_grove: Site, levels: list[dict[str, str]], difference: str
) -> None:
    create_older_one(older_grove, *levels)
    before = older_grove.api.get(OLDER_ONE)
    outcome = older_grove.pending("grove")
    assert (outcome.name, outcome.kind) == ("grove-topology", "ClusterTopology")
    assert says(outcome.message, f"*{difference}*correct config.topologyAwareScheduling there*")
    assert older_grove.api.get(OLDER_ONE) == before


def test_unreleased_topology_is_written_and_taken_back(site: Site) -> None:
    site.serve(UNRELEASED_CRD, KAI_CRD)
    site.publish("grove")
    assert site.pending("kai").reason == "Waiting"
    assert site.levels(OLDER_OURS) == [ZONE_LEVEL, BLOCK_LEVEL, RACK_LEVEL, HOST_LEVEL]

    owners = made_by_grove(site.uid(OLDER_OURS), kind="ClusterTopology")
    site.api.create(KAI, kai_topology(RACK, ownerReferences=owners))
    site.publish("kai", levels=(RACK,))
    site.publish("grove", levels=THREE)
    assert site.levels(OLDER_OURS) == [ZONE_LEVEL, RACK_LEVEL, HOST_LEVEL]

    site.api.patch(OLDER_OURS, {"spec": {"schedulerTopologyReferences": [KAI_ENTRY]}})
    site.delete(KAI_CLUSTER)
    site.publish("kai", levels=THREE)
    assert site.levels(KAI_CLUSTER) == labelled(*THREE)
    site.publish("grove", modes=WITHOUT_GROVE)
    assert not site.has(OLDER_OURS)


def test_grove_never_takes_back_ours_and_nothing_else(grove: Site) -> None:
    grove.publish("grove")
    grove.publish("grove", modes=WITHOUT_GROVE)
    assert not grove.has(BINDING)

    grove.api.create(BINDINGS, binding())
    before = grove.api.get(BINDING)
    grove.publish("grove", modes=WITHOUT_GROVE)
    assert grove.pending("grove").reason == "Conflict"
    assert grove.api.get(BINDING) == before
