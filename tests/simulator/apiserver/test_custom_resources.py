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


def generation_of(answer: Any) -> int:
    """How often the spec of an object was changed."""
    generation: int = answer["metadata"]["generation"]
    return generation


def parts_of(answer: Any) -> list[str]:
    """The names of the parts of a widget."""
    parts = answer["spec"]["parts"]
    return [part["name"] for part in parts]


# The CRD


def test_crd_is_completed_and_established(api: ApiUnderTest) -> None:
    created = api.create(CRDS, gizmo_crd())
    names = created["spec"]["names"]
    assert names["singular"] == "gizmo"
    assert names["listKind"] == "GizmoList"
    assert created["metadata"]["generation"] == 1

    crd = api.settled_crd(f"gizmos.{GROUP}")
    assert crd_conditions(crd) == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    status = crd["status"]
    reasons = {condition["reason"] for condition in status["conditions"]}
    assert reasons == {"NoConflicts", "InitialNamesAccepted"}
    assert status["acceptedNames"]["shortNames"] == ["gz"]
    assert status["storedVersions"] == ["v1"]


def test_removed_crd_takes_its_objects_along(api: ApiUnderTest) -> None:
    def is_gone() -> bool:
        code, _answer = api.request("GET", GIZMOS)
        return code == 404

    api.install_crd(gizmo_crd())
    gizmo = widget()
    gizmo["kind"] = "Gizmo"
    api.create(GIZMOS, gizmo)
    api.remove_crd(f"gizmos.{GROUP}")
    wait_until(is_gone, "gizmos are no longer served")
    api.install_crd(gizmo_crd())
    gizmos = api.get(GIZMOS)
    assert gizmos["items"] == []


def test_discovery_lists_resources_with_their_verbs(served: ApiUnderTest) -> None:
    discovered = served.get(f"/apis/{GROUP}/v1")
    widgets, status = discovered["resources"]
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
    groups = served.get("/apis")["groups"]
    assert GROUP in [group["name"] for group in groups]
    group = served.get(f"/apis/{GROUP}")
    assert group["preferredVersion"] == {
        "groupVersion": f"{GROUP}/v1",
        "version": "v1",
    }


def test_unserved_resource_of_a_served_group_is_not_found(served: ApiUnderTest) -> None:
    code, answer = served.request("GET", f"/apis/{GROUP}/v1/gadgets")
    assert code == 404
    assert "404 page not found" in answer


def test_missing_object_is_not_found(served: ApiUnderTest) -> None:
    code, answer = served.request("GET", f"{WIDGETS}/none")
    assert code == 404
    assert answer["message"] == 'widgets.example.com "none" not found'
    assert answer["details"] == {
        "name": "none",
        "group": GROUP,
        "kind": "widgets",
    }


# The schema


def test_defaults_are_filled_in(served: ApiUnderTest) -> None:
    wanted = widget(parts=[{"name": "x"}], count=None)
    created = served.create(WIDGETS, wanted)
    assert created["spec"] == {
        "name": "abc",
        "count": 3,
        "parts": [{"name": "x", "weight": 1}],
    }


def test_schema_allows_what_fits(served: ApiUnderTest) -> None:
    fitting = {
        "port": "http",
        "tags": ["b", "a"],
        "maybe": None,
        "mode": "Never",
        "extra": {"a": "1"},
    }
    created = served.create(WIDGETS, widget(**fitting))
    assert created["spec"] == {
        "name": "abc",
        "count": 3,
        **fitting,
    }
    change = {"spec": {"port": 80}}
    patched = served.patch(WIDGET, change)
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
    unfit = widget(**spec)
    code, answer = served.request("POST", WIDGETS, unfit)
    assert code == 422
    assert answer["reason"] == "Invalid"
    assert answer["message"].startswith('Widget.example.com "w1" is invalid: ')
    assert message in answer["message"]


def test_unknown_fields_are_dropped_with_a_warning(served: ApiUnderTest) -> None:
    free = {"any": {"thing": 1}}
    answer = served.ask("POST", WIDGETS, widget(typo=1, free=free))
    assert answer.code == 201
    spec = answer.body["spec"]
    assert "typo" not in spec
    assert spec["free"] == free
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'


# Generation and status


def test_generation_counts_changes_of_the_spec(served: ApiUnderTest) -> None:
    created = served.create(WIDGETS, widget())
    assert generation_of(created) == 1
    label = {"metadata": {"labels": {"a": "1"}}}
    labelled = served.patch(WIDGET, label)
    assert generation_of(labelled) == 1
    status = {"status": {"nodes": 1}}
    counted = served.patch(f"{WIDGET}/status", status)
    assert generation_of(counted) == 1
    spec = {"spec": {"count": 4}}
    changed = served.patch(WIDGET, spec)
    assert generation_of(changed) == 2


def test_status_has_its_own_endpoint(served: ApiUnderTest) -> None:
    created = served.create(WIDGETS, widget())
    assert "status" not in created

    everything = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"count": 5},
        "status": {"nodes": 2},
    }
    patched = served.patch(f"{WIDGET}/status", everything)
    assert patched["spec"]["count"] == 3
    assert patched["status"] == {"nodes": 2}
    assert "labels" not in patched["metadata"]

    spec_and_status = {
        "spec": {"count": 5},
        "status": {"nodes": 7},
    }
    patched = served.patch(WIDGET, spec_and_status)
    assert patched["spec"]["count"] == 5
    assert patched["status"] == {"nodes": 2}
    stored = served.get(f"{WIDGET}/status")
    assert stored["status"] == {"nodes": 2}


def test_status_is_checked_against_the_schema(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())
    code, _answer = served.request(
        "PATCH",
        f"{WIDGET}/status",
        {"status": {"nodes": "x"}},
        content_type="application/merge-patch+json",
    )
    assert code == 422


# Applies


def test_apply_creates_and_owns_its_fields(served: ApiUnderTest) -> None:
    part = {"name": "x", "value": "1"}
    wanted = widget(parts=[part], tags=["a"])
    created = applied(served, WIDGET, wanted, "tester", code=201)
    fields = created["metadata"]["managedFields"][0]
    assert fields["manager"] == "tester"
    assert fields["fieldsV1"]["f:spec"] == {
        "f:name": {},
        "f:parts": {
            'k:{"name":"x"}': {
                ".": {},
                "f:name": {},
                "f:value": {},
            },
        },
        "f:tags": {'v:"a"': {}},
    }


def test_two_appliers_share_lists_of_maps_and_sets(served: ApiUnderTest) -> None:
    part = {"name": "x", "value": "1"}
    first = widget(parts=[part], tags=["a"])
    applied(served, WIDGET, first, "first", code=201)
    second = widget(parts=[{"name": "y"}], tags=["b"])
    shared = applied(served, WIDGET, second, "second")
    assert parts_of(shared) == ["x", "y"]
    assert shared["spec"]["tags"] == ["a", "b"]
    assert generation_of(shared) == 2

    other_value = widget(parts=[{"name": "x", "value": "2"}])
    refusal = conflict(served, WIDGET, other_value, "second")
    assert 'conflict with "first": .spec.parts[name="x"].value' in refusal["message"]

    left = applied(served, WIDGET, widget(), "first")
    assert parts_of(left) == ["y"]
    assert left["spec"]["tags"] == ["b"]

    empty = applied(served, WIDGET, widget(), "second")
    spec = empty["spec"]
    assert "parts" not in spec
    assert "tags" not in spec


def test_list_without_a_type_is_replaced_whole(served: ApiUnderTest) -> None:
    first = widget(order=["a", "b"])
    applied(served, WIDGET, first, "first", code=201)
    longer = widget(order=["a", "b", "c"])
    refusal = conflict(served, WIDGET, longer, "second")
    assert 'conflict with "first": .spec.order' in refusal["message"]

    other = widget(order=["c"])
    forced = applied(served, WIDGET, other, "second", force=True)
    assert forced["spec"]["order"] == ["c"]


def condition(kind: str, status: str) -> dict[str, Any]:
    """A widget that has this condition and no spec."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "status": {"conditions": [{"type": kind, "status": status}]},
    }


def test_conditions_are_applied_by_type(served: ApiUnderTest) -> None:
    path = f"{WIDGET}/status"
    served.create(WIDGETS, widget())
    is_ready = condition("Ready", "True")
    applied(served, path, is_ready, "one")
    is_published = condition("Published", "False")
    both = applied(served, path, is_published, "two")
    first, second = both["status"]["conditions"]
    assert first["type"] == "Ready"
    assert second["type"] == "Published"

    is_not_ready = condition("Ready", "False")
    refusal = conflict(served, path, is_not_ready, "two")
    field = '.status.conditions[type="Ready"].status'
    assert f'conflict with "one" with subresource "status": {field}' in refusal["message"]


def test_dry_run_of_an_apply_checks_everything(served: ApiUnderTest) -> None:
    created = applied(served, WIDGET, widget(), "a&dryRun=All", code=201)
    assert created["spec"]["count"] == 3
    code, _answer = served.request("GET", WIDGET)
    assert code == 404
    unfit = widget(mode="x")
    applied(served, WIDGET, unfit, "a&dryRun=All", code=422)


def test_identical_apply_of_a_defaulted_object_writes_nothing(served: ApiUnderTest) -> None:
    wanted = widget(parts=[{"name": "x"}])
    created = applied(served, WIDGET, wanted, "agent", code=201)
    again = applied(served, WIDGET, wanted, "agent")
    assert version_of(again) == version_of(created)


# Lists, watches and tables


def test_lists_and_watches_of_custom_resources_carry_the_type(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())
    widgets = served.get(WIDGETS)
    assert widgets["kind"] == "WidgetList"
    (item,) = widgets["items"]
    assert item["kind"] == "Widget"

    version = version_of(widgets)
    change = {"spec": {"count": 5}}
    with served.watch(WIDGETS, f"resourceVersion={version}&timeoutSeconds=20") as events:
        served.patch(WIDGET, change)
        (event,) = expect(events, "MODIFIED w1")
    assert event["object"]["apiVersion"] == f"{GROUP}/v1"
    assert event["object"]["kind"] == "Widget"


def test_tables_have_printer_columns(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget(mode="Auto", count=2))
    status = {
        "conditions": [
            {"type": "Other", "status": "no"},
            {"type": "Ready", "status": "True"},
        ],
    }
    served.patch(f"{WIDGET}/status", {"status": status})
    served.create(WIDGETS, widget("w2"))

    table = get(served, WIDGETS, TABLE)
    assert table["kind"] == "Table"
    assert table["apiVersion"] == "meta.k8s.io/v1"
    name, mode, ready, count, age = table["columnDefinitions"]
    assert name["name"] == "Name"
    assert mode["name"] == "Mode"
    assert ready["name"] == "Ready"
    assert ready["priority"] == 0
    assert count["name"] == "Count"
    assert count["priority"] == 1
    assert age["name"] == "Age"
    assert age["priority"] == 0
    first, second = table["rows"]
    assert first["cells"][:4] == ["w1", "Auto", "True", 2]
    assert second["cells"][:4] == ["w2", None, None, 3]
