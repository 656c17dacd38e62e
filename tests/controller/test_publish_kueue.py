"""Kueue's Topology in every version: what is written, what holds it, what cannot be had."""

import pytest
from tests.controller.published_site import (
    FLAVORS,
    FLAVORS_CRD,
    FOUR_LEVELS,
    KUEUE,
    KUEUE_CLUSTER,
    KUEUE_CRD,
    THREE_LEVELS,
    Site,
    resource_flavor,
)
from tests.support.cluster import RACK, ZONE
from tests.support.publishing import THREE, kueue_topology

pytestmark = pytest.mark.regression
IMMUTABLE = pytest.mark.real_api("immutability is a CEL rule")
LIST_LIMITS = pytest.mark.real_api("limits of a list")
IN_USE = "kueue.x-k8s.io/resource-in-use"
ALPHA1_CLUSTER = "/apis/kueue.x-k8s.io/v1alpha1/topologies/cluster"
WITHOUT_KUEUE = {"kueue": "Never"}


@pytest.fixture
def kueue(site: Site) -> Site:
    """Where Kueue's Topologies alone are served."""
    site.serve(KUEUE_CRD)
    return site


@pytest.fixture
def kueue_with_flavors(site: Site) -> Site:
    site.serve(KUEUE_CRD, FLAVORS_CRD)
    return site


@pytest.mark.parametrize(
    ("crd", "version", "is_replaced"),
    [
        pytest.param("kueue-topologies-v0.9", "v1alpha1", False, id="v0.9"),
        pytest.param("kueue-topologies-v0.13", "v1alpha1", True, id="v0.13", marks=IMMUTABLE),
        pytest.param("kueue-topologies-v0.14", "v1beta1", True, id="v0.14", marks=IMMUTABLE),
        pytest.param(KUEUE_CRD, "v1beta2", True, id="v0.19", marks=IMMUTABLE),
        pytest.param("kueue-topologies-main", "v1beta2", False, id="main"),
    ],
)
def test_new_kueue_levels_are_written_in_place_or_replace(
    site: Site, crd: str, version: str, is_replaced: bool
) -> None:
    site.serve(crd)
    (result,) = site.publish("kueue")
    assert result.api_version == f"kueue.x-k8s.io/{version}"
    path = f"/apis/kueue.x-k8s.io/{version}/topologies/cluster"
    uid = site.uid(path)

    assert site.pending("kueue", levels=THREE).reason == "Waiting"
    assert site.levels(path) == FOUR_LEVELS
    site.advance(30)
    site.publish("kueue", levels=THREE)
    assert site.levels(path) == THREE_LEVELS
    assert (site.uid(path) != uid) == is_replaced


@IMMUTABLE
def test_kueue_levels_without_a_host_are_replaced(site: Site) -> None:
    """Kueue takes changes in place only where the last level is the host."""
    site.serve("kueue-topologies-main")
    site.publish("kueue", levels=(ZONE, RACK))
    uid = site.uid(KUEUE_CLUSTER)
    assert site.pending("kueue", levels=THREE).reason == "Waiting"
    site.advance(30)
    site.publish("kueue", levels=THREE)
    assert site.uid(KUEUE_CLUSTER) != uid


@LIST_LIMITS
def test_kueue_levels_when_too_many_then_report_servers_words(site: Site) -> None:
    too_many = "spec.levels: Too many: 9: must have at most 8 items"
    nine_keys = tuple(f"a.b/l{number}" for number in range(9))
    last_eight_keys = nine_keys[1:]

    site.serve("kueue-topologies-v0.9")
    outcome = site.pending("kueue", levels=nine_keys)
    assert outcome.reason == "Rejected"
    assert too_many in outcome.message
    assert not site.has(ALPHA1_CLUSTER)

    site.publish("kueue", levels=last_eight_keys)
    assert site.pending("kueue", levels=nine_keys).reason == "Waiting"
    site.advance(60)
    outcome = site.pending("kueue", levels=nine_keys)
    assert outcome.reason == "Rejected"
    assert too_many in outcome.message
    assert site.levels(ALPHA1_CLUSTER)[7]["nodeLabel"] == "a.b/l8"


def test_kueue_without_topologies_serves_none(site: Site) -> None:
    assert not site.serves("kueue")
    site.serve(FLAVORS_CRD)
    assert not site.serves("kueue")


@IMMUTABLE
def test_kueue_topology_that_a_flavor_names_is_not_deleted(kueue_with_flavors: Site) -> None:
    """Kueue's finalizer, which it puts on every Topology, holds nothing by itself."""
    site = kueue_with_flavors
    site.publish("kueue")
    site.api.create(FLAVORS, resource_flavor("gpu", topologyName="cluster"))
    site.api.create(FLAVORS, resource_flavor("other", topologyName="another"))
    site.api.create(FLAVORS, resource_flavor("plain"))
    site.hold(KUEUE_CLUSTER, IN_USE)
    assert site.pending("kueue", levels=THREE).reason == "Waiting"

    site.advance(30)
    outcome = site.pending("kueue", levels=THREE)
    assert outcome.reason == "Waiting"
    assert outcome.message == (
        "waits to be deleted to get the levels topology.kubernetes.io/zone > cloud.google.com/gce-topology-subblock > "
        "kubernetes.io/hostname (until then schedulers ignore nodes without cloud.google.com/gce-topology-block, at "
        "every level); still held by ResourceFlavor gpu"
    )
    retracted = site.pending("kueue", modes=WITHOUT_KUEUE)
    assert "because spec.publish.kueue is Never; still held by ResourceFlavor gpu" in retracted.message
    assert "deletionTimestamp" not in site.api.get(KUEUE_CLUSTER)["metadata"]

    site.delete(f"{FLAVORS}/gpu")
    assert site.pending("kueue", levels=THREE).reason == "Waiting"
    site.advance(30)
    outcome = site.pending("kueue", levels=THREE)
    assert (outcome.reason, outcome.again_in) == ("Waiting", 1)
    assert outcome.message == "is being deleted; still held by finalizer kueue.x-k8s.io/resource-in-use"
    assert site.levels(KUEUE_CLUSTER) == FOUR_LEVELS

    site.release()
    assert not site.has(KUEUE_CLUSTER)
    site.publish("kueue", levels=THREE)
    assert site.levels(KUEUE_CLUSTER) == THREE_LEVELS


def test_kueue_topology_deleted_in_use_names_its_user(kueue_with_flavors: Site) -> None:
    site = kueue_with_flavors
    site.publish("kueue")
    site.api.create(FLAVORS, resource_flavor("gpu", topologyName="cluster"))
    site.hold(KUEUE_CLUSTER, IN_USE)
    site.delete(KUEUE_CLUSTER)
    assert site.pending("kueue").message == (
        "is being deleted; still held by finalizer kueue.x-k8s.io/resource-in-use, ResourceFlavor gpu"
    )


def test_kueue_never_takes_back_ours_and_nothing_else(kueue: Site) -> None:
    kueue.publish("kueue")
    kueue.publish("kueue", modes=WITHOUT_KUEUE)
    assert not kueue.has(KUEUE_CLUSTER)

    kueue.api.create(KUEUE, kueue_topology(RACK))
    before = kueue.api.get(KUEUE_CLUSTER)
    kueue.publish("kueue", modes=WITHOUT_KUEUE)
    assert kueue.pending("kueue").reason == "Conflict"
    assert kueue.api.get(KUEUE_CLUSTER) == before
