"""A table that is kept says, after any changes, what a new table of the same nodes says."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.support.cluster import topology
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.informer import Index
from toposcope.controller.node_cache import NodeIndex
from toposcope.topology import live_table
from toposcope.topology.hierarchy import LevelSize, cover, crossings, level_sizes
from toposcope.topology.levels import Level
from toposcope.topology.live_table import LiveTable
from toposcope.topology.node import OWN, Hardware, NodeFacts, node_facts
from toposcope.topology.table import Table, sums

ZONE, BLOCK = "topology.kubernetes.io/zone", "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
LEVELS = tuple(Level(key.rpartition("/")[2], key) for key in (ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME))
SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"pool": "a"}},
    {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
)
TOPOLOGIES = [topology(nodeSelector=selector, required=["rack"]) for selector in SELECTORS]


NOBODY = Table(())


def any_node(dice: random.Random, name: str, mess: float, alike: float = 1.0) -> NodeFacts:
    """`alike`: the share of nodes whose hostname label is their name."""
    rack = dice.randrange(12)
    host = name if dice.random() < alike else dice.choice((f"{name}-host", f"{name}-host", "n1", "n2-host"))
    labels: dict[str, str] = {
        ZONE: f"z{rack // 6}",
        BLOCK: f"b{rack // 3}",
        RACK: f"r{rack}",
        NVLINK_DOMAIN: dice.choice((name, host, f"clique-{rack // 2}.{rack}")),
        HOSTNAME: host,
        GPUS: "8",
    }
    if dice.random() < mess:
        key = dice.choice(tuple(labels))
        # Other nodes' names, placeholders, values of other levels.
        labels[key] = dice.choice(("no-topology", "n1", "n2", "n1-host", "n3-host", "", "r1", "z0", "4"))
    if dice.random() < mess:
        del labels[dice.choice(tuple(labels))]
    labels |= dice.choice(({}, {}, {"pool": "a"}, {"pool": "b"}, {GPU_PRESENT: "true"}))
    keys = tuple(sorted(labels))
    values = tuple(labels[key] for key in keys)
    usable = dice.random() >= mess
    state = dice.choice(("ok", "ok", "ok", "degraded", "unknown")) if dice.random() < mess else "ok"
    spans = labels.get(NVLINK_DOMAIN, "")
    hardware = Hardware(spans if "." in spans else None, f"chassis-{rack}", state, dice.choice((4, 8)))
    return node_facts(name, f"u{name}", keys, values, usable, True, dice.choice((0, 8)), hardware)


def by_name(table: Table, key: str) -> dict[str, str | None]:
    return dict(zip((node.name for node in table), table.values(key), strict=True))


def assessed(nodes: Table) -> list[tuple[Assessment, tuple[LevelSize, ...]]]:
    found = [assess(each, nodes, Absences(), 0.0) for each in TOPOLOGIES]
    return [(replace(each, selected=NOBODY), level_sizes(each.effective.levels, each.selected)) for each in found]


@pytest.mark.parametrize("seed", range(30))
def test_any_sequence_of_changes_ends_where_a_new_table_begins(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(live_table, "_MANY", dice.choice((0, 0, 4)))  # else so small a table is always made anew
    mess, alike = dice.choice((0.0, 0.02, 0.3)), dice.choice((0.0, 0.5, 1.0))
    nodes = {name: any_node(dice, name, mess, alike) for name in (f"n{i}" for i in range(dice.choice((1, 3, 60))))}
    live = LiveTable(dict(nodes) if dice.random() < 0.5 else nodes.values())
    for turn in range(40):
        names = [dice.choice((*nodes, f"n{60 + turn}", "n1")) for _ in range(dice.choice((0, 1, 1, 3, 30)))]
        changes: dict[str, NodeFacts | None] = {}
        for name in names:
            gone = dice.random() < 0.3
            changes[name] = None if gone else any_node(dice, name, mess, alike)
        live.update(changes)
        nodes = {name: node for name, node in (nodes | changes).items() if node is not None}
        fresh = Table(nodes.values())
        if dice.random() < 0.3:
            continue  # several updates between two looks
        assert sorted(live, key=str) == sorted(fresh, key=str)
        assert live.segments == fresh.segments
        assert sums(live.machines()) == sums(fresh.machines()) == Counter(node.hardware for node in live)
        assert sum(live.weights) == len(live) == len(nodes)
        for level in LEVELS:
            kept, new = live.column(level.key), fresh.column(level.key)
            assert (kept.different, kept.missing) == (new.different, new.missing)
            assert (kept.singular, kept.uniform) == (new.singular, new.uniform)
            assert by_name(live, level.key) == by_name(fresh, level.key)
            for other in LEVELS:
                assert live.nests(other.key, level.key) == fresh.nests(other.key, level.key)
                around, again = live.parents(other.key, level.key), fresh.parents(other.key, level.key)
                assert (around is None) == (again is None)
                if around is not None and again is not None:
                    assert all(
                        around[inner] == again[inner] or not OWN.isdisjoint((around[inner], again[inner]))
                        for inner in around.keys() & again.keys()
                    )
        assert cover(LEVELS, live) == cover(LEVELS, fresh)
        assert crossings(LEVELS, live) == crossings(LEVELS, fresh)
        if dice.random() < 0.7:  # topologies come and go
            assert assessed(live) == assessed(fresh)


def test_an_index_gives_the_same_table_brought_up_to_date_and_a_new_one_after_a_new_list() -> None:
    dice = random.Random(1)
    nodes = {f"n{i}": any_node(dice, f"n{i}", 0.0) for i in range(100)}
    told: list[None] = []
    index = NodeIndex(lambda: told.append(None))
    index.replace(nodes)
    first = index.table()
    moved = any_node(dice, "n5", 0.0)
    index.put("n5", moved)
    index.put("n5", moved)  # a heartbeat
    index.gone("n6")
    index.put("n100", any_node(dice, "n100", 0.0))
    assert len(told) == 4
    assert index.table() is first
    assert sorted(first, key=str) == sorted(index.items(), key=str)
    assert index.table() is first
    for i in range(20):
        index.gone(f"n{i}")
    many = index.table()
    assert many is not first
    assert sorted(many, key=str) == sorted(index.items(), key=str)
    index.replace(nodes)
    assert sorted(index.table(), key=str) == sorted(nodes.values(), key=str)
    assert isinstance(index, Index)


def test_a_host_that_another_node_says_in_the_same_breath_is_told_from_it() -> None:
    def node(name: str, host: str, domain: str) -> NodeFacts:
        keys = (NVLINK_DOMAIN, HOSTNAME)
        return node_facts(name, "u", keys, (domain, host), ready=True, schedulable=True, gpus=8)

    live = LiveTable([node(f"n{i}", f"h{i}", f"h{i}") for i in range(3)])
    live.update({"n3": node("n3", "h3", "h4"), "n4": node("n4", "h4", "h4")})
    column = live.column(NVLINK_DOMAIN)
    assert (column.different, column.singular) == (4, False)
    assert by_name(live, NVLINK_DOMAIN) == {"n0": "h0", "n1": "h1", "n2": "h2", "n3": "h4", "n4": "h4"}
