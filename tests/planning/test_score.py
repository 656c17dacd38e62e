"""Scores of gangs: by hand, and against brute force on random small clusters."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, combinations

import msgspec
import pytest
from tests.planning.clusters import GPUS_OF_NODE, RACKS, at_random, capacity, cluster, node, node_without_levels, pods
from toposcope.planning.gangs import Gang, named
from toposcope.planning.score import Score, scores
from toposcope.snapshot.model import NodeView, PodView, Snapshot

Amounts = Mapping[str, int]
GROUP_NAME = "scheduling.k8s.io/group-name"


def scored(snapshot: Snapshot) -> dict[str, Score]:
    table, gangs = capacity(snapshot)
    by_gang = {}
    for score in scores(table, gangs):
        by_gang[score.gang.name] = score
    return by_gang


def spans(score: Score) -> dict[str, tuple[int, int | None, int]]:
    """How many domains a gang spans, could span now, and could in the empty cluster; by level."""
    by_level = {}
    for spread in score.spreads:
        by_level[spread.level.domain] = (spread.spans, spread.now, spread.empty)
    return by_level


def test_gang_in_two_racks_that_fits_into_one_could_be_closer() -> None:
    snapshot = cluster(RACKS, pods("far", "n0", "n4"))

    score = scored(snapshot)["far"]

    assert spans(score) == {
        "block": (2, 1, 1),
        "rack": (2, 1, 1),
        "host": (2, 2, 2),
    }
    assert score.value == 0.5
    assert score.can_improve


def test_gang_that_finds_no_room_closer_together_is_not_better_now() -> None:
    far = pods("far", "n0", "n2")
    others = pods("other", "n1", "n3", "n4", "n5", "n6", "n7")
    snapshot = cluster(RACKS, [*far, *others])

    score = scored(snapshot)["far"]

    assert spans(score)["rack"] == (2, 2, 1)
    assert score.value == 0.75
    assert not score.can_improve


def test_level_without_a_choice_does_not_count() -> None:
    nodes = [
        node("n0", "b", "r0"),
        node("n1", "b", "r1"),
        node("n2", "b", "r2"),
    ]
    running = pods("wide", "n0", "n1", "n2")

    score = scored(cluster(nodes, running))["wide"]

    assert spans(score)["rack"] == (3, 3, 3)
    assert score.value == 1


def test_worst_gang_comes_first_and_single_pods_are_left_out() -> None:
    good = pods("good", "n0", "n1")
    far = pods("far", "n2", "n4")
    single = pods("single", "n6")
    snapshot = cluster(RACKS, [*good, *far, *single])

    score_by_gang = scored(snapshot)

    assert list(score_by_gang) == ["far", "good"]


def test_gang_on_a_node_without_levels_has_no_score() -> None:
    bare = node_without_levels("n8")
    running = pods("far", "n0", "n8")
    snapshot = cluster([*RACKS, bare], running)
    assert scored(snapshot) == {}


def test_node_that_is_not_ready_does_not_count_as_room() -> None:
    nodes = [
        node("n0", "b", "r0"),
        node("n1", "b", "r0", ready=False),
        node("n2", "b", "r1"),
        node("n3", "b", "r1"),
    ]
    running = pods("far", "n0", "n2")

    second_rack_has_room = scored(cluster(nodes, running))["far"]
    assert spans(second_rack_has_room)["rack"] == (2, 1, 1)

    no_rack_has_room = scored(cluster(nodes[:3], running))["far"]
    assert spans(no_rack_has_room)["rack"] == (2, 2, 1)


LWS_LABELS = {"leaderworkerset.sigs.k8s.io/name": "s", "leaderworkerset.sigs.k8s.io/group-index": "1"}
JOBSET_LABELS = {"jobset.sigs.k8s.io/jobset-name": "js"}


@pytest.mark.parametrize(
    ("labels", "annotations", "kind", "name"),
    [
        pytest.param(
            {"grove.io/podgang": "llm-0"},
            {},
            "PodGang",
            "llm-0",
            id="pod-gang",
        ),
        pytest.param(
            {},
            {"pod-group-name": "pg-a", "kueue.x-k8s.io/workload": "w"},
            "Job",
            "j",
            id="kai-and-kueue",
        ),
        pytest.param(
            LWS_LABELS,
            {},
            "LeaderWorkerSet",
            "s-1",
            id="leader-worker-set",
        ),
        pytest.param(
            JOBSET_LABELS,
            {},
            "JobSet",
            "js",
            id="jobset",
        ),
        pytest.param(
            JOBSET_LABELS,
            {GROUP_NAME: "j-5c8"},
            "Job",
            "j",
            id="jobset-of-volcano",
        ),
        pytest.param(
            LWS_LABELS,
            {GROUP_NAME: "podgroup-5c8"},
            "LeaderWorkerSet",
            "s-1",
            id="group-of-volcano",
        ),
        pytest.param(
            {"kueue.x-k8s.io/pod-group-name": "pods"},
            {},
            "Pod",
            "pods",
            id="pod-group-of-kueue",
        ),
        pytest.param(
            {},
            {},
            "Job",
            "j",
            id="owner-alone",
        ),
    ],
)
def test_gang_is_named_by_what_its_pods_belong_to(
    labels: dict[str, str], annotations: dict[str, str], kind: str, name: str
) -> None:
    running = []
    for pod in pods("j", "n0", "n1"):
        member = msgspec.structs.replace(
            pod,
            labels=labels,
            annotations=annotations,
        )
        running.append(member)

    _, (gang,) = capacity(cluster(RACKS, running))

    assert gang.kind == kind
    assert gang.name == name
    assert len(gang.pods) == 2


@pytest.mark.parametrize("annotations", [{}, {GROUP_NAME: "podgroup-5c8"}], ids=["plain", "volcano"])
def test_pods_of_a_deployment_are_independent(annotations: dict[str, str]) -> None:
    running = []
    for pod in pods("web-5c8", "n0", "n1", kind="ReplicaSet"):
        replica = msgspec.structs.replace(pod, annotations=annotations)
        running.append(replica)

    _, gangs = capacity(cluster(RACKS, running))

    first, second = gangs
    assert first.kind == "Pod"
    assert first.handle == "ml/web-5c8-0"
    assert second.kind == "Pod"
    assert second.handle == "ml/web-5c8-1"
    assert named(gangs, "web-5c8-0") == (first,)
    assert named(gangs, "ml/web-5c8-0") == (first,)
    assert not named(gangs, "other/web-5c8-0")


def fit(members: Sequence[PodView], offered: Mapping[str, Amounts], names: Sequence[str]) -> bool:
    """Tries every node for every pod."""
    if not members:
        return True
    first, *others = members
    needs = {**first.requests, "pods": 1}
    for name in names:
        remaining = after(offered[name], needs)
        if remaining is None:
            continue
        if fit(others, {**offered, name: remaining}, names):
            return True
    return False


def after(offered: Amounts, needs: Amounts) -> Amounts | None:
    """What remains of a node's resources for others; None: it has too little."""
    remaining = dict(offered)
    for resource, amount in needs.items():
        if offered.get(resource, 0) < amount:
            return None
        if resource in remaining:
            remaining[resource] -= amount
    return remaining


def fewest(gang: Gang, snapshot: Snapshot, depth: int, offered: Mapping[str, Amounts]) -> int | None:
    """The fewest domains that hold the gang, by trying all; None: no number does."""
    domains: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node_view in snapshot.nodes:
        if node_view.name in offered:
            domain = node_view.values[:depth]
            domains[domain].append(node_view.name)
    for count in range(1, len(domains) + 1):
        for chosen in combinations(domains.values(), count):
            names = list(chain.from_iterable(chosen))
            if fit(gang.placed, offered, names):
                return count
    return None


def candidates(gang: Gang, snapshot: Snapshot) -> list[NodeView]:
    """Nodes with as many GPUs as those of the gang; all nodes where these differ."""
    sizes = set()
    for placement in gang.placed:
        held = snapshot.by_name[placement.node]
        sizes.add(held.label(GPUS_OF_NODE))
    if len(sizes) > 1:
        return [*snapshot.nodes]
    alike = []
    for node_view in snapshot.nodes:
        if node_view.label(GPUS_OF_NODE) in sizes:
            alike.append(node_view)
    return alike


def free_without(gang: Gang, snapshot: Snapshot, nodes: Sequence[NodeView]) -> dict[str, Amounts]:
    """What usable nodes have free if the gang gives back what it holds."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for placement in gang.placed:
        amounts = held[placement.node]
        amounts.update(placement.requests)
        amounts["pods"] += 1
    free: dict[str, Amounts] = {}
    for node_view in nodes:
        if not node_view.is_usable:
            continue
        own = held[node_view.name]
        amounts_free = snapshot.free(node_view) or {}
        free[node_view.name] = {name: amount + own[name] for name, amount in amounts_free.items()}
    return free


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(80))
def test_fewest_domains_are_those_of_brute_force(seed: int) -> None:
    snapshot = at_random(random.Random(seed))
    for score in scored(snapshot).values():
        gang = score.gang
        nodes = candidates(gang, snapshot)
        empty = {node_view.name: node_view.allocatable for node_view in nodes}
        now = free_without(gang, snapshot, nodes)
        for depth, spread in enumerate(score.spreads, 1):
            domains = set()
            for placement in gang.placed:
                held = snapshot.by_name[placement.node]
                domains.add(held.values[:depth])
            assert spread.spans == len(domains)
            assert spread.empty == fewest(gang, snapshot, depth, empty)
            if spread.spans > 1:
                assert spread.now == fewest(gang, snapshot, depth, now)
        assert 0 < score.value <= 1
