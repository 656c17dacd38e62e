"""The domains where a workload would fit, against brute force on random tiny clusters."""

import random
from dataclasses import replace

import pytest

from tests.placement.bruteforce import possible
from tests.placement.test_search import BLOCK, LEVELS, RACK, cluster, group, plain
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.placement.room import is_exact
from toposcope.placement.verdict import fittings, judge

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("seed", range(30))
def test_domains_that_are_named_have_room_and_none_is_missing(seed: int) -> None:
    rng = random.Random(4000 + seed)
    for _ in range(20):
        nodes = cluster(rng)
        one, _ = group(rng, "g", 5)
        if not one.required or not one.total().get("pods") or one.total()["pods"] > 5:
            continue
        found = fittings([one], LEVELS, nodes)
        assert found
        depth = LEVELS.index(found.level) + 1
        single = replace(found.group, copies=1)
        truth = set()
        for node in plain(nodes):
            path = node["path"]
            assert isinstance(path, tuple)
            inside = [each for each in plain(nodes) if each["path"][:depth] == path[:depth]]  # type: ignore[index]
            if possible([single], LEVELS, inside):
                truth.add(path[:depth])
        named = {each.domain for each in found.found}
        assert named <= truth
        if is_exact(found.group):
            assert named == truth


def test_the_fullest_comes_first_and_what_fits_nowhere_has_none() -> None:
    rng = random.Random(5)
    nodes = [node for _ in range(8) for node in cluster(rng)]
    nodes = [replace(node, name=f"n{i}") for i, node in enumerate(nodes)]
    small = Group("g", (Pods("p", 1, ((GPU, 1),)),), required=RACK)
    found = fittings([small], LEVELS, nodes)

    assert found
    assert found.exact
    assert [each.free for each in found.found] == sorted(each.free for each in found.found)
    assert len(found.found) == judge([small], LEVELS, nodes).roomy
    huge = fittings([replace(small, pods=(Pods("p", 500, ((GPU, 8),)),))], LEVELS, nodes)
    assert huge
    assert huge.found == ()


def test_only_what_has_to_stay_together_has_domains() -> None:
    nodes = cluster(random.Random(1))
    loose = Group("g", (Pods("p", 1, ((GPU, 1),)),))

    assert fittings([loose], LEVELS, nodes) is None
    assert fittings([replace(loose, preferred=BLOCK)], LEVELS, nodes) is None
    assert fittings([], LEVELS, nodes) is None


def test_many_domains_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.placement.verdict._LOOKED_AT", 0)
    rng = random.Random(9)
    mixed = Group("g", (Pods("a", 1, ((GPU, 1),)), Pods("b", 1, (("cpu", 1),))), required=RACK)
    found = next(each for each in (fittings([mixed], LEVELS, cluster(rng)) for _ in range(50)) if each and each.found)

    assert not found.exact
