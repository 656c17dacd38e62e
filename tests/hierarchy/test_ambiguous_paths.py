"""Values that read alike when they are joined by dots are told, and nothing else is."""

import random

import pytest
from tests.support.tables import each_case
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import ambiguous_paths, cover, level_value
from toposcope.hierarchy.node import NodeFacts, node_facts

ZONE, BLOCK, RACK = Level("zone", "x/zone"), Level("block", "x/block"), Level("rack", "x/rack")
DOMAIN, HOST = Level("nvlink-domain", NVLINK_DOMAIN), Level("host", HOSTNAME)
LEVELS = (ZONE, BLOCK, RACK, DOMAIN, HOST)


def node(name: str, **labels: str) -> NodeFacts:
    short = {"zone": ZONE.key, "block": BLOCK.key, "rack": RACK.key, "domain": DOMAIN.key}
    found = {short[key]: value for key, value in labels.items()} | {HOSTNAME: name}
    return node_facts(name, "u", tuple(found), tuple(found.values()), ready=True, schedulable=True, gpus=8)


@each_case("topology.yaml")
def test_domains_that_are_one_to_kai_are_named_with_what_to_do(nodes: dict[str, dict[str, str]], sentence: str) -> None:
    facts = [node(name, **labels) for name, labels in nodes.items()]
    assert ambiguous_paths(LEVELS, facts) == [sentence]
    assert any(covered.domains == len(facts) for covered in cover(LEVELS[:-1], facts))


@each_case("topology.yaml")
def test_dots_alone_are_nothing_to_tell(nodes: dict[str, dict[str, str]]) -> None:
    assert ambiguous_paths(LEVELS, [node(name, **labels) for name, labels in nodes.items()]) == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_reads_alike_is_found_also_when_it_comes_later(seed: int) -> None:
    rng = random.Random(seed)

    def any_node(i: int) -> NodeFacts:
        labels = {key: ".".join(rng.choices("ab", k=rng.choice((1, 1, 1, 2)))) for key in ("zone", "block", "rack")}
        return node(f"n{i}", **labels)

    nodes = {f"n{i}": any_node(i) for i in range(4)}
    levels = (ZONE, BLOCK, RACK)
    for _ in range(12):
        nodes |= {f"n{i}": any_node(i) for i in rng.sample(range(8), k=2)}
        expected = ""
        for depth in range(1, 4):
            paths = {tuple(level_value(facts, level.key) or "" for level in levels[:depth]) for facts in nodes.values()}
            joined = [".".join(path) for path in paths]
            if not expected and len(set(joined)) < len(joined):
                expected = f"are one {levels[depth - 1].domain} domain to KAI"
        found = ambiguous_paths(levels, list(nodes.values()))
        assert bool(found) == bool(expected)
        assert expected in "".join(found)
