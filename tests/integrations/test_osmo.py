"""What OSMO's PodGroup loses, on random trees; its pools. The rules: tests/integrations/osmo/."""

import random
from typing import Any

import pytest
from tests.support.workloads import RACK, ZONE
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.osmo.pod_group import OsmoTask, TopologyRequirement, lost, tree_of
from toposcope.integrations.osmo.topology import POOL, pools_of, schedulers_of

LEVELS = TopologyLevels("pool", (ZONE, Level("spine", "example.com/spine"), RACK))
Kept = list[tuple[set[int], TopologyRequirement]]
"""Tasks, by number, and what they are kept together by."""


def kept_by_pod_group(paths: list[list[TopologyRequirement]]) -> Kept:
    """The constraints of the PodGroup that OSMO's builder makes, by its own steps."""
    kept: Kept = []
    at: tuple[str, ...] = ()
    while len(below := names_below(paths, at)) == 1:
        at = (*at, below[0])
    if at:
        kept.append((set(range(len(paths))), paths[0][len(at) - 1]))

    def add_sub_group(at: tuple[str, ...], *, has_parent: bool) -> None:
        below = names_below(paths, at)
        if len(below) != 1 or has_parent:
            inside = members(paths, at)
            kept.append((inside, paths[min(inside)][len(at) - 1]))
            has_parent = True
        for name in below:
            add_sub_group((*at, name), has_parent=has_parent)

    for name in names_below(paths, at):
        add_sub_group((*at, name), has_parent=False)
    return kept


def names_below(paths: list[list[TopologyRequirement]], at: tuple[str, ...]) -> list[str]:
    """The groups right below one, in order."""
    names = set()
    for task in members(paths, at):
        if len(paths[task]) > len(at):
            names.add(paths[task][len(at)].group)
    return sorted(names)


def members(paths: list[list[TopologyRequirement]], at: tuple[str, ...]) -> set[int]:
    """The tasks inside of a group."""
    inside = set()
    for task, path in enumerate(paths):
        if groups_of(path)[: len(at)] == at:
            inside.add(task)
    return inside


def groups_of(path: list[TopologyRequirement]) -> tuple[str, ...]:
    return tuple(requirement.group for requirement in path)


def random_paths(rng: random.Random) -> list[list[TopologyRequirement]]:
    """Requirements of some tasks, where the same group is always required or always preferred."""
    levels = [level for level in LEVELS.levels if rng.random() < 0.8] or [RACK]
    is_required: dict[tuple[str, ...], bool] = {}
    paths = []
    for _ in range(rng.randint(1, 6)):
        path: list[TopologyRequirement] = []
        for level in levels:
            groups = (*groups_of(path), rng.choice("xy"))
            required = is_required.setdefault(groups, rng.random() < 0.5)
            path.append(TopologyRequirement(Field(None), level.domain, groups[-1], required, level))
        paths.append(path)
    return paths


@pytest.mark.parametrize("seed", range(300))
def test_lost_is_what_the_pod_group_does_not_say(seed: int) -> None:
    paths = random_paths(random.Random(seed))
    tasks = []
    for number, path in enumerate(paths):
        tasks.append(OsmoTask(str(number), Pods("p", 1, ()), tuple(path)))

    kept = kept_by_pod_group(paths)
    expected = set()
    for path in paths:
        for number, requirement in enumerate(path, 1):
            group = groups_of(path)[:number]
            if requirement.is_required and not is_kept(requirement, members(paths, group), kept):
                expected.add(group)

    assert {branch.path for branch, _ in lost(tree_of(tasks, LEVELS))} == expected


def is_kept(requirement: TopologyRequirement, tasks: set[int], kept: Kept) -> bool:
    """Whether something required keeps these tasks together at that level or a narrower one."""
    for together, constraint in kept:
        if constraint.is_required and tasks <= together and rank(constraint) >= rank(requirement):
            return True
    return False


def rank(requirement: TopologyRequirement) -> int:
    return LEVELS.rank(requirement.level) if requirement.level else 0


ZONES = [{"key": "zone", "label": "topology.kubernetes.io/zone"}]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        pytest.param(
            {"pools": {"a": {"topology_keys": ZONES}, "b": {"topology_keys": ZONES}, "c": {"backend": "x"}}},
            ["a", "b"],
            id="by-name",
        ),
        pytest.param({"pools": [{"name": "a", "topology_keys": ZONES}]}, ["a"], id="listed"),
        pytest.param({"a": {"topology_keys": ZONES}, "b": {"topology_keys": ZONES}}, ["a", "b"], id="without-pools"),
        pytest.param({"name": "a", "topology_keys": ZONES}, ["a"], id="one"),
        pytest.param({"topology_keys": ZONES}, [""], id="one-without-name"),
    ],
)
def test_pools_are_found_wherever_they_stand(document: dict[str, Any], names: list[str]) -> None:
    assert POOL.claims(document)
    pools = list(pools_of(document))
    assert [pool.name for pool in pools] == names
    assert [pool.levels for pool in pools] == [(ZONE,)] * len(names)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="empty"),
        pytest.param({"pools": {"a": {"backend": "x"}}}, id="pool-without-keys"),
        pytest.param({"pools": 7}, id="number"),
        pytest.param({"kind": "Pool", "topology_keys": ZONES}, id="kubernetes-object"),
        pytest.param({"a": 1, "b": [{"topology_keys": ZONES}]}, id="something-else"),
    ],
)
def test_document_without_topology_keys_is_no_pool(document: dict[str, Any]) -> None:
    assert not POOL.claims(document)


def test_backend_says_its_scheduler() -> None:
    backend = {"backends": [{"name": "default", "scheduler_settings": {"scheduler_type": "kai"}}]}
    assert POOL.claims(backend)
    assert schedulers_of(backend) == {"default": "kai"}
