"""Kueue's cases of topology-aware scheduling, from its integration suite, where they concern levels.

Its nodes are two blocks whose racks have the same names: a rack is known by its path. What Kueue admits, which is room
and quota, and which pod set gets which flavor is left out. So are these cases, which change no status and no topology:

- preemption within a ClusterQueue: priorities decide who is evicted; no level changes
- borrowing and reclaiming within a cohort: quota decides; no level changes
- a ResourceFlavor that goes and comes back: queues report FlavorNotFound; the Topology stays as it is
- TopologyName in the status of LocalQueues: Kueue copies the levels that stand in the Topology
- TAS with MultiKueue or ProvisioningRequest: admission checks of queues
- ResourceFlavors with a bad name, without node labels, or changed: a kind that Toposcope never writes
- ranks of pods, replaced and failed nodes: which node a pod gets within a domain
- node avoidance and spreading over domains: which domain of a level a pod gets
- second passes, skipped flavors, slices that are refilled, groups of no pods: the order of its own work
- cold start and metrics: what Kueue remembers and counts of itself
"""

from dataclasses import replace

import pytest
from tests.controller.cases.model import Machine, Spec, Status, Workload, levels
from tests.controller.cases.objects import KUEUE_BLOCK, KUEUE_RACK, kueue_node
from tests.controller.cases.world import KUEUE, World
from tests.support.api import NODES
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME

pytestmark = pytest.mark.slow

INFERRED = {"publish": {"grove": "Never", "kai": "Never"}}
RACKS = [
    Machine("b1-r1", {KUEUE_BLOCK: "b1", KUEUE_RACK: "r1"}),
    Machine("b1-r2", {KUEUE_BLOCK: "b1", KUEUE_RACK: "r2"}),
    Machine("b2-r1", {KUEUE_BLOCK: "b2", KUEUE_RACK: "r1"}),
    Machine("b2-r2", {KUEUE_BLOCK: "b2", KUEUE_RACK: "r2"}),
]
FIRST_HOST = kueue_node("x1", "b1", "r1")
HOSTS = [FIRST_HOST, kueue_node("x2", "b1", "r2"), kueue_node("x3", "b2", "r1"), kueue_node("x4", "b2", "r2")]
BLOCK_RACK = Status(
    path="block > rack",
    domains=(2, 4),
    kueue=(KUEUE_BLOCK, KUEUE_RACK),
)
BLOCK_RACK_HOST = Status(
    path="block > rack > host",
    domains=(2, 4, 4),
    kueue=(KUEUE_BLOCK, KUEUE_RACK, HOSTNAME),
)
ONE_NODE = Status(
    path="block > rack > host", domains=(1, 1, 1), required_by={"rack": 1}, kueue=(KUEUE_BLOCK, KUEUE_RACK, HOSTNAME)
)
PUBLISH_NEVER = {"spec": {"publish": {"kueue": "Never"}}}


def workload(name: str, request: Spec | None = None) -> Workload:
    """A Workload of two pods with this topologyRequest."""
    pod_set: Spec = {"name": "worker", "count": 2}
    if request is not None:
        pod_set["topologyRequest"] = request
    return Workload("Workload", name, {"podSets": [pod_set]})


def test_topology_that_no_flavor_uses_may_go(at: World) -> None:
    at.begin(RACKS)
    at.publish("default", INFERRED)
    assert at.status_of("default") == BLOCK_RACK

    at.api.patch(f"{PATH}/default", PUBLISH_NEVER)
    at.reconcile()
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        kueue=None,
    )


def test_topology_that_a_flavor_uses_waits_to_go(at: World) -> None:
    flavor = Workload(
        "ResourceFlavor",
        "tas-flavor",
        {"nodeLabels": {"node-group": "tas"}, "topologyName": "default"},
    )
    at.begin(RACKS, [flavor])
    at.publish("default", INFERRED)
    assert at.status_of("default") == BLOCK_RACK

    at.api.patch(f"{PATH}/default", PUBLISH_NEVER)
    at.reconcile()
    waiting = (
        "False",
        "Waiting",
        (
            "topology.kueue.x-k8s.io/default: waits to be deleted because spec.publish.kueue is Never; still held by "
            "ResourceFlavor tas-flavor"
        ),
    )
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        conditions={"Published": waiting},
    )


def test_required_levels_are_counted_by_workload(at: World) -> None:
    workloads = [
        workload("wl1", {"required": KUEUE_BLOCK}),
        workload("wl2", {"required": KUEUE_RACK}),
        workload("wl3", {"required": KUEUE_RACK}),
    ]
    at.begin(RACKS, workloads)
    at.publish("default", INFERRED)
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        required_by={"block": 1, "rack": 2},
    )


def test_level_without_room_for_a_workload_is_available(at: World) -> None:
    at.begin(RACKS, [workload("wl1-inadmissible", {"required": KUEUE_RACK})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        required_by={"rack": 1},
    )


def test_topology_deleted_under_a_workload_is_created_again(at: World) -> None:
    at.begin(RACKS, [workload("wl", {"required": KUEUE_BLOCK})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        required_by={"block": 1},
    )

    at.delete(f"{KUEUE}/default")
    at.reconcile()
    assert at.status_of("default") == replace(
        BLOCK_RACK,
        required_by={"block": 1},
    )


def test_preferred_levels_are_counted_by_workload(at: World) -> None:
    at.begin(HOSTS, [workload("wl1", {"preferred": KUEUE_BLOCK}), workload("wl2", {"preferred": KUEUE_RACK})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == replace(
        BLOCK_RACK_HOST,
        preferred_by={"block": 1, "rack": 1},
    )


def test_workload_without_request_uses_no_level(at: World) -> None:
    at.begin(HOSTS, [workload("wl1"), workload("wl2", {"unconstrained": True})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == BLOCK_RACK_HOST


def test_slices_ask_for_levels_of_their_own(at: World) -> None:
    slices = {"preferred": KUEUE_BLOCK, "podSetSliceRequiredTopology": KUEUE_RACK, "podSetSliceSize": 2}
    layers = [{"topology": KUEUE_RACK, "size": 4}, {"topology": HOSTNAME, "size": 2}]
    workloads = [
        workload("wl1", slices),
        workload("wl2", {"required": HOSTNAME}),
        workload("wl3", {"required": KUEUE_BLOCK, "podsetSliceRequiredTopologyConstraints": layers}),
    ]
    at.begin(HOSTS, workloads)
    at.publish("default", INFERRED)
    assert at.status_of("default") == replace(
        BLOCK_RACK_HOST, required_by={"block": 1, "host": 2, "rack": 2}, preferred_by={"block": 1}
    )


def test_levels_come_with_the_first_node(at: World) -> None:
    at.begin([], [workload("wl1", {"required": KUEUE_RACK})])
    at.publish("default", INFERRED)
    no_nodes = ("Unknown", "NoNodes", "No node is selected, so the levels are unknown")
    assert at.status_of("default") == Status(
        required_by={"rack": 1},
        conditions={
            "TopologyLevelsAvailable": no_nodes,
            "LevelsCovered": no_nodes,
            "HierarchyConsistent": no_nodes,
            "Published": ("Unknown", "NoLevels", "No level is in effect yet, so nothing is published"),
        },
    )

    at.add_nodes([FIRST_HOST])
    at.reconcile()
    assert at.status_of("default") == ONE_NODE


def test_tainted_node_carries_its_levels(at: World) -> None:
    """Whether a taint matters depends on who tolerates it: the level is there for those who do."""
    maintenance = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}
    at.begin([replace(FIRST_HOST, taints=(maintenance,))], [workload("wl1", {"required": KUEUE_RACK})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == ONE_NODE

    at.api.patch(f"{NODES}/x1", {"spec": {"taints": None}})
    at.reconcile()
    assert at.status_of("default") == ONE_NODE


def test_new_level_of_a_cordoned_node_is_not_available(at: World) -> None:
    at.begin([replace(FIRST_HOST, cordoned=True)], [workload("wl1", {"required": KUEUE_RACK})])
    at.publish("default", INFERRED)
    waiting = ("Unknown", "NoUsableNodes", "Waiting for a Ready, schedulable node with level 'rack'")
    assert at.status_of("default") == replace(
        ONE_NODE,
        conditions={"TopologyLevelsAvailable": waiting},
    )

    at.api.patch(f"{NODES}/x1", {"spec": {"unschedulable": None}})
    at.reconcile()
    assert at.status_of("default") == ONE_NODE

    # Cordoned again, it keeps the level.
    at.api.patch(f"{NODES}/x1", {"spec": {"unschedulable": True}})
    at.reconcile()
    assert at.status_of("default") == ONE_NODE


def test_nodes_without_gpus_are_not_of_the_topology(at: World) -> None:
    nodes = [Machine("cpu-node", {KUEUE_RACK: "cpu-rack"}, gpus=None), Machine("gpu-node", {KUEUE_RACK: "gpu-rack"})]
    pod_sets = [
        {"name": "manager", "count": 2, "topologyRequest": {"required": KUEUE_RACK}},
        {"name": "worker", "count": 2, "topologyRequest": {"required": KUEUE_RACK}},
    ]
    at.begin(nodes, [Workload("Workload", "wl1", {"podSets": pod_sets})])
    at.publish("default", INFERRED)
    assert at.status_of("default") == Status(
        path="rack",
        domains=(1,),
        required_by={"rack": 1},
        kueue=(KUEUE_RACK,),
    )


def test_labels_that_others_write_on_a_topology_stay(at: World) -> None:
    at.begin(RACKS)
    at.publish("default", INFERRED)
    assert at.status_of("default") == BLOCK_RACK

    at.api.patch(f"{KUEUE}/default", {"metadata": {"labels": {"alpha": "beta"}}})
    at.reconcile()
    assert at.status_of("default") == BLOCK_RACK
    assert at.api.get(f"{KUEUE}/default")["metadata"]["labels"]["alpha"] == "beta"


def test_changed_levels_make_a_new_topology(at: World) -> None:
    rack_host = (("rack", KUEUE_RACK), ("host", HOSTNAME))
    at.begin(HOSTS)
    at.publish("default", {**INFERRED, "levels": levels(*rack_host)})
    assert at.status_of("default") == Status(
        path="rack > host",
        domains=(2, 4),
        kueue=(KUEUE_RACK, HOSTNAME),
    )

    at.api.patch(f"{PATH}/default", {"spec": {"levels": levels(("block", KUEUE_BLOCK), *rack_host)}})
    at.reconcile()
    assert at.status_of("default") == BLOCK_RACK_HOST
