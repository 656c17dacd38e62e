"""Values that read alike when they are joined by dots are reported, and nothing else is."""

import random

import pytest
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import ambiguous_paths, cover, level_value
from toposcope.hierarchy.node import NodeFacts, node_facts

ZONE = Level("zone", "x/zone")
BLOCK = Level("block", "x/block")
RACK = Level("rack", "x/rack")
DOMAIN = Level("nvlink-domain", NVLINK_DOMAIN)
HOST = Level("host", HOSTNAME)
LEVELS = (ZONE, BLOCK, RACK, DOMAIN, HOST)
KEYS = {"zone": ZONE.key, "block": BLOCK.key, "rack": RACK.key, "domain": DOMAIN.key}


def node(name: str, **values: str) -> NodeFacts:
    """A node with these values at zone, block, rack and NVLink domain."""
    labels = {}
    for level, value in values.items():
        labels[KEYS[level]] = value
    labels[HOSTNAME] = name
    return node_facts(
        name,
        "u",
        tuple(labels),
        tuple(labels.values()),
        is_ready=True,
        is_schedulable=True,
        gpus=8,
    )


def check_ambiguity(*nodes: NodeFacts, names: str, joined: str, levels: str) -> None:
    """Two paths of these nodes read alike, although each is a domain of its own."""
    assert ambiguous_paths(LEVELS, nodes) == [
        (
            f"{names} domain to KAI, which joins values by dots: {joined}; "
            f"write one of {levels} without dots, or leave one of these levels out of spec.levels"
        )
    ]
    assert len(nodes) in [covered.domains for covered in cover(LEVELS[:-1], nodes)]


def test_dot_in_a_block_and_a_rack_is_ambiguous() -> None:
    check_ambiguity(
        node("n1", zone="z", block="a.b", rack="c", domain="d"),
        node("n2", zone="z", block="a", rack="b.c", domain="d"),
        names="block 'a' > rack 'b.c' and block 'a.b' > rack 'c' are one rack",
        joined="'z.a.b.c'",
        levels="x/block and x/rack",
    )


def test_dots_in_three_levels_are_ambiguous() -> None:
    check_ambiguity(
        node("n1", zone="a.b", block="c.d", rack="e"),
        node("n2", zone="a", block="b.c", rack="d.e"),
        names="zone 'a' > block 'b.c' > rack 'd.e' and zone 'a.b' > block 'c.d' > rack 'e' are one rack",
        joined="'a.b.c.d.e'",
        levels="x/zone and x/rack",
    )


def test_dots_in_both_values_are_ambiguous() -> None:
    check_ambiguity(
        node("n1", zone="a.b", block="c.d.e"),
        node("n2", zone="a.b.c", block="d.e"),
        names="zone 'a.b' > block 'c.d.e' and zone 'a.b.c' > block 'd.e' are one block",
        joined="'a.b.c.d.e'",
        levels="x/zone and x/block",
    )


def test_first_two_of_three_paths_that_read_alike_are_named() -> None:
    check_ambiguity(
        node("n1", zone="a", block="b.c.d"),
        node("n2", zone="a.b", block="c.d"),
        node("n3", zone="a.b.c", block="d"),
        names="zone 'a' > block 'b.c.d' and zone 'a.b' > block 'c.d' are one block",
        joined="'a.b.c.d'",
        levels="x/zone and x/block",
    )


def test_first_of_two_ambiguous_names_is_named_and_both_are_counted() -> None:
    check_ambiguity(
        node("n0", zone="b0.x", block="r0"),
        node("n1", zone="b1.x", block="r1"),
        node("n2", zone="b0", block="x.r0"),
        node("n3", zone="b1", block="x.r1"),
        names="zone 'b0' > block 'x.r0' and zone 'b0.x' > block 'r0' are one block",
        joined="'b0.x.r0' (2 such names in all)",
        levels="x/zone and x/block",
    )


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(
            [node("n1", block="a.b", rack="c"), node("n2", block="a.b", rack="d")],
            id="above",
        ),
        pytest.param(
            [node("n1", block="a", rack="b.c"), node("n2", block="a", rack="d.e")],
            id="below",
        ),
        pytest.param(
            [node("n1", block="a.b", rack="c"), node("n2", block="a", rack="b.d")],
            id="in-both",
        ),
        pytest.param(
            [node("n1", block="a.b", rack="c"), node("n2", block="a")],
            id="no-rack",
        ),
        pytest.param(
            [
                node("n1", zone="z", block="a.b"),
                node("n2", zone="z", block="a", rack="b"),
                node("n3", zone="z", block="c", rack="d.e"),
            ],
            id="no-rack-beside-dots",
        ),
        pytest.param(
            [node("a.n", block="b.c", domain="a.n"), node("n", block="b.c.a", domain="n")],
            id="names-of-nodes",
        ),
        pytest.param(
            [],
            id="no-nodes",
        ),
    ],
)
def test_dots_alone_are_not_ambiguous(nodes: list[NodeFacts]) -> None:
    assert ambiguous_paths(LEVELS, nodes) == []


def random_node(rng: random.Random, number: int) -> NodeFacts:
    """A node whose values are one or two letters, joined by a dot."""
    values = {}
    for level in ("zone", "block", "rack"):
        count = rng.choice((1, 1, 1, 2))
        letters = rng.choices("ab", k=count)
        values[level] = ".".join(letters)
    return node(f"n{number}", **values)


def ambiguous_domain(nodes: list[NodeFacts]) -> str:
    """The broadest domain with two paths that read alike; empty: none."""
    levels = (ZONE, BLOCK, RACK)
    for depth, level in enumerate(levels, 1):
        paths = set()
        names = set()
        for facts in nodes:
            path = [level_value(facts, broader.key) or "" for broader in levels[:depth]]
            paths.add(tuple(path))
            names.add(".".join(path))
        if len(names) < len(paths):
            return level.domain
    return ""


@pytest.mark.parametrize("seed", range(20))
def test_ambiguity_is_found_also_when_nodes_come_later(seed: int) -> None:
    rng = random.Random(seed)
    nodes = {number: random_node(rng, number) for number in range(4)}
    for _ in range(12):
        for number in rng.sample(range(8), k=2):
            nodes[number] = random_node(rng, number)
        listed = list(nodes.values())

        found = ambiguous_paths((ZONE, BLOCK, RACK), listed)

        domain = ambiguous_domain(listed)
        if domain:
            assert f"are one {domain} domain to KAI" in found[0]
        else:
            assert found == []
