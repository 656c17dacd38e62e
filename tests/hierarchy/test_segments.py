"""Nodes divide by the levels that they carry, and a selector finds each part again."""

import random

import pytest
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import widely_carried
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts
from toposcope.hierarchy.segments import Segment, divide, whole
from toposcope.hierarchy.table import Table

ZONE = "topology.kubernetes.io/zone"
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
TIER, SPINE = "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"
OCI_RACK = "oci.oraclecloud.com/host.rack_id"
OLD_LEAF = "network.topology.nvidia.com/leaf"
EVERYWHERE = (ZONE, NVLINK_DOMAIN, HOSTNAME)


def node(name: str, gpus: str = "8", **labels: str) -> NodeFacts:
    return facts(name, {**dict.fromkeys(EVERYWHERE, "x"), HOSTNAME: name, GPUS: gpus, **labels})


def facts(name: str, labels: dict[str, str]) -> NodeFacts:
    keys = tuple(sorted(labels))
    values = tuple(labels[key] for key in keys)
    hardware = Hardware(gpus=int(labels.get(GPUS, "8")))
    return node_facts(name, f"uid-{name}", keys, values, ready=True, schedulable=True, gpus=8, hardware=hardware)


def rack(i: int) -> NodeFacts:
    return node(f"h100-{i:02}", **{BLOCK: "b", RACK: f"r{i // 4}"})


def paths(segments: tuple[Segment, ...]) -> list[tuple[str, int, int]]:
    """Of each segment its levels, nodes and GPUs."""
    found = []
    for segment in segments:
        path = " > ".join(level.domain for level in segment.levels)
        found.append((path, segment.nodes, segment.gpus))
    return found


def test_nodes_of_one_kind_are_not_divided() -> None:
    nodes = Table([rack(i) for i in range(4)])
    assert divide(nodes, BUILT_IN, 95) is None
    (only,) = whole(nodes, BUILT_IN, 95).segments
    assert paths((only,)) == [("zone > block > rack > nvlink-domain > host", 4, 32)]
    assert only.own == ()
    assert only.has == ()
    assert only.lacks == ()
    assert only.unlike == {}


def test_two_kinds_of_racks_are_two_segments() -> None:
    """Grove's TAS17: half of the nodes lose the rack level and gain two others."""
    nodes = [
        rack(0),
        rack(1),
        rack(2),
        node("gb200-0", "4", **{TIER: "t", OCI_RACK: "r0"}),
        node("gb200-1", "4", **{TIER: "t", OCI_RACK: "r1"}),
    ]
    found = divide(Table(nodes), BUILT_IN, 95)
    assert found is not None
    assert paths(found.segments) == [
        ("zone > block > rack > nvlink-domain > host", 3, 24),
        ("zone > leaf > rack > nvlink-domain > host", 2, 8),
    ]
    first, second = found.segments
    assert first.own == (Level("block", BLOCK), Level("rack", RACK))
    assert first.has == (BLOCK, RACK)
    assert first.lacks == ()
    assert first.examples == ("h100-00", "h100-01", "h100-02")
    assert second.has == (TIER, OCI_RACK)
    assert second.lacks == ()


def test_nodes_without_a_level_are_a_segment_by_what_they_lack() -> None:
    found = divide(Table([rack(0), rack(1), node("plain-1")]), BUILT_IN, 95)
    assert found is not None
    plain = found.segments[1]
    assert plain.nodes == 1
    assert plain.own == ()
    assert plain.has == ()
    assert plain.lacks == (BLOCK,)  # one key is enough


def test_keys_that_a_segment_lacks_are_in_the_order_of_levels() -> None:
    nodes = [node("plain"), node("a", **{SPINE: "s", RACK: "r"}), node("b", **{RACK: "r"})]
    found = divide(Table(nodes), BUILT_IN, 95)
    assert found is not None
    lacking = {segment.examples[0]: segment.lacks for segment in found.segments}
    assert lacking["plain"] == (SPINE, RACK)


@pytest.mark.parametrize(("lacking", "percent", "segments"), [(5, 95, 1), (5, 96, 2), (6, 95, 2), (6, 94, 1)])
def test_few_nodes_without_a_label_are_no_segment(lacking: int, percent: int, segments: int) -> None:
    nodes = Table([rack(i) if i >= lacking else node(f"bare-{i}", **{BLOCK: "b"}) for i in range(100)])
    found = divide(nodes, BUILT_IN, percent) or whole(nodes, BUILT_IN, percent)
    assert len(found.segments) == segments
    first = found.segments[0]
    assert paths((first,))[0][0] == "zone > block > rack > nvlink-domain > host"
    assert first.nodes == (100 if segments == 1 else 100 - lacking)


def test_few_nodes_with_a_label_of_their_own_are_a_segment() -> None:
    """Three racks of another platform in a cluster of hundreds: another kind of machine, however few."""
    other = [node(f"gb200-{i}", "4", **{TIER: "t", OCI_RACK: "r"}) for i in range(3)]
    found = divide(Table([*map(rack, range(97)), *other]), BUILT_IN, 95)
    assert found is not None
    assert paths(found.segments) == [
        ("zone > block > rack > nvlink-domain > host", 97, 776),
        ("zone > leaf > rack > nvlink-domain > host", 3, 12),
    ]


def test_node_without_a_label_is_in_no_segment_of_those_that_have_it() -> None:
    """Beside another kind that lacks it too, no selector could take it."""
    other = node("gb200", "4", **{TIER: "t"})
    found = divide(Table([*map(rack, range(98)), other, node("bare", **{RACK: "r"})]), BUILT_IN, 95)
    assert found is not None
    assert [segment.nodes for segment in found.segments] == [98, 1, 1]
    assert selects(found.segments[0], rack(0))
    assert not selects(found.segments[0], node("bare", **{RACK: "r"}))


def test_second_key_of_a_level_divides_nothing() -> None:
    """Labels that an older Topograph left behind on some nodes."""
    both = [node(f"a{i}", **{TIER: "t", OLD_LEAF: "l"}) for i in range(2)]
    assert divide(Table([*both, node("b", **{TIER: "t"})]), BUILT_IN, 95) is None
    # All have the old one, which is the only one in common.
    assert divide(Table([*both, node("b", **{OLD_LEAF: "l"})]), BUILT_IN, 95) is None


def test_key_in_effect_stays_the_key() -> None:
    both = [node(f"a{i}", **{TIER: "t", OLD_LEAF: "l"}) for i in range(2)]
    found = divide(Table([*both, node("b", **{OLD_LEAF: "l"})]), BUILT_IN, 95, [Level("leaf", TIER)])
    assert found is not None
    first, second = found.segments
    assert first.has == (TIER,)
    assert first.lacks == ()
    assert second.has == (OLD_LEAF,)
    assert second.lacks == (TIER,)


def test_key_in_effect_that_nearly_all_nodes_carry_divides_nothing() -> None:
    many = [node(f"a{i}", **{TIER: "t", OLD_LEAF: "l"}) for i in range(20)]
    assert divide(Table([*many, node("b", **{TIER: "t"})]), BUILT_IN, 95, [Level("leaf", OLD_LEAF)]) is None


def test_node_that_says_unknown_is_in_no_segment() -> None:
    nodes = [node(f"a{i}", **{TIER: "t"}) for i in range(3)] + [node("b"), node("c", **{TIER: "no-topology"})]
    found = divide(Table(nodes), BUILT_IN, 95)
    assert found is not None
    assert found.doubtful == ("c",)
    assert [(segment.nodes, dict(segment.unlike)) for segment in found.segments] == [
        (3, {TIER: ("no-topology",)}),
        (1, {}),
    ]


def selects(segment: Segment, each: NodeFacts) -> bool:
    """As a scheduler reads the selector made from it."""
    for key in segment.has:
        if each.label(key) is None:
            return False
    for key in segment.lacks:
        if each.label(key) is not None:
            return False
    return not any(each.label(key) in values for key, values in segment.unlike.items())


@pytest.mark.parametrize("seed", range(60))
def test_random_node_is_selected_by_its_own_segment_alone(seed: int) -> None:
    rng = random.Random(seed)
    pool = rng.sample(sorted(BUILT_IN.level_keys - {HOSTNAME}), 7)
    kinds = [rng.sample(pool, rng.randrange(len(pool) + 1)) for _ in range(rng.randrange(1, 6))]
    nodes = []
    for i in range(rng.choice((1, 5, 60, 1500))):
        labels = {key: rng.choice(("x", "y", "z")) for key in rng.choice(kinds)} | {HOSTNAME: f"n{i}"}
        for key in labels:
            if rng.random() < 0.02:
                labels[key] = rng.choice(("no-topology", ""))
        gpus = rng.choice(({GPUS: "4"}, {GPUS: "4"}, {}))
        nodes.append(facts(f"n{i}", labels | gpus))
    table = Table(nodes)
    percent = rng.choice((50, 95, 100))
    usual = widely_carried(BUILT_IN.level_keys, table, percent).keys()
    found = divide(table, BUILT_IN, percent) or whole(table, BUILT_IN, percent)
    assert sum(segment.nodes for segment in found.segments) + len(found.doubtful) == len(nodes)
    if len(found.segments) < 2:
        return
    doubtful = set(found.doubtful)
    for segment in found.segments:
        mine = [node for node in nodes if selects(segment, node) and node.name not in doubtful]
        assert len(mine) == segment.nodes
        assert sum(node.traits.hardware.gpus for node in mine) == segment.gpus
        assert segment.examples == tuple(sorted(node.name for node in mine)[:3])
        assert all({level.key for level in segment.levels} <= {*node.keys, *usual} for node in mine)
    telling = {level.key for segment in found.segments for level in segment.own}
    for node in nodes:
        if node.name in doubtful:
            assert not table.placeholders.isdisjoint(node.values)
        else:
            assert all(node.label(key) not in table.placeholders for key in telling)
