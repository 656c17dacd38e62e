"""Volcano's HyperNodes over the controller's passes: a tree that follows the nodes."""

from typing import Any

import pytest
from tests.controller.published_site import HYPER_NODES, OURS, VOLCANO_CRD, Site
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import condition, edit_topology, make_topology, relabel, status_of
from tests.support.tables import says
from toposcope.api.label_keys import HOSTNAME

pytestmark = [pytest.mark.slow, pytest.mark.regression, pytest.mark.usefixtures("cluster_topologies")]
TIER_LABEL = "fabric.topograph.run/tier-0"
FIVE_NODES = {
    "n0": {ZONE: "z", BLOCK: "b0", RACK: "r1"},
    "n1": {ZONE: "z", BLOCK: "b0", RACK: "r1"},
    "n2": {ZONE: "z", BLOCK: "b0", RACK: "r2"},
    "n3": {ZONE: "z", BLOCK: "b1", RACK: "r1"},
    "n4": {ZONE: "z", BLOCK: "b1"},
}
BLOCK_0 = "cluster-block-b0-0a8eab8200"
BLOCK_1 = "cluster-block-b1-093f492d47"
RACK_1 = "cluster-rack-r1-5f1d95ce21"
RACK_1_OF_BLOCK_1 = "cluster-rack-r1-63071b6fe9"
RACK_2 = "cluster-rack-r2-97da3ebcee"
RACK_3 = "cluster-rack-r3-8c2205d171"
ZONE_Z = "cluster-zone-z-b45d728cd5"
ALL_SIX = [
    BLOCK_0,
    BLOCK_1,
    RACK_1,
    RACK_1_OF_BLOCK_1,
    RACK_2,
    ZONE_Z,
]
RACKS = [RACK_1, RACK_1_OF_BLOCK_1, RACK_2]


def path(name: str) -> str:
    return f"{HYPER_NODES}/{name}"


def member(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def spec_of(site: Site, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = site.api.get(path(name))["spec"]
    return spec


def published_message(site: Site) -> str:
    """What the status says of the HyperNodes."""
    message: str = status_of(site.api)["published"][0]["message"]
    return message


FIRST_RACK = {"tier": 1, "tierName": "rack", "members": [member("n0"), member("n1")]}
FIRST_BLOCK = {
    "tier": 2,
    "tierName": "block",
    "members": [member(RACK_1, "HyperNode"), member(RACK_2, "HyperNode")],
}


@pytest.fixture
def five_nodes(site: Site) -> Site:
    """Where Volcano v1.14 is served, and five nodes are in two blocks."""
    site.serve(VOLCANO_CRD)
    site.make_nodes(FIVE_NODES)
    return site


@pytest.fixture
def tree(five_nodes: Site) -> Site:
    """Where the tree of the five nodes is written."""
    make_topology(five_nodes.api, minCoveragePercent=80, publish={"volcano": "Auto"})
    five_nodes.run_passes(0)
    assert five_nodes.names(HYPER_NODES) == ALL_SIX
    return five_nodes


def test_each_domain_has_a_hyper_node(tree: Site) -> None:
    metadata = tree.api.get(path(RACK_1))["metadata"]
    assert metadata["labels"] == OURS
    assert spec_of(tree, RACK_1) == FIRST_RACK
    assert spec_of(tree, RACK_1_OF_BLOCK_1)["members"] == [member("n3")]
    assert spec_of(tree, BLOCK_0) == FIRST_BLOCK
    zone = spec_of(tree, ZONE_Z)
    assert zone["tier"] == 3
    assert zone["members"][1]["selector"]["exactMatch"]["name"] == BLOCK_1
    assert status_of(tree.api)["published"] == [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "name": "cluster",
            "inSync": True,
            "message": "6 HyperNodes, tier 1 rack, tier 2 block, tier 3 zone",
        }
    ]
    before = tree.api.get(path(RACK_2))
    tree.run_passes(1)
    assert tree.api.get(path(RACK_2)) == before


def test_hyper_node_when_edited_then_is_put_back(tree: Site) -> None:
    edited = {
        "tier": 7,
        "tierName": "aisle",
        "members": [member("n0")],
    }
    tree.api.patch(path(RACK_1), {"spec": edited})
    tree.run_passes(1)
    assert spec_of(tree, RACK_1) == FIRST_RACK


def test_hyper_node_without_nodes_goes_after_the_grace_period(tree: Site) -> None:
    before = tree.api.get(path(RACK_2))
    tree.delete_nodes("n2")
    tree.run_passes(0, 599)
    assert tree.names(HYPER_NODES) == ALL_SIX
    assert tree.api.get(path(RACK_2)) == before
    assert spec_of(tree, BLOCK_0) == FIRST_BLOCK
    assert published_message(tree) == (
        "5 HyperNodes, tier 1 rack, tier 2 block, tier 3 zone; 1 more, without nodes, stay for now"
    )
    tree.run_passes(2)
    assert not tree.has(path(RACK_2))
    assert spec_of(tree, BLOCK_0)["members"] == [member(RACK_1, "HyperNode")]


def test_hyper_node_whose_last_node_moved_goes_at_once(tree: Site) -> None:
    """A node is in one rack at a time."""
    tree.delete_nodes("n2")
    tree.run_passes(0, 601)
    relabel(tree.api, "n3", {BLOCK: "b0", RACK: "r3"})
    tree.run_passes(0)
    assert tree.names(HYPER_NODES) == [BLOCK_0, RACK_1, RACK_3, ZONE_Z]
    assert spec_of(tree, ZONE_Z)["members"] == [member(BLOCK_0, "HyperNode")]


def test_hyper_nodes_when_mode_is_never_then_all_go(tree: Site) -> None:
    edit_topology(tree.api, publish={"volcano": "Never"})
    tree.run_passes(0)
    assert tree.names(HYPER_NODES) == []


@pytest.mark.real_api("applies are held to the schema")
def test_hyper_nodes_before_volcano_v1_14_have_no_tier_names(site: Site) -> None:
    site.serve("volcano-hypernodes-v1.12")
    site.make_nodes(FIVE_NODES)
    make_topology(site.api, minCoveragePercent=80, publish={"volcano": "Auto"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == ALL_SIX
    zone = spec_of(site, ZONE_Z)
    assert zone["tier"] == 3
    assert "tierName" not in zone
    before = site.api.get(path(ZONE_Z))
    site.run_passes(1)
    assert site.api.get(path(ZONE_Z)) == before


def test_hyper_nodes_are_made_only_where_the_spec_asks(five_nodes: Site) -> None:
    make_topology(five_nodes.api)
    five_nodes.run_passes(0)
    assert five_nodes.names(HYPER_NODES) == []
    assert "published" not in status_of(five_nodes.api)


def create_foreign(site: Site, name: str) -> None:
    """Create a HyperNode as others do."""
    document = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 4, "members": [member("n0")]},
    }
    site.api.create(HYPER_NODES, document)


def test_foreign_hyper_node_of_our_name_is_a_conflict_and_stays(five_nodes: Site) -> None:
    create_foreign(five_nodes, "spine")
    create_foreign(five_nodes, ZONE_Z)
    before = [five_nodes.api.get(path(name)) for name in ("spine", ZONE_Z)]
    make_topology(five_nodes.api, minCoveragePercent=80, publish={"volcano": "Auto"})
    five_nodes.run_passes(0)
    assert five_nodes.names(HYPER_NODES) == [ZONE_Z, "spine"]
    assert [five_nodes.api.get(path(name)) for name in ("spine", ZONE_Z)] == before
    conflict = f"a HyperNode named {ZONE_Z} exists and was not created by Toposcope*"
    assert says(published_message(five_nodes), conflict)
    assert condition(five_nodes.api, "Published")["reason"] == "Conflict"


def test_dry_run_of_hyper_nodes_writes_none(five_nodes: Site) -> None:
    make_topology(five_nodes.api, minCoveragePercent=80, publish={"volcano": "DryRun"})
    five_nodes.run_passes(0)
    assert five_nodes.names(HYPER_NODES) == []
    expected = "would create 6 objects, the last of them:*+  tierName: zone*"
    assert says(published_message(five_nodes), expected)


def test_segments_have_trees_of_their_own_with_the_same_tiers(site: Site) -> None:
    h100 = {ZONE: "z", BLOCK: "b", RACK: "r"}
    gb200 = {ZONE: "z", TIER_LABEL: "leaf"}
    site.serve(VOLCANO_CRD)
    site.make_nodes(
        {
            "h100-0": h100,
            "h100-1": h100,
            "h100-2": h100,
            "gb200-0": gb200,
            "gb200-1": gb200,
        }
    )
    make_topology(site.api, publish={"volcano": "Auto"})
    site.run_passes(0)
    assert published_message(site) == "1 HyperNode, tier 1 zone"

    edit_topology(site.api, segments="Auto")
    site.run_passes(601, 601, 1, 1)
    assert site.names(HYPER_NODES) == [
        "cluster-leaf-leaf-f892c8b301",
        "cluster-leaf-zone-z-fa428adb4b",
        "cluster-rack-block-b-1838356b22",
        "cluster-rack-rack-r-a4ea8caa32",
        "cluster-rack-zone-z-7dda57087e",
    ]
    for name in ("cluster-leaf-zone-z-fa428adb4b", "cluster-rack-zone-z-7dda57087e"):
        zone = spec_of(site, name)
        assert zone["tier"] == 3
    assert published_message(site) == "the ClusterTopologies of its segments have HyperNodes"


def test_pass_that_takes_long_leaves_the_rest_to_the_next(five_nodes: Site) -> None:
    site = five_nodes
    site.seconds_per_write = 1
    make_topology(site.api, minCoveragePercent=80, publish={"volcano": "Auto"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == RACKS
    assert published_message(site) == "3 of 6 HyperNodes are written"
    site.run_passes(0)
    assert site.names(HYPER_NODES) == ALL_SIX

    edit_topology(site.api, publish={"volcano": "Never"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == RACKS
    assert published_message(site) == "3 of 6 HyperNodes are deleted because spec.publish.volcano is Never"
    site.seconds_per_write = 0
    site.run_passes(0)
    assert site.names(HYPER_NODES) == []


def test_retained_hyper_node_stays_unless_its_nodes_are_elsewhere(five_nodes: Site) -> None:
    site = five_nodes
    make_topology(site.api, minCoveragePercent=60, removalPolicy="Retain", publish={"volcano": "Auto"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == ALL_SIX
    site.delete_nodes("n2")
    site.run_passes(0, 601)
    assert site.names(HYPER_NODES) == ALL_SIX
    relabel(site.api, "n3", {BLOCK: "b0", RACK: "r3"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == [BLOCK_0, RACK_1, RACK_2, RACK_3, ZONE_Z]


def test_hyper_node_with_a_finalizer_is_waited_for(tree: Site) -> None:
    tree.hold(path(RACK_2), "example.com/keep")
    tree.run_passes(0)
    relabel(tree.api, "n2", {RACK: "r1"})
    tree.run_passes(0)
    assert tree.names(HYPER_NODES) == ALL_SIX
    handle = f"hypernode.topology.volcano.sh/{RACK_2}"
    expected = f"{handle} waits to be deleted because no node is left in its domain*"
    assert says(published_message(tree), expected)

    relabel(tree.api, "n2", {RACK: "r2"})
    tree.run_passes(0)
    assert status_of(tree.api)["published"][0]["inSync"] is True
    tree.release()
    relabel(tree.api, "n2", {RACK: "r1"})
    tree.run_passes(0)
    assert not tree.has(path(RACK_2))


def test_topology_without_hyper_nodes_counts_for_no_tier(site: Site) -> None:
    site.serve(VOLCANO_CRD)
    site.make_nodes({"n0": {ZONE: "z", BLOCK: "b0", RACK: "r1"}})
    make_topology(site.api)
    levels = [
        {"domain": "zone", "key": ZONE},
        {"domain": "host", "key": HOSTNAME},
    ]
    make_topology(site.api, "other", levels=levels, publish={"volcano": "Auto"})
    site.run_passes(0)
    assert site.names(HYPER_NODES) == ["other-zone-z-eb37ee2ff2"]
    assert spec_of(site, "other-zone-z-eb37ee2ff2")["tier"] == 1
