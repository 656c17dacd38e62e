"""OSMO's workflows: the constraint tree, and each rule kept and broken, in OSMO's own words."""

from typing import Any

import pytest

from tests.integrations.osmo_documents import RACK, ZONE, asks, pool, read, reported, workflow
from tests.support.workloads import accepted, understood
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.osmo.workload import SYSTEM as OSMO

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
