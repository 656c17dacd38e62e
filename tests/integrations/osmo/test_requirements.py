"""What OSMO refuses of the resources of a workflow and their topology requirements."""

from typing import Any

import pytest
from tests.integrations.clusters import POOL
from tests.integrations.osmo.workflow import ALL_NODES_COUNT, REQUIREMENT, REQUIREMENTS, RESOURCES, TASKS
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression


def task(name: str, resource: str) -> dict[str, str]:
    """A task of a group."""
    return {"name": name, "image": "python", "resource": resource}


def read_osmo(edits: Edits | None = None) -> Read:
    return read("OSMO", document("osmo/workflow", edits), POOL)


@pytest.mark.parametrize(
    ("requirement", "message", "fix"),
    [
        pytest.param(
            {"key": "rak"},
            (
                'Topology key "rak" in resource "r" is not available in pool "train-pool". Available '
                "topology keys: ['rack', 'spine', 'zone']"
            ),
            "did you mean 'rack'?",
            id="misspelt",
        ),
        pytest.param(
            {"key": "example.com/rack"},
            (
                'Topology key "example.com/rack" in resource "r" is not available in pool "train-pool". '
                "Available topology keys: ['rack', 'spine', 'zone']"
            ),
            "there are: rack, spine, zone",
            id="label-key",
        ),
    ],
)
def test_key_that_the_pool_lacks_is_refused(requirement: dict[str, Any], message: str, fix: str) -> None:
    answer = read_osmo({REQUIREMENT: requirement})
    assert answer.findings == [error("osmo/key-available", "workflow.resources.r.topology[0].key", message, fix=fix)]


def test_requirement_without_key_is_refused() -> None:
    answer = read_osmo({REQUIREMENT: {"group": "g"}})
    assert answer.findings == [
        error(
            "osmo/topology-key",
            "workflow.resources.r.topology[0].key",
            "Field required",
            fix="name a topology key of the pool",
        )
    ]


def test_requirement_type_in_capitals_is_refused() -> None:
    answer = read_osmo({REQUIREMENT: {"key": "rack", "requirementType": "Required"}})
    assert answer.findings == [
        error(
            "osmo/requirement-type",
            "workflow.resources.r.topology[0].requirementType",
            "Input should be 'required' or 'preferred'",
            fix="did you mean 'required'?",
        )
    ]


def test_unknown_field_of_a_requirement_is_refused() -> None:
    answer = read_osmo({REQUIREMENT: {"key": "rack", "level": 1}})
    assert answer.findings == [
        error(
            "osmo/topology-fields",
            "workflow.resources.r.topology[0].level",
            "Extra inputs are not permitted",
            fix="there are: group, key, requirementType",
        )
    ]


def test_key_that_is_no_text_is_refused() -> None:
    answer = read_osmo({REQUIREMENT: {"key": 7}})
    assert answer.findings == [
        error("type", "workflow.resources.r.topology[0].key", "is 7, expected a string", fix="put it in quotes"),
        error(
            "osmo/topology-key",
            "workflow.resources.r.topology[0].key",
            "Field required",
            fix="name a topology key of the pool",
        ),
    ]


def test_key_twice_in_one_resource_is_warned_of() -> None:
    answer = read_osmo({REQUIREMENTS: [{"key": "rack", "group": "x"}, {"key": "rack", "group": "y"}]})
    assert answer.findings == [
        warning(
            "osmo/key-twice",
            "workflow.resources.r.topology[1].key",
            "'rack' is listed twice; OSMO creates a group within its group",
            fix="name each key once",
        )
    ]


def test_unknown_resource_is_refused() -> None:
    answer = read_osmo({TASKS: [task("a", "defualt")], RESOURCES: {"default": {"gpu": 8, "topology": []}}})
    assert answer.findings == [
        error(
            "osmo/resource-found",
            "workflow.groups[0].tasks[0].resource",
            "resource 'defualt' is not in workflow.resources",
            fix="did you mean 'default'?",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm, a gang
          group train: 1 defualt
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_resources_beside_the_workflow_are_warned_of() -> None:
    answer = read_osmo({RESOURCES: None, "resources": {"r": {"gpu": 8, "topology": [{"key": "rack"}]}}})
    assert answer.findings == [
        warning(
            "osmo/resources", "resources", "OSMO reads resources inside workflow only", fix="indent them below workflow"
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            rack group default: required rack; 2 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]
