"""Slurm's topology files: every node once, every switch once, sizes that Slurm accepts."""

import random
from itertools import pairwise

import pytest
from tests.integrations.slurm.clusters import LEVELS, TO_BLOCKS, TO_RACKS, node, random_cluster, two_blocks
from tests.integrations.slurm.reading import switches_of
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.topology import block_conf, blocks, inner_levels, topology_yaml, tree, tree_conf


def test_tree_conf_lists_switches_from_the_leaves_up() -> None:
    assert tree_conf(tree(LEVELS, two_blocks())) == [
        "SwitchName=r3 Nodes=n[09-11]",
        "SwitchName=r2 Nodes=n[06-08]",
        "SwitchName=r1 Nodes=n[03-05]",
        "SwitchName=r0 Nodes=n[00-02]",
        "SwitchName=b1 Switches=r[2-3]",
        "SwitchName=b0 Switches=r[0-1]",
        "SwitchName=z Switches=b[0-1]",
    ]


def test_block_conf_lists_blocks_and_their_sizes() -> None:
    assert block_conf(blocks(TO_RACKS, two_blocks())) == [
        "BlockName=r0 Nodes=n[00-02]",
        "BlockName=r1 Nodes=n[03-05]",
        "BlockName=r2 Nodes=n[06-08]",
        "BlockName=r3 Nodes=n[09-11]",
        "BlockSizes=3,6",
    ]


def test_topology_yaml_holds_tree_and_blocks() -> None:
    cluster = two_blocks()
    documents = topology_yaml("c", tree(TO_BLOCKS, cluster), blocks(TO_RACKS, cluster))

    assert documents == [
        {
            "topology": "c-tree",
            "cluster_default": True,
            "tree": {
                "switches": [
                    {"switch": "z", "children": "b[0-1]"},
                    {"switch": "b0", "nodes": "n[00-05]"},
                    {"switch": "b1", "nodes": "n[06-11]"},
                ]
            },
        },
        {
            "topology": "c-block",
            "cluster_default": False,
            "block": {
                "block_sizes": [3, 6],
                "blocks": [
                    {"block": "r0", "nodes": "n[00-02]"},
                    {"block": "r1", "nodes": "n[03-05]"},
                    {"block": "r2", "nodes": "n[06-08]"},
                    {"block": "r3", "nodes": "n[09-11]"},
                ],
            },
        },
    ]
    first_fields = [next(iter(document)) for document in documents]
    assert first_fields == ["topology", "topology"], "must be the first field"


def test_topology_yaml_lists_a_block_too_small_without_its_node() -> None:
    table = Table([*two_blocks(), node("m", "b1", "r9")])

    groups = blocks(TO_RACKS, table)

    assert groups.too_small == ("r9",)
    assert groups.left_out == ("m",)
    assert groups.sizes == (3, 6)
    _, block_document = topology_yaml("c", tree(TO_RACKS, table), groups)
    assert block_document["block"]["blocks"][-1] == {"block": "r9"}


def test_inner_levels_leave_out_levels_of_single_nodes() -> None:
    assert [level.domain for level in inner_levels(LEVELS, two_blocks())] == ["zone", "block", "rack"]


def test_tree_when_every_domain_is_a_node_is_the_root() -> None:
    host_level = LEVELS[-1]
    assert tree_conf(tree((host_level,), two_blocks())) == ["SwitchName=root Nodes=n[00-11]"]


def test_block_sizes_double_within_one_domain_above() -> None:
    three_racks = Table(facts for facts in two_blocks() if facts.name < "n09")
    assert blocks(TO_RACKS, three_racks).sizes == (3, 6)


def test_block_sizes_do_not_span_domains_above() -> None:
    without_r1 = Table(facts for facts in two_blocks() if not "n03" <= facts.name < "n06")
    assert blocks(TO_RACKS, without_r1).sizes == (3,), "r0 and r2 are in two blocks"


def test_blocks_when_none_is_large_enough_is_an_error() -> None:
    with pytest.raises(ExportError, match="no rack has 5 nodes"):
        blocks(TO_RACKS, two_blocks(), 5)


def complete_nodes(table: Table) -> set[str]:
    """The nodes that carry every level of the tree."""
    levels = inner_levels(LEVELS, table)
    return {facts.name for facts in table if all(facts.label(level.key) for level in levels)}


@pytest.mark.parametrize("seed", range(80))
def test_tree_of_random_clusters_has_one_root_and_each_node_once(seed: int) -> None:
    table = random_cluster(seed)
    complete = complete_nodes(table)
    if not complete:
        with pytest.raises(ExportError, match="no node carries all levels"):
            tree(LEVELS, table)
        return

    written = tree(LEVELS, table)

    switches = switches_of(tree_conf(written))
    nodes: list[str] = []
    children: list[str] = []
    for name, fields in switches.items():
        assert set(fields) in ({"Nodes"}, {"Switches"}), name
        nodes += fields.get("Nodes", [])
        children += fields.get("Switches", [])

    assert sorted(nodes) == sorted(complete)
    assert complete.isdisjoint(written.left_out)
    assert len(complete) + len(written.left_out) == len(table)
    assert len(children) == len(set(children))
    assert switches.keys() >= set(children)
    roots = switches.keys() - set(children)
    assert len(roots) == 1
    assert switches.keys().isdisjoint(facts.name for facts in table)


@pytest.mark.parametrize("seed", range(80))
def test_nodes_of_random_clusters_share_a_leaf_switch_by_path(seed: int) -> None:
    table = random_cluster(seed)
    levels = inner_levels(LEVELS, table)
    try:
        switches = tree(LEVELS, table).switches
    except ExportError:
        return

    leaf_of_node = {name: switch.name for switch in switches for name in switch.nodes}
    path_of_node = {}
    for facts in table:
        if facts.name in leaf_of_node:
            path_of_node[facts.name] = tuple(facts.label(level.key) for level in levels)

    for first, first_leaf in leaf_of_node.items():
        for second, second_leaf in leaf_of_node.items():
            shares_path = path_of_node[first] == path_of_node[second]
            assert (first_leaf == second_leaf) == shares_path, (first, second)


@pytest.mark.parametrize("seed", range(80))
def test_blocks_of_random_clusters_reach_the_base_size(seed: int) -> None:
    table = random_cluster(seed)
    base_size = random.Random(seed).choice([None, 1, 2, 3])
    try:
        groups = blocks(TO_RACKS, table, base_size)
    except ExportError:
        return

    for block in groups.blocks:
        assert len(block.nodes) >= groups.sizes[0], block.name
    for smaller, larger in pairwise(groups.sizes):
        assert larger == 2 * smaller
    nodes_in_blocks = [name for block in groups.blocks for name in block.nodes]
    assert sorted([*nodes_in_blocks, *groups.left_out]) == sorted(facts.name for facts in table)
    assert len({block.name for block in groups.blocks}) == len(groups.blocks)
