"""Fields of other types than the CRD's: told and left out, and never a crash."""

from typing import Any

import pytest
from tests.support.cluster import topology
from tests.support.tables import each_case
from toposcope.api.cluster_topology import read


@each_case("tables/api.yaml")
def test_a_field_of_another_type_is_told_and_left_out(spec: dict[str, Any], problem: str) -> None:
    assert topology(**spec).problems == (problem,)


def test_a_spec_that_is_no_mapping() -> None:
    found = read({"metadata": {"name": "x"}, "spec": ["levels"]})
    assert found.problems == ("spec: is not a mapping; write fields such as levels below it",)
    assert found.levels is None


def test_a_period_of_years_is_no_period() -> None:
    assert topology(gracePeriod="9" * 400 + "h").problems[0].endswith("as in '10m'; 10m is used")


@each_case("tables/api.yaml")
def test_a_status_that_cannot_be_read_was_not_said(status: Any) -> None:
    found = read({"metadata": {"name": "x"}, "status": status})
    assert dict(found.status) == {}
    assert found.last_levels == ()


@pytest.mark.parametrize("owners", [None, "x", [None], [{"controller": True}], [{"controller": True, "kind": "Node"}]])
def test_owners_of_other_types_are_no_owners(owners: Any) -> None:
    metadata = {"name": "x", "labels": {"app.kubernetes.io/managed-by": "toposcope"}, "ownerReferences": owners}
    assert read({"metadata": metadata}).owner == ""
