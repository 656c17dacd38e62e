"""KAI's cases of one job under several topologies, and of dotted values.

Its racks and zones cross: each zone has a node in each rack. Crossing labels are no hierarchy, so each has a topology.
Left out is which nodes each sub-group lands on.
"""

from typing import Any

import pytest
from tests.controller.cases.model import Machine, Status, Workload, levels
from tests.controller.cases.world import World

pytestmark = pytest.mark.slow

RACK, ZONE = "topology.test/rack-domain", "topology.test/zone-domain"
BLOCK, SLOT = "topology.test/block", "topology.test/slot"
ONLY_KAI = {"grove": "Never", "kueue": "Never"}
RACKS = {"levels": levels(("rack", RACK)), "publish": ONLY_KAI}
ZONES = {"levels": levels(("zone", ZONE)), "publish": ONLY_KAI}
RACKS_KEPT = Status(
    path="rack",
    domains=(3,),
    required_by={"rack": 1},
    kai=(RACK,),
)
ZONES_KEPT = Status(
    path="zone",
    domains=(2,),
    required_by={"zone": 1},
    kai=(ZONE,),
)


def node(number: int, rack: str, zone: str) -> Machine:
    return Machine(f"node{number:02}", {RACK: f"rack-{rack}", ZONE: f"zone-{zone}"})


SIX_NODES = [
    node(0, "a", "x"),
    node(1, "a", "y"),
    node(2, "b", "x"),
    node(3, "b", "y"),
    node(4, "c", "x"),
    node(5, "c", "y"),
]
TWELVE_NODES = [
    node(0, "a", "x"),
    node(1, "a", "x"),
    node(2, "b", "x"),
    node(3, "b", "x"),
    node(4, "c", "x"),
    node(5, "c", "x"),
    node(6, "a", "y"),
    node(7, "a", "y"),
    node(8, "b", "y"),
    node(9, "b", "y"),
    node(10, "c", "y"),
    node(11, "c", "y"),
]


def in_one_rack(name: str, **fields: Any) -> dict[str, Any]:
    """A sub-group of three pods in one rack."""
    constraint = {"topology": "rack-topology", "requiredTopologyLevel": RACK}
    return {"name": name, "minMember": 3, "topologyConstraint": constraint, **fields}


def in_one_zone(name: str, **fields: Any) -> dict[str, Any]:
    """A sub-group in one zone."""
    constraint = {"topology": "zone-topology", "requiredTopologyLevel": ZONE}
    return {"name": name, "topologyConstraint": constraint, **fields}


def test_two_sub_groups_ask_for_levels_of_two_topologies(at: World) -> None:
    sub_groups = [in_one_rack("rack-workers"), in_one_zone("zone-workers", minMember=3)]
    at.begin(SIX_NODES, [Workload("PodGroup", "pending-job0", {"subGroups": sub_groups})])
    at.make("rack-topology", RACKS)
    at.make("zone-topology", ZONES)
    at.reconcile()
    assert at.status_of("rack-topology") == RACKS_KEPT
    assert at.status_of("zone-topology") == ZONES_KEPT


def test_parent_in_a_zone_has_children_in_racks(at: World) -> None:
    sub_groups = [
        in_one_zone("parent"),
        in_one_rack("child-a", parent="parent"),
        in_one_rack("child-b", parent="parent"),
    ]
    at.begin(TWELVE_NODES, [Workload("PodGroup", "pending-job1", {"subGroups": sub_groups})])
    at.make("rack-topology", RACKS)
    at.make("zone-topology", ZONES)
    at.reconcile()
    assert at.status_of("rack-topology") == RACKS_KEPT
    assert at.status_of("zone-topology") == ZONES_KEPT


def test_crossing_labels_in_one_topology_are_published_as_written(at: World) -> None:
    constraint = {"topology": "both", "requiredTopologyLevel": RACK, "preferredTopologyLevel": ZONE}
    job = Workload(
        "PodGroup",
        "job",
        {"minMember": 2, "topologyConstraint": constraint, "subGroups": []},
    )
    at.begin(SIX_NODES, [job])
    at.publish("both", {"levels": levels(("zone", ZONE), ("rack", RACK)), "publish": ONLY_KAI})
    assert at.status_of("both") == Status(
        path="zone > rack", domains=(2, 6), required_by={"rack": 1}, preferred_by={"zone": 1}, kai=(ZONE, RACK)
    )


def test_values_that_read_alike_when_joined_are_reported(at: World) -> None:
    """KAI joins the values of a path with dots, and takes a.b under c and a under b.c for one."""
    nodes = [
        Machine("node0", {BLOCK: "a.b", SLOT: "c"}),
        Machine("node1", {BLOCK: "a", SLOT: "b.c"}),
        Machine("node2", {BLOCK: "a", SLOT: "b.c"}),
    ]
    at.begin(nodes)
    at.publish("dotted", {"levels": levels(("block", BLOCK), ("slot", SLOT)), "publish": ONLY_KAI})
    read_alike = (
        "False",
        "ValuesReadAlike",
        (
            "block 'a' > slot 'b.c' and block 'a.b' > slot 'c' are one slot domain to KAI, which joins "
            "values by dots: 'a.b.c'; write one of topology.test/block and topology.test/slot without dots, "
            "or leave one of these levels out of spec.levels"
        ),
    )
    assert at.status_of("dotted") == Status(
        path="block > slot", domains=(2, 2), conditions={"HierarchyConsistent": read_alike}, kai=(BLOCK, SLOT)
    )
