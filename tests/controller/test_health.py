"""Faults of the machines under a topology: found, counted, named, put into messages."""

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
    found = look([*rack(1, 17), tray(1, 17, domain="r1-t17", state="degraded"), *rack(2)])
    assert found.health.fabric.splits == (Split("chassis", "c1", 2, 18),)
    assert found.health.fabric.small == (Small(fabric(1), 68, 72),)
    assert found.health.degraded_nodes == ("r1-t17",)
    fault = healthy(found)
    assert (fault.status, fault.reason) == ("False", "DomainsSplit")
    assert "chassis c1 (18 nodes in 2 domains)" in fault.message
    assert "1 node is degraded: r1-t17; see the annotation gpu.topology/matrix of each for the reason" in fault.message
    assert f"1 NVLink domain is smaller than its siblings: {fabric(1)} (68 GPUs, usual 72)" in fault.message


HALVES = [node for number in (11, 12, 13) for node in rack(number, 9, block="halves")]
WEAK = gpu_node("r1-t17", {"rack": "r1", NVLINK_DOMAIN: fabric(1), GPUS: "3"}, chassis="c1", state="degraded")


@pytest.mark.parametrize(
    ("nodes", "reason", "small"),
    [
        # NVL36x2: one domain in two racks.
        ([*rack(1, 9), *(tray(2, i, domain=fabric(1)) for i in range(9))], "AllHealthy", {}),
        ([*rack(1, 17), WEAK, *rack(2), *rack(3)], "NodesDegraded", {1: 71}),
        ([*HALVES, *rack(1), *rack(2), *rack(3, 17)], "DomainsSmall", {3: 68}),
        ([*rack(1, block="b1"), *rack(2, block="b2"), *rack(3, 10, block="b3")], "DomainsSmall", {3: 40}),
        ([*rack(1, 17), *rack(2, 16), *rack(3), *rack(4), *rack(5)], "DomainsSmall", {2: 64, 1: 68}),
        (rack(1, 10), "AllHealthy", {}),
        ([tray(1, 0, block="elsewhere"), *rack(1)[1:], *rack(2), *rack(3, 16)], "DomainsSmall", {3: 64}),
    ],
    ids=[
        "one-fabric-over-two-chassis-is-whole",
        "a-tray-that-lost-a-gpu-makes-its-domain-small",
        "siblings-are-those-of-the-same-block",
        "without-siblings-nearby-all-are-compared",
        "the-smallest-come-first",
        "alone",
        "levels-that-do-not-nest-still-have-siblings",
    ],
)
def test_domains_are_compared_with_their_siblings(nodes: list[NodeFacts], reason: str, small: dict[int, int]) -> None:
    found = look(nodes)
    assert found.health.fabric.small == tuple(Small(fabric(domain), gpus, 72) for domain, gpus in small.items())
    assert found.health.fabric.splits == ()
    assert healthy(found).reason == reason
    assert f"{len(small)} NVLink domains are smaller" in healthy(found).message or len(small) < 2


def test_two_fabrics_in_one_chassis_are_a_split() -> None:
    nodes = [*rack(1, 9), *(tray(1, place, domain=fabric(7)) for place in range(9, 18))]
    nodes += [*rack(2, 9), *(tray(2, place, domain=fabric(8)) for place in range(9, 18))]
    found = look(nodes)
    assert found.health.fabric.splits == (Split("chassis", "c1", 2, 18), Split("chassis", "c2", 2, 18))
    assert "2 NVLink domains are split: chassis c1 (18 nodes in 2 domains), chassis c2" in healthy(found).message


def test_the_order_of_nodes_changes_no_status() -> None:
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


def test_unknown_nodes_are_counted_and_come_last() -> None:
    found = look([*rack(1), gpu_node("n1", state="unknown")])
    assert (healthy(found).reason, status(found)["fabric"]["unknownNodes"]) == ("NodesUnknown", 1)
    said = "the hardware of {} not answer; list: kubectl get nodes -l gpu.topology/state=unknown"
    assert healthy(found).message == said.format("1 node does")
    assert healthy(look([gpu_node(f"n{i}", state="unknown") for i in range(2)])).message == said.format("2 nodes do")


def test_no_nodes_are_unknown() -> None:
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
    bad.append(gpu_node("n5", {"rack": "lone", "block": "b"}, state="degraded"))
    found = look([*bad, *(gpu_node(f"ok{i}", {"rack": f"r{i}", "block": "b"}) for i in range(4))])
    assert "6 nodes are degraded: n0, n1, n2, n3, n4, n5; see the annotation" in healthy(found).message
    levels = {level.level.domain: level for level in found.health.levels}
    assert [(d.name, d.degraded) for d in levels["rack"].worst] == [("r0", 3), ("r1", 2)]
    assert (levels["host"].domains, levels["host"].nodes, levels["host"].worst) == (6, 6, ())
    by_domain = {level["domain"]: level for level in status(found)["levels"]}
    assert by_domain["rack"]["degradedDomains"] == 3
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
        if (count := sum(n.traits.hardware.state == state for n in nodes))
    }
    bad = [node for node in nodes if node.traits.hardware.state == "degraded"]
    for depth, (level, counts) in enumerate(zip(found.effective.levels, found.health.levels, strict=True), 1):
        plain = Counter(tuple(n.label(above.key) for above in found.effective.levels[:depth]) for n in bad)
        assert (counts.level, counts.domains, counts.nodes) == (level, len(plain), len(bad))
        assert len(counts.worst) <= MOST_VALUES
        if level.key != HOSTNAME:
            for domain in counts.worst:
                assert domain.degraded in plain.values()
