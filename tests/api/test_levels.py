"""Levels that every scheduler accepts, and which label keys stand for them."""

import pytest
from toposcope.api.levels import Level, level_problems
from toposcope.hierarchy.catalogue import BUILT_IN


def test_every_level_of_the_catalogue_can_be_published() -> None:
    assert len(BUILT_IN.domains) <= 16
    for domain, keys in BUILT_IN.keys.items():
        for key in keys:
            assert level_problems([Level(domain, key)]) == []


def test_sixteen_levels_can_be_published() -> None:
    levels = [Level(f"l{number}", f"example.com/l{number}") for number in range(16)]
    assert level_problems(levels) == []


def test_no_key_stands_for_two_domains() -> None:
    keys: list[str] = []
    for domain_keys in BUILT_IN.keys.values():
        keys += domain_keys
    assert len(keys) == len(set(keys))


NO_DOMAIN_NAME = "must be 1-63 lower-case letters, digits or '-', begin with a letter and not end with '-'"
LONG_PREFIX = "x" * 60


@pytest.mark.parametrize(
    ("level", "problem"),
    [
        pytest.param(Level("Rack", "a/b"), f"domain: 'Rack' {NO_DOMAIN_NAME}", id="upper-case-domain"),
        pytest.param(Level("rack-", "a/b"), f"domain: 'rack-' {NO_DOMAIN_NAME}", id="dash-at-the-end"),
        pytest.param(Level("1rack", "a/b"), f"domain: '1rack' {NO_DOMAIN_NAME}", id="digit-first"),
        pytest.param(
            Level("numa", "a/b"),
            "domain: 'numa' lies inside a node, and a node label cannot tell parts of a node apart; "
            "remove the level and end with 'host'",
            id="inside-a-node",
        ),
        pytest.param(
            Level("rack", "Example.com/rack"),
            "key: 'Example.com/rack' is not a label key with a lower-case DNS prefix",
            id="upper-case-prefix",
        ),
        pytest.param(
            Level("rack", "a..b/rack"),
            "key: 'a..b/rack' is not a label key with a lower-case DNS prefix",
            id="empty-part",
        ),
        pytest.param(
            Level("rack", f"{LONG_PREFIX}/rack"),
            f"key: '{LONG_PREFIX}/rack' has 65 characters with its prefix; Grove takes 63",
            id="too-long",
        ),
    ],
)
def test_level_that_a_scheduler_refuses_is_named(level: Level, problem: str) -> None:
    assert level_problems([level]) == [f"spec.levels[0].{problem}"]


def test_domain_that_is_listed_twice_is_named() -> None:
    assert level_problems([Level("rack", "a/b"), Level("rack", "a/c")]) == [
        "spec.levels[1].domain: 'rack' is listed twice; each domain names one level"
    ]


def test_key_that_is_listed_twice_is_named() -> None:
    assert level_problems([Level("rack", "a/b"), Level("block", "a/b")]) == [
        "spec.levels[1].key: 'a/b' is listed twice; each level needs a label of its own"
    ]


def test_host_that_is_not_last_is_named() -> None:
    assert level_problems([Level("host", "kubernetes.io/hostname"), Level("rack", "a/b")]) == [
        "spec.levels[0].key: kubernetes.io/hostname must be the last level; nothing is narrower than a host"
    ]


def test_seventeen_levels_are_too_many() -> None:
    levels = [Level(f"d{number}", f"a/k{number}") for number in range(17)]
    assert level_problems(levels) == ["spec.levels has 17 entries; KAI and Kueue take 16"]


def test_inference_takes_one_key_per_domain_broadest_first() -> None:
    expected = (
        Level("zone", "topology.kubernetes.io/zone"),
        Level("fabric", "topology.k8s.aws/network-node-layer-1"),
        Level("block", "topology.k8s.aws/network-node-layer-2"),
        Level("nvlink-domain", "gpu.topology/nvlink-domain"),
        Level("host", "kubernetes.io/hostname"),
    )
    carried = {level.key: 1 for level in expected}
    assert BUILT_IN.infer({"nvidia.com/gpu.clique": 1, **carried}) == expected


def test_key_that_most_nodes_carry_is_the_level() -> None:
    old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    assert BUILT_IN.infer({old: 100, new: 100}) == (Level("zone", new),)
    assert BUILT_IN.infer({old: 100, new: 97}) == (Level("zone", old),)


def test_aws_counts_its_layers_from_the_farthest() -> None:
    keys = [f"topology.k8s.aws/network-node-layer-{number}" for number in range(1, 5)]
    levels = BUILT_IN.infer(dict.fromkeys(keys, 1))
    assert [level.key for level in levels] == keys


def test_topograph_counts_its_tiers_from_the_node() -> None:
    keys = [f"fabric.topograph.run/tier-{number}" for number in range(4)]
    levels = BUILT_IN.infer(dict.fromkeys(keys, 1))
    assert [level.key for level in levels] == keys[::-1]
