"""Grove's topology cases TAS1 to TAS23: the expectations of its end-to-end suite that concern levels.

Its cluster does not nest: racks of 7 nodes, blocks of 20, zones of 28. So the order of levels is the administrator's,
and rack-2 of 28 nodes is two racks to every scheduler. Left out is what only a scheduler or Grove decides: which nodes
pods land on, the PodGroups that Grove makes, and the conditions that it writes itself.
"""

import re
from dataclasses import replace

import pytest
from tests.controller.cases.model import (
    Machine,
    Spec,
    Status,
    clique,
    gone,
    levels,
    pod_clique_set,
    scaling_group,
    within,
)
from tests.controller.cases.objects import BLOCK, RACK, THREE, TWO, ZONE, cluster, label_racks
from tests.controller.cases.world import World
from tests.support.api import NODES
from tests.support.publishing import BINDINGS
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME

pytestmark = pytest.mark.slow

TOPOLOGY = "grove-topology"
FOUR = (("zone", ZONE), ("block", BLOCK), ("rack", RACK), ("host", HOSTNAME))
KEYS_OF_FOUR = (ZONE, BLOCK, RACK, HOSTNAME)
KEYS_OF_THREE = (ZONE, RACK, HOSTNAME)
KEYS_OF_TWO = (ZONE, HOSTNAME)
FOUR_LEVELS = {"levels": levels(*FOUR), "publish": {"kueue": "Never"}}
THREE_LEVELS = {"levels": levels(*THREE), "publish": {"kueue": "Never"}}
NVL_BLOCK = "example.com/nvl-block"
NVL_DOMAIN = "example.com/nvlink-domain"
RACK_IS_TWO = (
    "False",
    "LevelsDoNotNest",
    (
        "rack 'rack-2' lies under block 'block-0' and 'block-1'; Grove, KAI and Kueue treat it as one rack "
        "domain in each, kube-scheduler's gangs and pod affinity as a single one; a reused name, a rack that "
        "spans several block domains, or a wrong cable"
    ),
)
NO_RACKS = (
    "False",
    "NodesMissingLevels",
    (
        "2 of 2 nodes lack level 'rack' (kubernetes.io/rack): worker-00, worker-01; Kueue and KAI skip a node that "
        "lacks a level, kube-scheduler skips it for gangs that ask for that level; "
        "label the node, or exclude it with spec.nodeSelector"
    ),
)
NO_NODES = ("Unknown", "NoNodes", "No node is selected, so the levels are unknown")
RACK_LOST = ("Warning", "Topology level 'rack' is no longer available in the cluster topology")
RACK_BACK = ("Normal", "Topology level 'rack' is available again in the cluster topology")
STANDARD = Status(
    path="zone > block > rack > host",
    domains=(1, 2, 5, 28),
    conditions={"HierarchyConsistent": RACK_IS_TWO},
    grove=FOUR,
    kai=KEYS_OF_FOUR,
)
"""Of 28 nodes."""
OF_8 = Status(
    path="zone > block > rack > host",
    domains=(1, 1, 2, 8),
    grove=FOUR,
    kai=KEYS_OF_FOUR,
)
OF_2 = Status(
    path="zone > rack > host",
    domains=(1, 1, 2),
    grove=THREE,
    kai=KEYS_OF_THREE,
)
"""Of 2 nodes, with three levels."""


def test_tas1_binding_and_kai_topology_are_published(at: World) -> None:
    at.begin(cluster(28))
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == STANDARD


def test_tas2_cliques_have_constraints_of_their_own(at: World) -> None:
    workload = pod_clique_set(
        "tas-indep-clq",
        clique("worker-rack", within(TOPOLOGY, required="rack")),
        clique("worker-block", within(TOPOLOGY, required="block")),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "rack": 1},
    )


def test_tas3_set_alone_has_a_constraint(at: World) -> None:
    workload = pod_clique_set(
        "tas-sl-pcs-only",
        clique("worker"),
        clique("router"),
        constraint=within(TOPOLOGY, required="rack"),
        groups=(scaling_group("workers", ["worker"]),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"rack": 1},
    )


def test_tas4_scaling_group_alone_has_a_constraint(at: World) -> None:
    workload = pod_clique_set(
        "tas-sl-pcsg-only",
        clique("worker"),
        clique("router"),
        groups=(scaling_group("workers", ["worker"], within(TOPOLOGY, required="rack")),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"rack": 1},
    )


def test_tas5_clique_alone_has_a_constraint(at: World) -> None:
    workload = pod_clique_set(
        "tas-host-level",
        clique("worker", within(TOPOLOGY, required="host")),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"host": 1},
    )


def test_tas6_clique_alone_stands_under_a_set_in_one_zone(at: World) -> None:
    workload = pod_clique_set(
        "tas-standalone-pclq",
        clique("worker"),
        constraint=within(TOPOLOGY, required="zone"),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"zone": 1},
    )


def test_tas7_set_without_constraint_asks_for_no_level(at: World) -> None:
    workload = pod_clique_set(
        "tas-no-constraint",
        clique("worker"),
        groups=(scaling_group("workers", ["worker"]),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == STANDARD


def test_tas8_full_hierarchy_asks_for_three_levels(at: World) -> None:
    workload = pod_clique_set(
        "tas-hierarchy",
        clique("prefill", within(required="host")),
        clique("decode", within(required="host")),
        constraint=within(TOPOLOGY, required="block"),
        groups=(scaling_group("inference-group", ["prefill", "decode"], within(required="rack")),),
    )
    at.begin(cluster(8), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        OF_8,
        required_by={"block": 1, "host": 1, "rack": 1},
    )


def test_tas9_set_and_clique_have_constraints(at: World) -> None:
    workload = pod_clique_set(
        "tas-pcs-pclq", clique("worker", within(required="host")), constraint=within(TOPOLOGY, required="block")
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "host": 1},
    )


def test_tas10_scaling_group_that_scales_has_a_constraint(at: World) -> None:
    workload = pod_clique_set(
        "tas-pcsg-scale",
        clique("worker"),
        constraint=within(TOPOLOGY, required="block"),
        groups=(scaling_group("inference-group", ["worker"], within(required="rack")),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "rack": 1},
    )


def test_tas11_scaling_group_and_clique_have_constraints(at: World) -> None:
    workload = pod_clique_set(
        "tas-pcsg-pclq",
        clique("worker", within(TOPOLOGY, required="host")),
        groups=(scaling_group("workers", ["worker"], within(TOPOLOGY, required="rack")),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"host": 1, "rack": 1},
    )


def test_tas12_ten_replicas_ask_once(at: World) -> None:
    workload = pod_clique_set(
        "tas-large-scale",
        clique("worker", within(required="host")),
        constraint=within(TOPOLOGY, required="block"),
        groups=(scaling_group("workers", ["worker"]),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "host": 1},
    )


def test_tas13_level_without_room_is_available_all_the_same(at: World) -> None:
    """Ten pods fit into no rack."""
    workload = pod_clique_set(
        "tas-insuffic",
        clique("worker"),
        constraint=within(TOPOLOGY, required="rack"),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"rack": 1},
    )


def test_tas14_two_replicas_of_a_set_ask_once(at: World) -> None:
    workload = pod_clique_set(
        "tas-multirep",
        clique("worker"),
        constraint=within(TOPOLOGY, required="rack"),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"rack": 1},
    )


def disaggregated(pworker: Spec) -> tuple[Spec, ...]:
    """The cliques of disaggregated inference, with this one of prefill workers."""
    return (clique("dworker"), clique("dleader"), pworker, clique("pleader"), clique("router"))


DECODER_AND_PREFILL = (
    scaling_group("decoder", ["dworker", "dleader"], within(required="rack")),
    scaling_group("prefill", ["pworker", "pleader"], within(required="rack")),
)


def test_tas15_disaggregated_inference_asks_for_two_levels(at: World) -> None:
    workload = pod_clique_set(
        "tas-pcs-multi-pcsg",
        *disaggregated(clique("pworker")),
        constraint=within(TOPOLOGY, required="block"),
        groups=DECODER_AND_PREFILL,
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "rack": 1},
    )


def test_tas16_disaggregated_inference_asks_for_three_levels(at: World) -> None:
    workload = pod_clique_set(
        "tas-pcs-multi-pcsg",
        *disaggregated(clique("pworker", within(required="host"))),
        constraint=within(TOPOLOGY, required="block"),
        groups=DECODER_AND_PREFILL,
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1, "host": 1, "rack": 1},
    )


def mixed_cluster() -> list[Machine]:
    """28 nodes, the last 14 of which have NVLink labels instead of a rack."""
    nodes = []
    for number, node in enumerate(cluster(28)):
        if number < 14:
            nodes.append(node)
            continue
        labels = {key: value for key, value in node.labels.items() if key != RACK}
        labels[NVL_BLOCK] = "block-0" if number < 21 else "block-1"
        labels[NVL_DOMAIN] = f"nvl-domain-{number - 14}"
        nodes.append(Machine(node.name, labels))
    return nodes


def with_label(key: str) -> Spec:
    """A node selector."""
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def test_tas17_two_kinds_of_hardware_have_two_topologies(at: World) -> None:
    h100 = pod_clique_set(
        "tas-h100-workload",
        clique("worker"),
        constraint=within("h100-topology", required="block"),
    )
    gb200 = pod_clique_set(
        "tas-gb200-workload", clique("worker"), constraint=within("gb200-topology", required="block")
    )
    h100_levels = (("block", RACK), ("host", HOSTNAME))
    gb200_levels = (("block", NVL_BLOCK), ("rack", NVL_DOMAIN), ("host", HOSTNAME))
    at.begin(mixed_cluster(), [h100, gb200])
    at.make(
        "h100-topology",
        {"levels": levels(*h100_levels), "nodeSelector": with_label(RACK), "publish": {"kueue": "Never"}},
    )
    at.make(
        "gb200-topology",
        {"levels": levels(*gb200_levels), "nodeSelector": with_label(NVL_BLOCK), "publish": {"kueue": "Never"}},
    )
    at.reconcile()
    assert at.status_of("h100-topology") == Status(
        path="block > host", domains=(2, 14), required_by={"block": 1}, grove=h100_levels, kai=(RACK, HOSTNAME)
    )
    assert at.status_of("gb200-topology") == Status(
        path="block > rack > host",
        domains=(2, 14, 14),
        required_by={"block": 1},
        grove=gb200_levels,
        kai=(NVL_BLOCK, NVL_DOMAIN, HOSTNAME),
    )


def test_tas17_one_topology_leaves_half_of_the_nodes_out(at: World) -> None:
    at.begin(mixed_cluster())
    at.publish(TOPOLOGY, FOUR_LEVELS)
    not_covered = (
        "False",
        "NodesMissingLevels",
        (
            "14 of 28 nodes lack level 'rack' (kubernetes.io/rack): worker-14, worker-15, worker-16, "
            "worker-17, worker-18, worker-19, worker-20, worker-21, worker-22, worker-23 and 4 more; Kueue and "
            "KAI skip a node that lacks a level, kube-scheduler skips it for gangs that ask for that level; "
            "label the node, or exclude it with spec.nodeSelector"
        ),
    )
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        domains=(1, 2, 2, 28),
        conditions={"LevelsCovered": not_covered},
    )


def test_tas18_binding_may_name_a_kai_topology_that_is_not_there(at: World) -> None:
    at.begin(cluster(2))
    at.publish("drift-detect-topo", THREE_LEVELS)
    assert at.status_of("drift-detect-topo") == OF_2

    # The entry stays, and Toposcope writes ours from then on.
    other = {"schedulerName": "kai-scheduler", "topologyReference": "non-existent-kai-topo"}
    at.api.patch(f"{BINDINGS}/drift-detect-topo", {"spec": {"schedulerTopologyBindings": [other]}})
    at.reconcile()
    conflict = (
        "False",
        "Conflict",
        (
            "topology.kai.scheduler/drift-detect-topo: a Topology named drift-detect-topo exists and was not "
            "created by Toposcope; delete it, or give the ClusterTopology another name, or set "
            "spec.publish.kai to Never"
        ),
    )
    assert at.status_of("drift-detect-topo") == replace(
        OF_2,
        conditions={"Published": conflict},
    )


def test_tas19_level_that_is_added_makes_the_kai_topology_anew(at: World) -> None:
    at.begin(cluster(2))
    at.publish("lifecycle-topo", {"levels": levels(*TWO), "publish": {"kueue": "Never"}})
    assert at.status_of("lifecycle-topo") == Status(
        path="zone > host",
        domains=(1, 2),
        grove=TWO,
        kai=KEYS_OF_TWO,
    )

    at.api.patch(f"{PATH}/lifecycle-topo", {"spec": {"levels": levels(*THREE)}})
    at.reconcile()
    assert at.status_of("lifecycle-topo") == OF_2


ASKS_TAS20 = pod_clique_set(
    "tas-topology-condition", clique("worker"), constraint=within("tas20-topology", required="rack")
)


def test_tas20_deleted_binding_of_a_workload_is_made_again(at: World) -> None:
    at.begin(cluster(2), [ASKS_TAS20])
    at.publish("tas20-topology", THREE_LEVELS)
    assert at.status_of("tas20-topology") == replace(
        OF_2,
        required_by={"rack": 1},
    )

    at.delete(f"{BINDINGS}/tas20-topology")
    at.reconcile()
    assert at.status_of("tas20-topology") == replace(
        OF_2,
        required_by={"rack": 1},
    )


def test_tas20_level_of_a_workload_stays_in_the_binding_when_it_goes(at: World) -> None:
    name, workload = "tas20-topology", ASKS_TAS20.name
    at.begin(cluster(2), [ASKS_TAS20])
    at.publish(name, {**THREE_LEVELS, "gracePeriod": "10m"})
    assert at.status_of(name) == replace(
        OF_2,
        required_by={"rack": 1},
    )

    # For the grace period, nothing happens.
    label_racks(at, None)
    at.reconcile()
    without_racks = replace(OF_2, required_by={"rack": 1}, domains=(1, 0, 2), conditions={"LevelsCovered": NO_RACKS})
    assert at.status_of(name) == without_racks

    at.reconcile(after=601)
    rack_gone = replace(
        without_racks,
        conditions={"LevelsCovered": NO_RACKS, "TopologyLevelsAvailable": gone("rack", kept=True)},
        events={workload: (RACK_LOST,)},
    )
    assert at.status_of(name, [workload]) == rack_gone

    at.reconcile(after=601)
    assert at.status_of(name, [workload]) == rack_gone

    label_racks(at, "rack-0")
    at.reconcile()
    assert at.status_of(name, [workload]) == replace(
        OF_2, required_by={"rack": 1}, events={workload: (RACK_BACK, RACK_LOST)}
    )


def test_tas21_parts_inherit_the_topology_of_the_set(at: World) -> None:
    workload = pod_clique_set(
        "tas21-pcs-optional-topology-name",
        clique("worker", within(required="host")),
        constraint=within(TOPOLOGY, required="zone"),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"host": 1, "zone": 1},
    )


def test_tas22_shapes_that_grove_refuses_ask_for_nothing(at: World) -> None:
    deprecated = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
    refused = [
        pod_clique_set(
            "tas22-legacy-pcs",
            clique("worker"),
            constraint={"topologyName": TOPOLOGY, "packDomain": "host"},
            refused=deprecated,
        ),
        pod_clique_set(
            "tas22-missing-pack",
            clique("worker"),
            constraint={"topologyName": TOPOLOGY},
            refused="topologyConstraint must specify pack or deprecated packDomain",
        ),
        pod_clique_set(
            "tas22-empty-pack",
            clique("worker"),
            constraint=within(TOPOLOGY),
            refused="pack must specify at least one of required or preferred",
        ),
        pod_clique_set(
            "tas22-ambiguous-pack",
            clique("worker"),
            constraint={**within(TOPOLOGY, required="host"), "packDomain": "host"},
            refused="must not set both pack.required and deprecated packDomain",
        ),
        pod_clique_set(
            "tas22-legacy-pclq",
            clique("worker", {"packDomain": "host"}),
            constraint=within(TOPOLOGY, required="rack"),
            refused=deprecated,
        ),
        pod_clique_set(
            "tas22-legacy-pcsg",
            clique("worker"),
            constraint=within(TOPOLOGY, required="rack"),
            groups=(scaling_group("workers", ["worker"], {"packDomain": "host"}),),
            refused=deprecated,
        ),
    ]
    valid = pod_clique_set(
        "tas22-valid-preferred-only", clique("worker"), constraint=within(TOPOLOGY, preferred="host")
    )
    at.begin(cluster(8), [*refused, valid])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        OF_8,
        preferred_by={"host": 1},
    )


def test_tas23_preferred_levels_are_counted(at: World) -> None:
    workload = pod_clique_set(
        "tas-preferred-pack",
        clique("worker"),
        clique("router", within(preferred="host")),
        constraint=within(TOPOLOGY, required="block", preferred="rack"),
        groups=(scaling_group("workers", ["worker"], within(preferred="host")),),
    )
    at.begin(cluster(28), [workload])
    at.publish(TOPOLOGY, FOUR_LEVELS)
    assert at.status_of(TOPOLOGY) == replace(
        STANDARD,
        required_by={"block": 1},
        preferred_by={"host": 1, "rack": 1},
    )


def test_tas23_workload_hears_of_a_preferred_level_that_goes(at: World) -> None:
    """There is no condition about it."""
    workload = pod_clique_set(
        "tas-preferred-pack", clique("worker"), constraint=within(TOPOLOGY, required="zone", preferred="rack")
    )
    preferring = replace(OF_2, required_by={"zone": 1}, preferred_by={"rack": 1})
    at.begin(cluster(2), [workload])
    at.publish(TOPOLOGY, {**THREE_LEVELS, "gracePeriod": "10m"})
    assert at.status_of(TOPOLOGY) == preferring

    # For the grace period, nothing happens.
    label_racks(at, None)
    at.reconcile()
    assert at.status_of(TOPOLOGY) == replace(
        preferring,
        domains=(1, 0, 2),
        conditions={"LevelsCovered": NO_RACKS},
    )

    at.reconcile(after=601)
    missed = replace(
        preferring,
        domains=(1, 0, 2),
        missed=("rack",),
        conditions={"LevelsCovered": NO_RACKS},
        grove=TWO,
        kai=KEYS_OF_TWO,
        events={workload.name: (RACK_LOST,)},
    )
    assert at.status_of(TOPOLOGY, [workload.name]) == missed

    at.reconcile(after=601)
    assert at.status_of(TOPOLOGY, [workload.name]) == missed

    at.delete(NODES)
    at.reconcile()
    assert at.status_of(TOPOLOGY, [workload.name]) == replace(
        missed,
        domains=(0, 0, 0),
        conditions={"TopologyLevelsAvailable": NO_NODES, "LevelsCovered": NO_NODES, "HierarchyConsistent": NO_NODES},
    )

    at.add_nodes(cluster(2))
    at.reconcile()
    assert at.status_of(TOPOLOGY, [workload.name]) == replace(
        preferring, events={workload.name: (RACK_BACK, RACK_LOST)}
    )


def test_every_case_of_grove_is_here() -> None:
    numbers = set()
    for name in globals():
        if case := re.match(r"test_tas(\d+)_", name):
            numbers.add(int(case[1]))
    assert numbers == set(range(1, 24))
