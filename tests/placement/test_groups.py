"""What is said of groups on nodes: whether they fit, what is short, what would help, and where the pods go."""

import pytest
from tests.placement.judged_groups import (
    BLOCK,
    GIB,
    GPU,
    HOST,
    LARGE,
    RACK,
    WHOLE,
    Placed,
    Roomy,
    Short,
    amounts,
    group,
    judge_groups,
    node,
    pods,
)
from toposcope.integrations.framework.node_affinity import Expression, NodeFilter, Taint, Toleration

pytestmark = pytest.mark.regression

ONLY_A = NodeFilter(selector=((HOST.key, "a"),))
ONLY_B_BY_NAME = NodeFilter(terms=((Expression("metadata.name", "In", ("b",), is_field=True),),))
TOLERATES_CORDON = NodeFilter(tolerations=(Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),))


TWO_RACKS = [node("a", "b/r1", LARGE), node("b", "b/r1", LARGE), node("c", "b/r2", LARGE)]
"""Two nodes in rack r1 and one in rack r2 of block b, with eight GPUs each."""

BUSY = [
    node("a", "x/r1", WHOLE),
    node("b", "x/r1", WHOLE, free=amounts(gpus=7, cpu=64_000, pods=110)),
    node("c", "x/r2", WHOLE, free=amounts(gpus=4, cpu=64_000, pods=110)),
    node("d", "x/r2", WHOLE, free=amounts(gpus=1, cpu=32_000, pods=110)),
    node("e", "y/r1", WHOLE, free=amounts(gpus=3, cpu=8_000, pods=110)),
    node("f", "y/r3", WHOLE, obstacle="cordoned"),
    node("g", "y", WHOLE, hostname=None),
]
"""Three racks in two blocks with some GPUs in use; f is cordoned, and g lacks the label of a rack."""

CLOSED = [
    node("a", "x/r1", WHOLE, obstacle="not Ready"),
    node("b", "x/r1", WHOLE, free=amounts(gpus=2, cpu=64_000, pods=110), obstacle="under pressure"),
    node("c", "x/r1", WHOLE, free=amounts(gpus=6, cpu=64_000, pods=110)),
    node("d", "x/r2", WHOLE, obstacle="cordoned"),
    node("d2", "x/r2", WHOLE, obstacle="cordoned"),
    node("d3", "x/r2", WHOLE, free=amounts(gpus=1, pods=110)),
    node("d4", "x/r2", WHOLE, free=amounts(gpus=-1, pods=110)),
    node("e", "x", WHOLE),
    node("t", "x/r1", WHOLE, taints=(Taint("k", "v", "NoSchedule"),)),
    node("u", "x/r1", WHOLE, taints=(Taint("k", "v", "NoSchedule"),)),
]
"""Two racks most nodes of which are closed in some way."""

UNLIKE = [
    node("a", "x/r1", amounts(gpus=8, pods=9)),
    node("b", "x/r2", amounts(gpus=7, pods=9)),
    node("c", "x/r2", amounts(gpus=7, pods=9)),
]
"""A rack of one node with eight GPUs, and one of two nodes with seven."""

FOUR_AND_THREE = [
    node("a", "x/r1", amounts(gpus=4, pods=9)),
    node("b", "x/r1", amounts(gpus=3, pods=9)),
    node("c", "x/r2", amounts(gpus=5, pods=9)),
    node("d", "x/r2", amounts(gpus=2, pods=9)),
]
"""Two racks with seven free GPUs each."""


def test_gpus_of_a_rack_are_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(3, gpus=8), required=RACK))

    assert judged.answer == "cannot fit: g needs 24 GPUs in one rack, largest has 16 (r1)"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=24, largest=16, best="b/r1")


def test_cpu_of_a_node_is_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(2, cpu=64_500, gpus=1), required=RACK))

    assert (
        judged.answer == "cannot fit: a pod of g needs 64.5 CPU cores, and no node that it may use has more than 64 (a)"
    )
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="pod", resource="cpu", needs=64_500, largest=64_000, best="a")


def test_cpu_of_a_rack_is_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(3, cpu=43_500, gpus=1), required=RACK))

    assert judged.answer == "cannot fit: g needs 130.5 CPU cores in one rack, largest has 128 (r1)"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(
        level="rack", counted="resource", resource="cpu", needs=130_500, largest=128_000, best="b/r1"
    )


def test_memory_that_is_short_by_a_byte_is_rounded_up() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, memory=549_755_813_889), required=HOST))

    assert judged.answer == (
        "cannot fit: a pod of g needs 512.1 GiB of memory, and no node that it may use has more than 512 GiB (a)"
    )
    assert judged.said == ["g must stay in one host: 0 of 3 hosts have room for it alone"]
    assert judged.short == Short(
        level="host", counted="pod", resource="memory", needs=549_755_813_889, largest=512 * GIB, best="a"
    )


def test_resource_that_no_node_has_is_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, other={"rdma/ib": 1}), required=RACK))

    assert judged.answer == "cannot fit: a pod of g needs 1 rdma/ib, and no node that it may use has any"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="pod", resource="rdma/ib", needs=1, largest=0, best="a")


def test_gpus_of_all_nodes_are_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(4, gpus=8)))

    assert judged.answer == "cannot fit: g needs 32 GPUs, the nodes it may use have 24"
    assert judged.said == []
    assert judged.short == Short(level=None, counted="resource", resource=GPU, needs=32, largest=24)


def test_nodes_with_room_for_whole_pods_are_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(3, gpus=5), required=RACK))

    assert judged.answer == "cannot fit: g needs room for 3 pods with 5 GPUs in one rack, largest has room for 2 (r1)"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="pods", resource=GPU, needs=3, largest=2, best="b/r1")


def test_nodes_with_room_for_several_resources_are_short() -> None:
    judged = judge_groups(
        [
            node("a", "b/r1", amounts(gpus=1, cpu=64_000, memory=512 * GIB, pods=110)),
            node("b", "b/r1", amounts(gpus=8, cpu=1_000, memory=512 * GIB, pods=110)),
        ],
        group("g", pods(1, cpu=2_000, gpus=2), required=RACK),
    )

    assert judged.answer == (
        "cannot fit: g needs room for 1 pod with 2 GPUs and 2 CPU cores in one rack, largest has room for none"
    )
    assert judged.said == ["g must stay in one rack: 0 of 1 rack have room for it alone"]
    assert judged.short == Short(level="rack", counted="pods", resource=GPU, needs=1, largest=0, best="b/r1")


def test_hosts_for_copies_are_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, memory=GIB, gpus=4), required=HOST, copies=7))

    assert judged.answer == "cannot fit: 7 copies of g each need one host with 4 GPUs; there is room for 6"
    assert judged.said == ["g must stay in one host: 3 of 3 hosts have room for it alone"]
    assert judged.short == Short(
        level="host", counted="resource", resource=GPU, needs=4, largest=8, best="b/r1/a", copies=7, room_for=6
    )


def test_hosts_for_copies_of_a_part_are_counted_once() -> None:
    judged = judge_groups(
        TWO_RACKS, group("all", pods(1, cpu=1_000), group("g", pods(1, gpus=5), required=HOST, copies=4))
    )

    assert judged.answer == "cannot fit: 4 copies of g each need one host with 5 GPUs; there is room for 3"
    assert judged.said == ["g must stay in one host: 3 of 3 hosts have room for it alone"]
    assert judged.short == Short(
        level="host", counted="resource", resource=GPU, needs=5, largest=8, best="b/r1/a", copies=4, room_for=3
    )


def test_racks_for_copies_apart_are_short() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, gpus=1), required=RACK, copies=3, apart="alone"))

    assert judged.answer == "cannot fit: 3 copies of g each need one rack to themselves; there are 2"
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone"]
    assert judged.short == Short(
        level="rack", counted="domains", resource=GPU, needs=1, largest=0, copies=3, room_for=2
    )


def test_hosts_for_slices_in_one_rack_are_short() -> None:
    judged = judge_groups(
        TWO_RACKS,
        group(
            "all",
            group("slice of g", pods(1, gpus=5), required=HOST, copies=3, part="slice", own_name="g"),
            required=RACK,
        ),
    )

    assert judged.answer == (
        "cannot fit: all needs room for 3 slices of g, one host each, in one rack, largest has room for 2 (r1)"
    )
    assert judged.said == [
        "all must stay in one rack: 0 of 2 racks have room for it alone",
        "slice of g must stay in one host: 3 of 3 hosts have room for it alone",
    ]
    assert judged.short == Short(level="rack", counted="groups", resource=GPU, needs=3, largest=2, best="b/r1")


def test_each_rack_lacks_something_else() -> None:
    judged = judge_groups(
        [
            node("a", "b/r1", amounts(gpus=1, cpu=64_000, memory=512 * GIB, pods=110)),
            node("b", "b/r2", amounts(gpus=8, cpu=1_000, memory=512 * GIB, pods=110)),
            node("c", "b/r3", amounts(gpus=8, cpu=1_000, memory=512 * GIB, pods=110)),
        ],
        group("g", pods(1, cpu=2_000, gpus=2), required=RACK),
    )

    assert judged.answer == (
        "cannot fit: g needs 2 GPUs and 2 CPU cores in one rack: 2 have too little CPU, 1 has too few GPUs"
    )
    assert judged.said == ["g must stay in one rack: 0 of 3 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="several", resource=GPU, needs=0, largest=0)


def test_gpus_for_all_groups_together_are_short() -> None:
    judged = judge_groups(
        TWO_RACKS, group("g", pods(2, gpus=8), required=RACK), group("h", pods(1, gpus=8), required=RACK, copies=2)
    )

    assert judged.answer == "cannot fit: all of it needs 32 GPUs, the nodes it may use have 24"
    assert judged.said == [
        "g must stay in one rack: 1 of 2 racks has room for it alone",
        "h must stay in one rack: 2 of 2 racks have room for it alone",
    ]
    assert judged.short == Short(level=None, counted="resource", resource=GPU, needs=32, largest=24)


def test_pods_of_two_sizes_fit_only_in_pieces() -> None:
    judged = judge_groups(
        [
            node("a", "b/r1", amounts(gpus=7, cpu=64_000, memory=512 * GIB, pods=110)),
            node("b", "b/r1", amounts(gpus=6, cpu=64_000, memory=512 * GIB, pods=110)),
        ],
        group("g", pods(1, gpus=5), pods(2, name="q", gpus=4), required=RACK),
    )

    assert judged.answer == (
        "cannot fit: there is enough of everything for g in one rack, but too fragmented for its pods to fit at once"
    )
    assert judged.said == ["g must stay in one rack: 1 of 1 rack has room for it alone"]
    assert judged.short == Short(level="rack", counted="pieces", resource=GPU, needs=0, largest=0)


def test_places_on_nodes_that_a_selector_leaves_are_short() -> None:
    judged = judge_groups(
        [
            node("a", "b/r1", amounts(gpus=8, cpu=64_000, memory=512 * GIB, pods=2)),
            node("b", "b/r1", amounts(gpus=8, cpu=64_000, memory=512 * GIB, pods=2)),
            node("c", "b/r2", amounts(gpus=8, cpu=64_000, memory=512 * GIB, pods=2)),
        ],
        group("g", pods(3, on=ONLY_A), pods(1, gpus=1), required=RACK),
    )

    assert judged.answer == "cannot fit: g needs room for 3 pods in one rack, largest has room for 2 (r1)"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="pods", resource="pods", needs=3, largest=2, best="b/r1")


def test_group_fits_in_the_one_rack_with_room() -> None:
    judged = judge_groups(BUSY, group("g", pods(3, gpus=4), required=RACK))

    assert judged.answer == "fits: rack x/r1 (2 nodes, 15 free GPUs)"
    assert judged.said == [
        "g must stay in one rack: 1 of 3 racks has room for it alone",
        "g: 3 pods in x/r1: b, a",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [Placed("g", "x/r1", {"b": 1, "a": 2})]
    assert judged.roomy == [Roomy("x/r1", nodes=2, free=15)]


def test_group_goes_to_the_rack_with_least_room() -> None:
    judged = judge_groups(BUSY, group("g", pods(2, gpus=1), required=RACK))

    assert judged.answer == "fits: 3 racks could take it now, best y/r1 (1 node, 3 free GPUs)"
    assert judged.said == [
        "g must stay in one rack: 3 of 3 racks have room for it alone",
        "g: 2 pods in y/r1: e",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [Placed("g", "y/r1", {"e": 2})]
    assert judged.roomy == [
        Roomy("y/r1", nodes=1, free=3),
        Roomy("x/r2", nodes=2, free=5),
        Roomy("x/r1", nodes=2, free=15),
    ]


def test_group_goes_to_its_preferred_host() -> None:
    judged = judge_groups(BUSY, group("g", pods(3, cpu=2_000, gpus=1), required=RACK, preferred=HOST))

    assert judged.answer == "fits: 3 racks could take it now, best y/r1 (1 node, 3 free GPUs)"
    assert judged.said == [
        "g must stay in one rack: 3 of 3 racks have room for it alone",
        "g prefers to stay in one host: 4 of 5 hosts have room for it alone",
        "g: 3 pods in e: e",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [Placed("g", "y/r1/e", {"e": 3})]
    assert judged.roomy == [
        Roomy("y/r1", nodes=1, free=3),
        Roomy("x/r2", nodes=2, free=5),
        Roomy("x/r1", nodes=2, free=15),
    ]


def test_group_without_room_on_one_host_goes_to_one_rack() -> None:
    judged = judge_groups(BUSY, group("g", pods(9, gpus=1), preferred=HOST))

    assert judged.answer == "fits: 9 pods on 2 nodes"
    assert judged.said == [
        "g prefers to stay in one host: 0 of 5 hosts have room for it alone",
        "g: 9 pods in x/r1: b, a",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [Placed("g", "x/r1", {"b": 7, "a": 2})]


def test_one_node_drained_would_make_room_in_a_rack() -> None:
    judged = judge_groups(
        BUSY, group("g", pods(1, cpu=8_000, gpus=8), pods(1, name="q", cpu=8_000, gpus=8), required=RACK)
    )

    assert judged.answer == "does not fit now: g needs 16 GPUs in one rack, largest has 15 (x/r1)"
    assert judged.said == [
        "would fit if 1 node of x/r1 were drained: b",
        "g must stay in one rack: 0 of 3 racks have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=16, largest=15, best="x/r1")
    assert judged.remedies == [["drain", GPU]]
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 8 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 0 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == []


def test_one_node_drained_would_make_room_in_a_block() -> None:
    judged = judge_groups(BUSY, group("g", pods(3, cpu=40_000, gpus=5), required=BLOCK))

    assert (
        judged.answer
        == "does not fit now: g needs room for 3 pods with 5 GPUs in one block, largest has room for 2 (x)"
    )
    assert judged.said == [
        "would fit if 1 node of x were drained: c",
        "g must stay in one block: 0 of 2 blocks have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level="block", counted="pods", resource=GPU, needs=3, largest=2, best="x")
    assert judged.remedies == [["drain", GPU]]
    assert judged.offers == [
        "x: 20 GPUs free on 4 nodes, 10 of them for pods of this size",
        "y: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == []


def test_fewest_nodes_opened_or_drained_are_named() -> None:
    judged = judge_groups(CLOSED, group("g", pods(2, gpus=6), required=RACK))

    assert judged.answer == "does not fit now: g needs 12 GPUs in one rack, largest has 6 (r1)"
    assert judged.said == [
        "would fit if 1 node of r1 were Ready and not cordoned: a",
        "would fit if 2 nodes of r2 were drained: d3, d4",
        "g must stay in one rack: 0 of 2 racks have room for it alone",
        "2 nodes are left out: has taint k=v:NoSchedule (t, u)",
        "2 nodes are left out: is cordoned (d, d2)",
        "1 node is left out: is not Ready (a)",
        "1 node is left out: is under pressure (b)",
        "1 node is left out: lacks label example.com/rack (e)",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=12, largest=6, best="x/r1")
    assert judged.remedies == [["open"], ["drain", GPU]]
    assert judged.offers == ["r1: 6 GPUs free on 1 node", "r2: 1 GPU free on 2 nodes, 0 of them for pods of this size"]
    assert judged.roomy == []


def test_node_that_lacks_a_level_takes_pods_without_one() -> None:
    judged = judge_groups(
        CLOSED,
        group("g", pods(1, gpus=6), required=RACK),
        group("h", pods(1, gpus=8, on=TOLERATES_CORDON)),
        partial=True,
    )

    assert judged.answer == "fits: 2 pods on 2 nodes"
    assert judged.said == [
        "g must stay in one rack: 1 of 2 racks has room for it alone",
        "g: 1 pod in r1: c",
        "h: 1 pod in d",
        "2 nodes are left out: has taint k=v:NoSchedule (t, u)",
        "1 node is left out: is not Ready (a)",
        "1 node is left out: is under pressure (b)",
    ]
    assert judged.placed == [Placed("g", "x/r1", {"c": 1}), Placed("h", "", {"d": 1})]
    assert judged.roomy == [Roomy("x/r1", nodes=1, free=6)]


def test_leader_fits_beside_slices_of_its_group() -> None:
    judged = judge_groups(
        BUSY,
        group(
            "g",
            pods(1, name="leader", cpu=1_000),
            pods(2, name="helper", cpu=500),
            group(
                "slice of g",
                pods(2, gpus=2),
                pods(1, name="q", cpu=1_000),
                required=RACK,
                copies=2,
                part="slice",
                own_name="g",
            ),
            required=BLOCK,
        ),
    )

    assert judged.answer == "fits: block x (4 nodes, 20 free GPUs)"
    assert judged.said == [
        "g must stay in one block: 1 of 2 blocks has room for it alone",
        "slice of g must stay in one rack: 2 of 3 racks have room for it alone",
        "slice of g: 3 pods in r2: c, d",
        "slice of g: 3 pods in x/r1: b, a",
        "g: 3 pods in x: d",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [
        Placed("slice of g", "x/r2", {"c": 2, "d": 1}),
        Placed("slice of g", "x/r1", {"b": 2, "a": 1}),
        Placed("g", "x", {"d": 3}),
    ]
    assert judged.roomy == [Roomy("x", nodes=4, free=20)]


def test_copies_apart_go_to_racks_of_their_own() -> None:
    judged = judge_groups(
        BUSY,
        group("g", pods(1, gpus=1), required=RACK, copies=2, apart="alone"),
        group("h", pods(1, gpus=4), preferred=RACK, copies=2),
    )

    assert judged.answer == "fits: 4 pods on 4 nodes"
    assert judged.said == [
        "g must stay in one rack: 3 of 3 racks have room for it alone",
        "h prefers to stay in one rack: 2 of 3 racks have room for it alone",
        "h: 1 pod in r2: c",
        "h: 1 pod in x/r1: b",
        "g: 1 pod in y/r1: e",
        "g: 1 pod in r2: d",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.placed == [
        Placed("h", "x/r2", {"c": 1}),
        Placed("h", "x/r1", {"b": 1}),
        Placed("g", "y/r1", {"e": 1}),
        Placed("g", "x/r2", {"d": 1}),
    ]
    assert judged.roomy == [
        Roomy("y/r1", nodes=1, free=3),
        Roomy("x/r2", nodes=2, free=5),
        Roomy("x/r1", nodes=2, free=15),
    ]


def test_pods_of_one_size_are_drained_like_groups() -> None:
    judged = judge_groups(BUSY, group("g", pods(2, cpu=48_000, gpus=8), required=RACK))

    assert judged.answer == "does not fit now: g needs 16 GPUs in one rack, largest has 15 (x/r1)"
    assert judged.said == [
        "would fit if 1 node of x/r1 were drained: b",
        "g must stay in one rack: 0 of 3 racks have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=16, largest=15, best="x/r1")
    assert judged.remedies == [["drain", GPU]]
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 8 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 0 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == []


def test_some_copies_have_room() -> None:
    judged = judge_groups(BUSY, group("g", pods(1, gpus=7), required=RACK, copies=4))

    assert judged.answer == "does not fit now: 4 copies of g each need one rack with 7 GPUs; there is room for 2"
    assert judged.said == [
        "g must stay in one rack: 1 of 3 racks has room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(
        level="rack", counted="resource", resource=GPU, needs=7, largest=15, best="x/r1", copies=4, room_for=2
    )
    assert judged.remedies == []
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 14 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 0 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == [Roomy("x/r1", nodes=2, free=15)]


def test_some_copies_apart_have_room() -> None:
    judged = judge_groups(BUSY, group("g", pods(1, gpus=4), required=RACK, copies=3, apart="alone"))

    assert judged.answer == "does not fit now: 3 copies of g each need one rack with 4 GPUs; there is room for 2"
    assert judged.said == [
        "g must stay in one rack: 2 of 3 racks have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(
        level="rack", counted="resource", resource=GPU, needs=4, largest=15, best="x/r1", copies=3, room_for=2
    )
    assert judged.remedies == []
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 12 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 4 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == [Roomy("x/r2", nodes=2, free=5), Roomy("x/r1", nodes=2, free=15)]


def test_part_finds_no_room_in_a_block_that_has_enough() -> None:
    judged = judge_groups(
        BUSY,
        group(
            "all",
            group("part of g", pods(2, gpus=6), required=RACK, copies=2, part="part", own_name="g"),
            group("h", pods(1, name="q", cpu=1_000), required=HOST),
            required=BLOCK,
        ),
    )

    assert judged.answer == "does not fit now: 2 parts of g each need one rack with 12 GPUs; there is room for 1"
    assert judged.said == [
        "all must stay in one block: 0 of 2 blocks have room for it alone",
        "part of g must stay in one rack: 1 of 3 racks has room for it alone",
        "h must stay in one host: 5 of 5 hosts have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(
        level="rack", counted="resource", resource=GPU, needs=12, largest=15, best="x/r1", copies=2, room_for=1
    )
    assert judged.remedies == []
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 12 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 0 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]
    assert judged.roomy == []


def test_parts_find_room_in_racks_but_not_in_one_block() -> None:
    judged = judge_groups(
        BUSY,
        group(
            "all",
            group("part of g", pods(2, gpus=3), required=RACK, copies=3, part="part", own_name="g"),
            required=BLOCK,
        ),
    )

    assert judged.answer == "does not fit now: 3 parts of g each need one rack with 6 GPUs; there is room for 2"
    assert judged.said == [
        "all must stay in one block: 0 of 2 blocks have room for it alone",
        "part of g must stay in one rack: 1 of 3 racks has room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(
        level="rack", counted="resource", resource=GPU, needs=6, largest=15, best="x/r1", copies=3, room_for=2
    )
    assert judged.remedies == []
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 12 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 3 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node",
    ]
    assert judged.roomy == []


def test_two_groups_have_too_few_gpus_together() -> None:
    judged = judge_groups(
        BUSY, group("g", pods(2, gpus=7), required=RACK), group("h", pods(2, name="q", gpus=7), required=RACK)
    )

    assert judged.answer == "does not fit now: all of it needs 28 GPUs, the nodes it may use have 23"
    assert judged.said == [
        "g must stay in one rack: 1 of 3 racks has room for it alone",
        "h must stay in one rack: 1 of 3 racks has room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level=None, counted="resource", resource=GPU, needs=28, largest=23)
    assert judged.remedies == []
    assert judged.roomy == [Roomy("x/r1", nodes=2, free=15)]


def test_places_for_pods_are_short() -> None:
    judged = judge_groups(
        [
            node("a", "x/r", amounts(pods=4), free=amounts(pods=2)),
            node("b", "x/r", amounts(pods=4), free=amounts(pods=1), hostname="a"),
        ],
        group("g", pods(4), required=RACK),
    )

    assert judged.answer == "does not fit now: g needs 4 pods in one rack, largest has 3 (r)"
    assert judged.said == [
        "would fit if 1 node of r were drained: b",
        "g must stay in one rack: 0 of 1 rack have room for it alone",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource="pods", needs=4, largest=3, best="x/r")
    assert judged.remedies == [["drain", "pods"]]
    assert judged.offers == ["r: 3 pods free on 2 nodes"]
    assert judged.roomy == []


def test_copies_that_no_host_takes_go_to_a_rack_and_a_block() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(3, gpus=3), preferred=HOST, copies=2))

    assert judged.answer == "fits: 6 pods on 3 nodes"
    assert judged.said == [
        "g prefers to stay in one host: 0 of 3 hosts have room for it alone",
        "g: 3 pods in r1: a, b",
        "g: 3 pods in b: b, c",
    ]
    assert judged.placed == [Placed("g", "b/r1", {"a": 2, "b": 1}), Placed("g", "b", {"b": 1, "c": 2})]


def test_first_group_makes_way_for_the_second() -> None:
    judged = judge_groups(
        UNLIKE,
        group("g", pods(2, gpus=1), required=RACK, apart="alone"),
        group("h", pods(1, name="q", gpus=8), required=RACK, apart="alone"),
    )

    assert judged.answer == "fits: 3 pods on 2 nodes"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "h must stay in one rack: 1 of 2 racks has room for it alone",
        "g: 2 pods in r2: b",
        "h: 1 pod in r1: a",
    ]
    assert judged.placed == [Placed("g", "x/r2", {"b": 2}), Placed("h", "x/r1", {"a": 1})]


def test_groups_with_other_labels_may_share_a_rack() -> None:
    judged = judge_groups(
        UNLIKE,
        group("g", pods(2, gpus=1), required=RACK, apart="alone"),
        group("h", pods(1, name="q", gpus=6), required=RACK, apart="other"),
    )

    assert judged.answer == "fits: 3 pods on 1 node"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "h must stay in one rack: 2 of 2 racks have room for it alone",
        "g: 2 pods in r1: a",
        "h: 1 pod in r1: a",
    ]
    assert judged.placed == [Placed("g", "x/r1", {"a": 2}), Placed("h", "x/r1", {"a": 1})]


def test_pods_of_two_sizes_fit_only_one_way() -> None:
    judged = judge_groups(FOUR_AND_THREE, group("g", pods(2, gpus=2), pods(1, name="q", gpus=3), required=RACK))

    assert judged.answer == "fits: 2 racks could take it now, best r2 (2 nodes, 7 free GPUs)"
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone", "g: 3 pods in r2: c, d"]
    assert judged.placed == [Placed("g", "x/r2", {"c": 2, "d": 1})]
    assert judged.roomy == [Roomy("x/r1", nodes=2, free=7), Roomy("x/r2", nodes=2, free=7)]


def test_rack_that_only_seems_to_have_room_is_left_out() -> None:
    judged = judge_groups(FOUR_AND_THREE, group("g", pods(1, gpus=3), pods(1, name="q", gpus=3, pods=0), required=RACK))

    assert judged.answer == "fits: rack r1 (2 nodes, 7 free GPUs)"
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone", "g: 2 pods in r1: a, b"]
    assert judged.placed == [Placed("g", "x/r1", {"a": 1, "b": 1})]
    assert judged.roomy == [Roomy("x/r1", nodes=2, free=7)]


def test_group_without_pods_fits() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(0, gpus=3), required=RACK))

    assert judged.answer == "fits: 0 pods on 0 nodes"
    assert judged.said == []
    assert judged.placed == []


def test_three_nodes_drained_would_make_room_in_the_cluster() -> None:
    judged = judge_groups(BUSY, group("g", pods(5, cpu=16_000, gpus=5)))

    assert judged.answer == "does not fit now: g needs 25 GPUs, the nodes it may use have 23"
    assert judged.said == [
        "would fit if 3 nodes of the cluster were drained: c, d, e",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level=None, counted="resource", resource=GPU, needs=25, largest=23)
    assert judged.remedies == [["drain", GPU, "cpu"]]


def test_resources_are_named_by_scarcity() -> None:
    judged = judge_groups(
        [
            node(
                "a",
                "x/r1",
                amounts(gpus=1, cpu=9_000, memory=9 * GIB, pods=9, **{"rdma/ib": 9, "ephemeral-storage": 9 * GIB}),
            ),
            node(
                "b",
                "x/r1",
                amounts(gpus=9, cpu=9_000, memory=9 * GIB, pods=9, **{"rdma/ib": 1, "ephemeral-storage": 9 * GIB}),
            ),
        ],
        group(
            "g",
            pods(1, cpu=1_000, memory=GIB, gpus=2, other={"ephemeral-storage": GIB, "rdma/ib": 2, "zap": 0}),
            required=RACK,
        ),
    )

    assert judged.answer == (
        "cannot fit: g needs room for 1 pod with 2 GPUs, 2 rdma/ib, 1 CPU core, 1 GiB of memory and 1 "
        "GiB of ephemeral-storage in one rack, largest has room for none"
    )
    assert judged.said == ["g must stay in one rack: 0 of 1 rack have room for it alone"]
    assert judged.short == Short(level="rack", counted="pods", resource=GPU, needs=1, largest=0, best="x/r1")
    assert judged.roomy == []


def test_racks_apart_are_short_for_pods_without_gpus() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, cpu=1_000, memory=GIB), required=RACK, copies=3, apart="alone"))

    assert judged.answer == "cannot fit: 3 copies of g each need one rack to themselves; there are 2"
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone"]
    assert judged.short == Short(
        level="rack", counted="domains", resource="pods", needs=1, largest=0, copies=3, room_for=2
    )


def test_each_rack_lacks_room_for_another_part() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(gpus=4, pods=9, **{"rdma/ib": 1})),
            node("b", "x/r1", amounts(gpus=4, pods=9, **{"rdma/ib": 1})),
            node("c", "x/r2", amounts(gpus=4, pods=9, **{"rdma/ib": 2})),
            node("d", "x/r2", amounts(gpus=2, pods=9)),
        ],
        group(
            "all",
            group("part of g", pods(1, gpus=3), required=HOST, copies=2, part="part", own_name="g"),
            group("part of h", pods(1, other={"rdma/ib": 2}), required=HOST, part="part", own_name="h"),
            required=RACK,
        ),
    )

    assert judged.answer == (
        "cannot fit: all needs 6 GPUs and 2 rdma/ib in one rack: 1 has too little room for part of g, 1 "
        "has too little room for part of h"
    )
    assert judged.said == [
        "all must stay in one rack: 0 of 2 racks have room for it alone",
        "part of g must stay in one host: 3 of 4 hosts have room for it alone",
        "part of h must stay in one host: 1 of 4 hosts has room for it alone",
    ]
    assert judged.short == Short(level="rack", counted="several", resource=GPU, needs=0, largest=0)


def test_racks_lack_places_or_a_resource() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(gpus=6, cpu=9_000, pods=9)),
            node("b", "x/r1", amounts(gpus=6, cpu=9_000, pods=9)),
            node("c", "x/r2", amounts(gpus=16, cpu=3_000, pods=9)),
        ],
        group("g", pods(3, cpu=2_000, gpus=4), required=RACK),
    )

    assert judged.answer == (
        "cannot fit: g needs 12 GPUs and 6 CPU cores in one rack: 1 has too little CPU, 1 has too few "
        "nodes with room for such a pod"
    )
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="several", resource=GPU, needs=0, largest=0)


def test_resource_of_which_none_is_requested_does_not_count() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, cpu=1_000, gpus=0), required=RACK))

    assert judged.answer == "fits: 2 racks could take it now, best r2 (1 node, 110 free pods)"
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone", "g: 1 pod in r2: c"]
    assert judged.placed == [Placed("g", "b/r2", {"c": 1})]
    assert judged.roomy == [Roomy("b/r2", nodes=1, free=110), Roomy("b/r1", nodes=2, free=220)]


def test_nodes_without_labels_make_no_rack() -> None:
    judged = judge_groups([node("a", "", WHOLE, hostname=None)], group("g", pods(1, gpus=1), required=RACK))

    assert judged.answer == "cannot fit: g needs 1 GPU in one rack, largest has none"
    assert judged.said == [
        "g must stay in one rack: 0 of 0 racks have room for it alone",
        "1 node is left out: lacks label example.com/block (a)",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=1, largest=0)


def test_smaller_group_goes_beside_the_larger() -> None:
    judged = judge_groups(
        [node("a", "x/r1", amounts(gpus=8, pods=9)), node("b", "x/r2", amounts(gpus=8, pods=9))],
        group("g", pods(1, gpus=1), required=RACK),
        group("h", pods(1, name="q", gpus=2), required=RACK),
    )

    assert judged.answer == "fits: 2 pods on 1 node"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "h must stay in one rack: 2 of 2 racks have room for it alone",
        "h: 1 pod in r1: a",
        "g: 1 pod in r1: a",
    ]
    assert judged.placed == [Placed("h", "x/r1", {"a": 1}), Placed("g", "x/r1", {"a": 1})]


def test_places_on_nodes_that_lack_cpu_do_not_count() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(pods=9, cpu=9_000), free=amounts(pods=2, cpu=1_000)),
            node("b", "x/r1", amounts(pods=9, cpu=9_000), free=amounts(pods=1, cpu=9_000)),
        ],
        group("g", pods(4, cpu=1_000), required=RACK),
    )

    assert judged.answer == "does not fit now: g needs 4 pods in one rack, largest has 3 (r1)"
    assert judged.said == [
        "would fit if 1 node of r1 were drained: a",
        "g must stay in one rack: 0 of 1 rack have room for it alone",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource="pods", needs=4, largest=3, best="x/r1")
    assert judged.remedies == [["drain", "pods", "cpu"]]
    assert judged.offers == ["r1: 3 pods free on 2 nodes, 2 of them for pods of this size"]


def test_drain_is_not_advised_for_different_pods() -> None:
    judged = judge_groups(BUSY, group("g", pods(2, gpus=8), pods(1, name="q", cpu=1_000), required=RACK))

    assert judged.answer == "does not fit now: g needs 16 GPUs in one rack, largest has 15 (x/r1)"
    assert judged.said == [
        "g must stay in one rack: 0 of 3 racks have room for it alone",
        "1 node is left out: is cordoned (f)",
        "1 node is left out: lacks label example.com/rack (g)",
    ]
    assert judged.short == Short(level="rack", counted="resource", resource=GPU, needs=16, largest=15, best="x/r1")
    assert judged.remedies == []
    assert judged.offers == [
        "x/r1: 15 GPUs free on 2 nodes, 8 of them for pods of this size",
        "r2: 5 GPUs free on 2 nodes, 0 of them for pods of this size",
        "y/r1: 3 GPUs free on 1 node, 0 of them for pods of this size",
    ]


def test_many_small_pods_find_too_few_nodes() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(gpus=3, cpu=1_000, pods=9)),
            node("b", "x/r1", amounts(gpus=3, cpu=1_000, pods=9)),
            node("c", "x/r1", amounts(gpus=3, cpu=4_000, pods=9)),
            node("d", "x/r2", amounts(gpus=4, cpu=64_000, pods=9)),
        ],
        group("g", pods(2, cpu=4_000, gpus=4), required=RACK),
    )

    assert judged.answer == "cannot fit: g needs room for 2 pods with 4 GPUs in one rack, largest has room for 1 (r2)"
    assert judged.said == ["g must stay in one rack: 0 of 2 racks have room for it alone"]
    assert judged.short == Short(level="rack", counted="pods", resource=GPU, needs=2, largest=1, best="x/r2")


def test_node_affinity_by_name_leaves_one_node() -> None:
    judged = judge_groups(TWO_RACKS, group("g", pods(1, gpus=1, on=ONLY_B_BY_NAME)))

    assert judged.answer == "fits: 1 pod on 1 node"
    assert judged.said == ["g: 1 pod in b", "2 nodes are left out: does not match the node affinity (a, c)"]
    assert judged.placed == [Placed("g", "", {"b": 1})]


def test_node_without_a_free_resource_is_drained() -> None:
    judged = judge_groups(
        [node("a", "x/r1", WHOLE, free=amounts(cpu=64_000, pods=9)), node("b", "x/r2", amounts(gpus=2, pods=9))],
        group("g", pods(1, cpu=1_000, gpus=4), required=RACK),
    )

    assert (
        judged.answer
        == "does not fit now: a pod of g needs 4 GPUs, and no node that it may use has more than 2 free (b)"
    )
    assert judged.said == [
        "would fit if 1 node of r1 were drained: a",
        "g must stay in one rack: 0 of 2 racks have room for it alone",
    ]
    assert judged.short == Short(level="rack", counted="pod", resource=GPU, needs=4, largest=2, best="b")
    assert judged.remedies == [["drain", GPU]]


def test_group_goes_to_a_preferred_host_of_the_tightest_rack() -> None:
    judged = judge_groups(UNLIKE, group("g", pods(2, gpus=4), required=RACK, preferred=HOST))

    assert judged.answer == "fits: 2 racks could take it now, best r1 (1 node, 8 free GPUs)"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "g prefers to stay in one host: 1 of 3 hosts has room for it alone",
        "g: 2 pods in a: a",
    ]
    assert judged.placed == [Placed("g", "x/r1/a", {"a": 2})]


def test_node_that_lacks_a_level_is_drained_for_pods_without_one() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(gpus=8, pods=9), free=amounts(gpus=1, pods=9)),
            node("b", "", amounts(gpus=8, pods=9), free=amounts(gpus=2, pods=9)),
        ],
        group("g", pods(2, gpus=8)),
        partial=True,
    )

    assert (
        judged.answer
        == "does not fit now: a pod of g needs 8 GPUs, and no node that it may use has more than 2 free (b)"
    )
    assert judged.said == ["would fit if 2 nodes of the cluster were drained: a, b"]
    assert judged.short == Short(level=None, counted="pod", resource=GPU, needs=8, largest=2, best="b")
    assert judged.remedies == [["drain", GPU]]


def test_no_nodes_have_no_gpus() -> None:
    judged = judge_groups([], group("g", pods(1, gpus=1)))

    assert judged.answer == "cannot fit: g needs 1 GPU, the nodes it may use have none"
    assert judged.said == []
    assert judged.short == Short(level=None, counted="resource", resource=GPU, needs=1, largest=0)


def test_group_goes_where_another_leaves_the_least() -> None:
    judged = judge_groups(
        [node("a", "x/r1", amounts(gpus=8, pods=9)), node("b", "x/r2", amounts(gpus=10, pods=9))],
        group("g", pods(1, gpus=1), required=RACK),
        group("h", pods(1, name="q", gpus=9), required=RACK),
    )

    assert judged.answer == "fits: 2 pods on 1 node"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "h must stay in one rack: 1 of 2 racks has room for it alone",
        "h: 1 pod in r2: b",
        "g: 1 pod in r2: b",
    ]
    assert judged.placed == [Placed("h", "x/r2", {"b": 1}), Placed("g", "x/r2", {"b": 1})]


def test_pieces_that_a_block_would_take_do_not_fit_in_a_rack() -> None:
    judged = judge_groups(
        [
            node("a", "x/r1", amounts(gpus=7, pods=9)),
            node("b", "x/r1", amounts(gpus=6, pods=9)),
            node("c", "x/r2", amounts(gpus=7, pods=9)),
            node("d", "x/r2", amounts(gpus=6, pods=9)),
        ],
        group("g", pods(1, gpus=5), pods(2, name="q", gpus=4), required=RACK),
    )

    assert judged.answer == (
        "cannot fit: there is enough of everything for g in one rack, but too fragmented for its pods to fit at once"
    )
    assert judged.said == ["g must stay in one rack: 2 of 2 racks have room for it alone"]
    assert judged.placed == []
    assert judged.short == Short(level="rack", counted="pieces", resource=GPU, needs=0, largest=0)


def test_parts_of_a_second_copy_stay_beside_their_own() -> None:
    judged = judge_groups(
        [node("a", "x/r1", amounts(gpus=8, cpu=4_000, pods=9)), node("b", "x/r2", amounts(gpus=8, cpu=4_000, pods=9))],
        group(
            "all",
            pods(1, name="l", cpu=3_000),
            group("part of all", pods(1, gpus=1), required=HOST),
            required=RACK,
            copies=2,
        ),
    )

    assert judged.answer == "fits: 4 pods on 2 nodes"
    assert judged.said == [
        "all must stay in one rack: 2 of 2 racks have room for it alone",
        "part of all must stay in one host: 2 of 2 hosts have room for it alone",
        "part of all: 1 pod in a: a",
        "all: 1 pod in r1: a",
        "part of all: 1 pod in b: b",
        "all: 1 pod in r2: b",
    ]
    assert judged.placed == [
        Placed("part of all", "x/r1/a", {"a": 1}),
        Placed("all", "x/r1", {"a": 1}),
        Placed("part of all", "x/r2/b", {"b": 1}),
        Placed("all", "x/r2", {"b": 1}),
    ]


def test_group_goes_where_another_leaves_the_least_of_gpus() -> None:
    judged = judge_groups(
        [node("a", "x/r1", amounts(gpus=8, cpu=4, pods=9)), node("b", "x/r2", amounts(gpus=10, cpu=4, pods=9))],
        group("g", pods(1, cpu=1), required=RACK),
        group("h", pods(1, name="q", gpus=9), required=RACK),
    )

    assert judged.answer == "fits: 2 pods on 1 node"
    assert judged.said == [
        "g must stay in one rack: 2 of 2 racks have room for it alone",
        "h must stay in one rack: 1 of 2 racks has room for it alone",
        "h: 1 pod in r2: b",
        "g: 1 pod in r2: b",
    ]
    assert judged.placed == [Placed("h", "x/r2", {"b": 1}), Placed("g", "x/r2", {"b": 1})]
