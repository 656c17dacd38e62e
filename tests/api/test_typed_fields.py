"""Fields of other types than the CRD's: told and left out, and never a crash."""

from typing import Any

import pytest

from tests.support.cluster import topology
from toposcope.api.cluster_topology import read


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"levels": "rack"}, "spec.levels: Expected a list, got text; it is left out"),
        (
            {"levels": [{"domain": 7}]},
            "spec.levels[0].domain: Expected text, got a number (put it in quotes); it is left out",
        ),
        ({"required": ["rack", 1]}, "spec.required[1]: Expected text, got a number (put it in quotes); it is left out"),
        ({"minCoveragePercent": "95"}, "spec.minCoveragePercent: Expected a number, got text; it is left out"),
        ({"minCoveragePercent": 0}, "spec.minCoveragePercent: 0 is not a percentage from 1 to 100; 95 is used"),
        ({"minCoveragePercent": 101}, "spec.minCoveragePercent: 101 is not a percentage from 1 to 100; 95 is used"),
        ({"gracePeriod": 600}, "spec.gracePeriod: Expected text, got a number (put it in quotes); it is left out"),
        ({"publish": ["kai"]}, "spec.publish: Expected a mapping, got a list; it is left out"),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}},
            "spec.nodeSelector.matchExpressions[0].operator: Invalid enum value 'Is'; it is left out",
        ),
        (
            {"nodeSelector": {"matchExpressions": [{"operator": "Exists"}]}},
            "spec.nodeSelector.matchExpressions[0]: Object missing required field `key`; it is left out",
        ),
    ],
)
def test_a_field_of_another_type_is_told_and_left_out(spec: dict[str, Any], problem: str) -> None:
    assert topology(**spec).problems == (problem,)


def test_a_spec_that_is_no_mapping() -> None:
    found = read({"metadata": {"name": "x"}, "spec": ["levels"]})
    assert found.problems == ("spec: is not a mapping; write fields such as levels below it",)
    assert found.levels is None


def test_a_period_of_years_is_no_period() -> None:
    assert topology(gracePeriod="9" * 400 + "h").problems[0].endswith("as in '10m'; 10m is used")


@pytest.mark.parametrize(
    "status",
    [
        "Ready",
        {"levels": [{"domain": "rack"}], "conditions": "none"},
        {"preferredBy": [{"domain": "rack", "workloads": 1}], "segments": [{"levels": []}], "published": [None]},
    ],
)
def test_a_status_that_cannot_be_read_was_not_said(status: Any) -> None:
    found = read({"metadata": {"name": "x"}, "status": status})
    assert dict(found.status) == {}
    assert found.last_levels == ()


@pytest.mark.parametrize("owners", [None, "x", [None], [{"controller": True}], [{"controller": True, "kind": "Node"}]])
def test_owners_of_other_types_are_no_owners(owners: Any) -> None:
    metadata = {"name": "x", "labels": {"app.kubernetes.io/managed-by": "toposcope"}, "ownerReferences": owners}
    assert read({"metadata": metadata}).owner == ""
