"""Nodes divide by the levels that they carry, and a selector finds each part again."""

import random

import pytest
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import widely_carried
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts
from toposcope.hierarchy.segments import Segment, Segmentation, divide, whole
from toposcope.hierarchy.table import Table

ZONE = "topology.kubernetes.io/zone"
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
TIER, SPINE = "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"
OCI_RACK = "oci.oraclecloud.com/host.rack_id"
OLD_LEAF = "network.topology.nvidia.com/leaf"
EVERYWHERE = (ZONE, NVLINK_DOMAIN, HOSTNAME)


def node(name: str, gpus: str = "8", **labels: str) -> NodeFacts:
    all_labels = {
        **dict.fromkeys(EVERYWHERE, "x"),
        HOSTNAME: name,
        GPUS: gpus,
        **labels,
    }
    return facts(name, all_labels)


def facts(name: str, labels: dict[str, str]) -> NodeFacts:
    keys = tuple(sorted(labels))
    values = tuple(labels[key] for key in keys)
    gpus = labels.get(GPUS, "8")
    return node_facts(
        name,
        f"uid-{name}",
        keys,
        values,
        is_ready=True,
        is_schedulable=True,
        gpus=8,
        hardware=Hardware(gpus=int(gpus)),
    )


def rack(number: int) -> NodeFacts:
    labels = {
        BLOCK: "b",
        RACK: f"r{number // 4}",
    }
    return node(f"h100-{number:02}", **labels)


def tray(name: str, rack: str) -> NodeFacts:
    """A node with four GPUs in a rack of OCI."""
    labels = {
        TIER: "t",
        OCI_RACK: rack,
    }
    return node(name, "4", **labels)


def paths(segments: tuple[Segment, ...]) -> list[tuple[str, int, int]]:
    """Of each segment its levels, nodes and GPUs."""
    found = []
    for segment in segments:
        path = " > ".join(level.domain for level in segment.levels)
        found.append((path, segment.nodes, segment.gpus))
    return found


def divided(nodes: list[NodeFacts]) -> Segmentation:
    """The segments of nodes of several kinds."""
    found = divide(Table(nodes), BUILT_IN, 95)
    assert found is not None
    return found


def test_nodes_of_one_kind_are_not_divided() -> None:
    table = Table([rack(0), rack(1), rack(2), rack(3)])
    assert divide(table, BUILT_IN, 95) is None
    (only,) = whole(table, BUILT_IN, 95).segments
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
        tray("gb200-0", "r0"),
        tray("gb200-1", "r1"),
    ]
    found = divided(nodes)
    assert paths(found.segments) == [
        ("zone > block > rack > nvlink-domain > host", 3, 24),
        ("zone > leaf > rack > nvlink-domain > host", 2, 8),
    ]
    first, second = found.segments
    block, of_rack = first.own
    assert block == Level("block", BLOCK)
    assert of_rack == Level("rack", RACK)
    assert first.has == (BLOCK, RACK)
    assert first.lacks == ()
    assert first.examples == ("h100-00", "h100-01", "h100-02")
    assert second.has == (TIER, OCI_RACK)
    assert second.lacks == ()


def test_nodes_without_a_level_are_a_segment_by_what_they_lack() -> None:
    nodes = [rack(0), rack(1), node("plain-1")]
    found = divided(nodes)
    plain = found.segments[1]
    assert plain.nodes == 1
    assert plain.own == ()
    assert plain.has == ()
    assert plain.lacks == (BLOCK,)  # one key is enough


def test_keys_that_a_segment_lacks_are_in_the_order_of_levels() -> None:
    nodes = [
        node("plain"),
        node("a", **{SPINE: "s", RACK: "r"}),
        node("b", **{RACK: "r"}),
    ]
    found = divided(nodes)
    lacking = {segment.examples[0]: segment.lacks for segment in found.segments}
    assert lacking["plain"] == (SPINE, RACK)


@pytest.mark.parametrize(("lacking", "percent", "segments"), [(5, 95, 1), (5, 96, 2), (6, 95, 2), (6, 94, 1)])
def test_few_nodes_without_a_label_are_no_segment(lacking: int, percent: int, segments: int) -> None:
    nodes = []
    for number in range(lacking):
        nodes.append(node(f"bare-{number}", **{BLOCK: "b"}))
    for number in range(lacking, 100):
        nodes.append(rack(number))
    table = Table(nodes)

    found = divide(table, BUILT_IN, percent) or whole(table, BUILT_IN, percent)

    assert len(found.segments) == segments
    first = found.segments[0]
    path = [level.domain for level in first.levels]
    assert path == ["zone", "block", "rack", "nvlink-domain", "host"]
    assert first.nodes == (100 if segments == 1 else 100 - lacking)


def test_few_nodes_with_a_label_of_their_own_are_a_segment() -> None:
    """Three racks of another platform in a cluster of hundreds: another kind of machine, however few."""
    nodes = [rack(number) for number in range(97)]
    for name in ("gb200-0", "gb200-1", "gb200-2"):
        nodes.append(tray(name, "r"))

    found = divided(nodes)

    assert paths(found.segments) == [
        ("zone > block > rack > nvlink-domain > host", 97, 776),
        ("zone > leaf > rack > nvlink-domain > host", 3, 12),
    ]


def test_node_without_a_label_is_in_no_segment_of_those_that_have_it() -> None:
    """Beside another kind that lacks it too, no selector could take it."""
    racks = [rack(number) for number in range(98)]
    other = node("gb200", "4", **{TIER: "t"})
    bare = node("bare", **{RACK: "r"})

    found = divided([*racks, other, bare])

    of_racks, second, third = found.segments
    assert of_racks.nodes == 98
    assert second.nodes == 1
    assert third.nodes == 1
    assert selects(of_racks, racks[0])
    assert not selects(of_racks, bare)


WITH_BOTH_KEYS = [
    node("a0", **{TIER: "t", OLD_LEAF: "l"}),
    node("a1", **{TIER: "t", OLD_LEAF: "l"}),
]
"""Labels that an older Topograph left behind."""
WITH_NEW_KEY = node("b", **{TIER: "t"})
WITH_OLD_KEY = node("b", **{OLD_LEAF: "l"})


def test_second_key_of_a_level_divides_nothing() -> None:
    table = Table([*WITH_BOTH_KEYS, WITH_NEW_KEY])
    assert divide(table, BUILT_IN, 95) is None


def test_old_key_that_all_nodes_have_divides_nothing() -> None:
    table = Table([*WITH_BOTH_KEYS, WITH_OLD_KEY])
    assert divide(table, BUILT_IN, 95) is None


def test_key_in_effect_stays_the_key() -> None:
    table = Table([*WITH_BOTH_KEYS, WITH_OLD_KEY])
    in_effect = [Level("leaf", TIER)]

    found = divide(table, BUILT_IN, 95, in_effect)

    assert found is not None
    first, second = found.segments
    assert first.has == (TIER,)
    assert first.lacks == ()
    assert second.has == (OLD_LEAF,)
    assert second.lacks == (TIER,)


def test_key_in_effect_that_nearly_all_nodes_carry_divides_nothing() -> None:
    nodes = []
    for number in range(20):
        nodes.append(node(f"a{number}", **{TIER: "t", OLD_LEAF: "l"}))
    nodes.append(WITH_NEW_KEY)
    in_effect = [Level("leaf", OLD_LEAF)]
    found = divide(Table(nodes), BUILT_IN, 95, in_effect)
    assert found is None


def test_node_that_says_unknown_is_in_no_segment() -> None:
    nodes = [
        node("a0", **{TIER: "t"}),
        node("a1", **{TIER: "t"}),
        node("a2", **{TIER: "t"}),
        node("b"),
        node("c", **{TIER: "no-topology"}),
    ]
    found = divided(nodes)
    assert found.doubtful == ("c",)
    first, second = found.segments
    assert first.nodes == 3
    assert first.unlike == {TIER: ("no-topology",)}
    assert second.nodes == 1
    assert second.unlike == {}


def selects(segment: Segment, each: NodeFacts) -> bool:
    """As a scheduler reads the selector made from it."""
    for key in segment.has:
        if each.label(key) is None:
            return False
    for key in segment.lacks:
        if each.label(key) is not None:
            return False
    for key, values in segment.unlike.items():
        if each.label(key) in values:
            return False
    return True


def any_nodes(rng: random.Random) -> list[NodeFacts]:
    """Nodes of a few kinds; some say that they do not know a level."""
    keys = sorted(BUILT_IN.level_keys - {HOSTNAME})
    pool = rng.sample(keys, 7)
    kinds = []
    for _ in range(rng.randrange(1, 6)):
        count = rng.randrange(len(pool) + 1)
        kinds.append(rng.sample(pool, count))
    nodes = []
    for number in range(rng.choice((1, 5, 60, 1500))):
        name = f"n{number}"
        labels = {}
        for key in rng.choice(kinds):
            labels[key] = rng.choice(("x", "y", "z"))
        labels[HOSTNAME] = name
        for key in labels:
            if rng.random() < 0.02:
                labels[key] = rng.choice(("no-topology", ""))
        if rng.random() < 2 / 3:
            labels[GPUS] = "4"
        nodes.append(facts(name, labels))
    return nodes


@pytest.mark.parametrize("seed", range(60))
def test_random_node_is_selected_by_its_own_segment_alone(seed: int) -> None:
    rng = random.Random(seed)
    nodes = any_nodes(rng)
    table = Table(nodes)
    percent = rng.choice((50, 95, 100))
    carried = widely_carried(BUILT_IN.level_keys, table, percent)

    found = divide(table, BUILT_IN, percent) or whole(table, BUILT_IN, percent)

    in_segments = sum(segment.nodes for segment in found.segments)
    assert in_segments + len(found.doubtful) == len(nodes)
    if len(found.segments) < 2:
        return

    certain = [node for node in nodes if node.name not in found.doubtful]
    for segment in found.segments:
        check_segment(segment, certain, usual=set(carried))
    check_doubtful(found, table, nodes)


def check_doubtful(found: Segmentation, table: Table, nodes: list[NodeFacts]) -> None:
    """A node is in no segment if, and only if, it says of a telling level that it does not know."""
    telling = set()
    for segment in found.segments:
        for level in segment.own:
            telling.add(level.key)
    for node in nodes:
        if node.name in found.doubtful:
            assert not table.placeholders.isdisjoint(node.values)
            continue
        for key in telling:
            assert node.label(key) not in table.placeholders


def check_segment(segment: Segment, nodes: list[NodeFacts], *, usual: set[str]) -> None:
    """Its selector chooses its nodes alone, and these carry its levels."""
    names = []
    gpus = 0
    keys = {level.key for level in segment.levels}
    for node in nodes:
        if not selects(segment, node):
            continue
        names.append(node.name)
        gpus += node.traits.hardware.gpus
        assert keys <= {*node.keys, *usual}
    assert len(names) == segment.nodes
    assert gpus == segment.gpus
    assert segment.examples == tuple(sorted(names)[:3])
