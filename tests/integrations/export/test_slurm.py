"""Slurm's files, read again by a reader of their own: every node once, every switch once, sizes that Slurm accepts."""

import contextlib
import random
import re
from itertools import product
from typing import Any

import pytest
from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from tests.support.tables import each_case
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import ExportError
from toposcope.integrations.slurm.hostlist import hostlist
from toposcope.integrations.slurm.names import Style, units
from toposcope.integrations.slurm.topology import (
    block_conf,
    block_level,
    blocks,
    inner_levels,
    slurm_names,
    topology_yaml,
    tree,
    tree_conf,
)

KEYS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "nvlink-domain": NVLINK_DOMAIN, "host": HOSTNAME}
LEVELS = tuple(map(Level, KEYS, KEYS.values()))


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


@each_case("tables/integrations-export.yaml")
def test_what_slurm_reads(tree_file: list[str], block_file: list[str], both: list[dict[str, Any]]) -> None:
    assert tree_conf(tree(LEVELS, two_blocks())) == tree_file
    assert block_conf(blocks(LEVELS[:3], two_blocks())) == block_file
    found: list[dict[str, Any]] = topology_yaml("c", tree(LEVELS[:2], two_blocks()), blocks(LEVELS[:3], two_blocks()))
    assert [next(iter(document)) for document in found] == ["topology", "topology"], "must be the first field"
    assert found == both


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


def annotations(table: Table) -> dict[str, str]:
    """What each agent writes, who knows the names of the levels and its own labels."""
    names = slurm_names(LEVELS, table)
    found = {facts.name: units("c", names, facts.name, facts.label) for facts in table}
    return {name: text for name, text in found.items() if text}


@pytest.mark.parametrize("seed", range(80))
def test_slinky_calls_a_node_what_the_file_calls_its_switch_and_its_block(seed: int) -> None:
    table, wanted = random_cluster(seed), dict[str, list[str]]()
    try:
        switches = tree(LEVELS, table)
    except ExportError:
        assert annotations(table) == {}
        return
    groups = None
    with contextlib.suppress(ExportError):
        groups = blocks(LEVELS[: block_level(LEVELS, table) + 1], table)
    listed = set()
    for document in topology_yaml("c", switches, groups):
        _, _, plugin = document
        (parts,) = (value for value in document[plugin].values() if isinstance(value[0], dict))
        for part in parts:
            unit = f"{document['topology']}:{part.get('switch') or part['block']}"
            assert unit not in listed
            listed.add(unit)
            for node in expanded(part.get("nodes", "")):
                wanted.setdefault(node, []).append(unit)
    found = annotations(table)
    for facts in table:
        named = found.get(facts.name, "").split(",")
        in_file = wanted.get(facts.name, [])
        assert set(in_file) <= set(named), "as in the file"
        assert listed.issuperset(filter(None, named)), "and nothing that Slurm does not know"
        alone = set(named) - set(in_file) - {""}
        assert all(unit.startswith("c-block:") for unit in alone), "in a block too small to plan with"


def test_a_name_is_decided_for_the_level_as_a_whole() -> None:
    """Or an agent would have to know all nodes to name its own domain."""
    reused = Table(node(f"n{i:02}", "z", f"b{i // 6}", f"r{i // 3 % 3}") for i in range(12))
    (_, _, rack) = slurm_names(LEVELS[:3], reused).tree
    assert (rack.style, rack.prefixed) == (Style.PATH, False)
    assert {text.rpartition(":")[2] for text in annotations(reused).values()} == {
        "z.b0.r0", "z.b0.r1", "z.b1.r0", "z.b1.r2",
    }  # fmt: skip


@pytest.mark.parametrize(
    "joining", [node("n12", "z", "b1", "r3"), node("m", "z", "b2", "r9"), node("x", "z", "b0", None)]
)
def test_names_do_not_change_when_nodes_come_and_go(joining: NodeFacts) -> None:
    before = two_blocks()
    after = Table([*before, joining])
    gone = Table(facts for facts in before if facts.name != "n00")
    assert slurm_names(LEVELS, after) == slurm_names(LEVELS, gone) == slurm_names(LEVELS, before)


def test_a_node_that_names_its_domain_keeps_its_name_and_has_no_block() -> None:
    domains = {"n1": "n1", "n2": "clique", "n3": "clique"}
    table = Table(node(name, "z", "b", "r", domain) for name, domain in domains.items())
    assert annotations(table) == {
        "n1": "c-tree:nvlink-domain-n1",
        "n2": "c-tree:clique,c-block:clique",
        "n3": "c-tree:clique,c-block:clique",
    }


def test_a_domain_named_after_a_node_elsewhere_gives_the_whole_level_a_prefix() -> None:
    table = Table(node(name, "z", "b", rack) for name, rack in {"n1": "n2", "n2": "n2", "n3": "n4", "n4": "r"}.items())
    (rack,) = slurm_names(LEVELS[2:3], table).tree
    assert rack.prefixed
    assert annotations(table)["n4"] == "c-tree:rack-r,c-block:rack-r"


def test_a_block_of_one_node_is_listed_without_it() -> None:
    table = Table([*two_blocks(), node("m", "z", "b1", "r9")])
    found = blocks(LEVELS[:3], table)
    assert (found.too_small, found.left_out, found.sizes) == (("r9",), ("m",), (3, 6))
    *_, last = topology_yaml("c", tree(LEVELS[:3], table), found)[1]["block"]["blocks"]
    assert last == {"block": "r9"}


def test_levels_of_single_nodes_are_no_switches() -> None:
    assert [level.domain for level in inner_levels(LEVELS, two_blocks())] == ["zone", "block", "rack"]
    alone = tree((LEVELS[-1],), two_blocks())
    assert tree_conf(alone) == ["SwitchName=root Nodes=n[00-11]"]


def test_block_sizes_lie_in_one_domain_above() -> None:
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
