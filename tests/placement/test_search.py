"""Placement against brute force on random tiny clusters."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.placement.bruteforce import Plain, possible
from tests.support.tables import each_case
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, simplified
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.verdict import LeftOut, Placed
from toposcope.placement.exhaustive import Exhaustive
from toposcope.placement.pack import Bin, Packing, pack
from toposcope.placement.room import Node, Room
from toposcope.placement.search import Search
from toposcope.placement.verdict import judge

BLOCK = Level("block", "example.com/block")
RACK = Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
LEVELS = (BLOCK, RACK, HOST)


def cluster(rng: random.Random) -> list[Node]:
    nodes = []
    for number in range(rng.randint(1, 4)):
        # Rack names are reused in another block: only the path tells them apart.
        labels = {BLOCK.key: rng.choice("xy"), RACK.key: rng.choice("ab"), HOST.key: f"n{number}"}
        total = {"nvidia.com/gpu": rng.randint(0, 6), "cpu": rng.randint(0, 6), "pods": rng.randint(2, 5)}
        free = {resource: amount - rng.randint(0, min(amount, 2)) for resource, amount in total.items()}
        nodes.append(Node(f"n{number}", labels, free, total))
    return nodes


def group(rng: random.Random, name: str, pods: int, deep: int = 0) -> tuple[Group, int]:
    """A random group of at most so many pods, and how many pods are left."""
    kinds = []
    for number in range(rng.randint(0 if deep < 2 else 1, 2)):
        count = rng.randint(0, min(pods, 3))
        pods -= count
        if count:
            requests = (("cpu", rng.randint(0, 2)), ("nvidia.com/gpu", rng.randint(0, 3)))
            kinds.append(Pods(f"{name}{number}", count, requests))
    below = []
    if deep < 2:
        for number in range(rng.randint(0, 2)):
            inner, pods = group(rng, f"{name}-{number}", pods, deep + 1)
            below.append(inner)
    required = rng.choice((None, *LEVELS))
    copies = rng.choice((1, 1, 2)) if sum(k.count for k in kinds) + len(below) <= 1 else 1
    apart = "alone" if required and rng.random() < 0.2 else ""
    preferred = rng.choice((None, *LEVELS))
    return Group(name, tuple(kinds), tuple(below), required, preferred, copies, apart), pods


def plain(nodes: list[Node], *, emptied: bool = False) -> list[Plain]:
    return [
        Plain(tuple(node.labels[level.key] for level in LEVELS), node.total if emptied else node.free) for node in nodes
    ]


def check_placed(placed: tuple[Placed, ...], nodes: list[Node], groups: Sequence[Group]) -> None:
    """The placement itself, checked independently: counts, capacity, and that every pod is where it has to be."""
    by_name = {node.name: node for node in nodes}
    used: dict[str, dict[str, int]] = {}
    pods_placed = 0
    for copy in placed:
        assert sum(count for _, count in copy.nodes) == sum(pods.count for pods in copy.group.pods)
        for name, count in copy.nodes:
            pods_placed += count
            path = tuple(by_name[name].labels[level.key] for level in LEVELS)
            assert path[: len(copy.domain)] == copy.domain
            if copy.group.required:
                assert len(copy.domain) >= LEVELS.index(copy.group.required) + 1
            here = used.setdefault(name, {})
            here["pods"] = here.get("pods", 0) + count
    for name, amounts in used.items():
        assert amounts["pods"] <= by_name[name].free["pods"]
    assert pods_placed == sum(g.total().get("pods", 0) * g.copies for g in groups)


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(60))
def test_verdicts_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        nodes = cluster(rng)
        left = 5
        groups = []
        for number in range(rng.randint(1, 2)):
            one, left = group(rng, f"g{number}", left)
            groups.append(one)
        if sum(g.total().get("pods", 0) * g.copies for g in groups) > 6:
            continue
        verdict = judge(groups, LEVELS, nodes)
        if verdict.kind == "fits":
            check_placed(verdict.placed, nodes, simplified(groups))
        truth = possible(groups, LEVELS, plain(nodes)), possible(groups, LEVELS, plain(nodes, emptied=True))
        assert verdict.kind == ("fits" if truth[0] else "full" if truth[1] else "never"), (groups, nodes)


def test_random_clusters_show_every_kind_of_verdict() -> None:
    seen = set()
    for seed in range(60):
        rng = random.Random(seed)
        seen |= {judge([group(rng, "g", 5)[0]], LEVELS, cluster(rng)).kind for _ in range(25)}
    assert seen == {"fits", "full", "never"}


def test_what_would_take_too_long_to_try_is_unclear() -> None:
    full = {"cpu": 1000, "pods": 9}
    nodes = [Node(f"n{i}", {HOST.key: f"n{i}"}, full, full, (), "cordoned" if i == 12 else "") for i in range(13)]
    # Three pods of each size fill every node to the last: nothing but trying tells whether that can be done.
    sizes = (*range(278, 388, 10), 392)
    pods = tuple(Pods(f"p{size}", 3, (("cpu", size),)) for size in sizes)
    found = judge([Group("g", pods, preferred=HOST)], (HOST,), nodes)
    assert (found.kind, [(step.domains, step.roomy) for step in found.steps]) == ("unclear", [(12, 0)])
    assert found.excluded == (LeftOut(Exclusion(ExclusionKind.OBSTACLE, "cordoned"), ("n12",)),)
    # Where there is too little in total now, nothing has to be tried.
    assert judge([Group("g", pods), Group("h", (Pods("p", 1, (("cpu", 1),)),))], (HOST,), nodes).kind == "full"


def test_a_search_gives_up_after_so_many_steps() -> None:
    nodes, groups = cluster(random.Random(3)), (Group("g", (Pods("p", 1, (("cpu", 1),)),), copies=3),)
    found = [Search(Room(LEVELS, nodes, groups, partial=False), tries).place(groups) for tries in (5, 6)]
    assert [placed and len(placed) for placed in found] == [None, 3]


def test_everything_is_tried_in_so_many_steps() -> None:
    """Two domains looked at, the second with room; four nodes and one way to fill them; those of the packing."""
    total = {"cpu": 2, "pods": 9}
    nodes = [Node(f"n{i}", {RACK.key: "ab"[i // 2]}, {"cpu": i // 2, "pods": 9}, total) for i in range(4)]
    groups = (Group("g", (Pods("p", 2, (("cpu", 1),)),), required=RACK),)
    room = Room((RACK,), nodes, groups, partial=False)
    packed = pack([Bin(i, (1, 9), (True,)) for i in (2, 3)], [(1, 1)], (2,)).steps
    needed = 2 + 1 + len(nodes) + packed
    placed, proved = Exhaustive(room, needed).place(groups)
    assert ([dict(placement.nodes) for placement in placed or ()], proved) == ([{"n2": 1, "n3": 1}], True)
    assert Exhaustive(room, needed - 1).place(groups) == (None, False)
    # With two copies there is no placement: each way to choose is tried.
    two = (replace(groups[0], copies=2),)
    assert Exhaustive(Room((RACK,), nodes, two, partial=False)).place(two) == (None, True)


@each_case("tables/placement.yaml")
def test_pods_are_packed_in_so_many_steps(bins: Any, sizes: list[list[int]], counts: list[int], packing: Any) -> None:
    nodes, packed = msgspec.convert(bins, list[Bin]), msgspec.convert(packing, Packing)
    kinds = tuple(tuple(size) for size in sizes), tuple(counts)
    assert pack(nodes, *kinds, packed.steps) == pack(nodes, *kinds) == packed
    assert pack(nodes, *kinds, packed.steps - 1) == Packing(None, exact=False, steps=packed.steps - 1)


def test_a_search_leaves_the_room_as_it_was() -> None:
    rng = random.Random(7)
    for _ in range(50):
        nodes = cluster(rng)
        one, _ = group(rng, "g", 5)
        room = Room(LEVELS, nodes, [one], partial=False)
        before = (
            [list(x) for x in room.free],
            [list(x) for x in room.slots],
            {k: list(v) for k, v in room.sums.items()},
        )
        Search(room).place([one])
        assert (room.free, room.slots, room.sums) == before
