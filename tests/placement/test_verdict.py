"""The verdict: domains with room against brute force on random tiny clusters, and nodes that lack a level."""

import random
from dataclasses import replace

import pytest
from tests.placement.bruteforce import Plain, possible
from tests.placement.test_search import BLOCK, LEVELS, RACK, cluster, group, plain
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.verdict import UnusableNodes
from toposcope.placement.room import RoomNode, is_exact
from toposcope.placement.verdict import fittings, judge

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("seed", range(30))
def test_fittings_are_the_domains_with_room(seed: int) -> None:
    rng = random.Random(4000 + seed)
    for _ in range(20):
        nodes = cluster(rng)
        one, _ = group(rng, "g", 5)
        if not one.required or not one.total().get("pods") or one.total()["pods"] > 5:
            continue
        found = fittings([one], LEVELS, nodes)
        assert found
        depth = LEVELS.index(found.level) + 1
        single = replace(found.group, copies=1)
        domains: dict[tuple[str, ...], list[Plain]] = {}
        for node in plain(nodes):
            domains.setdefault(node.path[:depth], []).append(node)
        truth = {domain for domain, inside in domains.items() if possible([single], LEVELS, inside)}
        named = {fitting.domain for fitting in found.domains}
        assert named <= truth
        if is_exact(found.group):
            assert named == truth


def test_fullest_domain_comes_first() -> None:
    rng = random.Random(5)
    nodes = [node for _ in range(8) for node in cluster(rng)]
    nodes = [replace(node, name=f"n{i}") for i, node in enumerate(nodes)]
    small = Group("g", (Pods("p", 1, ((GPU, 1),)),), required=RACK)
    found = fittings([small], LEVELS, nodes)

    assert found
    assert found.is_exact
    assert [fitting.free for fitting in found.domains] == sorted(fitting.free for fitting in found.domains)
    assert len(found.domains) == judge([small], LEVELS, nodes).roomy
    huge = fittings([replace(small, pods=(Pods("p", 500, ((GPU, 8),)),))], LEVELS, nodes)
    assert huge
    assert huge.domains == ()


def test_only_required_levels_have_fittings() -> None:
    nodes = cluster(random.Random(1))
    loose = Group("g", (Pods("p", 1, ((GPU, 1),)),))

    assert fittings([loose], LEVELS, nodes) is None
    assert fittings([replace(loose, preferred=BLOCK)], LEVELS, nodes) is None
    assert fittings([], LEVELS, nodes) is None


def test_many_domains_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.placement.verdict._MAX_TRIED", 1)
    rng = random.Random(9)
    mixed = Group("g", (Pods("a", 1, ((GPU, 1),)), Pods("b", 1, (("cpu", 1),))), required=RACK)
    clusters = [cluster(rng) for _ in range(50)]
    found = [(fittings([mixed], LEVELS, nodes), judge([mixed], LEVELS, nodes)) for nodes in clusters]

    assert {(len(tried.domains) > 1, tried.is_exact) for tried, _ in found if tried} == {(False, True), (True, False)}
    fitting = [(tried, verdict) for tried, verdict in found if tried and verdict.kind == "fits"]
    assert {(tried.is_exact, verdict.is_roomy_exact) for tried, verdict in fitting} == {(True, True), (False, False)}
    alike = (fittings([replace(mixed, pods=mixed.pods[:1])], LEVELS, nodes) for nodes in clusters)
    assert all(tried.is_exact for tried in alike if tried)


FREE = {GPU: 8, "pods": 10}


def node(name: str, rack: str | None) -> RoomNode:
    return RoomNode(name, {} if rack is None else {RACK.key: rack}, FREE, FREE)


NODES = [node("a", "r1"), node("b", None)]
TOGETHER = Group("together", (Pods("p", 1, ((GPU, 8),)),), required=RACK)
ANYWHERE = Group("anywhere", (Pods("q", 1, ((GPU, 8),)),))


def test_node_that_lacks_a_level_is_excluded_by_a_topology() -> None:
    verdict = judge((TOGETHER, ANYWHERE), (RACK,), NODES)
    assert verdict.kind == "never"
    assert verdict.excluded == (UnusableNodes(Exclusion(ExclusionKind.LEVEL, RACK.key), ("b",)),)


def test_node_that_lacks_a_level_takes_pods_without_affinity() -> None:
    verdict = judge((TOGETHER, ANYWHERE), (RACK,), NODES, can_lack_levels=True)
    assert verdict.kind == "fits"
    assert {placed.group.name: placed.nodes for placed in verdict.placed} == {
        "together": (("a", 1),),
        "anywhere": (("b", 1),),
    }
    assert verdict.excluded == ()


def test_fittings_are_of_one_copy() -> None:
    mixed = replace(TOGETHER, pods=(*TOGETHER.pods, Pods("q", 1, ())), copies=2)
    tried = fittings([mixed], (RACK,), NODES)
    assert tried
    assert [fitting.domain for fitting in tried.domains] == [("r1",)]


@pytest.mark.parametrize(("partial", "domains"), [(True, [("b",)]), (False, [])], ids=["affinity", "topology"])
def test_node_that_lacks_a_narrower_level_fits_for_affinity(partial: bool, domains: list[tuple[str]]) -> None:
    in_a_block = replace(TOGETHER, required=BLOCK)
    nodes = [RoomNode("a", {BLOCK.key: "b"}, FREE, FREE)]
    tried = fittings([in_a_block], (BLOCK, RACK), nodes, can_lack_levels=partial)
    assert tried
    assert [fitting.domain for fitting in tried.domains] == domains


def test_node_that_lacks_a_level_is_no_domain() -> None:
    assert judge((TOGETHER,), (RACK,), [node("b", None)], can_lack_levels=True).kind == "never"
