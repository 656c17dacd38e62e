"""Kueue's Topology in every version: what is written, what holds it, what cannot be had."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api import ApiUnderTest
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.publishing import FOUR, THREE, Time, finalizer, found, install, kueue_topology, levels, node_labels
from tests.support.tables import each_case
from tests.support.upstream_crds import upstream_crd
from toposcope.api.label_keys import HOSTNAME
from toposcope.controller.publishers.kueue import KueuePublisher
from toposcope.kube.client import ApiClient

GROUP = "/apis/kueue.x-k8s.io"
FLAVORS = f"{GROUP}/v1beta2/resourceflavors"
OURS = f"{GROUP}/v1beta2/topologies/cluster"
IN_USE = "kueue.x-k8s.io/resource-in-use"
NEWEST = "kueue-topologies-v0.19"
TOPOLOGY = topology()
IMMUTABLE = pytest.mark.real_api("immutability is a CEL rule")


@pytest.fixture
def kueue(clients: Callable[[], ApiClient], time: Time) -> KueuePublisher:
    return KueuePublisher(clients(), time)


def a_flavor(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {"example.com/pool": "gpu"}, **spec},
    }


@each_case("tables/controller.yaml")
def test_the_newest_version_is_written_and_replaced_only_where_it_cannot_be_changed(
    api: ApiUnderTest, kueue: KueuePublisher, time: Time, crd: str, version: str, *, mutable: bool
) -> None:
    install(api, crd)
    assert kueue.served()
    result = kueue.publish(TOPOLOGY, levels(*FOUR))
    assert (result.in_sync, result.api_version) == (True, f"kueue.x-k8s.io/{version}")
    path = f"{GROUP}/{version}/topologies/cluster"
    uid = api.get(path)["metadata"]["uid"]
    assert node_labels(api, path) == FOUR
    assert kueue.publish(TOPOLOGY, levels(*THREE)).reason == "Waiting"
    time.seconds = 30
    assert kueue.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, path) == THREE
    assert (api.get(path)["metadata"]["uid"] == uid) == (mutable or not api.is_real)


@IMMUTABLE
def test_levels_that_become_mutable_with_a_host_are_replaced_without_one(
    api: ApiUnderTest, kueue: KueuePublisher, time: Time
) -> None:
    install(api, "kueue-topologies-main")
    kueue.publish(TOPOLOGY, levels(ZONE, RACK))
    uid = api.get(OURS)["metadata"]["uid"]
    kueue.publish(TOPOLOGY, levels(ZONE, RACK, HOSTNAME))
    time.seconds = 30
    assert kueue.publish(TOPOLOGY, levels(ZONE, RACK, HOSTNAME)).in_sync
    assert api.get(OURS)["metadata"]["uid"] != uid


@pytest.mark.real_api("limits of a list")
def test_more_levels_than_a_version_has_room_for_are_refused_in_the_servers_words(
    api: ApiUnderTest, kueue: KueuePublisher, time: Time
) -> None:
    install(api, "kueue-topologies-v0.9")
    assert kueue.served()
    nine = levels(*(f"example.com/level-{i}" for i in range(9)))
    path = f"{GROUP}/v1alpha1/topologies/cluster"
    result = kueue.publish(TOPOLOGY, nine)
    assert (result.reason, "spec.levels: Too many: 9: must have at most 8 items" in result.message) == (
        "Rejected",
        True,
    )
    assert found(api, path) is None
    assert kueue.publish(TOPOLOGY, nine[1:]).in_sync
    kueue.publish(TOPOLOGY, nine)
    time.seconds = 60
    assert kueue.publish(TOPOLOGY, nine).reason == "Rejected"
    assert len(api.get(path)["spec"]["levels"]) == 8


def test_kueue_without_topologies_serves_none(api: ApiUnderTest, kueue: KueuePublisher) -> None:
    assert not kueue.served()
    api.install_crd(upstream_crd("kueue-resourceflavors-v0.19"))
    assert not kueue.served()


@IMMUTABLE
def test_what_a_flavor_names_is_not_deleted_and_kueues_finalizer_alone_holds_nothing(
    api: ApiUnderTest, kueue: KueuePublisher, time: Time
) -> None:
    install(api, NEWEST, "kueue-resourceflavors-v0.19")
    kueue.publish(TOPOLOGY, levels(*FOUR))
    api.create(FLAVORS, a_flavor("gpu", topologyName="cluster"))
    api.create(FLAVORS, a_flavor("other", topologyName="another"))
    api.create(FLAVORS, a_flavor("plain"))
    with finalizer(api, OURS, IN_USE):  # as Kueue puts it on every Topology
        kueue.publish(TOPOLOGY, levels(*THREE))
        time.seconds = 30
        result = kueue.publish(TOPOLOGY, levels(*THREE))
        assert (result.reason, result.message) == (
            "Waiting",
            (
                f"waits to be deleted to get the levels {' > '.join(THREE)} (until then schedulers leave out nodes "
                f"without {BLOCK}, at every level); still held by ResourceFlavor gpu"
            ),
        )
        withdrawn = kueue.retract(TOPOLOGY)
        assert withdrawn is not None
        assert "because spec.publish.kueue is Never; still held by ResourceFlavor gpu" in withdrawn.message
        assert "deletionTimestamp" not in api.get(OURS)["metadata"]

        assert api.request("DELETE", f"{FLAVORS}/gpu")[0] == 200
        kueue.publish(TOPOLOGY, levels(*THREE))
        time.seconds = 60
        result = kueue.publish(TOPOLOGY, levels(*THREE))
        assert (result.reason, result.message, result.again_in) == (
            "Waiting",
            f"is being deleted; still held by finalizer {IN_USE}",
            1,
        )
        assert node_labels(api, OURS) == FOUR
    assert found(api, OURS) is None  # Kueue took its finalizer off
    assert kueue.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert node_labels(api, OURS) == THREE


def test_one_deleted_in_use_names_its_user(api: ApiUnderTest, kueue: KueuePublisher) -> None:
    install(api, NEWEST, "kueue-resourceflavors-v0.19")
    kueue.publish(TOPOLOGY, levels(*FOUR))
    api.create(FLAVORS, a_flavor("gpu", topologyName="cluster"))
    with finalizer(api, OURS, IN_USE):
        assert api.request("DELETE", OURS)[0] == 200
        result = kueue.publish(TOPOLOGY, levels(*FOUR))
        assert result.message == f"is being deleted; still held by finalizer {IN_USE}, ResourceFlavor gpu"


def test_never_takes_back_what_is_ours_and_nothing_else(api: ApiUnderTest, kueue: KueuePublisher) -> None:
    install(api, NEWEST)
    kueue.publish(TOPOLOGY, levels(*FOUR))
    assert kueue.retract(TOPOLOGY) is None
    assert found(api, OURS) is None
    made = api.create(f"{GROUP}/v1beta2/topologies", kueue_topology(RACK))
    assert kueue.retract(TOPOLOGY) is None
    assert kueue.publish(TOPOLOGY, levels(*FOUR)).reason == "Conflict"
    assert api.get(OURS) == made
