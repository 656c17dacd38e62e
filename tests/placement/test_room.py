"""Nodes that lack a level: out of the topology for schedulers that know topologies, of use elsewhere for the others."""

from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.placement.room import Node
from toposcope.placement.verdict import judge
from toposcope.topology.levels import Level

RACK = Level("rack", "example.com/rack")
GPU = (("nvidia.com/gpu", 8),)
FREE = {"nvidia.com/gpu": 8, "pods": 10}


def node(name: str, rack: str | None) -> Node:
    return Node(name, {} if rack is None else {RACK.key: rack}, FREE, FREE)


NODES = [node("a", "r1"), node("b", None)]
TOGETHER = Group("together", (Pods("p", 1, GPU),), required=RACK)
ANYWHERE = Group("anywhere", (Pods("q", 1, GPU),))


def test_a_topology_leaves_nodes_out_that_lack_a_level() -> None:
    verdict = judge((TOGETHER, ANYWHERE), (RACK,), NODES)
    assert verdict.kind == "never"
    assert dict(verdict.excluded) == {f"lacks label {RACK.key}": ("b",)}


def test_pod_affinity_leaves_them_to_pods_that_do_not_care() -> None:
    verdict = judge((TOGETHER, ANYWHERE), (RACK,), NODES, partial=True)
    assert verdict.kind == "fits"
    assert {placed.group.name: placed.nodes for placed in verdict.placed} == {
        "together": (("a", 1),),
        "anywhere": (("b", 1),),
    }
    assert verdict.excluded == ()


def test_they_are_no_domain_all_the_same() -> None:
    assert judge((TOGETHER,), (RACK,), [node("b", None)], partial=True).kind == "never"
