"""Topologies that select the same nodes name each other."""

from dataclasses import replace
from typing import Any

from tests.support.cluster import BLOCK, RACK, gpu_node, topology
from toposcope.api.cluster_topology import Topology
from toposcope.controller.assess.selection import disjoint_condition, overlaps, selected
from toposcope.topology.table import Table

NODES = Table(gpu_node(f"n{i}", {"rack": f"r{i // 4}", "block": f"b{i // 8}"}) for i in range(16))


def named(name: str, **labels: str) -> Topology:
    spec: dict[str, Any] = {"nodeSelector": {"matchLabels": labels}} if labels else {}
    return replace(topology(**spec), name=name, uid=name)


def test_each_topology_counts_the_nodes_it_shares_with_each_other() -> None:
    found = overlaps([named("all"), named("b0", **{BLOCK: "b0"}), named("r3", **{RACK: "r3"})], NODES)
    assert found == {"all": {"b0": 8, "r3": 4}, "b0": {"all": 8}, "r3": {"all": 4}}


def test_one_alone_and_two_apart_share_nothing() -> None:
    assert overlaps([named("all")], NODES) == {"all": {}}
    assert overlaps([named("r1", **{RACK: "r1"}), named("r2", **{RACK: "r2"})], NODES) == {"r1": {}, "r2": {}}
    assert overlaps([named("a"), named("b")], Table(())) == {"a": {}, "b": {}}


def test_the_segments_of_a_topology_share_its_nodes_by_design() -> None:
    child, other = replace(named("b0", **{BLOCK: "b0"}), owner="all"), named("r0", **{RACK: "r0"})
    found = overlaps([named("all"), child, other], NODES)
    assert found == {"all": {"r0": 4}, "b0": {"r0": 4}, "r0": {"all": 4, "b0": 4}}


def test_every_label_of_a_selector_counts() -> None:
    assert len(selected(named("both", **{BLOCK: "b0", RACK: "r0"}), NODES)) == 4


def test_selectors_that_look_at_labels_only_share_too() -> None:
    some = {"nodeSelector": {"matchExpressions": [{"key": BLOCK, "operator": "Exists"}]}}
    one = replace(topology(**some), name="one")
    bare = Table([*NODES, gpu_node("bare", {"block": None})])
    assert overlaps([one, named("all")], bare) == {"one": {"all": 16}, "all": {"one": 16}}


def test_the_condition_names_the_largest_shares_first_and_not_all_of_them() -> None:
    shared = disjoint_condition({"b": 2, "a": 2, "c": 9, **{f"x{i}": 1 for i in range(4)}}, nodes=12)
    assert (shared.status, shared.reason) == ("False", "NodesShared")
    assert shared.message.startswith(
        "Of 12 nodes, 9 with 'c', 2 with 'a', 2 with 'b', 1 with 'x0', 1 with 'x1' and some with 2 more are shared"
    )
    none = disjoint_condition({}, nodes=12)
    assert (none.status, none.reason) == ("True", "NoSharedNodes")
    one = disjoint_condition({"b": 1}, nodes=1)
    assert one.message.startswith("Of 1 node, 1 with 'b' are shared with another ClusterTopology; each is published")
    assert one.type == "SelectorsDisjoint"
