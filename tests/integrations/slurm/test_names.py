"""Slinky's annotation calls a node's switch and block what the files call them, from the node's own labels."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from tests.integrations.slurm.clusters import LEVELS, TO_RACKS, node, random_cluster, two_blocks
from tests.integrations.slurm.reading import expanded
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.names import Style, units
from toposcope.integrations.slurm.topology import block_level, blocks, slurm_names, topology_yaml, tree


def annotations(table: Table) -> dict[str, str]:
    """What each agent writes, which knows the names of the levels and its own labels."""
    names = slurm_names(LEVELS, table)
    texts = {}
    for facts in table:
        text = units("c", names, facts.name, facts.label)
        if text:
            texts[facts.name] = text
    return texts


def nodes_by_unit(documents: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The nodes of each switch and block of a topology.yaml, by the name that the annotation gives it."""
    nodes: dict[str, list[str]] = {}
    for document in documents:
        topology = document["topology"]
        for part in _parts(document):
            name = part.get("switch") or part["block"]
            unit = f"{topology}:{name}"
            assert unit not in nodes, f"{unit} occurs twice"
            hostlist = part.get("nodes", "")
            nodes[unit] = expanded(hostlist)
    return nodes


def _parts(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The switches of a tree, or the blocks of a block topology."""
    if "tree" in document:
        return list(document["tree"]["switches"])
    return list(document["block"]["blocks"])


@pytest.mark.parametrize("seed", range(80))
def test_annotations_of_random_clusters_name_what_the_file_lists(seed: int) -> None:
    table = random_cluster(seed)
    switches = tree(LEVELS, table)
    groups = None
    with contextlib.suppress(ExportError):
        groups = blocks(LEVELS[: block_level(LEVELS, table) + 1], table)

    nodes = nodes_by_unit(topology_yaml("c", switches, groups))
    texts = annotations(table)

    for facts in table:
        annotated = set(filter(None, texts.get(facts.name, "").split(",")))
        in_file = {unit for unit, names in nodes.items() if facts.name in names}
        assert in_file <= annotated, "as in the file"
        assert annotated <= nodes.keys(), "and nothing that Slurm does not know"
        for unit in annotated - in_file:
            assert unit.startswith("c-block:"), "only a block too small to plan with lists no node"


def test_annotations_when_no_node_carries_all_levels_are_none() -> None:
    table = Table(
        [
            node("n1", "b", None),
            node("n2", "b", None),
            node("n3", None, "r"),
            node("n4", None, "r"),
        ]
    )
    assert annotations(table) == {}


def test_style_is_decided_for_the_level_as_a_whole() -> None:
    """Or an agent would have to know all nodes to name its own domain."""
    r0_in_both_blocks = Table(
        [
            node("n0", "b0", "r0"),
            node("n1", "b0", "r0"),
            node("n2", "b0", "r1"),
            node("n3", "b0", "r1"),
            node("n4", "b1", "r2"),
            node("n5", "b1", "r2"),
            node("n6", "b1", "r0"),
            node("n7", "b1", "r0"),
        ]
    )

    zone, block, rack = slurm_names(TO_RACKS, r0_in_both_blocks).tree

    assert zone.style == Style.VALUE
    assert block.style == Style.VALUE
    assert rack.style == Style.PATH
    assert not rack.is_prefixed
    texts = annotations(r0_in_both_blocks)
    assert texts["n0"] == "c-tree:z.b0.r0,c-block:z.b0.r0"
    assert texts["n2"] == "c-tree:z.b0.r1,c-block:z.b0.r1"
    assert texts["n4"] == "c-tree:z.b1.r2,c-block:z.b1.r2"
    assert texts["n6"] == "c-tree:z.b1.r0,c-block:z.b1.r0"


@pytest.mark.parametrize(
    "joining",
    [
        pytest.param(node("n12", "b1", "r3"), id="known-rack"),
        pytest.param(node("m", "b2", "r9"), id="new-block"),
        pytest.param(node("x", "b0", None), id="no-rack"),
    ],
)
def test_names_when_a_node_joins_or_leaves_stay(joining: NodeFacts) -> None:
    before = two_blocks()
    after = Table([*before, joining])
    without_first = Table(facts for facts in before if facts.name != "n00")
    names = slurm_names(LEVELS, before)
    assert slurm_names(LEVELS, after) == names
    assert slurm_names(LEVELS, without_first) == names


def test_domain_of_a_single_node_is_prefixed_and_no_block() -> None:
    table = Table(
        [
            node("n1", "b", "r", nvlink_domain="n1"),
            node("n2", "b", "r", nvlink_domain="clique"),
            node("n3", "b", "r", nvlink_domain="clique"),
        ]
    )
    assert annotations(table) == {
        "n1": "c-tree:nvlink-domain-n1",
        "n2": "c-tree:clique,c-block:clique",
        "n3": "c-tree:clique,c-block:clique",
    }


def test_domain_named_like_another_node_gives_the_level_a_prefix() -> None:
    table = Table(
        [
            node("n1", "b", "n2"),
            node("n2", "b", "n2"),
            node("n3", "b", "n4"),
            node("n4", "b", "r"),
        ]
    )

    (rack,) = slurm_names(LEVELS[2:3], table).tree

    assert rack.is_prefixed
    assert annotations(table)["n4"] == "c-tree:rack-r,c-block:rack-r"
