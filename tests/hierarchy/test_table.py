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


def node(name: str, labels: dict[str, str], *, uid: str = "u") -> NodeFacts:
    """A usable node with these labels."""
    return node_facts(name, uid, tuple(labels), tuple(labels.values()), ready=True, schedulable=True, gpus=8)


def paths_of(levels: Sequence[Level], values: Values) -> list[tuple[str | None, ...]]:
    """The values of each node, level by level."""
    columns = [values[level.key] for level in levels]
    return list(zip(*columns, strict=True))


def plain_cover(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[Coverage, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        carried = usable = 0
        missing = []
        for facts, value in zip(nodes, values[level.key], strict=True):
            if value is None:
                missing.append(facts.name)
                continue
            carried += 1
            usable += facts.traits.usable
        paths = set(paths_of(levels[:depth], values))
        domains = sum(path[-1] is not None for path in paths)
        found.append(Coverage(level, domains, carried, usable, len(missing), tuple(sorted(missing)[:10])))
    return tuple(found)


def plain_crossings(levels: Sequence[Level], values: Values) -> list[tuple[str, str]]:
    """What each sentence begins with, and a word of its advice."""
    found = []
    for broad, narrow in pairwise(levels):
        crossing = plain_crossing(broad, narrow, values)
        if crossing:
            found.append(crossing)
    return found


def plain_crossing(broad: Level, narrow: Level, values: Values) -> tuple[str, str] | None:
    parents: dict[str, set[str]] = {}
    children: dict[str | None, set[str | None]] = {}
    for inner, outer in zip(values[narrow.key], values[broad.key], strict=True):
        children.setdefault(outer, set()).add(inner)
        if inner is not None and outer is not None:
            parents.setdefault(inner, set()).add(outer)
    several = sorted(inner for inner, outer in parents.items() if len(outer) > 1)
    if not several:
        return None
    first, second = sorted(parents[several[0]])[:2]
    if all(len(inner) == 1 for inner in children.values()):
        word = "other way round"
    elif 2 * len(several) > len(parents):
        word = "cut across"
    else:
        word = "wrong cable"
    many = f" ({len(several)} of {len(parents)} values do so)" if len(several) > 1 else ""
    return f"{narrow.domain} {several[0]!r} lies under {broad.domain} {first!r} and {second!r}{many}; ", word


def plain_sizes(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[LevelSize, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        domains: Counter[tuple[str | None, ...]] = Counter()
        for facts, path in zip(nodes, paths_of(levels[:depth], values), strict=True):
            if path[-1] is not None:
                domains[path] += facts.traits.hardware.gpus
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
    for number in range(count):
        labels = {
            HOSTNAME: f"{host}{number}",
            "x/nvlink": f"{domain}{number // width}",
            "x/rack": f"r{number // (2 * width)}",
            "x/block": f"b{number // (8 * width)}",
            "x/zone": f"z{number // (64 * width)}",
        }
        nodes.append(any_node(rng, number, labels, chaos, gaps))
    if rng.random() < 0.5:
        rng.shuffle(nodes)
    return nodes


def any_node(rng: random.Random, number: int, labels: dict[str, str], chaos: float, gaps: float) -> NodeFacts:
    """A node with some of these labels changed, some missing."""
    for key in KEYS:
        if rng.random() < chaos:
            labels[key] = rng.choice(("a", "b", "c", "n1", "h2", "", "no-topology"))
        if rng.random() < gaps:
            del labels[key]
    if rng.random() < gaps:
        labels = dict(rng.sample(sorted(labels.items()), len(labels)))
    is_ready, is_schedulable = rng.random() >= gaps, rng.random() >= gaps
    gpus = rng.choice((8, 8, 4, 16, 0)) if rng.random() < gaps else 8
    return node_facts(
        f"n{number}",
        f"u{number}",
        tuple(labels),
        tuple(labels.values()),
        ready=is_ready,
        schedulable=is_schedulable,
        gpus=8,
        hardware=Hardware(gpus=gpus),
    )


def values_of(nodes: Sequence[NodeFacts]) -> Values:
    return {key: [level_value(facts, key) for facts in nodes] for key in KEYS}


def widely_carried_plainly(values: Values, count: int, percent: int) -> dict[str, int]:
    """The keys that so many of the nodes carry, and how many do."""
    wide = {}
    for key in KEYS:
        carried = sum(value is not None for value in values[key])
        if carried and carried / count >= percent / 100:
            wide[key] = carried
    return wide


@pytest.mark.parametrize("seed", range(20))
def test_columns_find_what_nodes_say(seed: int) -> None:
    rng = random.Random(seed)
    some_counts = [rng.randrange(4, 200) for _ in range(6)]
    for count in (0, 1, 2, 3, *some_counts, 1023, 1024, 1025, 2500):
        nodes = any_nodes(rng, count)
        levels = rng.choice((LEVELS, LEVELS[::2], tuple(rng.sample(LEVELS, rng.randrange(1, 6)))))
        values = values_of(nodes)
        table = Table(nodes)

        assert cover(levels, nodes) == plain_cover(levels, nodes, values)
        assert level_sizes(levels, table) == plain_sizes(levels, nodes, values)

        expected = plain_crossings(levels, values)
        for crossing, (beginning, word) in zip(crossings(levels, table), expected, strict=True):
            assert crossing.sentence.startswith(beginning)
            assert word in crossing.sentence

        for percent in (1, 50, 95, 100):
            wide = widely_carried_plainly(values, count, percent)
            assert widely_carried([*KEYS, "x/other"], table, percent) == wide


def test_table_of_a_table_is_the_table() -> None:
    table = Table([node("n1", {"a": "1"})])
    assert table_of(table) is table
    assert table.parents("a", "a") == {"1": "1"}
    assert table.column("a") is table.column("a")


@pytest.mark.parametrize("seed", range(4))
def test_nodes_by_name_are_counted_as_nodes_in_a_row(seed: int) -> None:
    rng = random.Random(seed)
    for count in (0, 1, 7, 300):
        nodes = any_nodes(rng, count)
        listed = Table(nodes)
        named = Table({facts.name: facts for facts in nodes})

        assert list(named) == list(listed)
        assert named.key_sets == listed.key_sets
        assert named.groups == listed.groups
        assert named.weights == listed.weights
        assert named.usable == listed.usable
        assert sum(named.usable) == sum(facts.traits.usable for facts in nodes)
        assert totals(named.machines) == Counter(facts.traits.hardware for facts in nodes)
        values = values_of(nodes)
        for key in KEYS:
            assert named.values(key) == values[key]
            assert named.distinct(key) == set(named.labels(key))


def test_nodes_that_differ_only_in_their_names_are_one_kind() -> None:
    nodes = [node(name, {"host": name, "rack": "r"}) for name in ("n0", "n1", "n2")]
    kind = nodes[0].traits
    assert nodes[1].traits == kind
    assert nodes[2].traits == kind

    table = Table([NodeFacts(facts.name, facts.uid, kind) for facts in nodes])

    assert table.groups == [kind]
    assert table.weights == [3]
    assert table.column("host").distinct == 3
    assert table.column("host").unique
    assert table.column("rack").uniform
    assert table.values("host") == ["n0", "n1", "n2"]


def test_nodes_of_two_kinds_are_counted_by_kind() -> None:
    shared = node("n0", {"host": "n0", "rack": "r"}).traits
    other = node("m", {"rack": "r"}).traits
    kinds = (shared, other, shared, shared, other)
    table = Table([NodeFacts(f"n{number}", "u", kind) for number, kind in enumerate(kinds)])
    assert table.groups == [shared, other]
    assert table.weights == [3, 2]


def test_host_label_with_the_name_of_another_node_is_told_apart() -> None:
    shared = node("n0", {"host": "n0"}).traits
    stray = node("n2", {"host": "n0"})
    table = Table([NodeFacts("n0", "u", shared), NodeFacts("n1", "u", shared), stray])

    assert table.column("host").distinct == 2
    assert not table.column("host").unique
    assert table.values("host") == ["n0", "n1", "n0"]
    (host,) = cover([Level("host", "host")], table)
    assert host.domains == 2
    assert host.nodes == 3


def test_nodes_whose_hosts_are_not_their_names_are_one_kind() -> None:
    nodes = []
    for number in range(3):
        nodes.append(node(f"n{number}", {HOSTNAME: f"h{number}", "domain": f"n{number}", "rack": "r"}))
    kind = nodes[0].traits
    assert nodes[1].traits == kind
    assert nodes[2].traits == kind
    assert nodes[2].labels == {HOSTNAME: "h2", "domain": "n2", "rack": "r"}

    table = Table([NodeFacts(facts.name, facts.uid, kind, facts.host) for facts in nodes])

    assert table.groups == [kind]
    assert table.weights == [3]
    assert table.column(HOSTNAME).distinct == 3
    assert table.column(HOSTNAME).unique
    assert table.values(HOSTNAME) == ["h0", "h1", "h2"]
    assert table.values("domain") == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("h", "h", id="twice"),
        pytest.param("h", "n0", id="name-of-the-first"),
        pytest.param("n1", "h", id="name-of-the-second"),
    ],
)
def test_host_of_another_node_is_told_apart(first: str, second: str) -> None:
    shared = node("n0", {HOSTNAME: "h0", "domain": "n0"}).traits
    hosts = [first, second, "h8", "h9"]
    table = Table([NodeFacts(f"n{number}", "u", shared, host) for number, host in enumerate(hosts)])

    assert table.values(HOSTNAME) == hosts
    assert table.column(HOSTNAME).distinct == len(set(hosts))
    assert table.values("domain") == ["n0", "n1", "n2", "n3"]
    assert table.column("domain").unique
    # The other two nodes stay one kind.
    assert sorted(table.weights) == [1, 1, 2]


def nests(*values: tuple[str, str]) -> bool:
    """Whether each rack of nodes with these domains and racks lies in one domain."""
    nodes = []
    for number, (domain, rack) in enumerate(values):
        nodes.append(node(f"n{number}", {"domain": domain, "rack": rack}))
    return Table(nodes).nests("domain", "rack")


def test_rack_of_nodes_that_are_a_domain_each_does_not_nest() -> None:
    assert not nests(("n0", "r"), ("n1", "r"))
    assert not nests(("x", "r"), ("n1", "r"))


def test_rack_in_the_domain_of_one_node_nests() -> None:
    assert nests(("n0", "r"), ("n0", "r"))


@pytest.mark.parametrize("domains", [("n0", "n1"), ("n0", "n0"), ("x", "n1")])
def test_domains_in_one_rack_nest(domains: tuple[str, str]) -> None:
    nodes = [node(f"n{number}", {"domain": domain, "rack": "r"}) for number, domain in enumerate(domains)]
    assert Table(nodes).nests("rack", "domain")


def test_rack_that_is_a_node_hides_no_rack_in_two_domains() -> None:
    assert not nests(("x", "n0"), ("y", "r"), ("z", "r"))


def test_rack_in_each_node_nests_beside_a_node_in_none() -> None:
    assert nests(("n0", "r0"), ("n1", "r1"), ("", ""))
