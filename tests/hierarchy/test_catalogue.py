"""What the catalogue knows of keys that are no level."""

from dataclasses import replace

import msgspec
import pytest
from tests.support.tables import each_row
from toposcope.api.label_keys import GPU_PRESENT, GPUS
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, RETIRED_KEY
from toposcope.hierarchy.platforms import MISTAKEN, RETIRED, UNKNOWN


def test_every_successor_is_a_level_and_no_near_miss_is_one() -> None:
    assert {right for right, _ in RETIRED.values()} <= BUILT_IN.level_keys
    assert {right for right, _ in MISTAKEN.values()} <= BUILT_IN.level_keys
    assert RETIRED.keys() <= BUILT_IN.level_keys  # a level as long as there is no other
    assert (MISTAKEN.keys() | UNKNOWN.keys()).isdisjoint(BUILT_IN.level_keys)


class Platform(msgspec.Struct, forbid_unknown_fields=True):
    platform: str
    keys: list[str]


@each_row("platforms.yaml", Platform, ids=lambda row: row.platform)
def test_each_platform_is_inferred_whole_and_in_its_order(row: Platform) -> None:
    assert [level.key for level in BUILT_IN.infer(dict.fromkeys(row.keys, 1))] == row.keys


def test_a_retired_key_comes_after_its_successor() -> None:
    for key, (successor, _) in RETIRED.items():
        if BUILT_IN.domain_of[key] == BUILT_IN.domain_of[successor]:
            assert BUILT_IN.rank[successor] < BUILT_IN.rank[key]


class NearMiss(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    right: str
    why: str


@each_row("near_misses.yaml", NearMiss, ids=lambda row: row.key)
def test_a_near_miss_is_told_with_the_right_key(row: NearMiss) -> None:
    advice = BUILT_IN.advise(row.key)
    assert advice is not None
    assert (advice.reason, advice.instead, advice.why) == (NEAR_MISS, row.right, row.why)


@pytest.mark.parametrize("key", ["network.topology.nvidia.com/leaf", "failure-domain.beta.kubernetes.io/zone"])
def test_a_retired_key_is_told_with_its_successor(key: str) -> None:
    advice = BUILT_IN.advise(key)
    assert advice is not None
    assert (advice.reason, advice.instead) == (RETIRED_KEY, RETIRED[key][0])


@pytest.mark.parametrize(
    "key", ["topology.kubernetes.io/zone", "example.com/rack", "rack", "nvidia.com/gpu.present", ""]
)
def test_there_is_nothing_to_say_of_other_keys(key: str) -> None:
    assert BUILT_IN.advise(key) is None


def test_keys_that_a_controller_keeps_of_a_node_are_few_and_told_apart() -> None:
    catalogue = replace(BUILT_IN)  # which has worked out nothing yet
    assert len(catalogue.tracked) < 200
    assert {"nvidia.com/gpu-clique", "nvidia.com/gpu_clique"} <= catalogue.suspects <= catalogue.tracked
    assert all(catalogue.advise(key) for key in catalogue.suspects)
    assert catalogue.suspects.isdisjoint({GPUS, GPU_PRESENT})
