from typing import Any

from toposcope.api.label_keys import LEAF, LEAF_GROUP, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import LevelSize, cover, crossings, level_sizes, partly_carried, tree, widely_carried
from toposcope.hierarchy.node import NodeFacts, node_facts
from toposcope.hierarchy.table import Table

BLOCK, RACK, HOST = Level("block", "x/block"), Level("rack", "x/rack"), Level("host", "kubernetes.io/hostname")
ZONE = Level("zone", "topology.kubernetes.io/zone")


def node(name: str, *, ready: bool = True, gpus: int = 8, **labels: Any) -> NodeFacts:
    labels = {{"block": "x/block", "rack": "x/rack"}[key]: value for key, value in labels.items()}
    labels["kubernetes.io/hostname"] = name
    return node_facts(name, name, tuple(labels), tuple(labels.values()), ready=ready, schedulable=True, gpus=gpus)


def test_dotted_values_do_not_run_together() -> None:
    """Joined by dots, ("a.b", "c") and ("a", "b.c") would be one domain."""
    nodes = [node("n1", block="a.b", rack="c"), node("n2", block="a", rack="b.c")]
    assert cover([BLOCK, RACK], nodes)[1].domains == 2
    assert len(tree([BLOCK, RACK], nodes).children) == 2


def test_a_placeholder_is_no_domain() -> None:
    nodes = [node("n1", rack="no-topology"), node("n2", rack="")]
    (rack,) = cover([RACK], nodes)
    assert (rack.missing, rack.missing_nodes) == (2, ("n1", "n2"))
    assert rack.placeholders == " (1 with the value '', 1 with the value 'no-topology', which names no place)"
    assert widely_carried(["x/rack"], nodes, 1) == {}
    placed, unplaced = (
        node_facts(zone, "", (ZONE.key,), (zone,), ready=True, schedulable=True, gpus=8)
        for zone in ("z", "no-topology")
    )
    assert partly_carried([], [placed, unplaced], BUILT_IN) == (ZONE,)
    assert partly_carried([], [unplaced], BUILT_IN) == ()


def test_the_tree_counts_nodes_and_gpus_at_every_level() -> None:
    nodes = [node("n1", block="b", rack="r1"), node("n2", block="b", rack="r2", gpus=4), node("n3", block="b")]
    root = tree([BLOCK, RACK, HOST], nodes)
    block = root.children["b"]
    assert (root.nodes, root.gpus, block.nodes, block.gpus) == (3, 20, 3, 20)
    assert {name: (rack.nodes, rack.gpus) for name, rack in block.children.items()} == {"r1": (1, 8), "r2": (1, 4)}


def test_a_level_whose_nodes_have_no_gpus_has_none_in_its_largest_domain() -> None:
    nodes = [node("n1", rack="r"), node("n2", rack="r")]
    assert level_sizes([RACK, HOST], Table(nodes)) == (LevelSize(RACK, 0, 0), LevelSize(HOST, 0, 0))


def test_a_value_under_two_parents_is_told_once_with_both() -> None:
    nodes = [node("n1", block="b1", rack="r"), node("n2", block="b2", rack="r"), node("n3", block="b3", rack="r")]
    found = crossings([BLOCK, RACK, HOST], nodes)
    assert len(found) == 1
    assert "rack 'r' lies under block 'b1' and 'b2'" in found[0].sentence
    assert crossings([BLOCK, RACK], nodes[:1]) == []


def test_an_nvlink_domain_may_span_leaves_and_nothing_broader() -> None:
    block, group, leaf, domain = (Level(key, key) for key in ("block", LEAF_GROUP, LEAF, NVLINK_DOMAIN))

    def told(levels: list[Level], *rows: tuple[str, ...]) -> list[str]:
        keys = tuple(level.key for level in levels)
        nodes = [node_facts(f"n{i}", "", keys, row, ready=True, schedulable=True, gpus=8) for i, row in enumerate(rows)]
        return [crossed.sentence.partition(";")[0] for crossed in crossings(levels, nodes)]

    assert told([block, group, leaf, domain], ("b", "g1", "l1", "d"), ("b", "g2", "l2", "d")) == []
    assert told([group, domain], ("g1", "d"), ("g2", "d")) == []
    assert told([block, group, domain], ("b1", "g1", "d"), ("b2", "g2", "d")) == [
        f"{domain.domain} 'd' lies under block 'b1' and 'b2'"
    ]
    assert told([group, RACK, domain], ("g1", "r", "d"), ("g2", "r", "d")) == [
        f"rack 'r' lies under {group.domain} 'g1' and 'g2'"
    ]
