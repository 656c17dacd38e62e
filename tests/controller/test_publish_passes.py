"""What one pass of the controller writes of a whole cluster: its status, and what schedulers read."""

import pytest
from tests.controller.published_site import (
    BINDING,
    GROVE_CRD,
    KAI_CRD,
    KUEUE,
    KUEUE_CLUSTER,
    KUEUE_CRD,
    OURS,
    TOPOLOGY,
    Site,
    labelled,
)
from tests.support.cluster import BLOCK, RACK, ZONE, fabric
from tests.support.controller import condition, edit_topology, make_topology, status_of
from tests.support.publishing import BINDINGS, KAI, binding
from tests.support.tables import says
from tools.apiserver.grove_operator import start_grove
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import CHASSIS, GPU_PRODUCT, HOSTNAME, NVLINK_DOMAIN, STATE

pytestmark = [pytest.mark.regression, pytest.mark.usefixtures("cluster_topologies")]
FULL_PATH = "zone > block > rack > nvlink-domain > host"
BOUND_LEVELS = [
    {"domain": "zone", "key": ZONE},
    {"domain": "block", "key": BLOCK},
    {"domain": "rack", "key": RACK},
    {"domain": "nvlink-domain", "key": NVLINK_DOMAIN},
    {"domain": "host", "key": HOSTNAME},
]
THREE_RACKS = {
    "n0": {ZONE: "z", BLOCK: "b", RACK: "r0"},
    "n1": {ZONE: "z", BLOCK: "b", RACK: "r1"},
    "n2": {ZONE: "z", BLOCK: "b", RACK: "r2"},
}


@pytest.fixture
def three_racks(site: Site) -> Site:
    """A cluster of a node in each of three racks."""
    site.make_nodes(THREE_RACKS)
    return site


def test_status_after_one_pass_is_what_the_crd_accepts(three_racks: Site) -> None:
    make_topology(three_racks.api, required=["rack"])
    three_racks.run_passes(0)
    status = status_of(three_racks.api)
    assert status["levelPath"] == FULL_PATH
    assert status["nodes"] == 3
    assert status["gpus"] == 24
    assert status["observedGeneration"] == 1
    domains = {
        "zone": 1,
        "block": 1,
        "rack": 3,
        "nvlink-domain": 3,
        "host": 3,
    }
    levels = []
    for level in BOUND_LEVELS:
        counted = {
            "domains": domains[level["domain"]],
            "nodes": 3,
            "missing": 0,
            "available": True,
        }
        levels.append({**level, **counted})
    assert status["levels"] == levels
    available = condition(three_racks.api, "TopologyLevelsAvailable")
    assert available["reason"] == "AllTopologyLevelsAvailable"


@pytest.mark.parametrize(
    "crd", [pytest.param("grove-clustertopologybindings-alpha9", id="alpha.9"), pytest.param(GROVE_CRD, id="alpha.10")]
)
def test_grove_accepts_what_is_published(three_racks: Site, crd: str) -> None:
    three_racks.serve(crd, KAI_CRD)
    make_topology(three_racks.api, publish={"kai": "Never"})
    three_racks.run_passes(0)
    metadata = three_racks.api.get(BINDING)["metadata"]
    assert metadata["labels"] == OURS
    (owner,) = metadata["ownerReferences"]
    assert owner["uid"] == three_racks.uid(TOPOLOGY)
    assert three_racks.levels(BINDING) == BOUND_LEVELS
    published = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "name": "cluster",
        "inSync": True,
    }
    assert status_of(three_racks.api)["published"] == [published]
    ready = condition(three_racks.api, "Ready")
    assert ready["status"] == "True"


def test_foreign_binding_is_a_conflict_and_stays(three_racks: Site) -> None:
    three_racks.serve(GROVE_CRD, KAI_CRD)
    three_racks.api.create(BINDINGS, binding())
    before = three_racks.api.get(BINDING)
    make_topology(three_racks.api)
    three_racks.run_passes(0)
    assert three_racks.api.get(BINDING) == before
    published = condition(three_racks.api, "Published")
    assert published["status"] == "False"
    assert published["reason"] == "Conflict"
    assert "was not created by Toposcope; delete it, or" in published["message"]
    first = status_of(three_racks.api)["published"][0]
    assert first["inSync"] is False
    ready = condition(three_racks.api, "Ready")
    assert ready["status"] == "False"


def test_never_for_all_systems_publishes_nothing(three_racks: Site) -> None:
    three_racks.serve(GROVE_CRD, KAI_CRD)
    make_topology(
        three_racks.api,
        publish={
            "grove": "Never",
            "kai": "Never",
            "kueue": "Never",
        },
    )
    three_racks.run_passes(0)
    assert three_racks.names(BINDINGS) == []
    assert three_racks.names(KAI) == []
    published = condition(three_racks.api, "Published")
    assert published["reason"] == "PublishingOff"


H200 = {
    ZONE: "z",
    BLOCK: "b",
    RACK: "r0",
    NVLINK_DOMAIN: fabric(1),
    GPU_PRODUCT: "H200",
}
GB200 = {**H200, GPU_PRODUCT: "GB200"}
SHARED_NODES = {
    "n0": H200,
    "n1": GB200,
    "n2": GB200,
    "n3": {
        **GB200,
        RACK: "r1",
        NVLINK_DOMAIN: fabric(2),
    },
}
THREE_TOPOLOGIES = ("everything", "gb200", "h200")
TWO_LEVELS = [
    {"domain": "rack", "key": RACK},
    {"domain": "host", "key": HOSTNAME},
]


def make_three_topologies(site: Site) -> None:
    """One of all nodes, and one of each product, which share their nodes with the first."""
    site.make_nodes(SHARED_NODES)
    make_topology(site.api, "everything")
    of_gb200 = {"matchLabels": {GPU_PRODUCT: "GB200"}}
    of_h200 = {"matchLabels": {GPU_PRODUCT: "H200"}}
    make_topology(site.api, "gb200", nodeSelector=of_gb200, levels=TWO_LEVELS)
    make_topology(site.api, "h200", nodeSelector=of_h200)


def check_at_rest(site: Site, *collections: str) -> None:
    """Three more passes write no object of the three topologies."""
    before = {}
    for collection in collections:
        for name in THREE_TOPOLOGIES:
            path = f"{collection}/{name}"
            before[path] = site.api.get(path)
    site.run_passes(0, 0, 0)
    for path, written in before.items():
        assert site.api.get(path) == written


def test_topologies_that_share_nodes_are_all_published(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(GROVE_CRD, KAI_CRD, KUEUE_CRD)
    make_three_topologies(site)
    site.run_passes(0)
    # Grove makes the KAI Topologies, which are its own here.
    start_grove(site.api)
    site.run_passes(0)

    assert site.levels(f"{BINDINGS}/everything") == BOUND_LEVELS
    assert site.levels(f"{BINDINGS}/gb200") == TWO_LEVELS
    assert site.levels(f"{BINDINGS}/h200") == BOUND_LEVELS
    all_labels = labelled(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
    assert site.levels(f"{KUEUE}/everything") == all_labels
    assert site.levels(f"{KUEUE}/gb200") == labelled(RACK, HOSTNAME)
    assert site.levels(f"{KUEUE}/h200") == all_labels

    for name in THREE_TOPOLOGIES:
        shared = condition(site.api, "SelectorsDisjoint", name)
        assert shared["status"] == "False", name
        ready = condition(site.api, "Ready", name)
        assert ready["status"] == "True", name
    of_all = condition(site.api, "SelectorsDisjoint", "everything")
    assert says(of_all["message"], "Other ClusterTopologies select these nodes too: 'gb200' 3 of 4, 'h200' 1 of 4; *")
    of_gb200 = condition(site.api, "SelectorsDisjoint", "gb200")
    assert says(of_gb200["message"], "Other ClusterTopologies select these nodes too: 'everything' 3 of 3; *")
    check_at_rest(site, PATH, BINDINGS, KUEUE)


def test_kai_without_grove_gets_each_topology(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD)
    make_three_topologies(site)
    site.run_passes(0)
    all_labels = labelled(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
    assert site.levels(f"{KAI}/everything") == all_labels
    assert site.levels(f"{KAI}/gb200") == labelled(RACK, HOSTNAME)
    assert site.levels(f"{KAI}/h200") == all_labels
    check_at_rest(site, PATH, KAI)


def test_topologies_when_they_stop_sharing_then_say_so(site: Site) -> None:
    site.make_nodes({"n1": H200})
    make_topology(site.api, "everything")
    make_topology(site.api)
    site.run_passes(0)
    shared = condition(site.api, "SelectorsDisjoint")
    assert shared["reason"] == "NodesShared"
    site.delete(f"{PATH}/everything")
    site.run_passes(0)
    alone = condition(site.api, "SelectorsDisjoint")
    assert alone["reason"] == "NoSharedNodes"


def in_rack(number: int, domain: str, state: str = "ok") -> dict[str, str]:
    """Labels of a node in a rack that is a chassis."""
    return {
        ZONE: "z",
        BLOCK: "b",
        RACK: f"r{number}",
        CHASSIS: f"c{number}",
        NVLINK_DOMAIN: domain,
        STATE: state,
    }


def test_faults_of_the_fabric_are_in_the_status(site: Site) -> None:
    sound_racks = {
        "a0": in_rack(1, fabric(1)),
        "a1": in_rack(1, fabric(1)),
        "a2": in_rack(1, fabric(1)),
        "d0": in_rack(4, fabric(4)),
        "d1": in_rack(4, fabric(4)),
        "d2": in_rack(4, fabric(4)),
    }
    degraded_rack = {
        "b0": in_rack(2, fabric(2, clique=0), "degraded"),
        "b1": in_rack(2, fabric(2), "degraded"),
    }
    rack_with_a_lost_node = {
        "c0": in_rack(3, fabric(3)),
        "c1": in_rack(3, "c1", "degraded"),
        "c2": in_rack(3, fabric(3)),
    }
    nodes = {
        **sound_racks,
        **degraded_rack,
        **rack_with_a_lost_node,
    }
    site.make_nodes(nodes)
    make_topology(site.api)
    site.run_passes(0)

    status = status_of(site.api)
    assert status["fabric"] == {
        "degradedNodes": 3,
        "unknownNodes": 0,
        "splitDomains": 2,
        "smallDomains": 1,
        "splits": [
            {
                "by": "fabric",
                "name": "00000000-0000-0000-0000-000000000002",
                "domains": 2,
                "nodes": 2,
            },
            {
                "by": "chassis",
                "name": "c3",
                "domains": 2,
                "nodes": 3,
            },
        ],
        "small": [{"name": "00000000-0000-0000-0000-000000000003.1", "gpus": 16, "usual": 24}],
    }
    (racks,) = [level for level in status["levels"] if level["domain"] == "rack"]
    assert racks["degradedDomains"] == 2
    assert racks["degraded"] == [
        {"name": "r2", "nodes": 2},
        {"name": "r3", "nodes": 1},
    ]
    fabrics = condition(site.api, "FabricHealthy")
    assert fabrics["reason"] == "DomainsSplit"
    ready = condition(site.api, "Ready")
    assert ready["reason"] == "NothingServed"

    before = site.api.get(TOPOLOGY)
    site.run_passes(0, 0, 0)
    assert site.api.get(TOPOLOGY) == before


def test_status_when_edited_then_is_right_again_with_the_next_pass(site: Site) -> None:
    site.make_nodes(
        {
            "n1": {ZONE: "z", BLOCK: "b1", RACK: "r1"},
            "n2": {ZONE: "z", BLOCK: "b2", RACK: "r1"},
        }
    )
    make_topology(site.api, gracePeriod="0s")
    site.run_passes(0)
    edited = {"nodes": 99, "levelPath": "x"}
    site.api.patch(f"{TOPOLOGY}/status", {"status": edited})
    site.run_passes(0)
    status = status_of(site.api)
    assert status["nodes"] == 2
    assert status["levelPath"] == FULL_PATH


def test_ready_when_no_scheduler_is_served_then_says_so(three_racks: Site) -> None:
    """A script can wait for Ready where no scheduler is installed yet."""
    make_topology(three_racks.api)
    three_racks.run_passes(0)
    ready = condition(three_racks.api, "Ready")
    assert ready["status"] == "True"
    assert ready["reason"] == "NothingServed"
    assert "has no CRD of Grove, KAI, Kueue or Volcano that spec.publish allows" in ready["message"]


def test_ready_when_spec_allows_no_scheduler_served_then_says_so(three_racks: Site) -> None:
    three_racks.serve(KUEUE_CRD)
    make_topology(three_racks.api, publish={"kueue": "Never"})
    three_racks.run_passes(0)
    ready = condition(three_racks.api, "Ready")
    assert ready["status"] == "True"
    assert ready["reason"] == "NothingServed"
    assert "install the scheduler first" in ready["message"]


def test_never_takes_back_what_was_published_and_auto_publishes_again(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(GROVE_CRD, KAI_CRD, KUEUE_CRD)
    site.make_nodes(THREE_RACKS)
    make_topology(site.api)
    site.run_passes(0)
    uid = site.uid(KUEUE_CLUSTER)

    edit_topology(site.api, publish={"grove": "Never", "kueue": "Never"})
    site.run_passes(0)
    assert not site.has(BINDING)
    assert not site.has(KUEUE_CLUSTER)

    edit_topology(site.api, publish={"grove": "Auto", "kueue": "Auto"})
    site.run_passes(0)
    assert site.uid(KUEUE_CLUSTER) != uid
    first = site.levels(BINDING)[0]
    assert first["domain"] == "zone"


def test_dry_run_of_one_system_is_no_failure_and_is_in_the_status(
    three_racks: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    three_racks.serve(GROVE_CRD, KAI_CRD)
    make_topology(three_racks.api, publish={"kai": "Never", "grove": "DryRun"})
    three_racks.run_passes(0, 0)
    assert not three_racks.has(BINDING)
    (result,) = status_of(three_racks.api)["published"]
    assert result["inSync"] is False
    assert says(result["message"], "would create:\n*+  - domain: zone*")
    published = condition(three_racks.api, "Published")
    assert published["status"] == "True"
    assert published["reason"] == "DryRun"
    assert says(published["message"], "*clustertopologybinding.grove.io/cluster would create")
    ready = condition(three_racks.api, "Ready")
    assert ready["status"] == "True"
    assert caplog.text.count("clustertopologybinding.grove.io/cluster would create") == 1


def test_dry_run_after_a_real_run_compares_what_is_there(three_racks: Site) -> None:
    three_racks.serve(GROVE_CRD, KAI_CRD)
    make_topology(three_racks.api, publish={"kai": "Never", "grove": "DryRun"})
    three_racks.run_passes(0, 0)
    edit_topology(three_racks.api, publish={"grove": "Auto"})
    three_racks.run_passes(0)
    published = condition(three_racks.api, "Published")
    assert published["reason"] == "InSync"
    edit_topology(three_racks.api, publish={"grove": "DryRun"})
    three_racks.run_passes(0)
    first = status_of(three_racks.api)["published"][0]
    assert first["inSync"] is True

    wrong_levels = [{"domain": "rack", "key": "wrong/rack"}]
    three_racks.api.patch(BINDING, {"spec": {"levels": wrong_levels}})
    three_racks.run_passes(0)
    first = status_of(three_racks.api)["published"][0]
    assert says(first["message"], "would change:\n*")
    assert three_racks.levels(BINDING) == wrong_levels
