from tests.support.tables import each_case
from toposcope.api.levels import Level, level_problems
from toposcope.hierarchy.catalogue import BUILT_IN


def test_everything_that_inference_can_name_can_be_published() -> None:
    assert len(BUILT_IN.domains) <= 16
    for domain, keys in BUILT_IN.keys.items():
        for key in keys:
            assert level_problems([Level(domain, key)]) == []
    assert level_problems([Level(f"l{i}", f"example.com/l{i}") for i in range(16)]) == []


def test_no_key_stands_for_two_domains() -> None:
    keys = [key for keys in BUILT_IN.keys.values() for key in keys]
    assert len(keys) == len(set(keys))


@each_case("topology.yaml")
def test_what_one_of_the_schedulers_refuses_is_named(levels: list[list[str]], problems: list[str]) -> None:
    assert level_problems([Level(*level) for level in levels]) == problems
    assert all(problem.startswith("spec.levels") for problem in problems)


def test_inference_takes_one_key_a_domain_broadest_first() -> None:
    expected = (
        Level("zone", "topology.kubernetes.io/zone"),
        Level("fabric", "topology.k8s.aws/network-node-layer-1"),
        Level("block", "topology.k8s.aws/network-node-layer-2"),
        Level("nvlink-domain", "gpu.topology/nvlink-domain"),
        Level("host", "kubernetes.io/hostname"),
    )
    assert BUILT_IN.infer({"nvidia.com/gpu.clique": 1} | {level.key: 1 for level in expected}) == expected


def test_the_key_that_most_nodes_carry_is_the_level() -> None:
    old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    assert BUILT_IN.infer({old: 100, new: 100}) == (Level("zone", new),)
    assert BUILT_IN.infer({old: 100, new: 97}) == (Level("zone", old),)


def test_numbers_in_keys_do_not_decide_the_order() -> None:
    """AWS counts from the farthest, Topograph from the nearest."""
    fabric = BUILT_IN.infer({f"fabric.topograph.run/tier-{i}": 1 for i in range(4)})
    assert [level.key[-1] for level in fabric] == ["3", "2", "1", "0"]
    aws = BUILT_IN.infer({f"topology.k8s.aws/network-node-layer-{i}": 1 for i in range(1, 5)})
    assert [level.key[-1] for level in aws] == ["1", "2", "3", "4"]
