"""ClusterTopologies of segments over the controller's passes: made, published, kept, taken back, never another's."""

from typing import Any

import pytest
from tests.controller.published_site import (
    KAI_CLUSTER,
    KAI_CRD,
    KUEUE,
    KUEUE_CLUSTER,
    KUEUE_CRD,
    OURS,
    TOPOLOGY,
    Site,
    labelled,
)
from tests.support.api import NODES
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import condition, edit_topology, make_topology, relabel, status_of
from tests.support.publishing import KAI
from tests.support.tables import says
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN

pytestmark = [pytest.mark.slow, pytest.mark.regression, pytest.mark.usefixtures("cluster_topologies")]
TIER = "fabric.topograph.run/tier-0"
H100 = {
    ZONE: "z",
    BLOCK: "b",
    RACK: "r",
}
GB200 = {ZONE: "z", TIER: "leaf"}
TWO_KINDS = {
    "h100-0": H100,
    "h100-1": H100,
    "h100-2": H100,
    "gb200-0": GB200,
    "gb200-1": GB200,
}
ALL_THREE = ["cluster", "cluster-leaf", "cluster-rack"]
OF_RACK = f"{PATH}/cluster-rack"
OF_LEAF = f"{PATH}/cluster-leaf"
CLIQUE_SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
PAST_GRACE_PERIOD = 601
"""Seconds."""


@pytest.fixture
def segmented(site: Site) -> Site:
    """Where both segments of a ClusterTopology have one of their own."""
    site.make_nodes(TWO_KINDS)
    make_topology(site.api, segments="Auto")
    site.run_passes(0, PAST_GRACE_PERIOD, 1)
    assert site.names(PATH) == ALL_THREE
    return site


def documents(site: Site) -> list[dict[str, Any]]:
    """The three ClusterTopologies as they are."""
    found = []
    for name in ALL_THREE:
        found.append(site.api.get(f"{PATH}/{name}"))
    return found


def make_all_nodes_h100(site: Site) -> None:
    """Leave the segment `leaf` without nodes."""
    as_h100 = {TIER: None, BLOCK: "b", RACK: "r"}
    for name in ("gb200-0", "gb200-1"):
        relabel(site.api, name, as_h100)


def test_each_segment_gets_a_topology_with_all_its_levels(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD, KUEUE_CRD)
    site.make_nodes(TWO_KINDS)
    make_topology(
        site.api,
        segments="Auto",
        required=["rack"],
        gracePeriod="10m",
        publish={"grove": "Never"},
    )
    site.run_passes(0)
    assert site.names(PATH) == ["cluster"]
    published = condition(site.api, "SegmentsPublished")
    assert published["status"] == "Unknown"
    site.run_passes(PAST_GRACE_PERIOD, 1)
    assert site.names(PATH) == ALL_THREE

    metadata = site.api.get(OF_RACK)["metadata"]
    assert metadata["labels"] == OURS
    (owner,) = metadata["ownerReferences"]
    assert owner["kind"] == KIND
    assert owner["uid"] == site.uid(TOPOLOGY)
    assert owner["controller"] is True
    assert site.api.get(OF_RACK)["spec"] == {
        "nodeSelector": {
            "matchExpressions": [
                {"key": GPUS, "operator": "Exists"},
                {"key": BLOCK, "operator": "Exists"},
                {"key": RACK, "operator": "Exists"},
            ]
        },
        "required": ["rack"],
        "minCoveragePercent": 95,
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {
            "grove": "Never",
            "kai": "Auto",
            "kueue": "Auto",
        },
    }
    status = status_of(site.api, "cluster-rack")
    assert status["nodes"] == 3
    assert status["levelPath"] == "zone > block > rack > nvlink-domain > host"
    for name in ALL_THREE:
        ready = condition(site.api, "Ready", name)
        assert ready["status"] == "True", name

    rack, leaf = status_of(site.api)["segments"]
    assert rack["name"] == "rack"
    assert rack["clusterTopology"] == "cluster-rack"
    assert leaf["name"] == "leaf"
    assert leaf["clusterTopology"] == "cluster-leaf"
    published = condition(site.api, "SegmentsPublished")
    assert published["message"] == "Each segment has a ClusterTopology: cluster-rack, cluster-leaf"


def test_topologies_of_segments_are_published_beside_the_whole(prompt_site: Site) -> None:
    """Who names the one of the whole goes on as before."""
    site = prompt_site
    site.serve(KAI_CRD, KUEUE_CRD)
    site.make_nodes(TWO_KINDS)
    make_topology(
        site.api,
        segments="Auto",
        required=["rack"],
        gracePeriod="10m",
        publish={"grove": "Never"},
    )
    site.run_passes(0, PAST_GRACE_PERIOD, 1)

    common_levels = labelled(ZONE, NVLINK_DOMAIN, HOSTNAME)
    rack_levels = labelled(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
    leaf_levels = labelled(ZONE, TIER, NVLINK_DOMAIN, HOSTNAME)
    for cluster in (KAI_CLUSTER, KUEUE_CLUSTER):
        assert site.levels(cluster) == common_levels
    for collection in (KAI, KUEUE):
        assert site.levels(f"{collection}/cluster-rack") == rack_levels
        assert site.levels(f"{collection}/cluster-leaf") == leaf_levels


def test_segments_at_rest_are_not_written(segmented: Site) -> None:
    segmented.run_passes(1)
    before = documents(segmented)
    segmented.run_passes(1, 601, 601)
    assert documents(segmented) == before


def test_segments_off_writes_nothing_and_takes_back_what_auto_made(site: Site) -> None:
    site.make_nodes(TWO_KINDS)
    make_topology(site.api)
    site.run_passes(0, PAST_GRACE_PERIOD, 1)
    assert site.names(PATH) == ["cluster"]
    segments = status_of(site.api)["segments"]
    assert [segment["name"] for segment in segments] == ["rack", "leaf"]
    published = condition(site.api, "SegmentsPublished")
    assert published["reason"] == "SegmentsOff"

    # Known well enough by now.
    edit_topology(site.api, segments="Auto")
    site.run_passes(0, 1)
    assert site.names(PATH) == ALL_THREE
    edit_topology(site.api, segments="Off")
    site.run_passes(0)
    assert site.names(PATH) == ["cluster"]


def test_foreign_topology_of_a_segments_name_is_a_conflict_and_stays(site: Site) -> None:
    make_topology(site.api, "cluster-leaf", required=["leaf"])
    uid = site.uid(OF_LEAF)
    site.make_nodes(TWO_KINDS)
    make_topology(site.api, segments="Auto")
    site.run_passes(0, PAST_GRACE_PERIOD, 1)

    assert site.uid(OF_LEAF) == uid
    metadata = site.api.get(OF_LEAF)["metadata"]
    assert "ownerReferences" not in metadata
    assert metadata["generation"] == 1

    published = condition(site.api, "SegmentsPublished")
    assert published["status"] == "False"
    assert published["reason"] == "Conflict"
    conflict = "cluster-leaf: a ClusterTopology of that name exists and does not belong to this"
    assert says(published["message"], f"{conflict}*")
    ready = condition(site.api, "Ready")
    assert ready["status"] == "False"
    rack, leaf = status_of(site.api)["segments"]
    assert rack["name"] == "rack"
    assert rack["clusterTopology"] == "cluster-rack"
    assert leaf["name"] == "leaf"
    assert "clusterTopology" not in leaf

    edit_topology(site.api, segments="Off")
    site.run_passes(0)
    assert site.names(PATH) == ["cluster", "cluster-leaf"]


def test_topology_of_a_segment_when_edited_then_is_put_back(segmented: Site) -> None:
    uid = segmented.uid(OF_RACK)
    selector = {"matchLabels": {"mine": "yes"}}
    edit_topology(segmented.api, "cluster-rack", nodeSelector=selector, required=["block"])
    listed = {"domain": "leaf", "key": TIER}
    edit_topology(segmented.api, "cluster-leaf", levels=[listed])
    segmented.run_passes(0)

    assert segmented.uid(OF_RACK) == uid
    rack_spec = segmented.api.get(OF_RACK)["spec"]
    assert "matchLabels" not in rack_spec["nodeSelector"]
    assert rack_spec["required"] == []
    leaf_spec = segmented.api.get(OF_LEAF)["spec"]
    assert "levels" not in leaf_spec


def test_topologies_of_segments_inherit_settings(segmented: Site) -> None:
    edit_topology(
        segmented.api,
        gracePeriod="20m",
        publish={"kueue": "Never"},
        required=["leaf", "zone"],
    )
    segmented.run_passes(0)
    rack_spec = segmented.api.get(OF_RACK)["spec"]
    assert rack_spec["gracePeriod"] == "20m"
    assert rack_spec["publish"]["kueue"] == "Never"
    assert rack_spec["required"] == ["zone"]
    leaf_spec = segmented.api.get(OF_LEAF)["spec"]
    assert leaf_spec["required"] == ["leaf", "zone"]

    segmented.run_passes(1)
    before = documents(segmented)
    segmented.run_passes(1)
    assert documents(segmented) == before


def test_topology_of_a_segment_without_nodes_goes_after_the_grace_period(segmented: Site) -> None:
    make_all_nodes_h100(segmented)
    segmented.run_passes(0, 599)
    assert segmented.names(PATH) == ALL_THREE
    segmented.run_passes(3)
    assert segmented.names(PATH) == ["cluster", "cluster-rack"]
    status = status_of(segmented.api, "cluster-rack")
    assert status["nodes"] == 5


def pod_clique_set(topology_name: str, required: str) -> dict[str, Any]:
    """A PodCliqueSet of Grove that is bound to a topology."""
    container = {"name": "main", "image": "example.invalid/main"}
    clique_spec = {
        "roleName": "w",
        "replicas": 1,
        "minAvailable": 1,
        "podSpec": {"containers": [container]},
    }
    constraint = {
        "topologyName": topology_name,
        "pack": {"required": required},
    }
    template = {
        "topologyConstraint": constraint,
        "cliques": [{"name": "w", "spec": clique_spec}],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm"},
        "spec": {"replicas": 1, "template": template},
    }


@pytest.mark.slow
def test_topology_of_a_segment_goes_with_the_last_workload_bound_to_it(site: Site) -> None:
    """With the ClusterTopology would go Grove's binding, and with that every constraint."""
    site.serve("grove-podcliquesets-alpha12")
    site.make_nodes(TWO_KINDS)
    make_topology(site.api, segments="Auto")
    site.run_passes(0, PAST_GRACE_PERIOD, 1)
    assert site.names(PATH) == ALL_THREE

    site.api.create(CLIQUE_SETS, pod_clique_set("cluster-leaf", required="leaf"))
    make_all_nodes_h100(site)
    site.run_passes(601, 601, 601)
    assert site.names(PATH) == ALL_THREE
    site.delete(f"{CLIQUE_SETS}/llm")
    site.run_passes(601, 601)
    assert site.names(PATH) == ["cluster", "cluster-rack"]


def test_no_nodes_and_a_lost_status_take_no_topology_away_at_once(segmented: Site) -> None:
    uids = [made["metadata"]["uid"] for made in documents(segmented)]
    segmented.delete(NODES)
    segmented.run_passes(601, 601)
    assert segmented.names(PATH) == ALL_THREE
    published = condition(segmented.api, "SegmentsPublished")
    assert published["message"] == "No segment has any nodes now"

    segmented.make_nodes(TWO_KINDS)
    segmented.api.patch(f"{TOPOLOGY}/status", {"status": None})
    segmented.run_passes(0, 599)
    assert segmented.names(PATH) == ALL_THREE
    segmented.run_passes(3, 601)
    assert segmented.names(PATH) == ALL_THREE
    assert [kept["metadata"]["uid"] for kept in documents(segmented)] == uids


def test_child_topology_that_no_segment_asks_for_is_deleted(site: Site) -> None:
    site.make_nodes(TWO_KINDS)
    make_topology(site.api, segments="Auto")
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": "cluster",
        "uid": site.uid(TOPOLOGY),
        "controller": True,
    }
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": "cluster-gone",
            "labels": OURS,
            "ownerReferences": [owner],
        },
    }
    site.api.create(PATH, body)
    site.run_passes(0)
    assert site.names(PATH) == ["cluster", "cluster-gone"]
    site.run_passes(PAST_GRACE_PERIOD)
    assert site.names(PATH) == ALL_THREE


@pytest.mark.embedded_api("takes a spec that a kube-apiserver refuses, as it should")
def test_bad_spec_leaves_the_topologies_of_segments_alone(segmented: Site) -> None:
    edit_topology(segmented.api, segments="Off", required=["numa"])
    segmented.run_passes(601)
    assert segmented.names(PATH) == ALL_THREE
    published = condition(segmented.api, "Published")
    assert published["reason"] == "InvalidSpec"
    assert "'numa' lies inside a node" in published["message"]
