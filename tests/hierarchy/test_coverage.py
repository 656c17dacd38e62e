"""How many nodes carry a level, how they nest, and where values cross."""

from toposcope.api.label_keys import LEAF, LEAF_GROUP, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import LevelSize, cover, crossings, level_sizes, partly_carried, tree, widely_carried
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.hierarchy.table import Table

ZONE = Level("zone", "topology.kubernetes.io/zone")
BLOCK = Level("block", "x/block")
RACK = Level("rack", "x/rack")
HOST = Level("host", "kubernetes.io/hostname")
GROUP_OF_LEAVES = Level("leaf-group", LEAF_GROUP)
LEAF_SWITCH = Level("leaf", LEAF)
NVLINK = Level("nvlink-domain", NVLINK_DOMAIN)


def labelled(name: str, labels: dict[str, str], *, gpus: int = 8) -> NodeFacts:
    """A usable node with these labels."""
    return node_facts(
        name,
        name,
        tuple(labels),
        tuple(labels.values()),
        is_ready=True,
        is_schedulable=True,
        gpus=gpus,
    )


def node(name: str, *, block: str | None = None, rack: str | None = None, gpus: int = 8) -> NodeFacts:
    """A usable node in a block and a rack; None: it lacks the label."""
    labels = {HOST.key: name}
    if block is not None:
        labels[BLOCK.key] = block
    if rack is not None:
        labels[RACK.key] = rack
    return labelled(name, labels, gpus=gpus)


def test_values_with_dots_are_different_domains() -> None:
    """Joined by dots, ("a.b", "c") and ("a", "b.c") would be one domain."""
    nodes = [
        node("n1", block="a.b", rack="c"),
        node("n2", block="a", rack="b.c"),
    ]
    _, rack = cover([BLOCK, RACK], nodes)
    assert rack.domains == 2
    root = tree([BLOCK, RACK], nodes)
    assert len(root.children) == 2


def test_node_with_a_placeholder_lacks_the_level() -> None:
    nodes = [
        node("n1", rack="no-topology"),
        node("n2", rack=""),
    ]
    (rack,) = cover([RACK], nodes)
    assert rack.missing == 2
    assert rack.missing_nodes == ("n1", "n2")
    assert rack.placeholders == " (1 with the placeholder '', 1 with the placeholder 'no-topology')"
    assert widely_carried([RACK.key], nodes, 1) == {}


def test_level_is_partly_carried_when_some_node_names_a_place() -> None:
    in_a_zone = labelled("a", {ZONE.key: "z"})
    in_no_zone = labelled("b", {ZONE.key: "no-topology"})
    levels = partly_carried([], [in_a_zone, in_no_zone], BUILT_IN)
    assert levels == (ZONE,)
    assert partly_carried([], [in_no_zone], BUILT_IN) == ()


def test_tree_counts_nodes_and_gpus_at_every_level() -> None:
    nodes = [
        node("n1", block="b", rack="r1"),
        node("n2", block="b", rack="r2", gpus=4),
        node("n3", block="b"),
    ]
    root = tree([BLOCK, RACK, HOST], nodes)
    assert root.nodes == 3
    assert root.gpus == 20

    block = root.children["b"]
    assert block.nodes == 3
    assert block.gpus == 20
    assert list(block.children) == ["r1", "r2"]

    first, second = block.children.values()
    assert first.nodes == 1
    assert first.gpus == 8
    assert second.nodes == 1
    assert second.gpus == 4


def test_level_of_nodes_without_known_gpus_has_size_none() -> None:
    table = Table(
        [
            node("n1", rack="r"),
            node("n2", rack="r"),
        ]
    )
    in_racks, on_hosts = level_sizes([RACK, HOST], table)
    assert in_racks == LevelSize(RACK, 0, 0)
    assert on_hosts == LevelSize(HOST, 0, 0)


def test_value_under_several_parents_is_named_once_with_two() -> None:
    nodes = [
        node("n1", block="b1", rack="r"),
        node("n2", block="b2", rack="r"),
        node("n3", block="b3", rack="r"),
    ]
    (crossing,) = crossings([BLOCK, RACK, HOST], nodes)
    assert "rack 'r' lies under block 'b1' and 'b2'" in crossing.sentence
    assert crossings([BLOCK, RACK], nodes[:1]) == []


def crossings_of(levels: list[Level], first: str, second: str) -> list[str]:
    """How each crossing of two nodes with these values begins, a word for each level."""
    nodes = []
    for name, words in (("n0", first), ("n1", second)):
        labels = {}
        for level, value in zip(levels, words.split(), strict=True):
            labels[level.key] = value
        nodes.append(labelled(name, labels))
    beginnings = []
    for crossing in crossings(levels, nodes):
        beginning, _, _ = crossing.sentence.partition(";")
        beginnings.append(beginning)
    return beginnings


def test_nvlink_domain_may_span_leaves() -> None:
    levels = [BLOCK, GROUP_OF_LEAVES, LEAF_SWITCH, NVLINK]
    assert crossings_of(levels, "b g1 l1 d", "b g2 l2 d") == []


def test_nvlink_domain_may_span_leaf_groups() -> None:
    levels = [GROUP_OF_LEAVES, NVLINK]
    assert crossings_of(levels, "g1 d", "g2 d") == []


def test_nvlink_domain_may_not_span_blocks() -> None:
    levels = [BLOCK, GROUP_OF_LEAVES, NVLINK]
    (beginning,) = crossings_of(levels, "b1 g1 d", "b2 g2 d")
    assert beginning == "nvlink-domain 'd' lies under block 'b1' and 'b2'"


def test_rack_may_not_span_leaf_groups() -> None:
    levels = [GROUP_OF_LEAVES, RACK, NVLINK]
    (beginning,) = crossings_of(levels, "g1 r d", "g2 r d")
    assert beginning == "rack 'r' lies under leaf-group 'g1' and 'g2'"


FABRIC = Level("fabric", "backend.coreweave.cloud/fabric")
SUPERPOD = Level("block", "backend.coreweave.cloud/superpod")
LEAFGROUP = Level("leaf", "backend.coreweave.cloud/leafgroup")


def in_fabrics(*paths: str) -> list[NodeFacts]:
    """A node for each path of zone, fabric, superpod and leafgroup."""
    nodes = []
    for number, path in enumerate(paths):
        zone, fabric, superpod, leafgroup = path.split("/")
        labels = {ZONE.key: zone, FABRIC.key: fabric, SUPERPOD.key: superpod, LEAFGROUP.key: leafgroup}
        nodes.append(labelled(f"n{number}", labels))
    return nodes


def test_numbers_that_two_fabrics_use_are_reused_at_every_level() -> None:
    """Superpod 1 above both fabrics would be one block in two zones; leaf 0 has one superpod by number, two by path."""
    nodes = in_fabrics("za/FA/1/0", "za/FA/1/1", "zb/FB/1/0", "zb/FB/1/1")

    superpods, leafs = crossings([ZONE, FABRIC, SUPERPOD, LEAFGROUP], nodes)

    assert superpods.is_reused
    assert superpods.sentence.startswith("block '1' lies under fabric 'FA' and 'FB'; ")
    assert "the other way round" not in superpods.sentence
    assert leafs.is_reused
    assert leafs.sentence.startswith("leaf '0' lies under block 'FA/1' and 'FB/1' (2 of 2 values do so); ")


def test_numbers_of_fabrics_in_one_zone_are_reused_too() -> None:
    nodes = in_fabrics("z/FA/1/0", "z/FB/1/0", "z/FC/2/0")

    superpods, leafs = crossings([ZONE, FABRIC, SUPERPOD, LEAFGROUP], nodes)

    assert "the other way round" not in superpods.sentence
    assert leafs.is_reused


def test_leafs_numbered_in_each_fabric_are_reused_in_other_superpods() -> None:
    """Leafs 0 to 3 of a fabric are in one superpod each, in the other fabric in another one."""
    nodes = in_fabrics("z/FA/1/0", "z/FA/1/1", "z/FA/2/2", "z/FA/2/3", "z/FB/1/0", "z/FB/2/1", "z/FB/3/2", "z/FB/3/3")

    _, leafs = crossings([ZONE, FABRIC, SUPERPOD, LEAFGROUP], nodes)

    assert leafs.domain == "leaf"
    assert leafs.is_reused


def test_racks_that_cut_across_most_leafs_are_no_reused_names() -> None:
    """Racks of four nodes, leafs of three: each rack has nodes in two of eight leafs."""
    nodes = []
    for number in range(24):
        nodes.append(labelled(f"n{number}", {LEAFGROUP.key: f"{number // 3}", RACK.key: f"{100 + number // 4}"}))

    (crossed,) = crossings([LEAFGROUP, RACK], nodes)

    assert not crossed.is_reused
    assert "the two levels cut across each other: leave one of them out of spec.levels" in crossed.sentence
