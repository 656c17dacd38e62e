"""What KAI's allocation finds for random gangs on random nodes is a placement, and a possible one."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.workloads import GPU, HOST, RACK, ZONE
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.placement import PlacementQuestion
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.verdict import UnusableNodes, Verdict
from toposcope.integrations.kai.allocation import Allocator
from toposcope.integrations.kai.placement import allocated, leaf_of
from toposcope.placement.room import RoomNode
from toposcope.placement.verdict import judge

LEVELS = (ZONE, RACK, HOST)
CASES = 400
CORDONED = (UnusableNodes(Exclusion(ExclusionKind.OBSTACLE, "cordoned"), ("n9",)),)


def node(rng: random.Random, number: int) -> RoomNode:
    total = {GPU: 8, "cpu": rng.choice((16000, 64000)), "pods": 110}
    free = total | {GPU: rng.choice((0, 2, 4, 8, 8)), "cpu": total["cpu"] - rng.choice((0, 8000))}
    labels = {ZONE.key: rng.choice("ab"), RACK.key: rng.choice(("r1", "r2", "r3")), HOST.key: f"n{number}"}
    return RoomNode(f"n{number}", labels, free, total, (), "cordoned" if rng.random() < 0.1 else "")


def pods(rng: random.Random, name: str) -> Pods:
    requests = {"cpu": rng.choice((500, 4000)), GPU: rng.choice((0, 1, 2, 4, 8))}
    return Pods(name, rng.randint(1, 4), tuple((resource, amount) for resource, amount in requests.items() if amount))


def group(rng: random.Random, name: str, depth: int = 2) -> Group:
    required: Level | None = rng.choice((None, None, *LEVELS))
    preferred = rng.choice((None, *LEVELS[LEVELS.index(required) if required else 0 :]))
    if not depth or rng.random() < 0.4:
        kinds = tuple(pods(rng, name) for _ in range(rng.choice((1, 1, 1, 2))))
        return Group(name, kinds, (), required, preferred)
    below = tuple(group(rng, f"{name}-{part}", depth - 1) for part in "abc"[: rng.randint(1, 3)])
    return Group(name, (), below, required, preferred)


def asked(gang: Group, nodes: list[RoomNode], *, at_once: bool = True) -> PlacementQuestion:
    workload = Workload("KAI", "", (gang,), gang=at_once)
    return PlacementQuestion(workload, LEVELS, nodes, ClusterFacts(), own={}, decisions={})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_kai_places_random_gangs_only_where_it_is_possible(seed: int) -> None:
    rng = random.Random(seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    for _ in range(CASES):
        nodes = [node(rng, number) for number in range(rng.randint(1, 10))]
        gang = group(rng, "g")
        allocator = Allocator(LEVELS, [leaf_of(node, LEVELS, emptied=False) for node in nodes])
        failure = allocator.place((gang,))
        verdict = judge((gang,), LEVELS, nodes)
        answer = allocated(verdict, asked(gang, nodes))
        outcomes[answer.kind, failure.why if failure else ""] += 1
        unsure = Verdict("unclear", steps=verdict.steps, excluded=CORDONED)
        found = allocated(unsure, asked(gang, nodes))
        if not gang.groups:
            alone = allocated(unsure, asked(gang, nodes, at_once=False))
            assert sum(count for copy in alone.placed for _, count in copy.nodes) in {0, gang.total()["pods"]}
            assert alone.kind in ({"fits"} if alone.placed else {"full", "never"})
            if some := re.search(r"it binds (\d+) of (\d+) (.*), and the other (\d+) wait", alone.limitation):
                assert int(some[1]) + int(some[4]) == int(some[2])
                assert some[3] == "now" if gang.required is None else some[3].endswith(", where the first pod goes")
        if failure:
            assert answer.kind in {"full", "never"}
            assert (found.kind, bool(found.limitation)) == (answer.kind, True)
            continue
        assert replace(found, placed=()) == replace(unsure, kind="fits")
        counts = Counter[tuple[str, str, Path]]()
        for put in allocator.assignments:
            counts[put.group.name, nodes[put.leaf].name, ()] += put.count
        assert {(of.group.name, name, of.domain): count for of in found.placed for name, count in of.nodes} == counts
        assert (verdict.kind, answer.kind) == ("fits", "fits"), (gang, nodes)
        assert sum(put.count for put in allocator.assignments) == gang.total()["pods"]
        for nested, _ in gang.everything():
            inside = [put.leaf for put in allocator.assignments if put.group.name.startswith(nested.name)]
            depth = LEVELS.index(nested.required) + 1 if nested.required else 0
            assert len({(allocator.leaves[leaf].path or ())[:depth] for leaf in inside}) == 1
        free = [dict(node.free) for node in nodes]
        for put in allocator.assignments:
            assert not nodes[put.leaf].obstacle
            for resource, amount in (("pods", 1), *put.pods.requests):
                free[put.leaf][resource] -= amount * put.count
                assert free[put.leaf][resource] >= 0
    assert {kind for kind, _ in outcomes} == {"fits", "full", "never"}
    assert {why for _, why in outcomes} == {"", "narrower", "largest", "order"}
