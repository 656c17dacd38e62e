"""Slurm's files, read again by a reader of their own: every node once, every switch once, sizes that Slurm accepts."""

import random
import re
from itertools import product
from typing import Any

import pytest

from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from tests.support.tables import each_case
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.hostlist import hostlist
from toposcope.integrations.slurm.topology import block_conf, blocks, inner_levels, topology_yaml, tree, tree_conf
from toposcope.topology.levels import Level
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table

LEVELS = (
    Level("zone", ZONE),
    Level("block", BLOCK),
    Level("rack", RACK),
    Level("nvlink-domain", NVLINK_DOMAIN),
    Level("host", HOSTNAME),
)


def node(name: str, zone: str, block: str, rack: str | None, clique: str | None = None) -> NodeFacts:
    return gpu_node(name, {"zone": zone, "block": block, "rack": rack, NVLINK_DOMAIN: clique or name})


def two_blocks() -> Table:
    """Two blocks of two racks of three nodes."""
    return Table(node(f"n{i:02}", "z", f"b{i // 6}", f"r{i // 3}") for i in range(12))


def random_cluster(seed: int) -> Table:
    """Names of racks that occur in several blocks, values that are node names, long values, missing labels."""
    rng = random.Random(seed)
    long = "x" * 60
    return Table(
        node(
            f"n{i}",
            f"z{rng.randint(0, 1)}",
            rng.choice(["b1", "b2", "root", f"{long}-b"]),
            rng.choice(["r1", "r2", "n1", long, None]),
            rng.choice(["b1", f"clique-{rng.randint(0, 3)}"]),
        )
        for i in range(rng.randint(1, 40))
    )


def switches_of(lines: list[str]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        words = dict(word.split("=", 1) for word in line.split(" "))
        name = words.pop("SwitchName")
        assert name not in found
        assert len(name) <= 64
        found[name] = {field: expanded(text) for field, text in words.items()}
    return found


def test_a_tree_as_slurm_writes_it() -> None:
    assert tree_conf(tree(LEVELS, two_blocks())) == [
        "SwitchName=r3 Nodes=n[09-11]",
        "SwitchName=r2 Nodes=n[06-08]",
        "SwitchName=r1 Nodes=n[03-05]",
        "SwitchName=r0 Nodes=n[00-02]",
        "SwitchName=b1 Switches=r[2-3]",
        "SwitchName=b0 Switches=r[0-1]",
        "SwitchName=z Switches=b[0-1]",
    ]


@pytest.mark.parametrize("seed", range(80))
def test_every_node_hangs_from_one_switch_and_every_switch_from_the_root(seed: int) -> None:
    table = random_cluster(seed)
    complete = {facts.name for facts in table if all(facts.label(x.key) for x in inner_levels(LEVELS, table))}
    if not complete:
        with pytest.raises(ExportError, match="no node carries all levels"):
            tree(LEVELS, table)
        return
    found = tree(LEVELS, table)
    switches = switches_of(tree_conf(found))
    nodes = [name for switch in switches.values() for name in switch.get("Nodes", ())]
    assert sorted(nodes) == sorted(complete)
    assert complete.isdisjoint(found.left_out)
    assert len(complete) + len(found.left_out) == len(table)
    children = [name for switch in switches.values() for name in switch.get("Switches", ())]
    assert len(children) == len(set(children))
    assert len(switches.keys() - set(children)) == 1, "one root"
    assert switches.keys() >= set(children)
    assert all(("Nodes" in switch) != ("Switches" in switch) for switch in switches.values())
    assert switches.keys().isdisjoint(facts.name for facts in table)


@pytest.mark.parametrize("seed", range(80))
def test_nodes_share_a_leaf_switch_exactly_when_they_share_the_whole_path(seed: int) -> None:
    table = random_cluster(seed)
    levels = inner_levels(LEVELS, table)
    try:
        found = tree(LEVELS, table)
    except ExportError:
        return
    leaf = {name: switch.name for switch in found.switches for name in switch.nodes}
    path = {facts.name: tuple(facts.label(level.key) for level in levels) for facts in table if facts.name in leaf}
    for (one, here), (other, there) in product(leaf.items(), leaf.items()):
        assert (here == there) == (path[one] == path[other])


def test_levels_of_single_nodes_are_no_switches() -> None:
    assert [level.domain for level in inner_levels(LEVELS, two_blocks())] == ["zone", "block", "rack"]
    alone = tree((LEVELS[-1],), two_blocks())
    assert tree_conf(alone) == ["SwitchName=root Nodes=n[00-11]"]


def test_blocks_and_the_sizes_that_lie_in_one_domain_above() -> None:
    found = blocks(LEVELS[:3], two_blocks())
    assert block_conf(found) == [
        "BlockName=r0 Nodes=n[00-02]",
        "BlockName=r1 Nodes=n[03-05]",
        "BlockName=r2 Nodes=n[06-08]",
        "BlockName=r3 Nodes=n[09-11]",
        "BlockSizes=3,6",
    ]
    three = Table(block for block in two_blocks() if block.name < "n09")
    assert blocks(LEVELS[:3], three).sizes == (3, 6)
    odd = Table(block for block in two_blocks() if not "n03" <= block.name < "n06")
    assert blocks(LEVELS[:3], odd).sizes == (3,), "r0 and r2 are in two blocks"


@pytest.mark.parametrize("seed", range(80))
def test_no_block_is_smaller_than_the_base_and_each_size_doubles(seed: int) -> None:
    table = random_cluster(seed)
    size = random.Random(seed).choice([None, 1, 2, 3])
    try:
        found = blocks(LEVELS[:3], table, size)
    except ExportError:
        return
    assert all(len(block.nodes) >= found.sizes[0] for block in found.blocks)
    assert all(b == 2 * a for a, b in zip(found.sizes, found.sizes[1:], strict=False))
    names = [name for block in found.blocks for name in block.nodes]
    assert sorted([*names, *found.left_out]) == sorted(facts.name for facts in table)
    assert len({block.name for block in found.blocks}) == len(found.blocks)


def test_no_block_at_all() -> None:
    with pytest.raises(ExportError, match="no rack has 5 nodes"):
        blocks(LEVELS[:3], two_blocks(), 5)


def test_topology_yaml_holds_both() -> None:
    found: list[dict[str, Any]] = topology_yaml("c", tree(LEVELS[:2], two_blocks()), blocks(LEVELS[:3], two_blocks()))
    assert [next(iter(document)) for document in found] == ["topology", "topology"], "must be the first field"
    assert found == [
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
                "blocks": [{"block": f"r{i}", "nodes": f"n[{i * 3:02}-{i * 3 + 2:02}]"} for i in range(4)],
            },
        },
    ]


def expanded(text: str) -> list[str]:
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        head, bracket, inside = part.partition("[")
        if not bracket:
            names.append(head)
            continue
        for span in inside.rstrip("]").split(","):
            low, dash, high = span.partition("-")
            if not dash:
                names.append(head + low)
            else:
                assert len(high) >= len(low)
                assert int(high) > int(low)
                names += [head + str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return names


@each_case("tables/integrations-export.yaml")
def test_ranges(names: list[str], text: str) -> None:
    assert hostlist(names) == text


@pytest.mark.parametrize("seed", range(300))
def test_every_name_comes_back_once(seed: int) -> None:
    rng = random.Random(seed)
    prefixes = ["n", "node-", "a1b", "x.y", "", "gpu0"][: rng.randint(1, 6)]
    names = {
        rng.choice(prefixes) + str(rng.randint(0, rng.choice([12, 120, 10**12]))).zfill(rng.choice([1, 1, 2, 3]))
        for _ in range(rng.randint(1, 80))
    } | set(rng.sample(["login", "head", "a.b"], rng.randint(0, 3)))
    back = expanded(hostlist(names))
    assert sorted(back) == sorted(names)


def test_a_long_row_is_cut_where_slurm_stops_to_read() -> None:
    text = hostlist(f"n{number}" for number in range(100_000))
    assert text == "n[0-59999,60000-99999]"
