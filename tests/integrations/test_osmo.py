"""OSMO's workflows: the constraint tree, each rule kept and broken in OSMO's own words, and what its PodGroup loses."""

import random
from typing import Any

import pytest

from tests.support.workloads import RACK, ZONE, accepted, understood
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.osmo.pod_group import Requirement, Task, lost, tree_of
from toposcope.integrations.osmo.workload import SYSTEM as OSMO
from toposcope.integrations.registry import with_documents
from toposcope.topology.levels import Level

SPINE = Level("spine", "example.com/spine")


def pool(*levels: Level, name: str = "train-pool", **more: Any) -> dict[str, Any]:
    keys = [{"key": level.domain, "label": level.key} for level in levels or (ZONE, SPINE, RACK)]
    return {"pools": {name: {"backend": "default", "topology_keys": keys, **more}}}


def asks(key: str, group: str | None = None, kind: str | None = None) -> dict[str, str]:
    """One topology requirement; what is None is left to its default."""
    given = {"key": key, "group": group, "requirementType": kind}
    return {name: value for name, value in given.items() if value is not None}


def workflow(tasks: dict[str, str], resources: dict[str, list[Any]], **more: Any) -> dict[str, Any]:
    """One group of tasks by name and resource; every resource is a node of 8 GPUs with these requirements."""
    group = {
        "name": "train",
        "tasks": [{"name": name, "image": "python", "resource": resource} for name, resource in tasks.items()],
    }
    specs = {name: {"gpu": 8, "topology": topology} for name, topology in resources.items()}
    return {"workflow": {"name": "llm", "groups": [group], "resources": specs, **more}}


def read(document: dict[str, Any], *others: dict[str, Any], known: ClusterFacts | None = None) -> Reading:
    """The document in one run with others; without them with the usual pool."""
    return OSMO.read(document, with_documents(known or ClusterFacts(), others or (pool(),)))


def reported(reading: Reading) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.field, finding.message) for finding in reading.findings]


TWO_MODELS = {
    "model-1": [asks("rack", "model-1"), asks("zone", "all")],
    "model-2": [asks("rack", "model-2"), asks("zone", "all")],
}
FOUR_SHARDS = {"m1-a": "model-1", "m1-b": "model-1", "m2-a": "model-2", "m2-b": "model-2"}


def tree(group: Group) -> tuple[Any, ...]:
    """Required and preferred domain, pods, and the same of the groups below."""
    levels = (group.required and group.required.domain, group.preferred and group.preferred.domain)
    return (*levels, sum(pods.count for pods in group.pods), [tree(below) for below in group.groups])


def test_groups_are_a_tree_in_the_order_of_the_pool() -> None:
    workload = accepted(read(workflow(FOUR_SHARDS, TWO_MODELS)))
    assert (workload.handle, workload.topology) == ("workflow/llm", None)
    assert [level.domain for level in workload.levels] == ["zone", "spine", "rack"]
    (whole,) = workload.groups
    racks: list[Any] = [("rack", None, 2, []), ("rack", None, 2, [])]
    assert tree(whole) == (None, None, 0, [("zone", None, 0, racks)])
    assert whole.total() == {"pods": 4, "nvidia.com/gpu": 32}


def test_the_defaults_are_one_required_group() -> None:
    workload = accepted(read(workflow({"a": "default", "b": "default"}, {"default": [{"key": "rack"}]})))
    assert tree(workload.groups[0]) == (None, None, 0, [("rack", None, 2, [])])


def test_a_group_is_the_same_only_below_the_same_groups() -> None:
    resources = {
        "a": [asks("zone", "zone-a"), asks("rack", "one")],
        "b1": [asks("zone", "zone-b"), asks("rack", "one")],
        "b2": [asks("zone", "zone-b"), asks("rack", "two")],
    }
    workload = accepted(read(workflow({"t1": "a", "t2": "a", "t3": "b1", "t4": "b2"}, resources)))
    zone_a: Any = ("zone", None, 0, [("rack", None, 2, [])])
    zone_b: Any = ("zone", None, 0, [("rack", None, 1, []), ("rack", None, 1, [])])
    assert tree(workload.groups[0]) == (None, None, 0, [zone_a, zone_b])


def test_preferred_groups() -> None:
    resources = {"r": [asks("rack", "m", "preferred")]}
    workload = accepted(read(workflow({"a": "r", "b": "r"}, resources)))
    assert tree(workload.groups[0]) == (None, None, 0, [(None, "rack", 2, [])])


def test_what_a_resource_takes() -> None:
    document = workflow({"a": "default"}, {"default": []})
    sizes = {"cpu": 4, "memory": "16Gi", "storage": "1Gi", "gpu": 2}
    document["workflow"]["resources"]["default"] = {**sizes, "platform": "h100", "nodesExcluded": ["bad-1"]}
    workload = accepted(read(document))
    (pods,) = workload.groups[0].pods
    assert dict(pods.requests) == {"cpu": 4000, "memory": 16 << 30, "ephemeral-storage": 1 << 30, "nvidia.com/gpu": 2}
    assert pods.node_filter.terms == ((Expression("metadata.name", "NotIn", ("bad-1",), field=True),),)


def test_each_group_of_tasks_is_placed_by_itself() -> None:
    document = workflow({"a": "r"}, {"r": [asks("rack")]})
    document["workflow"]["groups"].append({"name": "then", "tasks": [{"name": "b", "resource": "r"}]})
    document["workflow"]["tasks"] = [{"name": "alone", "resource": "r"}]
    reading = read(document)
    handles = [workload.handle for workload in (understood(reading), *reading.stages)]
    assert handles == ["workflow/llm, group train", "workflow/llm, group then", "workflow/llm, group alone"]


KEYS = "Topology validation failed: All tasks must use the same topology keys. Found different key sets: "
ADVICE = (
    "Either all tasks should have topology requirements with the same keys, "
    "or no tasks should have topology requirements."
)
AVAILABLE = (
    "in resource \"r\" is not available in pool \"train-pool\". Available topology keys: ['rack', 'spine', 'zone']"
)


@pytest.mark.parametrize(
    ("requirement", "rule", "at", "message"),
    [
        (asks("rak"), "osmo/key-available", ".key", f'Topology key "rak" {AVAILABLE}'),
        (asks("example.com/rack"), "osmo/key-available", ".key", f'Topology key "example.com/rack" {AVAILABLE}'),
        ({"group": "g"}, "osmo/topology-key", ".key", "Field required"),
        (
            asks("rack", kind="Required"),
            "osmo/requirement-type",
            ".requirementType",
            "Input should be 'required' or 'preferred'",
        ),
        ({"key": "rack", "level": 1}, "osmo/topology-fields", ".level", "Extra inputs are not permitted"),
        ({"key": 7}, "type", ".key", "is 7, expected a string"),
    ],
)
def test_what_is_refused_of_a_requirement(requirement: Any, rule: str, at: str, message: str) -> None:
    findings = reported(read(workflow({"a": "r", "b": "r"}, {"r": [requirement]})))
    assert (rule, f"workflow.resources.r.topology[0]{at}", message) in [
        (found, field, text.partition(" (")[0]) for found, field, text in findings
    ]


def test_all_tasks_of_a_group_use_the_same_keys() -> None:
    resources = {"one": [asks("zone"), asks("rack")], "other": [asks("zone")]}
    reading = read(workflow({"a": "one", "b": "other"}, resources))
    message = f"{KEYS}['rack, zone', 'zone']. {ADVICE}"
    assert reported(reading) == [("osmo/same-keys", "workflow.groups[0].tasks", message)]
    assert not understood(reading).placeable


def test_a_key_that_stands_there_twice() -> None:
    ((rule, field, _),) = reported(read(workflow({"a": "r", "b": "r"}, {"r": [asks("rack", "x"), asks("rack", "y")]})))
    assert (rule, field) == ("osmo/key-twice", "workflow.resources.r.topology[1].key")


def test_a_resource_that_is_not_there() -> None:
    (finding,) = read(workflow({"a": "defualt"}, {"default": []})).findings
    assert (finding.rule, finding.field) == ("osmo/resource-found", "workflow.groups[0].tasks[0].resource")
    assert finding.fix == "did you mean 'default'?"


def test_resources_beside_the_workflow_are_not_read_by_osmo() -> None:
    document = workflow({"a": "r", "b": "r"}, {"r": [asks("rack")]})
    document["resources"] = document["workflow"].pop("resources")
    reading = read(document)
    assert [finding.rule for finding in reading.findings] == ["osmo/resources"]
    assert understood(reading).groups[0].groups[0].required == RACK


def test_which_pool() -> None:
    document = workflow({"a": "r", "b": "r"}, {"r": [asks("cell")]}, pool="second")
    cell = pool(ZONE, name="second")
    cell["pools"]["second"]["topology_keys"][0]["key"] = "cell"
    assert reported(read(document, pool(), cell)) == []
    assert [rule for rule, _, _ in reported(read(document, pool(), pool(ZONE, name="third")))] == ["osmo/pool-unknown"]


def test_without_a_pool_the_levels_of_the_only_topology_stand_in() -> None:
    document = workflow({"a": "r", "b": "r"}, {"r": [asks("rack")]})
    known = ClusterFacts({"cluster": TopologyLevels("cluster", (ZONE, RACK))})
    reading = OSMO.read(document, known)
    assert [(finding.severity, finding.rule) for finding in reading.findings] == [("advice", "osmo/pool-unknown")]
    workload = understood(reading)
    assert workload.groups[0].groups[0].required == RACK
    assert any("stand in" in note for note in workload.notes)
    assert not understood(OSMO.read(workflow({"a": "r"}, {"r": [asks("gpu-clique")]}), known)).placeable


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
