"""Counting in columns finds what counting node by node finds, whatever the nodes carry."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from tests.support.sampling import slow_after
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import Coverage, LevelSize, cover, crossings, level_sizes, level_value, widely_carried
from toposcope.hierarchy.node import Hardware, NodeFacts, Traits, node_facts
from toposcope.hierarchy.table import Table, table_of, totals

KEYS = ("x/zone", "x/block", "x/rack", "x/nvlink", HOSTNAME)
LEVELS = tuple(Level(key.rpartition("/")[2], key) for key in KEYS)

Values = dict[str, list[str | None]]
"""By key what each node says."""


def node(name: str, labels: dict[str, str], *, uid: str = "u") -> NodeFacts:
    """A usable node with these labels."""
    return node_facts(
        name,
        uid,
        tuple(labels),
        tuple(labels.values()),
        is_ready=True,
        is_schedulable=True,
        gpus=8,
    )


def paths_of(levels: Sequence[Level], values: Values) -> list[tuple[str | None, ...]]:
    """The values of each node, level by level."""
    columns = [values[level.key] for level in levels]
    return list(zip(*columns, strict=True))


def plain_cover(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[Coverage, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        carried = 0
        usable = 0
        missing = []
        for facts, value in zip(nodes, values[level.key], strict=True):
            if value is None:
                missing.append(facts.name)
                continue
            carried += 1
            usable += facts.traits.is_usable
        domains = set()
        for path in paths_of(levels[:depth], values):
            if path[-1] is not None:
                domains.add(path)
        coverage = Coverage(
            level,
            len(domains),
            carried,
            usable,
            len(missing),
            tuple(sorted(missing)[:10]),
        )
        found.append(coverage)
    return tuple(found)


def plain_crossings(levels: Sequence[Level], values: Values) -> list[tuple[str, str]]:
    """What each sentence begins with, and a word of its advice."""
    found = []
    for place in range(1, len(levels)):
        crossing = plain_crossing(levels[:place], levels[place], values)
        if crossing:
            found.append(crossing)
    return found


def plain_crossing(around: Sequence[Level], narrow: Level, values: Values) -> tuple[str, str] | None:
    parents = paths_by_value(around, narrow, values)
    several = {}
    for value, paths in parents.items():
        if len(paths) > 1:
            several[value] = paths
    if not several:
        return None
    example = min(several)
    first, second, *_others = sorted(several[example], key=lambda path: path[::-1])
    length = 1
    while first[-length:] == second[-length:]:
        length += 1
    ends = ["/".join(path[-length:]) for path in (first, second)]
    beginning = f"{narrow.domain} {example!r} lies under {around[-1].domain} {ends[0]!r} and {ends[1]!r}"
    if len(several) > 1:
        beginning += f" ({len(several)} of {len(parents)} values do so)"
    return f"{beginning}; ", word_of_advice(around, narrow, values)


def word_of_advice(around: Sequence[Level], narrow: Level, values: Values) -> str:
    *above, broad = around
    parents = paths_by_value(around, narrow, values)
    several = [value for value in parents if len(parents[value]) > 1]
    is_one = len(set(values[narrow.key])) == 1
    stays = all(each_has_one_child(narrow, level, values) for level in above)
    if stays and not is_one and each_has_one_child(broad, narrow, values):
        return "other way round"
    if 2 * len(several) <= len(parents):
        return "wrong cable"
    for depth in range(1, len(around) + 1):
        if are_names_of_each(depth, parents):
            return "normal if"
    return "the two levels cut across"


def are_names_of_each(depth: int, parents: dict[str, set[tuple[str, ...]]]) -> bool:
    """Whether most crossing values are in half of the domains of this depth, in one domain below each."""
    users = {path[:depth] for paths in parents.values() for path in paths}
    crossing = [paths for paths in parents.values() if len(paths) > 1]
    widespread = 0
    for paths in crossing:
        using = {path[:depth] for path in paths}
        if len(using) < len(paths):
            return False
        widespread += len(using) >= len(users) / 2
    return widespread > len(crossing) / 2


def plain_sizes(levels: Sequence[Level], nodes: Sequence[NodeFacts], values: Values) -> tuple[LevelSize, ...]:
    found = []
    for depth, level in enumerate(levels, 1):
        gpus: Counter[tuple[str | None, ...]] = Counter()
        paths = paths_of(levels[:depth], values)
        for facts, path in zip(nodes, paths, strict=True):
            if path[-1] is None:
                continue
            hardware = facts.traits.hardware
            gpus[path] += hardware.gpus
        largest = max(gpus.values(), default=0)
        size = LevelSize(level, gpus.total(), largest)
        found.append(size)
    return tuple(found)


def any_nodes(rng: random.Random, count: int) -> list[NodeFacts]:
    """Anything from a tidy tree to labels at random; some keys in another order, some missing, some without truth."""
    chaos = rng.choice((0.0, 0.0, 0.01, 0.3))
    gaps = rng.choice((0.0, 0.0, 0.01, 0.3))
    width = rng.choice((1, 2, 5))
    host = rng.choice(("n", "n", "h", "N"))
    domain = "d"
    if width == 1:
        domain = rng.choice(("d", "n", host))
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
        items = sorted(labels.items())
        labels = dict(rng.sample(items, len(items)))
    is_ready = rng.random() >= gaps
    is_schedulable = rng.random() >= gaps
    gpus = 8
    if rng.random() < gaps:
        gpus = rng.choice((8, 8, 4, 16, 0))
    return node_facts(
        f"n{number}",
        f"u{number}",
        tuple(labels),
        tuple(labels.values()),
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        gpus=8,
        hardware=Hardware(gpus=gpus),
    )


def values_of(nodes: Sequence[NodeFacts]) -> Values:
    values: Values = {}
    for key in KEYS:
        values[key] = [level_value(facts, key) for facts in nodes]
    return values


def widely_carried_plainly(values: Values, count: int, percent: int) -> dict[str, int]:
    """The keys that so many of the nodes carry, and how many do."""
    wide = {}
    for key in KEYS:
        missing = values[key].count(None)
        carried = count - missing
        if carried and carried / count >= percent / 100:
            wide[key] = carried
    return wide


def some_levels(rng: random.Random) -> tuple[Level, ...]:
    """All levels, every other one, or some in any order."""
    every_other = LEVELS[::2]
    count = rng.randrange(1, 6)
    in_any_order = rng.sample(LEVELS, count)
    return rng.choice((LEVELS, every_other, tuple(in_any_order)))


@pytest.mark.parametrize("seed", slow_after(5, range(20)))
def test_columns_find_what_nodes_say(seed: int) -> None:
    rng = random.Random(seed)
    counts = [0, 1, 2, 3]
    for _ in range(6):
        counts.append(rng.randrange(4, 200))
    counts += [1023, 1024, 1025, 2500]
    for count in counts:
        nodes = any_nodes(rng, count)
        levels = some_levels(rng)
        values = values_of(nodes)
        table = Table(nodes)

        assert cover(levels, nodes) == plain_cover(levels, nodes, values)
        assert level_sizes(levels, table) == plain_sizes(levels, nodes, values)
        check_crossings(levels, table, values)
        for percent in (1, 50, 95, 100):
            found = widely_carried([*KEYS, "x/other"], table, percent)
            assert found == widely_carried_plainly(values, count, percent)


def check_crossings(levels: Sequence[Level], table: Table, values: Values) -> None:
    """What is said of each crossing begins and advises as expected."""
    found = crossings(levels, table)
    expected = plain_crossings(levels, values)
    for crossing, (beginning, word) in zip(found, expected, strict=True):
        assert crossing.sentence.startswith(beginning)
        assert word in crossing.sentence


def paths_by_value(around: Sequence[Level], narrow: Level, values: Values) -> dict[str, set[tuple[str, ...]]]:
    """The domains of the levels around each value of a narrow one."""
    parents: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for path in paths_of((*around, narrow), values):
        complete = tuple(value for value in path if value is not None)
        if len(complete) == len(path):
            parents[complete[-1]].add(complete[:-1])
    return parents


def each_has_one_child(broad: Level, narrow: Level, values: Values) -> bool:
    """Whether one value of the narrow level, or none, is beside each value of the broad one."""
    children: dict[str | None, str | None] = {}
    outer_values = values[broad.key]
    for inner, outer in zip(values[narrow.key], outer_values, strict=True):
        if children.setdefault(outer, inner) != inner:
            return False
    return True


def test_table_of_a_table_is_the_table() -> None:
    facts = node("n1", {"a": "1"})
    table = Table([facts])
    assert table_of(table) is table
    parents = table.parents("a", "a")
    assert parents == {"1": "1"}
    column = table.column("a")
    assert table.column("a") is column


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
        check_counts(named, nodes)


def check_counts(table: Table, nodes: Sequence[NodeFacts]) -> None:
    """What a table counts is what its nodes are."""
    usable = 0
    machines: Counter[Hardware] = Counter()
    for facts in nodes:
        usable += facts.traits.is_usable
        machines[facts.traits.hardware] += 1
    assert sum(table.usable) == usable
    assert totals(table.machines) == machines
    values = values_of(nodes)
    for key in KEYS:
        assert table.values(key) == values[key]
        labels = table.labels(key)
        assert table.distinct(key) == set(labels)


def of_kind(kind: Traits, *names: str) -> list[NodeFacts]:
    """Nodes that differ only in their names."""
    nodes = []
    for name in names:
        nodes.append(NodeFacts(name, "u", kind))
    return nodes


def test_nodes_that_differ_only_in_their_names_are_one_kind() -> None:
    kind = node("n0", {"host": "n0", "rack": "r"}).traits
    for name in ("n1", "n2"):
        other = node(name, {"host": name, "rack": "r"})
        assert other.traits == kind

    table = Table(of_kind(kind, "n0", "n1", "n2"))

    assert table.groups == [kind]
    assert table.weights == [3]
    hosts = table.column("host")
    assert hosts.distinct == 3
    assert hosts.is_unique
    assert table.column("rack").is_uniform
    assert table.values("host") == ["n0", "n1", "n2"]


def test_nodes_of_two_kinds_are_counted_by_kind() -> None:
    shared = node("n0", {"host": "n0", "rack": "r"}).traits
    other = node("m", {"rack": "r"}).traits
    nodes = [
        *of_kind(shared, "n0"),
        *of_kind(other, "n1"),
        *of_kind(shared, "n2", "n3"),
        *of_kind(other, "n4"),
    ]
    table = Table(nodes)
    assert table.groups == [shared, other]
    assert table.weights == [3, 2]


def test_host_label_with_the_name_of_another_node_is_told_apart() -> None:
    shared = node("n0", {"host": "n0"}).traits
    stray = node("n2", {"host": "n0"})
    table = Table([*of_kind(shared, "n0", "n1"), stray])

    hosts = table.column("host")
    assert hosts.distinct == 2
    assert not hosts.is_unique
    assert table.values("host") == ["n0", "n1", "n0"]
    level = Level("host", "host")
    (coverage,) = cover([level], table)
    assert coverage.domains == 2
    assert coverage.nodes == 3


def hosted(number: int) -> NodeFacts:
    """A node whose host has another name."""
    labels = {
        HOSTNAME: f"h{number}",
        "domain": f"n{number}",
        "rack": "r",
    }
    return node(f"n{number}", labels)


def test_nodes_whose_hosts_are_not_their_names_are_one_kind() -> None:
    nodes = [hosted(0), hosted(1), hosted(2)]
    kind = nodes[0].traits
    same_kind = []
    for facts in nodes:
        assert facts.traits == kind
        same_kind.append(NodeFacts(facts.name, facts.uid, kind, facts.host))
    assert nodes[2].labels == {
        HOSTNAME: "h2",
        "domain": "n2",
        "rack": "r",
    }

    table = Table(same_kind)

    assert table.groups == [kind]
    assert table.weights == [3]
    hosts = table.column(HOSTNAME)
    assert hosts.distinct == 3
    assert hosts.is_unique
    assert table.values(HOSTNAME) == ["h0", "h1", "h2"]
    assert table.values("domain") == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            "h",
            "h",
            id="twice",
        ),
        pytest.param(
            "h",
            "n0",
            id="name-of-the-first",
        ),
        pytest.param(
            "n1",
            "h",
            id="name-of-the-second",
        ),
    ],
)
def test_host_of_another_node_is_told_apart(first: str, second: str) -> None:
    shared = node("n0", {HOSTNAME: "h0", "domain": "n0"}).traits
    hosts = [first, second, "h8", "h9"]
    nodes = []
    for number, host in enumerate(hosts):
        facts = NodeFacts(f"n{number}", "u", shared, host)
        nodes.append(facts)

    table = Table(nodes)

    assert table.values(HOSTNAME) == hosts
    distinct_hosts = len(set(hosts))
    assert table.column(HOSTNAME).distinct == distinct_hosts
    assert table.values("domain") == ["n0", "n1", "n2", "n3"]
    assert table.column("domain").is_unique
    # The other two nodes stay one kind.
    weights = sorted(table.weights)
    assert weights == [1, 1, 2]


def nests(*places: str) -> bool:
    """Whether each rack lies in one domain; of each node its domain and its rack, as in `d0/r0`."""
    nodes = []
    for number, place in enumerate(places):
        domain, _, rack = place.partition("/")
        labels = {"domain": domain, "rack": rack}
        nodes.append(node(f"n{number}", labels))
    return Table(nodes).nests("domain", "rack")


def test_rack_of_nodes_that_are_a_domain_each_does_not_nest() -> None:
    assert not nests("n0/r", "n1/r")
    assert not nests("x/r", "n1/r")


def test_rack_in_the_domain_of_one_node_nests() -> None:
    assert nests("n0/r", "n0/r")


@pytest.mark.parametrize("domains", [("n0", "n1"), ("n0", "n0"), ("x", "n1")])
def test_domains_in_one_rack_nest(domains: tuple[str, str]) -> None:
    nodes = []
    for number, domain in enumerate(domains):
        labels = {"domain": domain, "rack": "r"}
        nodes.append(node(f"n{number}", labels))
    table = Table(nodes)
    assert table.nests("rack", "domain")


def test_rack_that_is_a_node_hides_no_rack_in_two_domains() -> None:
    assert not nests("x/n0", "y/r", "z/r")


def test_rack_in_each_node_nests_beside_a_node_in_none() -> None:
    assert nests("n0/r0", "n1/r1", "/")
