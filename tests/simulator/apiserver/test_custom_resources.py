"""Custom resources: their CRDs' names, schema checks, pruning, defaults, status, generation, applies."""

from typing import Any

import pytest
from tests.simulator.apiserver.widgets import GROUP, WIDGETS, gizmo_crd, widget, widget_crd
from tests.support.api import CRDS, ApiUnderTest, crd_conditions, wait_until
from tests.support.tables import each_case

GIZMOS = f"/apis/{GROUP}/v1/gizmos"


@pytest.fixture
def served(api: ApiUnderTest) -> ApiUnderTest:
    api.ensure_crd(widget_crd())
    return api


def test_crd_is_completed_and_established(api: ApiUnderTest) -> None:
    made = api.create(CRDS, gizmo_crd())
    assert made["spec"]["names"]["singular"] == "gizmo"
    assert made["spec"]["names"]["listKind"] == "GizmoList"
    assert made["metadata"]["generation"] == 1
    crd = api.settled_crd(f"gizmos.{GROUP}")
    assert crd_conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    reasons = {condition["reason"] for condition in crd["status"]["conditions"]}
    assert reasons == {"NoConflicts", "InitialNamesAccepted"}
    assert crd["status"]["acceptedNames"]["shortNames"] == ["gz"]
    assert crd["status"]["storedVersions"] == ["v1"]


def test_discovery_lists_its_group_and_its_verbs(served: ApiUnderTest) -> None:
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert sorted(served.get(f"/apis/{GROUP}/v1")["resources"][0]["verbs"]) == [*verbs]
    assert GROUP in [group["name"] for group in served.get("/apis")["groups"]]


def test_removed_crd_takes_its_objects_along(api: ApiUnderTest) -> None:
    api.install_crd(gizmo_crd())
    api.create(GIZMOS, {**widget(), "kind": "Gizmo"})
    api.remove_crd(f"gizmos.{GROUP}")
    wait_until(lambda: api.request("GET", GIZMOS)[0] == 404, "gizmos are no longer served")
    api.install_crd(gizmo_crd())
    assert api.get(GIZMOS)["items"] == []


def test_unknown_fields_are_dropped_with_a_warning(served: ApiUnderTest) -> None:
    answer = served.ask("POST", WIDGETS, widget(typo=1, free={"any": {"thing": 1}}))
    assert answer.code == 201
    assert "typo" not in answer.body["spec"]
    assert answer.body["spec"]["free"] == {"any": {"thing": 1}}
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'


@each_case("simulator.yaml")
def test_what_the_schema_refuses(served: ApiUnderTest, spec: dict[str, Any], message: str) -> None:
    code, answer = served.request("POST", WIDGETS, widget(**spec))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith('Widget.example.com "w1" is invalid: ')
    assert message in answer["message"]
