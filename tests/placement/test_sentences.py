"""What a refusal says: one need that is more than what there is, in one unit; or that it is not one resource."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.placement.contradictions import contradiction
from tests.placement.judged_groups import GIB, GPU, RACK
from tests.placement.test_search import LEVELS, cluster, group
from tests.support.sampling import slow_after
from toposcope.api.levels import Level
from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.verdict import Best, Lack, LevelStep, Placed, Remedy, Shortage, Verdict
from toposcope.placement.room import RoomNode
from toposcope.placement.sentences import advice, answer, offered, reasoning
from toposcope.placement.shortage import Offer
from toposcope.placement.verdict import judge


def check_shortage(verdict: Verdict, nodes: Sequence[RoomNode], *, emptied: bool) -> None:
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
        amounts = node.total if emptied else node.free
        sums[domain] = sums.get(domain, 0) + amounts.get(shortage.resource, 0)
    assert shortage.needs == shortage.group.total()[shortage.resource]
    assert shortage.largest <= max(sums.values())
    assert sum(there // shortage.needs for there in sums.values()) < shortage.copies or shortage.group.anti_affinity


@pytest.mark.regression
@pytest.mark.parametrize("seed", slow_after(20, range(60)))
def test_refusal_of_random_groups_never_contradicts_itself(seed: int) -> None:
    rng = random.Random(seed)
    seen = 0
    for _ in range(40):
        nodes = cluster(rng)
        left = rng.choice((5, 20))
        groups = []
        for number in range(rng.randint(1, 3)):
            new_group, left = group(rng, f"g{number}", left)
            groups.append(new_group)
        verdict = judge(groups, LEVELS, nodes)
        if verdict.kind in {"full", "never"}:
            seen += 1
            assert not contradiction(answer(verdict)), (answer(verdict), groups, nodes)
            check_shortage(verdict, nodes, emptied=verdict.kind == "never")
    assert seen


@pytest.mark.regression
@pytest.mark.parametrize(
    ("resource", "count", "text"),
    [
        pytest.param(
            "cpu",
            1000,
            "1 CPU core",
            id="one-core",
        ),
        pytest.param(
            "cpu",
            500,
            "0.5 CPU cores",
            id="half-a-core",
        ),
        pytest.param(
            "cpu",
            128_000,
            "128 CPU cores",
            id="cores",
        ),
        pytest.param(
            "memory",
            64 * GIB,
            "64 GiB of memory",
            id="gib",
        ),
        pytest.param(
            "memory",
            GIB,
            "1 GiB of memory",
            id="one-gib",
        ),
        pytest.param(
            "memory",
            1_500_000_000,
            "1.4 GiB of memory",
            id="gib-and-a-part",
        ),
        pytest.param(
            "memory",
            2**20,
            "1 MiB of memory",
            id="one-mib",
        ),
        pytest.param(
            "memory",
            2**10,
            "1 KiB of memory",
            id="one-kib",
        ),
        pytest.param(
            "memory",
            1023,
            "1023 bytes of memory",
            id="bytes",
        ),
        pytest.param(
            "memory",
            300 * 2**20,
            "300 MiB of memory",
            id="mib",
        ),
        pytest.param(
            "ephemeral-storage",
            100 * GIB,
            "100 GiB of ephemeral-storage",
            id="storage",
        ),
        pytest.param(
            "hugepages-2Mi",
            4 * 2**20,
            "4 MiB of hugepages-2Mi",
            id="huge-pages",
        ),
        pytest.param(
            GPU,
            1,
            "1 GPU",
            id="one-gpu",
        ),
        pytest.param(
            "pods",
            2,
            "2 pods",
            id="pods",
        ),
        pytest.param(
            "rdma/ib",
            3,
            "3 rdma/ib",
            id="other-resource",
        ),
    ],
)
def test_amount_is_in_the_units_of_kubectl(resource: str, count: int, text: str) -> None:
    assert amount(resource, count) == text


HOST = Level("host", "h")
G = Group("g")


def short(
    group: Group = G,
    *,
    level: Level | None = RACK,
    counted: Any = "resource",
    resource: str = GPU,
    needs: int = 0,
    largest: int = 0,
    best: tuple[str, ...] = (),
    copies: int = 1,
    room_for: int = 0,
    **more: Any,
) -> Shortage:
    """A shortage of one copy of a group in a rack."""
    return Shortage(group, level, counted, resource, needs, largest, best, copies, room_for, **more)


def refusal(shortage: Shortage) -> str:
    return answer(Verdict("full", shortage=shortage))


def test_offer_of_which_some_is_of_use_says_how_much() -> None:
    offer = Offer("r1", nodes=1, free=9, usable=8)
    assert offered(offer, short(needs=16)) == "r1: 9 GPUs free on 1 node, 8 of them for pods of this size"


def test_offer_of_which_all_is_of_use_is_short() -> None:
    assert offered(Offer("r1", nodes=2, free=8, usable=8), short(needs=16)) == "r1: 8 GPUs free on 2 nodes"


@pytest.mark.parametrize(
    ("free", "usable", "text"),
    [
        pytest.param(
            3 * GIB // 2,
            GIB,
            "r1: 1.5 GiB of memory free on 2 nodes, 1 GiB of it for pods of this size",
            id="gib",
        ),
        pytest.param(
            524_288_000,
            1_000_000,
            "r1: 0.4 GiB of memory free on 2 nodes, 0 GiB of it for pods of this size",
            id="less-than-a-gib",
        ),
    ],
)
def test_offer_of_memory_is_in_one_unit(free: int, usable: int, text: str) -> None:
    shortage = short(resource="memory", needs=2 * GIB)
    assert offered(Offer("r1", nodes=2, free=free, usable=usable), shortage) == text


def test_offer_where_several_resources_are_short_is_of_the_scarcest() -> None:
    shortage = short(counted="several", resource="memory")
    assert offered(Offer("r1", nodes=2, free=1_600_000_000, usable=500_000_000), shortage) == (
        "r1: 1.4 GiB of memory free on 2 nodes, 0.4 GiB of it for pods of this size"
    )


def test_placement_on_many_nodes_names_five() -> None:
    nodes = (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 2))
    verdict = Verdict("fits", placed=(Placed(G, ("r1",), nodes),))

    assert answer(verdict) == "fits: 7 pods on 6 nodes"
    assert list(advice(verdict)) == []
    assert list(reasoning(verdict)) == ["g: 7 pods in r1: a, b, c, d, e and 1 more"]


def test_taints_to_tolerate_are_named_and_written_out_once_each() -> None:
    taint, other = Taint("k", "v", "NoSchedule"), Taint("l", "", "NoExecute")
    remedy = Remedy("tolerate", tuple("abcdefg"), taints=(taint, other, taint, taint, taint, taint))
    verdict = Verdict("unclear", remedies=(remedy,))

    assert answer(verdict) == (
        "unclear: there is enough room in total, but no placement of all groups was found in the time allowed; "
        "the scheduler may find one"
    )
    assert list(advice(verdict)) == [
        (
            "would fit if its pods tolerated taints k=v:NoSchedule, l:NoExecute, k=v:NoSchedule, k=v:NoSchedule, "
            "k=v:NoSchedule and 1 more of 7 nodes: a, b, c, d, e and 2 more"
        ),
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "k", operator: "Equal", value: "v", effect: "NoSchedule"}',
        '    - {key: "l", operator: "Exists", effect: "NoExecute"}',
        *['    - {key: "k", operator: "Equal", value: "v", effect: "NoSchedule"}'] * 4,
    ]
    assert list(reasoning(verdict)) == []


IN_RACK_R1 = Best(RACK, ("x", "r1"), nodes=1, resource=GPU, free=1)
ON_A = Placed(G, (), (("a", 1),))


def test_rooms_that_were_not_all_counted_are_at_least_so_many() -> None:
    step = LevelStep(Group("g", required=RACK), HOST, domains=1, roomy=1)
    verdict = Verdict("fits", roomy=64, is_roomy_exact=False, best=IN_RACK_R1, steps=(step,))

    assert answer(verdict) == "fits: at least 64 racks could take it now, best x/r1 (1 node, 1 free GPU)"
    assert list(advice(verdict)) == []
    assert list(reasoning(verdict)) == ["g prefers to stay in one host: 1 of 1 host has room for it alone"]


def test_one_room_that_was_not_all_counted_is_at_least_one() -> None:
    verdict = Verdict("fits", roomy=1, is_roomy_exact=False, best=IN_RACK_R1)

    assert answer(verdict) == "fits: at least 1 rack could take it now, best x/r1 (1 node, 1 free GPU)"
    assert list(reasoning(verdict)) == []


def test_group_without_pods_is_not_placed() -> None:
    without_pods = Placed(G, ("x",), ())
    verdict = Verdict("fits", placed=(*[ON_A] * 18, without_pods))

    assert list(reasoning(verdict)) == ["g: 1 pod in a"] * 18


def test_placement_of_many_copies_names_twenty() -> None:
    verdict = Verdict("fits", placed=(ON_A,) * 22)

    assert answer(verdict) == "fits: 22 pods on 1 node"
    assert list(reasoning(verdict)) == [*["g: 1 pod in a"] * 20, "and 2 more; -o json shows all"]


def test_remedies_are_named_in_their_order_with_five_nodes_each() -> None:
    sets = short(Group("set of g", own_name="g", part="set"), level=None, needs=4, largest=8, copies=3, room_for=2)
    nodes = tuple("abcdef")
    remedies = (
        Remedy("tolerate", ("a",), taints=(Taint("k", "v", "NoSchedule"),)),
        Remedy("drain", nodes, pods=tuple(f"ml/{name}" for name in nodes)),
        Remedy("open", nodes),
    )
    verdict = Verdict("full", shortage=sets, remedies=remedies)

    assert answer(verdict) == "does not fit now: 3 sets of g each need 4 GPUs; there is room for 2"
    assert list(advice(verdict)) == [
        "would fit if its pods tolerated taint k=v:NoSchedule of 1 node: a",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "k", operator: "Equal", value: "v", effect: "NoSchedule"}',
        (
            "would fit if 6 nodes of the cluster were drained of ml/a, ml/b, ml/c, ml/d, ml/e and 1 more: "
            "a, b, c, d, e and 1 more"
        ),
        "would fit if 6 nodes of the cluster were Ready and not cordoned: a, b, c, d, e and 1 more",
    ]
    assert list(reasoning(verdict)) == []


def test_refusal_without_a_shortage_says_that_there_is_too_little_room() -> None:
    verdict = Verdict("full")

    assert answer(verdict) == "does not fit now: there is too little room"
    assert list(advice(verdict)) == []


def test_limitation_of_the_scheduler_counts_before_what_is_short() -> None:
    shortage = short(level=None, resource="cpu", needs=4, largest=8, copies=3, room_for=2)

    assert answer(Verdict("never", shortage=shortage, limitation="why")) == "cannot fit: why"


def test_copies_that_need_a_rack_each_are_counted() -> None:
    pod_set = Group("pod set of g of h")
    shortage = short(pod_set, resource="memory", needs=1_500_000_000, largest=8, copies=3, room_for=2)

    assert refusal(shortage) == (
        "does not fit now: 3 copies of pod set of g of h each need one rack with 1.4 GiB of memory; there is room for 2"
    )


def test_memory_of_the_largest_rack_is_in_the_unit_of_the_need() -> None:
    shortage = short(resource="memory", needs=3 * GIB, largest=500_000_000, best=("r",))

    assert refusal(shortage) == "does not fit now: g needs 3 GiB of memory in one rack, largest has 0.4 GiB (r)"


def test_memory_of_the_best_node_is_in_the_unit_of_the_need() -> None:
    shortage = short(counted="pod", resource="memory", needs=3 * GIB, largest=500_000_000, best=("a",))

    assert refusal(shortage) == (
        "does not fit now: a pod of g needs 3 GiB of memory, and no node that it may use has more than 0.4 GiB free (a)"
    )


@pytest.mark.parametrize(
    ("inner", "room"),
    [
        pytest.param(
            Group("part of g of h", own_name="g of h", part="part", required=RACK),
            "1 part of g of h",
            id="part",
        ),
        pytest.param(
            Group("h"),
            "1 copy of h",
            id="group",
        ),
    ],
)
def test_room_for_a_smaller_group_is_short(inner: Group, room: str) -> None:
    shortage = short(counted="groups", resource="cpu", needs=1, inner=inner)

    assert refusal(shortage) == (f"does not fit now: g needs room for {room} in one rack, largest has room for none")


def test_what_each_rack_lacks_is_named_by_the_number_of_racks() -> None:
    lacking = (
        Lack("resource", "rdma/ib", 2),
        Lack("resource", "pods", 1),
        Lack("pods", "cpu", 1),
        Lack("groups", "h", 1),
    )
    each = (("cpu", 1000), ("memory", 1024), ("rdma/ib", 2))
    shortage = short(counted="several", resource="cpu", each=each, lacking=lacking)

    assert refusal(shortage) == (
        "does not fit now: g needs 1 CPU core, 1 KiB of memory and 2 rdma/ib in one rack: "
        "2 have too little rdma/ib, 1 has too few pod slots left, 1 has too few nodes with room for such a pod, "
        "1 has too little room for h"
    )
