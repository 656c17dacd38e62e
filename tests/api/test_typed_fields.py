"""Fields of other types than the CRD's: reported and left out, and never a crash."""

from typing import Any

import pytest
from tests.support.cluster import topology
from toposcope.api.cluster_topology import read

NUMBER_FOR_TEXT = "Expected text, got a number (put it in quotes); it is left out"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {"levels": "rack"},
            "spec.levels: Expected a list, got text; it is left out",
            id="levels",
        ),
        pytest.param(
            {"levels": [{"domain": 7}]},
            f"spec.levels[0].domain: {NUMBER_FOR_TEXT}",
            id="domain",
        ),
        pytest.param(
            {"required": ["rack", 1]},
            f"spec.required[1]: {NUMBER_FOR_TEXT}",
            id="required",
        ),
        pytest.param(
            {"minCoveragePercent": "95"},
            "spec.minCoveragePercent: Expected a number, got text; it is left out",
            id="coverage-as-text",
        ),
        pytest.param(
            {"minCoveragePercent": 0},
            "spec.minCoveragePercent: 0 is not a percentage from 1 to 100; 95 is used",
            id="coverage-too-low",
        ),
        pytest.param(
            {"minCoveragePercent": 101},
            "spec.minCoveragePercent: 101 is not a percentage from 1 to 100; 95 is used",
            id="coverage-too-high",
        ),
        pytest.param(
            {"gracePeriod": 600},
            f"spec.gracePeriod: {NUMBER_FOR_TEXT}",
            id="grace-period",
        ),
        pytest.param(
            {"publish": ["kai"]},
            "spec.publish: Expected a mapping, got a list; it is left out",
            id="publish",
        ),
        pytest.param(
            {"nodeSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}},
            "spec.nodeSelector.matchExpressions[0].operator: Invalid enum value 'Is'; it is left out",
            id="operator",
        ),
        pytest.param(
            {"nodeSelector": {"matchExpressions": [{"operator": "Exists"}]}},
            "spec.nodeSelector.matchExpressions[0]: Object missing required field `key`; it is left out",
            id="missing-key",
        ),
    ],
)
def test_field_of_another_type_is_reported_and_left_out(spec: dict[str, Any], problem: str) -> None:
    assert topology(**spec).problems == (problem,)


def topology_object(**fields: Any) -> dict[str, Any]:
    """A ClusterTopology with these fields beside its name."""
    return {"metadata": {"name": "x"}, **fields}


def test_spec_that_is_no_mapping_is_reported() -> None:
    found = read(topology_object(spec=["levels"]))
    assert found.problems == ("spec: is not a mapping; write fields such as levels below it",)
    assert found.levels is None


def test_grace_period_of_too_many_digits_is_replaced() -> None:
    endless = "9" * 400 + "h"
    problem = topology(gracePeriod=endless).problems[0]
    assert problem.endswith("as in '10m'; 10m is used")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(
            "Ready",
            id="text",
        ),
        pytest.param(
            {"levels": [{"domain": "rack"}], "conditions": "none"},
            id="incomplete-level",
        ),
        pytest.param(
            {"preferredBy": [{"domain": "rack", "workloads": 1}], "segments": [{"levels": []}], "published": [None]},
            id="incomplete-entries",
        ),
    ],
)
def test_status_that_cannot_be_read_counts_as_none(status: Any) -> None:
    found = read(topology_object(status=status))
    assert dict(found.status) == {}
    assert found.last_levels == ()


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param(
            None,
            id="none",
        ),
        pytest.param(
            "x",
            id="text",
        ),
        pytest.param(
            [None],
            id="no-object",
        ),
        pytest.param(
            [{"controller": True}],
            id="no-kind",
        ),
        pytest.param(
            [{"controller": True, "kind": "Node"}],
            id="no-name",
        ),
    ],
)
def test_owner_of_another_type_is_no_owner(owners: Any) -> None:
    metadata = {
        "name": "x",
        "labels": {"app.kubernetes.io/managed-by": "toposcope"},
        "ownerReferences": owners,
    }
    found = read({"metadata": metadata})
    assert found.owner == ""
