"""Placement against brute force on random tiny clusters."""

import copy
import random
from collections.abc import Sequence

import pytest
from tests.placement.bruteforce import Plain, possible
from tests.support.sampling import slow_after
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, simplified
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.verdict import Placed, UnusableNodes
from toposcope.placement.exhaustive import Exhaustive
from toposcope.placement.pack import Bin, pack
from toposcope.placement.room import Room, RoomNode
from toposcope.placement.search import Search
from toposcope.placement.verdict import judge

BLOCK = Level("block", "example.com/block")
RACK = Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
LEVELS = (BLOCK, RACK, HOST)


def cluster(rng: random.Random) -> list[RoomNode]:
    nodes = []
    for number in range(rng.randint(1, 4)):
        # Rack names are reused in another block: only the path tells them apart.
        labels = {BLOCK.key: rng.choice("xy"), RACK.key: rng.choice("ab"), HOST.key: f"n{number}"}
        total = {"nvidia.com/gpu": rng.randint(0, 6), "cpu": rng.randint(0, 6), "pods": rng.randint(2, 5)}
        free = {resource: amount - rng.randint(0, min(amount, 2)) for resource, amount in total.items()}
        nodes.append(RoomNode(f"n{number}", labels, free, total))
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
    copies = rng.choice((1, 1, 2)) if sum(kind.count for kind in kinds) + len(below) <= 1 else 1
    apart = "alone" if required and rng.random() < 0.2 else ""
    preferred = rng.choice((None, *LEVELS))
    return Group(name, tuple(kinds), tuple(below), required, preferred, copies, apart), pods


def plain(nodes: list[RoomNode], *, emptied: bool = False) -> list[Plain]:
    """The nodes as brute force takes them; `emptied`: with all that they have."""
    plain_nodes = []
    for node in nodes:
        path = tuple(node.labels[level.key] for level in LEVELS)
        plain_nodes.append(Plain(path, node.total if emptied else node.free))
    return plain_nodes


def check_placed(placed: tuple[Placed, ...], nodes: list[RoomNode], groups: Sequence[Group]) -> None:
    """The placement itself, checked independently: counts, capacity, and that every pod is where it has to be."""
    by_name = {node.name: node for node in nodes}
    used: dict[str, dict[str, int]] = {}
    pods_placed = 0
    for placement in placed:
        placed_here = sum(count for _, count in placement.nodes)
        assert placed_here == sum(pods.count for pods in placement.group.pods)
        for name, count in placement.nodes:
            pods_placed += count
            path = tuple(by_name[name].labels[level.key] for level in LEVELS)
            assert path[: len(placement.domain)] == placement.domain
            if placement.group.required:
                assert len(placement.domain) >= LEVELS.index(placement.group.required) + 1
            here = used.setdefault(name, {})
            here["pods"] = here.get("pods", 0) + count
    for name, amounts in used.items():
        assert amounts["pods"] <= by_name[name].free["pods"]
    assert pods_placed == pods_of(groups)


def pods_of(groups: Sequence[Group]) -> int:
    """How many pods all copies have."""
    return sum(group.total().get("pods", 0) * group.copies for group in groups)


@pytest.mark.regression
@pytest.mark.parametrize("seed", slow_after(20, range(60)))
def test_verdicts_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        nodes = cluster(rng)
        left = 5
        groups = []
        for number in range(rng.randint(1, 2)):
            new_group, left = group(rng, f"g{number}", left)
            groups.append(new_group)
        if pods_of(groups) > 6:
            continue
        verdict = judge(groups, LEVELS, nodes)
        if verdict.kind == "fits":
            check_placed(verdict.placed, nodes, simplified(groups))

        if possible(groups, LEVELS, plain(nodes)):
            expected = "fits"
        elif possible(groups, LEVELS, plain(nodes, emptied=True)):
            expected = "full"
        else:
            expected = "never"
        assert verdict.kind == expected, (groups, nodes)


def test_random_clusters_show_every_kind_of_verdict() -> None:
    seen = set()
    for seed in range(60):
        rng = random.Random(seed)
        for _ in range(25):
            judged, _ = group(rng, "g", 5)
            seen.add(judge([judged], LEVELS, cluster(rng)).kind)
    assert seen == {"fits", "full", "never"}


def test_placement_that_takes_too_long_to_try_is_unclear() -> None:
    full = {"cpu": 1000, "pods": 9}
    nodes = [RoomNode(f"n{number}", {HOST.key: f"n{number}"}, full, full) for number in range(12)]
    nodes.append(RoomNode("n12", {HOST.key: "n12"}, full, full, (), "cordoned"))
    # Three pods of each size fill every node to the last: nothing but trying tells whether that can be done.
    sizes = (*range(278, 388, 10), 392)
    pods = tuple(Pods(f"p{size}", 3, (("cpu", size),)) for size in sizes)

    verdict = judge([Group("g", pods, preferred=HOST)], (HOST,), nodes)

    assert verdict.kind == "unclear"
    assert [(step.domains, step.roomy) for step in verdict.steps] == [(12, 0)]
    assert verdict.excluded == (UnusableNodes(Exclusion(ExclusionKind.OBSTACLE, "cordoned"), ("n12",)),)


def test_nothing_is_tried_where_there_is_too_little_in_total() -> None:
    full = {"cpu": 1000, "pods": 9}
    nodes = [RoomNode(f"n{number}", {HOST.key: f"n{number}"}, full, full) for number in range(12)]
    nodes.append(RoomNode("n12", {HOST.key: "n12"}, full, full, (), "cordoned"))
    sizes = (*range(278, 388, 10), 392)
    pods = tuple(Pods(f"p{size}", 3, (("cpu", size),)) for size in sizes)
    one_more = Pods("p", 1, (("cpu", 1),))

    verdict = judge([Group("g", pods), Group("h", (one_more,))], (HOST,), nodes)

    assert verdict.kind == "full"


def test_search_gives_up_after_its_last_step() -> None:
    nodes = cluster(random.Random(3))
    groups = (Group("g", (Pods("p", 1, (("cpu", 1),)),), copies=3),)

    def placed_within(steps: int) -> tuple[Placed, ...] | None:
        return Search(Room(LEVELS, nodes, groups, can_lack_levels=False), steps).place(groups)

    placed = placed_within(6)
    assert placed is not None
    assert len(placed) == 3
    assert placed_within(5) is None


def test_everything_is_tried_in_a_known_number_of_steps() -> None:
    """Two domains looked at, the second with room; four nodes and one way to fill them; those of the packing."""
    total = {"cpu": 2, "pods": 9}
    nodes = []
    for number, (rack, cpu) in enumerate((("a", 0), ("a", 0), ("b", 1), ("b", 1))):
        nodes.append(RoomNode(f"n{number}", {RACK.key: rack}, {"cpu": cpu, "pods": 9}, total))
    pair = Group("g", (Pods("p", 2, (("cpu", 1),)),), required=RACK)
    room = Room((RACK,), nodes, (pair,), can_lack_levels=False)
    free_nodes = [Bin(number, (1, 9), (True,)) for number in (2, 3)]
    steps = 2 + 1 + len(nodes) + pack(free_nodes, [(1, 1)], (2,)).steps

    placed, is_proved = Exhaustive(room, steps).place((pair,))

    assert placed is not None
    assert [dict(placement.nodes) for placement in placed] == [{"n2": 1, "n3": 1}]
    assert is_proved
    assert Exhaustive(room, steps - 1).place((pair,)) == (None, False)


def test_every_choice_is_tried_for_copies_that_do_not_fit() -> None:
    total = {"cpu": 2, "pods": 9}
    nodes = []
    for number, (rack, cpu) in enumerate((("a", 0), ("a", 0), ("b", 1), ("b", 1))):
        nodes.append(RoomNode(f"n{number}", {RACK.key: rack}, {"cpu": cpu, "pods": 9}, total))
    pair = Group("g", (Pods("p", 2, (("cpu", 1),)),), required=RACK, copies=2)
    room = Room((RACK,), nodes, (pair,), can_lack_levels=False)

    assert Exhaustive(room).place((pair,)) == (None, True)


def test_search_leaves_the_room_as_it_was() -> None:
    rng = random.Random(7)
    for _ in range(50):
        nodes = cluster(rng)
        searched, _ = group(rng, "g", 5)
        room = Room(LEVELS, nodes, [searched], can_lack_levels=False)
        before = copy.deepcopy((room.free, room.slots, room.sums))
        Search(room).place([searched])
        assert (room.free, room.slots, room.sums) == before
