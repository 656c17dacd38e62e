"""What OSMO's PodGroup loses, on random trees; its pools. The rules: tests/integrations/osmo/."""

import random
from typing import Any

import pytest
from tests.support.tables import each_case
from tests.support.workloads import RACK, ZONE
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.osmo.pod_group import Requirement, Task, lost, tree_of
from toposcope.integrations.osmo.topology import POOL, pools_of, schedulers_of

LEVELS = TopologyLevels("pool", (ZONE, Level("spine", "example.com/spine"), RACK))
Kept = list[tuple[set[int], Requirement]]
"""Tasks, by number, and what they are kept together by."""


def podgroup(paths: list[list[Requirement]]) -> Kept:
    """The constraints of the PodGroup that OSMO's builder makes, by its own steps."""
    found: Kept = []
    at: tuple[str, ...] = ()
    while len(below := names_below(paths, at)) == 1:
        at = (*at, below[0])
    if at:
        found.append((set(range(len(paths))), paths[0][len(at) - 1]))

    def sub_group(at: tuple[str, ...], *, has_parent: bool) -> None:
        below = names_below(paths, at)
        if len(below) != 1 or has_parent:
            inside = members(paths, at)
            found.append((inside, paths[min(inside)][len(at) - 1]))
            has_parent = True
        for name in below:
            sub_group((*at, name), has_parent=has_parent)

    for name in names_below(paths, at):
        sub_group((*at, name), has_parent=False)
    return found


def names_below(paths: list[list[Requirement]], at: tuple[str, ...]) -> list[str]:
    inside = members(paths, at)
    return sorted({paths[task][len(at)].group for task in inside if len(paths[task]) > len(at)})


def members(paths: list[list[Requirement]], at: tuple[str, ...]) -> set[int]:
    return {
        task for task, path in enumerate(paths) if tuple(requirement.group for requirement in path)[: len(at)] == at
    }


@pytest.mark.parametrize("seed", range(300))
def test_what_is_lost_is_what_the_podgroup_does_not_say(seed: int) -> None:
    rng = random.Random(seed)
    levels = [level for level in LEVELS.levels if rng.random() < 0.8] or [RACK]
    kinds: dict[tuple[str, ...], bool] = {}
    paths = []
    for _ in range(rng.randint(1, 6)):
        path: list[Requirement] = []
        for level in levels:
            names = (*(requirement.group for requirement in path), rng.choice("xy"))
            required = kinds.setdefault(names, rng.random() < 0.5)
            path.append(Requirement(Field(None), level.domain, names[-1], required, level))
        paths.append(path)
    tasks = [Task(str(number), Pods("p", 1, ()), tuple(path)) for number, path in enumerate(paths)]
    gone = {branch.path for branch, _ in lost(tree_of(tasks, LEVELS))}
    kept = podgroup(paths)
    expected = set()
    for path in paths:
        for number, requirement in enumerate(path, 1):
            group = tuple(step.group for step in path[:number])
            together = [other for tasks_of, other in kept if other.required and members(paths, group) <= tasks_of]
            if requirement.required and all(rank(other) < rank(requirement) for other in together):
                expected.add(group)
    assert gone == expected


def rank(requirement: Requirement) -> int:
    return LEVELS.rank(requirement.level) if requirement.level else 0


@each_case("tables/integrations.yaml")
def test_where_pools_stand(document: dict[str, Any], names: list[str]) -> None:
    assert POOL.claims(document)
    assert [(topology.name, topology.levels) for topology in pools_of(document)] == [(name, (ZONE,)) for name in names]


@each_case("tables/integrations.yaml")
def test_what_is_no_pool(document: dict[str, Any]) -> None:
    assert not POOL.claims(document)


def test_backends() -> None:
    backend = {"backends": [{"name": "default", "scheduler_settings": {"scheduler_type": "kai"}}]}
    assert POOL.claims(backend)
    assert schedulers_of(backend) == {"default": "kai"}
