"""Levels that every scheduler accepts, and which label keys stand for them."""

import pytest
from toposcope.api.levels import Level, level_problems
from toposcope.hierarchy.catalogue import BUILT_IN


def test_every_level_of_the_catalogue_can_be_published() -> None:
    assert len(BUILT_IN.domains) <= 16
    for domain, keys in BUILT_IN.keys.items():
        for key in keys:
            level = Level(domain, key)
            assert level_problems([level]) == []


def numbered_levels(count: int) -> list[Level]:
    """So many levels that differ."""
    levels = []
    for number in range(count):
        levels.append(Level(f"l{number}", f"example.com/l{number}"))
    return levels


def test_sixteen_levels_can_be_published() -> None:
    assert level_problems(numbered_levels(16)) == []


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
        pytest.param(
            Level("Rack", "a/b"),
            f"domain: 'Rack' {NO_DOMAIN_NAME}",
            id="upper-case-domain",
        ),
        pytest.param(
            Level("rack-", "a/b"),
            f"domain: 'rack-' {NO_DOMAIN_NAME}",
            id="dash-at-the-end",
        ),
        pytest.param(
            Level("1rack", "a/b"),
            f"domain: '1rack' {NO_DOMAIN_NAME}",
            id="digit-first",
        ),
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
    levels = [
        Level("rack", "a/b"),
        Level("rack", "a/c"),
    ]
    (problem,) = level_problems(levels)
    assert problem == "spec.levels[1].domain: 'rack' is listed twice; each domain names one level"


def test_key_that_is_listed_twice_is_named() -> None:
    levels = [
        Level("rack", "a/b"),
        Level("block", "a/b"),
    ]
    (problem,) = level_problems(levels)
    assert problem == "spec.levels[1].key: 'a/b' is listed twice; each level needs a label of its own"


def test_host_that_is_not_last_is_named() -> None:
    levels = [
        Level("host", "kubernetes.io/hostname"),
        Level("rack", "a/b"),
    ]
    (problem,) = level_problems(levels)
    assert problem == (
        "spec.levels[0].key: kubernetes.io/hostname must be the last level; nothing is narrower than a host"
    )


def test_seventeen_levels_are_too_many() -> None:
    (problem,) = level_problems(numbered_levels(17))
    assert problem == "spec.levels has 17 entries; KAI and Kueue take 16"


def test_inference_takes_one_key_per_domain_broadest_first() -> None:
    expected = (
        Level("zone", "topology.kubernetes.io/zone"),
        Level("fabric", "topology.k8s.aws/network-node-layer-1"),
        Level("block", "topology.k8s.aws/network-node-layer-2"),
        Level("nvlink-domain", "gpu.topology/nvlink-domain"),
        Level("host", "kubernetes.io/hostname"),
    )
    carried = {"nvidia.com/gpu.clique": 1}
    for level in expected:
        carried[level.key] = 1
    assert BUILT_IN.infer(carried) == expected


OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


NEW_ZONE = "topology.kubernetes.io/zone"


def test_key_that_most_nodes_carry_is_the_level() -> None:
    (level,) = BUILT_IN.infer({OLD_ZONE: 100, NEW_ZONE: 97})
    assert level == Level("zone", OLD_ZONE)


def test_new_key_is_the_level_where_all_nodes_carry_both() -> None:
    (level,) = BUILT_IN.infer({OLD_ZONE: 100, NEW_ZONE: 100})
    assert level == Level("zone", NEW_ZONE)


def inferred_keys(*keys: str) -> list[str]:
    """The keys of the levels of nodes that carry these, broadest first."""
    carried = dict.fromkeys(keys, 1)
    levels = BUILT_IN.infer(carried)
    return [level.key for level in levels]


def test_aws_counts_its_layers_from_the_farthest() -> None:
    layers = [
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-4",
    ]
    assert inferred_keys(*layers) == layers


def test_topograph_counts_its_tiers_from_the_node() -> None:
    tiers = [
        "fabric.topograph.run/tier-0",
        "fabric.topograph.run/tier-1",
        "fabric.topograph.run/tier-2",
        "fabric.topograph.run/tier-3",
    ]
    assert inferred_keys(*tiers) == tiers[::-1]
