"""What a refusal says: one need that is more than what there is, in one unit; or that it is not one resource."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.placement.test_search import BLOCK, HOST, LEVELS, RACK, cluster, group
from tests.support.tables import each_case
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.placement.room import Node
from toposcope.placement.sentences import amount, answer
from toposcope.placement.verdict import Verdict, judge

GPU = "nvidia.com/gpu"
GIB = 1 << 30
_NUMBER = r"([\d.]+)"
_ONE_NEED = re.compile(
    rf"needs (?:room for )?{_NUMBER} (\S+).*?, (?:largest has|the nodes it may use have) "
    rf"(?:room for )?(?:none|{_NUMBER}(?: (\w+))?)(?: \(\S+\))?$"
)
_POD = re.compile(
    rf"needs {_NUMBER} (\S+).*, and no node that it may use has "
    rf"(?:any|more than {_NUMBER}(?: ([KMG]iB))?)(?: free)?(?: \(\S+\))?$"
)
_COPIES = re.compile(rf"{_NUMBER} \w+ of .* need .*; there (?:is room for|are) {_NUMBER}$")
_IN_ORDER = re.compile(
    rf"there is room for {_NUMBER} of {_NUMBER} (?:pods?|slices?)$|no domain has room for it with its leader$"
)
_NOT_ONE_RESOURCE = re.compile(r"too (?:few|little) [^:]+$|but not where all of its pods fit at once$")


def contradiction(sentence: str) -> str:
    """The sentence, where its numbers fit or it is of no form that is known; empty where it says what lacks."""
    if match := _ONE_NEED.search(sentence) or _POD.search(sentence):
        need, unit, there, other = match.groups()
        same_unit = other in (None, unit)
        return "" if same_unit and float(need) > float(there or 0) else sentence
    if match := _COPIES.search(sentence):
        return "" if float(match[1]) > float(match[2]) else sentence
    if match := _IN_ORDER.search(sentence):
        return "" if match[1] is None or float(match[1]) < float(match[2]) else sentence
    return "" if _NOT_ONE_RESOURCE.search(sentence) else sentence


def check_shortage(verdict: Verdict, nodes: Sequence[Node], *, emptied: bool) -> None:
    """The numbers themselves, added up here once more."""
    shortage = verdict.shortage
    assert shortage
    assert shortage.copies > shortage.room_for
    if shortage.counted != "resource":
        return
    depth = LEVELS.index(shortage.level) + 1 if shortage.level else 0
    sums: dict[tuple[str, ...], int] = {}
    for node in nodes:
        domain = tuple(node.labels[level.key] for level in LEVELS[:depth])
        there = (node.total if emptied else node.free).get(shortage.resource, 0)
        sums[domain] = sums.get(domain, 0) + there
    assert shortage.needs == shortage.group.total()[shortage.resource]
    assert shortage.largest <= max(sums.values())
    assert sum(there // shortage.needs for there in sums.values()) < shortage.copies or shortage.group.anti_affinity


@pytest.mark.parametrize("seed", range(60))
def test_no_refusal_contradicts_itself(seed: int) -> None:
    rng = random.Random(seed)
    seen = 0
    for _ in range(40):
        nodes = cluster(rng)
        left, groups = rng.choice((5, 20)), []
        for number in range(rng.randint(1, 3)):
            one, left = group(rng, f"g{number}", left)
            groups.append(one)
        verdict = judge(groups, LEVELS, nodes)
        if verdict.kind in {"full", "never"}:
            seen += 1
            assert not contradiction(answer(verdict)), (answer(verdict), groups, nodes)
            check_shortage(verdict, nodes, emptied=verdict.kind == "never")
    assert seen


def node(name: str, rack: str, **free: int) -> Node:
    amounts = {"nvidia.com/gpu": 8, "cpu": 64000, "memory": 512 * GIB, "pods": 110} | {
        key.replace("gpu", "nvidia.com/gpu"): value for key, value in free.items()
    }
    return Node(name, {BLOCK.key: "b", RACK.key: rack, HOST.key: name}, amounts, amounts)


def pods(count: int, **each: int) -> Pods:
    return Pods("p", count, tuple(sorted((key.replace("gpu", GPU), value) for key, value in each.items())))


TWO_RACKS = (node("a", "r1"), node("b", "r1"), node("c", "r2"))
SENTENCES = {
    "GPUs": (
        TWO_RACKS,
        [Group("g", (pods(3, gpu=8),), required=RACK)],
        "g needs 24 GPUs in one rack, largest has 16 (r1)",
    ),
    "CPU": (
        TWO_RACKS,
        [Group("g", (pods(2, gpu=1, cpu=64500),), required=RACK)],
        "a pod of g needs 64.5 CPU cores, and no node that it may use has more than 64 (a)",
    ),
    "CPU of a rack": (
        TWO_RACKS,
        [Group("g", (pods(3, gpu=1, cpu=43500),), required=RACK)],
        "g needs 130.5 CPU cores in one rack, largest has 128 (r1)",
    ),
    "memory, where rounding would hide it": (
        TWO_RACKS,
        [Group("g", (pods(1, memory=512 * GIB + 1),), required=HOST)],
        "a pod of g needs 512.1 GiB of memory, and no node that it may use has more than 512 GiB (a)",
    ),
    "another resource": (
        TWO_RACKS,
        [Group("g", (Pods("p", 1, (("rdma/ib", 1),)),), required=RACK)],
        "a pod of g needs 1 rdma/ib, and no node that it may use has any",
    ),
    "no level": (TWO_RACKS, [Group("g", (pods(4, gpu=8),))], "g needs 32 GPUs, the nodes it may use have 24"),
    "whole pods": (
        TWO_RACKS,
        [Group("g", (pods(3, gpu=5),), required=RACK)],
        "g needs room for 3 pods with 5 GPUs in one rack, largest has room for 2 (r1)",
    ),
    "whole pods of several resources": (
        (node("a", "r1", gpu=1), node("b", "r1", cpu=1000)),
        [Group("g", (pods(1, gpu=2, cpu=2000),), required=RACK)],
        "g needs room for 1 pod with 2 GPUs and 2 CPU cores in one rack, largest has room for none",
    ),
    "copies": (
        TWO_RACKS,
        [Group("g", (pods(1, gpu=4, memory=GIB),), required=HOST, copies=7)],
        "7 copies of g need one host each with 4 GPUs; there is room for 6",
    ),
    "copies of a part, counted once": (
        TWO_RACKS,
        [Group("all", (pods(1, cpu=1000),), (Group("g", (pods(1, gpu=5),), required=HOST, copies=4),))],
        "4 copies of g need one host each with 5 GPUs; there is room for 3",
    ),
    "copies apart": (
        TWO_RACKS,
        [Group("g", (pods(1, gpu=1),), required=RACK, copies=3, anti_affinity="alone")],
        "3 copies of g need one rack each to themselves; there are 2",
    ),
    "parts in one domain": (
        TWO_RACKS,
        [Group("all", groups=(Group("slice of g", (pods(1, gpu=5),), required=HOST, copies=3),), required=RACK)],
        "all needs room for 3 slices of g, one host each, in one rack, largest has room for 2 (r1)",
    ),
    "in each rack something else": (
        (node("a", "r1", gpu=1), node("b", "r2", cpu=1000), node("c", "r3", cpu=1000)),
        [Group("g", (pods(1, gpu=2, cpu=2000),), required=RACK)],
        "g needs 2 GPUs and 2 CPU cores in one rack: 2 have too little CPU, 1 has too few GPUs",
    ),
    "all of them together": (
        TWO_RACKS,
        [Group("g", (pods(2, gpu=8),), required=RACK), Group("h", (pods(1, gpu=8),), required=RACK, copies=2)],
        "all of it needs 32 GPUs, the nodes it may use have 24",
    ),
    "pieces": (
        (node("a", "r1", gpu=7), node("b", "r1", gpu=6)),
        [Group("g", (pods(1, gpu=5), Pods("q", 2, ((GPU, 4),))), required=RACK)],
        "there is enough of everything for g in one rack, but not where all of its pods fit at once",
    ),
    "nodes that a selector leaves": (
        tuple(replace(one, free={**one.free, "pods": 2}, total={**one.total, "pods": 2}) for one in TWO_RACKS),
        [Group("g", (Pods("p", 3, (), NodeFilter(selector=((HOST.key, "a"),))), pods(1, gpu=1)), required=RACK)],
        "g needs room for 3 pods in one rack, largest has room for 2 (r1)",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_resource_that_binds_is_named(name: str) -> None:
    nodes, groups, expected = SENTENCES[name]
    verdict = judge(groups, LEVELS, nodes)
    assert answer(verdict) == f"cannot fit: {expected}"
    assert not contradiction(expected)


@each_case("tables/placement.yaml")
def test_amounts_are_in_the_units_of_kubectl(resource: str, count: int, text: str) -> None:
    assert amount(resource, count) == text
