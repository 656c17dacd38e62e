"""Scores of gangs: by hand, and against brute force on random small clusters."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import pytest
from tests.planning.clusters import at_random, capacity, cluster, node, pods
from tests.support.tables import each_case
from toposcope.planning.gangs import Gang, named
from toposcope.planning.score import Score, scores
from toposcope.snapshot.model import NodeView, PodView, Snapshot

Free = Mapping[str, Mapping[str, int]]


def scored(snapshot: Snapshot) -> dict[str, Score]:
    table, gangs = capacity(snapshot)
    return {score.gang.name: score for score in scores(table, gangs)}


def spans(score: Score) -> dict[str, tuple[int, int | None, int]]:
    return {spread.level.domain: (spread.spans, spread.now, spread.empty) for spread in score.spreads}


RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]
"""Two blocks of two racks of two nodes."""


def test_a_gang_in_several_racks_that_one_could_hold() -> None:
    score = scored(cluster(RACKS, pods("far", "n0", "n4")))["far"]
    assert spans(score) == {"block": (2, 1, 1), "rack": (2, 1, 1), "host": (2, 2, 2)}
    assert score.value == 0.5
    assert score.better_now


def test_what_it_holds_itself_is_room_for_it() -> None:
    score = scored(cluster(RACKS, [*pods("far", "n0", "n2"), *pods("other", "n1", "n3", "n4", "n5", "n6", "n7")]))[
        "far"
    ]
    assert spans(score)["rack"] == (2, 2, 1)
    assert score.value == 0.75
    assert not score.better_now


def test_a_level_without_a_choice_does_not_count() -> None:
    nodes = [node(f"n{i}", "b", f"r{i}") for i in range(3)]
    score = scored(cluster(nodes, pods("wide", "n0", "n1", "n2")))["wide"]
    assert spans(score)["rack"] == (3, 3, 3)
    assert score.value == 1


def test_the_worst_comes_first_and_single_pods_not_at_all() -> None:
    running = [*pods("good", "n0", "n1"), *pods("far", "n2", "n4"), *pods("one", "n6")]
    assert [*scored(cluster(RACKS, running))] == ["far", "good"]


def test_a_gang_on_a_node_that_lacks_a_level_has_no_score() -> None:
    bare = NodeView("n8", "n8", {"gpu.topology/gpus": 0}, ("8",), True, True, (), {"nvidia.com/gpu": 8}, {}, None)
    assert not scored(cluster([*RACKS, bare], pods("far", "n0", "n8")))


def test_a_cordoned_node_does_not_count_as_room() -> None:
    closed = [node(f"n{i}", "b", f"r{i // 2}", ready=i != 1) for i in range(4)]
    score = scored(cluster(closed, pods("far", "n0", "n2")))["far"]
    assert spans(score)["rack"] == (2, 1, 1)  # r1 has room for both
    score = scored(cluster(closed[:3], pods("far", "n0", "n2")))["far"]
    assert spans(score)["rack"] == (2, 2, 1)


@each_case("tables/planning.yaml")
def test_pods_say_what_they_belong_to(labels: dict[str, str], annotations: dict[str, str], named_as: list[str]) -> None:
    running = [
        PodView("ml", f"p{i}", f"n{i}", "Running", {"nvidia.com/gpu": 8}, one.owner, labels, annotations, "", "")
        for i, one in enumerate(pods("j", "n0", "n1"))
    ]
    _, (gang,) = capacity(cluster(RACKS, running))
    assert ([gang.kind, gang.name], len(gang.pods)) == (named_as, 2)


@pytest.mark.parametrize("annotations", [{}, {"scheduling.k8s.io/group-name": "podgroup-5c8"}])
def test_pods_of_a_deployment_are_independent(annotations: dict[str, str]) -> None:
    running = pods("web-5c8", "n0", "n1", kind="ReplicaSet")
    running = [msgspec.structs.replace(pod, annotations=annotations) for pod in running]
    _, gangs = capacity(cluster(RACKS, running))
    assert [(gang.kind, gang.handle) for gang in gangs] == [("Pod", "ml/web-5c8-0"), ("Pod", "ml/web-5c8-1")]
    assert named(gangs, "web-5c8-0") == named(gangs, "ml/web-5c8-0") == gangs[:1]
    assert not named(gangs, "other/web-5c8-0")


def fit(members: Sequence[PodView], offered: Free, names: Sequence[str]) -> bool:
    """Tries every node for every pod."""
    if not members:
        return True
    first, *others = members
    needs = {**first.requests, "pods": 1}
    for name in names:
        if all(offered[name].get(resource, 0) >= amount for resource, amount in needs.items()):
            left = {resource: amount - needs.get(resource, 0) for resource, amount in offered[name].items()}
            if fit(others, {**offered, name: left}, names):
                return True
    return False


def fewest(gang: Gang, snapshot: Snapshot, depth: int, offered: Free) -> int | None:
    domains: dict[tuple[str, ...], list[str]] = {}
    for facts in snapshot.nodes:
        if facts.name in offered:
            domains.setdefault(facts.values[:depth], []).append(facts.name)
    for count in range(1, len(domains) + 1):
        for chosen in combinations(domains.values(), count):
            if fit(gang.placed, offered, [name for domain in chosen for name in domain]):
                return count
    return None


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(80))
def test_the_fewest_domains_are_those_of_brute_force(seed: int) -> None:
    snapshot = at_random(random.Random(seed))
    for score in scored(snapshot).values():
        own: dict[str, Counter[str]] = {}
        for placement in score.gang.placed:
            own.setdefault(placement.node, Counter()).update({**placement.requests, "pods": 1})
        held = {placement.node for placement in score.gang.placed}
        alike = {node.label("gpu.topology/gpus") for node in snapshot.nodes if node.name in held}
        candidates = [node for node in snapshot.nodes if len(alike) > 1 or node.label("gpu.topology/gpus") in alike]
        empty = {node.name: node.allocatable for node in candidates}
        now = {
            node.name: {
                name: amount + own.get(node.name, Counter())[name]
                for name, amount in (snapshot.free(node) or {}).items()
            }
            for node in candidates
            if node.usable
        }
        by_name = snapshot.by_name
        for depth, spread in enumerate(score.spreads, 1):
            assert spread.spans == len({by_name[placement.node].values[:depth] for placement in score.gang.placed})
            assert spread.empty == fewest(score.gang, snapshot, depth, empty)
            if spread.spans > 1:
                assert spread.now == fewest(score.gang, snapshot, depth, now)
        assert 0 < score.value <= 1
