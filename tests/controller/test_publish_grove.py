"""Grove's binding: what must not be in its way, which older shapes are only reported, what Never takes back."""

from collections.abc import Callable

import pytest

from tests.support.api import ApiUnderTest, wait_until
from tests.support.cluster import RACK, ZONE, topology
from tests.support.publishing import (
    BINDINGS,
    FOUR,
    KAI,
    THREE,
    Time,
    binding,
    found,
    install,
    install_narrowed,
    kai_topology,
    levels,
    made_by_grove,
    patch,
)
from tests.support.upstream_crds import upstream_crd
from toposcope.controller.publishers.grove import GrovePublisher
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.kube.client import ApiClient

OURS = f"{BINDINGS}/cluster"
OLDER = "/apis/grove.io/v1alpha1/clustertopologies"
NEWEST = "grove-clustertopologybindings-alpha10"
WITH_KAI = "kai-topologies-v0.17"
TOPOLOGY = topology()


@pytest.fixture
def grove(clients: Callable[[], ApiClient], time: Time) -> GrovePublisher:
    return GrovePublisher(clients(), time)


@pytest.fixture
def kai(clients: Callable[[], ApiClient]) -> KaiPublisher:
    return KaiPublisher(clients(), Time())


def domains(api: ApiUnderTest) -> list[str]:
    return [level["domain"] for level in api.get(OURS)["spec"]["levels"]]


@pytest.mark.parametrize("crd", ["grove-clustertopologybindings-alpha9", NEWEST])
def test_levels_are_changed_in_place(api: ApiUnderTest, grove: GrovePublisher, crd: str) -> None:
    assert not grove.served()
    install(api, crd, WITH_KAI)
    assert grove.served()
    assert grove.publish(TOPOLOGY, levels(*FOUR)).in_sync
    uid = api.get(OURS)["metadata"]["uid"]
    assert grove.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert (api.get(OURS)["metadata"]["uid"], domains(api)) == (uid, ["zone", "rack", "host"])


def test_no_binding_without_kai_s_kind(api: ApiUnderTest, grove: GrovePublisher) -> None:
    install(api, NEWEST)
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert result.reason == "NotServed"
    assert "Grove's operator, whose chart enables kai-scheduler, does not start while" in result.message
    assert "install KAI v0.12 or later, or set spec.publish.grove to Never" in result.message
    assert found(api, OURS) is None
    install(api, WITH_KAI)
    assert grove.publish(TOPOLOGY, levels(*FOUR)).in_sync
    # What is there already stays, and the danger is reported.
    api.remove_crd("topologies.kai.scheduler")
    assert grove.publish(TOPOLOGY, levels(*THREE)).reason == "NotServed"
    assert domains(api) == ["zone", "block", "rack", "host"]


def test_a_foreign_kai_topology_of_the_name_is_found_before_the_binding_is_written(
    api: ApiUnderTest, grove: GrovePublisher
) -> None:
    install(api, NEWEST, WITH_KAI)
    theirs = api.create(KAI, kai_topology(RACK))
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert (result.reason, result.kind) == ("Conflict", "ClusterTopologyBinding")
    assert "a KAI Topology named cluster exists that neither Grove nor Toposcope made" in result.message
    assert found(api, OURS) is None
    assert api.get(f"{KAI}/cluster") == theirs
    # It may also turn up later: Grove does not start again then.
    assert api.request("DELETE", f"{KAI}/cluster")[0] == 200
    assert grove.publish(TOPOLOGY, levels(*FOUR)).in_sync
    api.create(KAI, kai_topology(RACK))
    assert grove.publish(TOPOLOGY, levels(*FOUR)).reason == "Conflict"
    # Unless the binding says that others write it.
    entry = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
    patch(api, OURS, {"spec": {"schedulerTopologyBindings": [entry]}})
    assert grove.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert api.get(OURS)["spec"]["schedulerTopologyBindings"] == [entry]


def test_the_one_that_grove_made_is_in_nobodys_way(api: ApiUnderTest, grove: GrovePublisher) -> None:
    install(api, NEWEST, WITH_KAI)
    grove.publish(TOPOLOGY, levels(*FOUR))
    api.create(KAI, kai_topology(RACK, ownerReferences=made_by_grove(api.get(OURS)["metadata"]["uid"])))
    assert grove.publish(TOPOLOGY, levels(*THREE)).in_sync
    patch(api, f"{KAI}/cluster", {"metadata": {"ownerReferences": made_by_grove("of-an-earlier-one")}})
    assert grove.publish(TOPOLOGY, levels(*THREE)).reason == "Waiting"


@pytest.mark.real_api("limits of a list")
def test_ours_stays_as_long_as_grove_does_not_take_the_binding(
    api: ApiUnderTest, grove: GrovePublisher, kai: KaiPublisher
) -> None:
    install(api, WITH_KAI)
    kai.publish(TOPOLOGY, levels(*FOUR))
    install_narrowed(api, NEWEST, most=3)
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert (result.reason, "must have at most 3 items" in result.message) == ("Rejected", True)
    assert kai.publish(TOPOLOGY, levels(*FOUR)).in_sync
    assert kai.retract(topology(publish={"kai": "Never"})) is None
    # Then it would be Grove's to make, which no more takes the binding.
    assert (found(api, OURS), found(api, f"{KAI}/cluster")) == (None, None)


def test_the_one_of_alpha_4_is_its_operators(api: ApiUnderTest, grove: GrovePublisher) -> None:
    install(api, "grove-clustertopologies-alpha4")
    assert grove.served()
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert (result.reason, result.kind) == ("NotServed", "ClusterTopologyBinding")
    assert "of v0.1.0-alpha.4 to alpha.8, which Grove's operator writes" in result.message
    assert "upgrade Grove to v0.1.0-alpha.9 or later" in result.message
    assert api.get(OLDER)["items"] == []
    assert grove.retract(TOPOLOGY) is None


@pytest.mark.parametrize(
    ("pairs", "difference"),
    [
        ((("zone", ZONE), ("rack", RACK)), ""),
        ((("zone", ZONE), ("rack", "wrong/rack")), f"level 'rack' has the key wrong/rack, nodes carry {RACK} for it"),
        ((("numa", "a/b"),), "level 'numa' has the key a/b, nodes carry no such level"),
        ((("rack", RACK), ("zone", ZONE)), "its order is rack > zone, that of the nodes zone > block > rack > host"),
    ],
)
def test_what_the_operator_of_alpha_4_wrote_is_checked_and_not_written(
    api: ApiUnderTest, grove: GrovePublisher, pairs: tuple[tuple[str, str], ...], difference: str
) -> None:
    install(api, "grove-clustertopologies-alpha4")
    body = binding(*pairs, kind="ClusterTopology")
    theirs = api.create(OLDER, {**body, "metadata": {"name": "grove-topology"}})
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert (result.name, result.kind) == ("grove-topology", "ClusterTopology")
    assert (result.in_sync, difference in result.message) == (not difference, True)
    assert ("correct config.topologyAwareScheduling there" in result.message) == bool(difference)
    assert api.get(f"{OLDER}/grove-topology") == theirs


def test_the_unreleased_shape_is_written_and_taken_back(
    api: ApiUnderTest, grove: GrovePublisher, kai: KaiPublisher
) -> None:
    install(api, "grove-clustertopologies-unreleased", "kai-topologies-v0.17")
    assert grove.publish(TOPOLOGY, levels(*FOUR)).in_sync
    assert kai.publish(TOPOLOGY, levels(*FOUR)).reason == "Waiting"
    made = api.get(f"{OLDER}/cluster")
    assert [level["domain"] for level in made["spec"]["levels"]] == ["zone", "block", "rack", "host"]
    owners = made_by_grove(made["metadata"]["uid"], "ClusterTopology")
    api.create(KAI, kai_topology(RACK, ownerReferences=owners))
    assert kai.publish(TOPOLOGY, levels(RACK)).in_sync
    assert grove.publish(TOPOLOGY, levels(*THREE)).in_sync
    entry = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
    patch(api, f"{OLDER}/cluster", {"spec": {"schedulerTopologyReferences": [entry]}})
    assert api.request("DELETE", f"{KAI}/cluster")[0] == 200
    assert kai.publish(TOPOLOGY, levels(*THREE)).in_sync
    assert grove.retract(TOPOLOGY) is None
    assert found(api, f"{OLDER}/cluster") is None


@pytest.mark.real_api("disputed short names")
def test_two_crds_that_want_one_short_name_are_named(api: ApiUnderTest, grove: GrovePublisher) -> None:
    install(api, "grove-clustertopologies-alpha4", WITH_KAI)
    api.install_crd(upstream_crd(NEWEST))
    result = grove.publish(TOPOLOGY, levels(*FOUR))
    assert result.reason == "Conflict"
    assert result.message == (
        "the CRD clustertopologybindings.grove.io is not served, because clustertopologies.grove.io of an older Grove "
        'has its short name ("ct" is already in use); delete the CRD clustertopologies.grove.io with its objects'
    )
    api.remove_crd("clustertopologies.grove.io")
    # The name is free at once; discovery, which the publisher asks, follows some moments later.
    wait_until(lambda: grove.publish(TOPOLOGY, levels(*FOUR)).in_sync, "the binding is written once its kind is served")


def test_never_takes_back_what_is_ours_and_nothing_else(api: ApiUnderTest, grove: GrovePublisher) -> None:
    install(api, NEWEST, WITH_KAI)
    grove.publish(TOPOLOGY, levels(*FOUR))
    assert grove.retract(topology(publish={"grove": "Never"})) is None
    assert found(api, OURS) is None
    made = api.create(BINDINGS, binding())
    assert grove.retract(TOPOLOGY) is None
    assert grove.publish(TOPOLOGY, levels(*FOUR)).reason == "Conflict"
    assert api.get(OURS) == made
