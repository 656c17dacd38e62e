"""Counting in columns finds what counting node by node finds, whatever the nodes carry."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import Coverage, LevelSize, cover, crossings, level_sizes, level_value, widely_carried
from toposcope.hierarchy.node import Hardware, NodeFacts, node_facts
from toposcope.hierarchy.table import Table, table_of, totals

KEYS = ("x/zone", "x/block", "x/rack", "x/nvlink", HOSTNAME)
LEVELS = tuple(Level(key.rpartition("/")[2], key) for key in KEYS)


Values = dict[str, list[str | None]]
"""By key what each node says."""


def plain_cover(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[Coverage, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        paths = set(zip(*(values[above.key] for above in levels[:depth]), strict=True))
        carried = [value is not None for value in values[level.key]]
        missing = sorted(node.name for node, carries in zip(nodes, carried, strict=True) if not carries)
        usable = sum(node.traits.usable for node, carries in zip(nodes, carried, strict=True) if carries)
        domains = sum(path[-1] is not None for path in paths)
        found.append(Coverage(level, domains, sum(carried), usable, len(missing), tuple(missing[:10])))
    return tuple(found)


def plain_crossings(levels: Sequence[Level], values: Values) -> list[tuple[str, str]]:
    """What each sentence begins with, and a word of its advice."""
    found = []
    for broad, narrow in pairwise(levels):
        parents: dict[str, list[str]] = {}
        children: dict[str | None, set[str | None]] = {}
        for inner, outer in zip(values[narrow.key], values[broad.key], strict=True):
            children.setdefault(outer, set()).add(inner)
            if inner is not None and outer is not None and outer not in parents.setdefault(inner, []):
                parents[inner].append(outer)
        several = sorted(inner for inner, outer in parents.items() if len(outer) > 1)
        if several:
            a, b = sorted(parents[several[0]])[:2]
            reverse = all(len(inner) == 1 for inner in children.values())
            word = "other way round" if reverse else "cut across" if 2 * len(several) > len(parents) else "wrong cable"
            many = f" ({len(several)} of {len(parents)} values do so)" if len(several) > 1 else ""
            found.append((f"{narrow.domain} {several[0]!r} lies under {broad.domain} {a!r} and {b!r}{many}; ", word))
    return found


def plain_sizes(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[LevelSize, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        domains: Counter[tuple[str | None, ...]] = Counter()
        for node, *path in zip(nodes, *(values[above.key] for above in levels[:depth]), strict=True):
            if path[-1] is not None:
                domains[tuple(path)] += node.traits.hardware.gpus
        found.append(LevelSize(level, domains.total(), max(domains.values(), default=0)))
    return tuple(found)


def any_nodes(rng: random.Random, count: int) -> list[NodeFacts]:
    """Anything from a tidy tree to labels at random; some keys in another order, some missing, some without truth."""
    chaos = rng.choice((0.0, 0.0, 0.01, 0.3))
    gaps = rng.choice((0.0, 0.0, 0.01, 0.3))
    width = rng.choice((1, 2, 5))
    host = rng.choice(("n", "n", "h", "N"))
    domain = rng.choice(("d", "n", host)) if width == 1 else "d"
    nodes = []
    for i in range(count):
        labels = {HOSTNAME: f"{host}{i}", "x/nvlink": f"{domain}{i // width}", "x/rack": f"r{i // (2 * width)}"}
        labels |= {"x/block": f"b{i // (8 * width)}", "x/zone": f"z{i // (64 * width)}"}
        for key in KEYS:
            if rng.random() < chaos:
                labels[key] = rng.choice(("a", "b", "c", "n1", "h2", "", "no-topology"))
            if rng.random() < gaps:
                del labels[key]
        if rng.random() < gaps:
            labels = dict(rng.sample(sorted(labels.items()), len(labels)))
        ready, schedulable = rng.random() >= gaps, rng.random() >= gaps
        hardware = Hardware(gpus=rng.choice((8, 8, 4, 16, 0)) if rng.random() < gaps else 8)
        keys, values = tuple(labels), tuple(labels.values())
        nodes.append(
            node_facts(f"n{i}", f"u{i}", keys, values, ready=ready, schedulable=schedulable, gpus=8, hardware=hardware)
        )
    if rng.random() < 0.5:
        rng.shuffle(nodes)
    return nodes


@pytest.mark.parametrize("seed", range(20))
def test_columns_find_what_nodes_say(seed: int) -> None:
    rng = random.Random(seed)
    for count in (0, 1, 2, 3, *(rng.randrange(4, 200) for _ in range(6)), 1023, 1024, 1025, 2500):
        nodes = any_nodes(rng, count)
        levels = rng.choice((LEVELS, LEVELS[::2], tuple(rng.sample(LEVELS, rng.randrange(1, 6)))))
        values = {key: [level_value(node, key) for node in nodes] for key in KEYS}
        table = Table(nodes)
        assert cover(levels, nodes) == plain_cover(levels, nodes, values)
        assert level_sizes(levels, table) == plain_sizes(levels, nodes, values)
        told = crossings(levels, table)
        for (*_, sentence), (beginning, word) in zip(told, plain_crossings(levels, values), strict=True):
            assert sentence.startswith(beginning)
            assert word in sentence
        carrying = {key: sum(value is not None for value in values[key]) for key in KEYS}
        for percent in (1, 50, 95, 100):
            wide = {key: count for key, count in carrying.items() if count and count / len(nodes) >= percent / 100}
            assert widely_carried([*KEYS, "x/other"], table, percent) == wide


def test_a_table_of_a_table_is_the_table() -> None:
    table = Table([node_facts("n1", "u1", ("a",), ("1",), ready=True, schedulable=True, gpus=8)])
    assert table_of(table) is table
    assert table.parents("a", "a") == {"1": "1"}
    assert table.column("a") is table.column("a")


@pytest.mark.parametrize("seed", range(4))
def test_nodes_by_name_are_counted_as_nodes_in_a_row(seed: int) -> None:
    rng = random.Random(seed)
    for count in (0, 1, 7, 300):
        nodes = any_nodes(rng, count)
        named, listed = Table({node.name: node for node in nodes}), Table(nodes)
        assert (list(named), named.key_sets) == (list(listed), listed.key_sets)
        assert (named.groups, named.weights, named.usable) == (listed.groups, listed.weights, listed.usable)
        assert sum(named.usable) == sum(node.traits.usable for node in nodes)
        assert totals(named.machines) == Counter(node.traits.hardware for node in nodes)
        for key in KEYS:
            assert named.values(key) == [level_value(node, key) for node in nodes]
            assert named.distinct(key) == set(named.labels(key))


def test_nodes_that_differ_in_their_names_only_are_one_kind() -> None:
    nodes = [
        node_facts(f"n{i}", "u", ("host", "rack"), (f"n{i}", "r"), ready=True, schedulable=True, gpus=8)
        for i in range(3)
    ]
    shared = nodes[0].traits
    assert [node.traits for node in nodes] == [shared] * 3
    table = Table([NodeFacts(node.name, node.uid, shared) for node in nodes])
    assert (table.groups, table.weights) == ([shared], [3])
    host = table.column("host")
    assert (host.distinct, host.unique, table.column("rack").uniform) == (3, True, True)
    assert table.values("host") == ["n0", "n1", "n2"]
    other = node_facts("m", "u", ("rack",), ("r",), ready=True, schedulable=True, gpus=8).traits
    mixed = Table([NodeFacts(f"n{i}", "u", kind) for i, kind in enumerate((shared, other, shared, shared, other))])
    assert (mixed.groups, mixed.weights) == ([shared, other], [3, 2])


def test_a_name_that_is_another_node_s_value_is_told_from_it() -> None:
    shared = node_facts("n0", "u", ("host",), ("n0",), ready=True, schedulable=True, gpus=8).traits
    stray = node_facts("n2", "u", ("host",), ("n0",), ready=True, schedulable=True, gpus=8)
    table = Table([NodeFacts("n0", "u", shared), NodeFacts("n1", "u", shared), stray])
    assert (table.column("host").distinct, table.column("host").unique) == (2, False)
    assert table.values("host") == ["n0", "n1", "n0"]
    (host,) = cover([Level("host", "host")], table)
    assert (host.domains, host.nodes) == (2, 3)


def test_nodes_whose_hosts_are_not_their_names_are_one_kind_too() -> None:
    nodes = [
        node_facts(
            f"n{i}", "u", (HOSTNAME, "domain", "rack"), (f"h{i}", f"n{i}", "r"), ready=True, schedulable=True, gpus=8
        )
        for i in range(3)
    ]
    shared = nodes[0].traits
    assert [node.traits for node in nodes] == [shared] * 3
    assert nodes[2].labels == {HOSTNAME: "h2", "domain": "n2", "rack": "r"}
    table = Table([NodeFacts(node.name, node.uid, shared, node.host) for node in nodes])
    assert (table.groups, table.weights) == ([shared], [3])
    assert (table.column(HOSTNAME).distinct, table.column(HOSTNAME).unique) == (3, True)
    assert (table.values(HOSTNAME), table.values("domain")) == (["h0", "h1", "h2"], ["n0", "n1", "n2"])


@pytest.mark.parametrize("values", [("h", "h"), ("h", "n0"), ("n1", "h")], ids=("twice", "a name", "the other's name"))
def test_a_host_that_is_another_node_s_host_or_name_is_told_from_it(values: tuple[str, str]) -> None:
    shared = node_facts("n0", "u", (HOSTNAME, "domain"), ("h0", "n0"), ready=True, schedulable=True, gpus=8).traits
    nodes = [NodeFacts(f"n{i}", "u", shared, host) for i, host in enumerate((*values, "h8", "h9"))]
    table = Table(nodes)
    assert table.values(HOSTNAME) == [*values, "h8", "h9"]
    assert table.column(HOSTNAME).distinct == len({*values, "h8", "h9"})
    assert table.values("domain") == ["n0", "n1", "n2", "n3"]
    assert sorted(table.weights) == [1, 1, 2]  # the others stay alike
    assert table.column("domain").unique


@pytest.mark.parametrize(("values", "nests"), [(("n0", "n1"), False), (("n0", "n0"), True), (("x", "n1"), False)])
def test_values_around_which_nodes_stand_alone_do_not_nest(values: tuple[str, str], nests: bool) -> None:
    """A rack of several nodes that are a domain each does not lie in one of them; looked at without naming them."""
    nodes = [
        node_facts(f"n{i}", "u", ("domain", "rack"), (value, "r"), ready=True, schedulable=True, gpus=8)
        for i, value in enumerate(values)
    ]
    table = Table(nodes)
    assert table.nests("domain", "rack") is nests
    assert table.nests("rack", "domain")


@pytest.mark.parametrize(
    ("values", "nests"),
    [([("x", "n0"), ("y", "r"), ("z", "r")], False), ([("n0", "r0"), ("n1", "r1"), ("", "")], True)],
    ids=("racks that are nodes beside one in two domains", "a rack in each node and a node in none"),
)
def test_values_of_nodes_hide_no_others_and_lie_around_one_of_theirs(
    values: list[tuple[str, str]], nests: bool
) -> None:
    table = Table(
        [
            node_facts(f"n{i}", "u", ("domain", "rack"), row, ready=True, schedulable=True, gpus=8)
            for i, row in enumerate(values)
        ]
    )
    assert table.nests("domain", "rack") is nests
