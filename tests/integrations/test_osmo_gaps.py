"""What OSMO's PodGroup loses: the cases one by one, and against a PodGroup built as OSMO builds it."""

import random
from typing import Any

import pytest

from tests.integrations.osmo_documents import RACK, SPINE, ZONE, asks, read, reported, workflow
from tests.support.workloads import understood
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.osmo.pod_group import Requirement, Task, lost, tree_of

RESOURCE = "workflow.resources.{}.topology[{}]"


def test_a_required_zone_shared_by_all_is_lost_behind_a_preferred_rack() -> None:
    resources = {"r": [asks("zone", "all"), asks("rack", "m", "preferred")]}
    ((rule, field, message),) = reported(read(workflow({"a": "r", "b": "r"}, resources)))
    assert (rule, field) == ("osmo/required-lost", RESOURCE.format("r", 0))
    assert message == (
        "required 'zone' is lost for tasks of 'train': OSMO writes only preferred 'rack' into the PodGroup"
    )


@pytest.mark.parametrize(
    "resources",
    [
        {"r": [asks("zone", "all"), asks("rack", "m")]},
        {"r": [asks("zone", "all", "preferred"), asks("rack", "m")]},
        {"r": [asks("zone", "all", "preferred"), asks("rack", "m", "preferred")]},
        {
            "r": [asks("zone", "all"), asks("rack", "m", "preferred")],
            "s": [asks("zone", "all"), asks("rack", "n", "preferred")],
        },
    ],
)
def test_nothing_is_lost(resources: dict[str, Any]) -> None:
    assert reported(read(workflow({f"t{name}": name for name in resources}, resources))) == []


def test_group_names_that_become_one_when_joined() -> None:
    resources = {"r": [asks("zone", "a-b"), asks("rack", "c")], "s": [asks("zone", "a"), asks("rack", "b-c")]}
    ((rule, field, message),) = reported(read(workflow({"t1": "r", "t2": "s"}, resources)))
    assert (rule, field) == ("osmo/group-collision", RESOURCE.format("s", 1))
    assert message == (
        "groups a-b/c and a/b-c are both called 'a-b-c' by OSMO, which fails with IndexError or takes them for one"
    )
    resources["s"] = [asks("zone", "d"), asks("rack", "b-c")]
    assert reported(read(workflow({"t1": "r", "t2": "s"}, resources))) == []


def test_a_group_that_is_both_required_and_preferred() -> None:
    resources = {"r": [asks("rack", "m", "preferred")], "s": [asks("rack", "m")]}
    reading = read(workflow({"t1": "r", "t2": "s"}, resources))
    ((rule, _, message),) = reported(reading)
    assert rule == "osmo/mixed-requirement"
    assert message == "group 'm' is both required and preferred; OSMO uses the first of its tasks: preferred"
    assert understood(reading).groups[0].groups[0].required == RACK


@pytest.mark.parametrize(
    ("groups", "where"), [(["m"], "are put under the constraint of the others"), (["m", "n"], "may be placed anywhere")]
)
def test_tasks_without_requirements(groups: list[str], where: str) -> None:
    resources = {group: [asks("rack", group)] for group in groups} | {"none": []}
    tasks = {f"in-{group}": group for group in groups} | {"loose": "none"}
    ((rule, field, message),) = reported(read(workflow(tasks, resources)))
    assert (rule, field) == ("osmo/without-requirements", "workflow.groups[0].tasks")
    assert message == f"tasks without topology {where}: loose"


LEVELS = TopologyLevels("pool", (ZONE, SPINE, RACK))


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
            group = tuple(one.group for one in path[:number])
            together = [other for tasks_of, other in kept if other.required and members(paths, group) <= tasks_of]
            if requirement.required and all(rank(other) < rank(requirement) for other in together):
                expected.add(group)
    assert gone == expected


def rank(requirement: Requirement) -> int:
    return LEVELS.rank(requirement.level) if requirement.level else 0
