"""What is amiss with the machines under a topology: found, counted, named in few names, put into words."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.cluster import START, fabric, gpu_node, topology
from toposcope.api.conditions import Condition
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.assess.health import MOST_VALUES, Small, Split
from toposcope.controller.status import conditions_of, status_of
from toposcope.topology.node import NodeFacts


def tray(rack: int, place: int, *, domain: str | None = None, block: str = "b", **more: Any) -> NodeFacts:
    """A compute tray of 4 GPUs in an NVL72 rack with a chassis and a fabric of its own."""
    labels = {"rack": f"r{rack}", "block": block, NVLINK_DOMAIN: domain or fabric(rack), GPUS: "4"}
    return gpu_node(f"r{rack}-t{place:02}", labels, **({"chassis": f"c{rack}"} | more))


def rack(number: int, trays: int = 18, **more: Any) -> list[NodeFacts]:
    return [tray(number, place, **more) for place in range(trays)]


def look(nodes: Sequence[NodeFacts], **spec: Any) -> Assessment:
    return assess(topology(**spec), nodes, Absences(), now=0.0)


def healthy(found: Assessment) -> Condition:
    return next(c for c in found.conditions if c.type == "FabricHealthy")


def status(found: Assessment) -> dict[str, Any]:
    asked = topology()
    return status_of(asked, found, [], START, conditions_of(asked, found, [], anything_served=True))


def test_sound_racks_and_lone_machines_are_well() -> None:
    lone = [gpu_node(f"hgx-{i}", {"rack": "r9"}, chassis=f"own-{i}") for i in range(4)]
    found = look([*rack(1), *rack(2), *lone])
    assert healthy(found).status == "True"
    assert status(found)["fabric"] == {"degradedNodes": 0, "unknownNodes": 0, "splitDomains": 0, "smallDomains": 0}
    assert not any("degradedDomains" in level for level in status(found)["levels"])


def test_one_fabric_in_two_cliques_is_split() -> None:
    nodes = [*rack(1, 9), *(tray(1, place, domain=fabric(1, clique=2)) for place in range(9, 18)), *rack(2)]
    found = look(nodes)
    name = fabric(1).partition(".")[0]
    assert found.health.fabric.splits == (Split("fabric", name, 2, 18),)
    assert healthy(found).reason == "DomainsSplit"
    assert f"1 NVLink domain is split: fabric {name} (18 nodes in 2 domains)" in healthy(found).message
    assert status(found)["fabric"]["splits"] == [{"by": "fabric", "name": name, "domains": 2, "nodes": 18}]


def test_a_tray_that_fell_out_of_its_rack_is_found_by_the_chassis() -> None:
    """The agent makes a node whose fabric failed a domain of its own: the clique alone would not show it."""
    nodes = [*rack(1, 17), tray(1, 17, domain="r1-t17", state="degraded"), *rack(2)]
    found = look(nodes)
    assert found.health.fabric.splits == (Split("chassis", "c1", 2, 18),)
    assert found.health.fabric.small == (Small(fabric(1), 68, 72),)
    assert found.health.degraded_nodes == ("r1-t17",)
    said = healthy(found)
    assert (said.status, said.reason) == ("False", "DomainsSplit")
    assert "chassis c1 (18 nodes in 2 domains)" in said.message
    assert "1 node is degraded: r1-t17; see the annotation gpu.topology/matrix of each for the reason" in said.message
    assert f"1 NVLink domain is smaller than its siblings: {fabric(1)} (68 GPUs, usual 72)" in said.message


def test_two_fabrics_in_one_chassis_are_a_split() -> None:
    nodes = [*rack(1, 9), *(tray(1, place, domain=fabric(7)) for place in range(9, 18))]
    assert look(nodes).health.fabric.splits == (Split("chassis", "c1", 2, 18),)


def test_one_fabric_over_two_chassis_is_whole() -> None:
    """NVL36x2: one domain in two racks."""
    nodes = [*rack(1, 9), *(tray(2, place, domain=fabric(1)) for place in range(9))]
    assert healthy(look(nodes)).status == "True"


def test_a_tray_that_lost_a_gpu_makes_its_domain_small() -> None:
    weak = gpu_node("r1-t17", {"rack": "r1", NVLINK_DOMAIN: fabric(1), GPUS: "3"}, chassis="c1", state="degraded")
    found = look([*rack(1, 17), weak, *rack(2), *rack(3)])
    assert found.health.fabric.small == (Small(fabric(1), 71, 72),)
    assert healthy(found).reason == "NodesDegraded"


def test_siblings_are_those_of_the_same_block() -> None:
    """A block of half racks beside one of whole racks is how it was bought."""
    halves = [node for number in (11, 12, 13) for node in rack(number, 9, block="halves")]
    found = look([*halves, *rack(1), *rack(2), *rack(3, 17)])
    assert found.health.fabric.small == (Small(fabric(3), 68, 72),)


def test_a_domain_without_siblings_nearby_is_compared_with_all() -> None:
    found = look([*rack(1, 18, block="b1"), *rack(2, 18, block="b2"), *rack(3, 10, block="b3")])
    assert found.health.fabric.small == (Small(fabric(3), 40, 72),)
    assert look(rack(1, 10)).health.fabric.small == ()


def test_levels_that_do_not_nest_still_have_siblings() -> None:
    astray = [tray(1, 0, block="elsewhere"), *rack(1, 18)[1:]]
    assert look([*astray, *rack(2), *rack(3, 16)]).health.fabric.small == (Small(fabric(3), 64, 72),)


def test_an_order_of_nodes_changes_no_word() -> None:
    nodes = [
        *rack(1, 9),
        *rack(2, 9),
        *rack(3),
        tray(2, 17, domain="x", state="degraded"),
        tray(1, 17, domain=fabric(8)),
    ]
    first = status(look(nodes))
    for seed in range(5):
        random.Random(seed).shuffle(nodes)
        assert status(look(nodes)) == first


def test_unknown_is_told_and_is_the_least_of_all() -> None:
    found = look([*rack(1), gpu_node("n1", state="unknown")])
    assert (healthy(found).reason, status(found)["fabric"]["unknownNodes"]) == ("NodesUnknown", 1)
    assert "kubectl get nodes -l gpu.topology/state=unknown" in healthy(found).message


def test_no_nodes_no_opinion() -> None:
    found = look([])
    assert (healthy(found).status, healthy(found).reason) == ("Unknown", "NoNodes")
    assert "fabric" not in status(found)


def test_a_degraded_node_leaves_the_topology_ready() -> None:
    found = look([*rack(1), *rack(2, 17)])
    conditions = conditions_of(topology(), found, [], anything_served=True)
    assert healthy(found).status == "False"
    assert "FabricHealthy" not in conditions[-1].message
    assert conditions[-1].type == "Ready"


def test_degraded_nodes_are_counted_by_domain_and_lone_ones_have_no_name() -> None:
    bad = [gpu_node(f"n{i}", {"rack": f"r{i % 2}", "block": "b"}, state="degraded") for i in range(5)]
    found = look([*bad, *(gpu_node(f"ok{i}", {"rack": f"r{i}", "block": "b"}) for i in range(4))])
    levels = {each.level.domain: each for each in found.health.levels}
    assert [(d.name, d.degraded) for d in levels["rack"].worst] == [("r0", 3), ("r1", 2)]
    assert (levels["host"].domains, levels["host"].nodes, levels["host"].worst) == (5, 5, ())
    by_domain = {level["domain"]: level for level in status(found)["levels"]}
    assert by_domain["rack"]["degradedDomains"] == 2
    assert by_domain["rack"]["degraded"] == [{"name": "r0", "nodes": 3}, {"name": "r1", "nodes": 2}]
    assert "degraded" not in by_domain["host"]


def test_racks_of_one_name_in_two_blocks_are_two() -> None:
    nodes = [gpu_node(f"n{i}", {"rack": "r", "block": f"b{i % 2}"}, state="degraded") for i in range(6)]
    levels = {level.level.domain: level for level in look(nodes).health.levels}
    assert [d.name for d in levels["rack"].worst] == ["z/b0/r", "z/b1/r"]


@pytest.mark.parametrize("seed", range(10))
def test_degraded_counts_are_those_of_the_nodes(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [
        gpu_node(
            f"n{i}",
            {"rack": f"r{i // 4}", "block": rng.choice(("x", f"b{i // 16}")) if seed % 2 else f"b{i // 16}"},
            state=rng.choice(("ok", "ok", "degraded", "unknown", "")),
        )
        for i in range(300)
    ]
    rng.shuffle(nodes)
    found = look(nodes)
    assert found.health.states == {
        state: count
        for state in ("ok", "degraded", "unknown")
        if (count := sum(n.hardware.state == state for n in nodes))
    }
    bad = [node for node in nodes if node.hardware.state == "degraded"]
    for depth, (level, each) in enumerate(zip(found.effective.levels, found.health.levels, strict=True), 1):
        plain = Counter(tuple(n.label(above.key) for above in found.effective.levels[:depth]) for n in bad)
        assert (each.level, each.domains, each.nodes) == (level, len(plain), len(bad))
        assert len(each.worst) <= MOST_VALUES
        if level.key != HOSTNAME:
            for domain in each.worst:
                assert domain.degraded in plain.values()
