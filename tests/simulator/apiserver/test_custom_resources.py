"""Custom resources: their CRDs' names, schema checks, pruning, defaults, status, generation, applies."""

from typing import Any

import pytest
from tests.simulator.apiserver.dialogue import TABLE, applied, conflict, expect, get, version_of
from tests.simulator.apiserver.widgets import GROUP, WIDGETS, gizmo_crd, widget, widget_crd
from tests.support.api import CRDS, ApiUnderTest, crd_conditions, wait_until

GIZMOS = f"/apis/{GROUP}/v1/gizmos"
WIDGET = f"{WIDGETS}/w1"


@pytest.fixture
def served(api: ApiUnderTest) -> ApiUnderTest:
    """An API server that serves widgets."""
    api.ensure_crd(widget_crd())
    return api


# The CRD


def test_crd_is_completed_and_established(api: ApiUnderTest) -> None:
    created = api.create(CRDS, gizmo_crd())
    assert created["spec"]["names"]["singular"] == "gizmo"
    assert created["spec"]["names"]["listKind"] == "GizmoList"
    assert created["metadata"]["generation"] == 1

    crd = api.settled_crd(f"gizmos.{GROUP}")
    assert crd_conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    reasons = {condition["reason"] for condition in crd["status"]["conditions"]}
    assert reasons == {"NoConflicts", "InitialNamesAccepted"}
    assert crd["status"]["acceptedNames"]["shortNames"] == ["gz"]
    assert crd["status"]["storedVersions"] == ["v1"]


def test_removed_crd_takes_its_objects_along(api: ApiUnderTest) -> None:
    def is_gone() -> bool:
        code, _answer = api.request("GET", GIZMOS)
        return code == 404

    api.install_crd(gizmo_crd())
    api.create(GIZMOS, {**widget(), "kind": "Gizmo"})
    api.remove_crd(f"gizmos.{GROUP}")
    wait_until(is_gone, "gizmos are no longer served")
    api.install_crd(gizmo_crd())
    assert api.get(GIZMOS)["items"] == []


def test_discovery_lists_resources_with_their_verbs(served: ApiUnderTest) -> None:
    widgets, status = served.get(f"/apis/{GROUP}/v1")["resources"]
    assert widgets["name"] == "widgets"
    assert widgets["kind"] == "Widget"
    assert widgets["shortNames"] == ["wg"]
    assert widgets["namespaced"] is False
    assert sorted(widgets["verbs"]) == [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]
    assert status["name"] == "widgets/status"


def test_discovery_lists_the_group_with_its_version(served: ApiUnderTest) -> None:
    assert GROUP in [group["name"] for group in served.get("/apis")["groups"]]
    group = served.get(f"/apis/{GROUP}")
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}


def test_unserved_resource_of_a_served_group_is_not_found(served: ApiUnderTest) -> None:
    code, answer = served.request("GET", f"/apis/{GROUP}/v1/gadgets")
    assert code == 404
    assert "404 page not found" in answer


def test_missing_object_is_not_found(served: ApiUnderTest) -> None:
    code, answer = served.request("GET", f"{WIDGETS}/none")
    assert code == 404
    assert answer["message"] == 'widgets.example.com "none" not found'
    assert answer["details"] == {"name": "none", "group": GROUP, "kind": "widgets"}


# The schema


def test_defaults_are_filled_in(served: ApiUnderTest) -> None:
    created = served.create(WIDGETS, widget(parts=[{"name": "x"}], count=None))
    assert created["spec"] == {"name": "abc", "count": 3, "parts": [{"name": "x", "weight": 1}]}


def test_schema_allows_what_fits(served: ApiUnderTest) -> None:
    fitting = {"port": "http", "tags": ["b", "a"], "maybe": None, "mode": "Never", "extra": {"a": "1"}}
    created = served.create(WIDGETS, widget(**fitting))
    assert created["spec"] == {"name": "abc", "count": 3, **fitting}
    patched = served.patch(WIDGET, {"spec": {"port": 80}})
    assert patched["spec"]["port"] == 80


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"name": "ABC"},
            "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
            id="pattern",
        ),
        pytest.param({"name": None}, "spec.name: Required value", id="required"),
        pytest.param({"name": 1}, "spec.name in body must be of type string", id="type"),
        pytest.param({"mode": "x"}, 'spec.mode: Unsupported value: "x": supported values: "Auto", "Never"', id="enum"),
        pytest.param({"parts": [{}]}, "spec.parts[0].name: Required value", id="required-in-list"),
        pytest.param(
            {"parts": [{"name": "x", "weight": 2147483648}]},
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.parts[0].weight',
            id="format",
        ),
    ],
)
def test_schema_refuses_what_does_not_fit(served: ApiUnderTest, spec: dict[str, Any], message: str) -> None:
    code, answer = served.request("POST", WIDGETS, widget(**spec))
    assert code == 422
    assert answer["reason"] == "Invalid"
    assert answer["message"].startswith('Widget.example.com "w1" is invalid: ')
    assert message in answer["message"]


def test_unknown_fields_are_dropped_with_a_warning(served: ApiUnderTest) -> None:
    answer = served.ask("POST", WIDGETS, widget(typo=1, free={"any": {"thing": 1}}))
    assert answer.code == 201
    assert "typo" not in answer.body["spec"]
    assert answer.body["spec"]["free"] == {"any": {"thing": 1}}
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'


# Generation and status


def test_generation_counts_changes_of_the_spec(served: ApiUnderTest) -> None:
    created = served.create(WIDGETS, widget())
    assert created["metadata"]["generation"] == 1
    labelled = served.patch(WIDGET, {"metadata": {"labels": {"a": "1"}}})
    assert labelled["metadata"]["generation"] == 1
    counted = served.patch(f"{WIDGET}/status", {"status": {"nodes": 1}})
    assert counted["metadata"]["generation"] == 1
    changed = served.patch(WIDGET, {"spec": {"count": 4}})
    assert changed["metadata"]["generation"] == 2


def test_status_has_its_own_endpoint(served: ApiUnderTest) -> None:
    created = served.create(WIDGETS, widget())
    assert "status" not in created

    everything = {"metadata": {"labels": {"a": "1"}}, "spec": {"count": 5}, "status": {"nodes": 2}}
    patched = served.patch(f"{WIDGET}/status", everything)
    assert patched["spec"]["count"] == 3
    assert patched["status"] == {"nodes": 2}
    assert "labels" not in patched["metadata"]

    patched = served.patch(WIDGET, {"spec": {"count": 5}, "status": {"nodes": 7}})
    assert patched["spec"]["count"] == 5
    assert patched["status"] == {"nodes": 2}
    assert served.get(f"{WIDGET}/status")["status"] == {"nodes": 2}


def test_status_is_checked_against_the_schema(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())
    code, _answer = served.request(
        "PATCH", f"{WIDGET}/status", {"status": {"nodes": "x"}}, content_type="application/merge-patch+json"
    )
    assert code == 422


# Applies


def test_apply_creates_and_owns_its_fields(served: ApiUnderTest) -> None:
    created = applied(served, WIDGET, widget(parts=[{"name": "x", "value": "1"}], tags=["a"]), "tester", code=201)
    fields = created["metadata"]["managedFields"][0]
    assert fields["manager"] == "tester"
    assert fields["fieldsV1"]["f:spec"] == {
        "f:name": {},
        "f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:tags": {'v:"a"': {}},
    }


def test_two_appliers_share_lists_of_maps_and_sets(served: ApiUnderTest) -> None:
    applied(served, WIDGET, widget(parts=[{"name": "x", "value": "1"}], tags=["a"]), "first", code=201)
    shared = applied(served, WIDGET, widget(parts=[{"name": "y"}], tags=["b"]), "second")
    assert [part["name"] for part in shared["spec"]["parts"]] == ["x", "y"]
    assert shared["spec"]["tags"] == ["a", "b"]
    assert shared["metadata"]["generation"] == 2

    refusal = conflict(served, WIDGET, widget(parts=[{"name": "x", "value": "2"}]), "second")
    assert 'conflict with "first": .spec.parts[name="x"].value' in refusal["message"]

    left = applied(served, WIDGET, widget(), "first")
    assert [part["name"] for part in left["spec"]["parts"]] == ["y"]
    assert left["spec"]["tags"] == ["b"]

    empty = applied(served, WIDGET, widget(), "second")
    assert "parts" not in empty["spec"]
    assert "tags" not in empty["spec"]


def test_list_without_a_type_is_replaced_whole(served: ApiUnderTest) -> None:
    applied(served, WIDGET, widget(order=["a", "b"]), "first", code=201)
    refusal = conflict(served, WIDGET, widget(order=["a", "b", "c"]), "second")
    assert 'conflict with "first": .spec.order' in refusal["message"]

    forced = applied(served, WIDGET, widget(order=["c"]), "second", force=True)
    assert forced["spec"]["order"] == ["c"]


def test_conditions_are_applied_by_type(served: ApiUnderTest) -> None:
    def condition(kind: str, status: str) -> dict[str, Any]:
        conditions = [{"type": kind, "status": status}]
        return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "status": {"conditions": conditions}}

    served.create(WIDGETS, widget())
    applied(served, f"{WIDGET}/status", condition("Ready", "True"), "one")
    both = applied(served, f"{WIDGET}/status", condition("Published", "False"), "two")
    assert [entry["type"] for entry in both["status"]["conditions"]] == ["Ready", "Published"]

    refusal = conflict(served, f"{WIDGET}/status", condition("Ready", "False"), "two")
    field = '.status.conditions[type="Ready"].status'
    assert f'conflict with "one" with subresource "status": {field}' in refusal["message"]


def test_dry_run_of_an_apply_checks_everything(served: ApiUnderTest) -> None:
    created = applied(served, WIDGET, widget(), "a&dryRun=All", code=201)
    assert created["spec"]["count"] == 3
    code, _answer = served.request("GET", WIDGET)
    assert code == 404
    applied(served, WIDGET, widget(mode="x"), "a&dryRun=All", code=422)


def test_identical_apply_of_a_defaulted_object_writes_nothing(served: ApiUnderTest) -> None:
    created = applied(served, WIDGET, widget(parts=[{"name": "x"}]), "agent", code=201)
    again = applied(served, WIDGET, widget(parts=[{"name": "x"}]), "agent")
    assert version_of(again) == version_of(created)


# Lists, watches and tables


def test_lists_and_watches_of_custom_resources_carry_the_type(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())
    widgets = served.get(WIDGETS)
    assert widgets["kind"] == "WidgetList"
    assert widgets["items"][0]["kind"] == "Widget"

    with served.watch(WIDGETS, f"resourceVersion={version_of(widgets)}&timeoutSeconds=20") as events:
        served.patch(WIDGET, {"spec": {"count": 5}})
        (event,) = expect(events, "MODIFIED w1")
    assert event["object"]["apiVersion"] == f"{GROUP}/v1"
    assert event["object"]["kind"] == "Widget"


def test_tables_have_printer_columns(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget(mode="Auto", count=2))
    conditions = [{"type": "Other", "status": "no"}, {"type": "Ready", "status": "True"}]
    served.patch(f"{WIDGET}/status", {"status": {"conditions": conditions}})
    served.create(WIDGETS, widget("w2"))

    table = get(served, WIDGETS, TABLE)
    assert table["kind"] == "Table"
    assert table["apiVersion"] == "meta.k8s.io/v1"
    columns = table["columnDefinitions"]
    assert [column["name"] for column in columns] == ["Name", "Mode", "Ready", "Count", "Age"]
    assert [column["priority"] for column in columns[2:]] == [0, 1, 0]
    first, second = [row["cells"] for row in table["rows"]]
    assert first[:4] == ["w1", "Auto", "True", 2]
    assert second[:4] == ["w2", None, None, 3]
