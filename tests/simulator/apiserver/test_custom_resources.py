"""Custom resources: their CRDs' names, schema checks, pruning, defaults, status, generation, applies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.apiserver.widgets import GROUP, WIDGETS, gizmo_crd, widget, widget_crd
from tests.support.api import CRDS, MERGE, ApiUnderTest, crd_conditions, wait_until

W1 = f"{WIDGETS}/w1"
GIZMOS = f"/apis/{GROUP}/v1/gizmos"


@pytest.fixture
def served(api: ApiUnderTest) -> ApiUnderTest:
    api.ensure_crd(widget_crd())
    return api


def managers(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """What each manager owns, by name and subresource."""
    return {
        (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }


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


def test_discovery_lists_the_new_resource(served: ApiUnderTest) -> None:
    listed = served.get(f"/apis/{GROUP}/v1")["resources"]
    assert [entry["name"] for entry in listed] == ["widgets", "widgets/status"]
    assert (listed[0]["kind"], listed[0]["shortNames"], listed[0]["namespaced"]) == ("Widget", ["wg"], False)
    assert set(listed[0]["verbs"]) == {
        *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    }
    assert GROUP in [group["name"] for group in served.get("/apis")["groups"]]
    assert served.get(f"/apis/{GROUP}")["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}


def test_unserved_resource_of_a_custom_group(served: ApiUnderTest) -> None:
    assert served.request("GET", f"/apis/{GROUP}/v1/gadgets") == (404, "404 page not found\n")
    code, answer = served.request("GET", f"{WIDGETS}/none")
    assert (code, answer["message"]) == (404, 'widgets.example.com "none" not found')
    assert answer["details"] == {"name": "none", "group": GROUP, "kind": "widgets"}


def test_removed_crd_takes_its_objects_along(api: ApiUnderTest) -> None:
    api.install_crd(gizmo_crd())
    api.create(GIZMOS, {**widget(), "kind": "Gizmo"})
    api.remove_crd(f"gizmos.{GROUP}")
    wait_until(lambda: api.request("GET", GIZMOS)[0] == 404, "gizmos are no longer served")
    api.install_crd(gizmo_crd())
    assert api.get(GIZMOS)["items"] == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"kind": "Gadget", "shortNames": ["gz", "gd"]}, "ShortNamesConflict"),
        ({"kind": "Gizmo"}, "ListKindConflict"),
        ({"kind": "Gadget", "singular": "gizmo"}, "SingularConflict"),
    ],
)
def test_second_crd_with_a_taken_name_waits(api: ApiUnderTest, names: dict[str, Any], reason: str) -> None:
    api.install_crd(gizmo_crd())
    crd = api.install_crd(widget_crd(**{"plural": "gadgets", "shortNames": [], **names}))
    assert crd_conditions(crd) == {"NamesAccepted": "False", "Established": "False"}
    assert {condition["reason"] for condition in crd["status"]["conditions"]} == {reason, "NotAccepted"}
    gadgets = f"/apis/{GROUP}/v1/gadgets"
    assert api.request("GET", gadgets)[0] == 404
    api.remove_crd(f"gizmos.{GROUP}")
    wait_until(lambda: api.request("GET", gadgets)[0] == 200, "the waiting CRD gets the names that became free")
    # It is served once its names are accepted, and established a moment later.
    assert crd_conditions(api.settled_crd(f"gadgets.{GROUP}")) == {"NamesAccepted": "True", "Established": "True"}


def test_crd_name_must_be_plural_and_group(api: ApiUnderTest) -> None:
    crd = widget_crd()
    crd["metadata"]["name"] = f"other.{GROUP}"
    code, answer = api.request("POST", CRDS, crd)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert 'must be spec.names.plural+"."+spec.group' in answer["message"]


def test_defaults_are_filled_in(served: ApiUnderTest) -> None:
    made = served.create(WIDGETS, widget(parts=[{"name": "x"}], count=None))
    assert made["spec"] == {"name": "abc", "count": 3, "parts": [{"name": "x", "weight": 1}]}


def test_unknown_fields_are_dropped_with_a_warning(served: ApiUnderTest) -> None:
    answer = served.ask("POST", WIDGETS, widget(typo=1, free={"any": {"thing": 1}}))
    assert answer.code == 201
    assert "typo" not in answer.body["spec"]
    assert answer.body["spec"]["free"] == {"any": {"thing": 1}}
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'


def test_unknown_fields_are_refused_when_strict(served: ApiUnderTest) -> None:
    code, answer = served.request("POST", f"{WIDGETS}?fieldValidation=Strict", widget(typo=1))
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.typo"' in answer["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "a"}, 'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long'),
        ({"name": "abcde"}, "spec.name: Too long: may not be more than 4 bytes"),
        ({"name": "ABC"}, "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "abc\n"}, "spec.name in body should match '^[a-z]+$'"),
        ({"name": None}, "spec.name: Required value"),
        ({"name": 1}, 'spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer"'),
        ({"count": 9}, "spec.count: Invalid value: 9: spec.count in body should be less than or equal to 5"),
        ({"count": 0}, "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"),
        ({"count": True}, 'spec.count in body must be of type integer: "boolean"'),
        ({"mode": "x"}, 'spec.mode: Unsupported value: "x": supported values: "Auto", "Never"'),
        ({"port": 1.5}, 'spec.port in body must be of type integer,string: "number"'),
        ({"parts": [{}]}, "spec.parts[0].name: Required value"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, 'spec.parts[1]: Duplicate value: {"name":"a"}'),
        ({"parts": [{"name": n} for n in "abcd"]}, "spec.parts: Too many: 4: must have at most 3 items"),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        ({"order": []}, "spec.order: Invalid value: 0: spec.order in body should have at least 1 items"),
        ({"order": {}}, 'spec.order: Invalid value: "object": spec.order in body must be of type array: "object"'),
        ({"extra": {"a": "1", "b": "2", "c": "3"}}, "spec.extra: Too many: 3: must have at most 2 items"),
    ],
)
def test_what_the_schema_refuses(served: ApiUnderTest, spec: dict[str, Any], message: str) -> None:
    code, answer = served.request("POST", WIDGETS, widget(**spec))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith('Widget.example.com "w1" is invalid: ')
    assert message in answer["message"]


def test_what_the_schema_allows(served: ApiUnderTest) -> None:
    spec = {"port": "http", "tags": ["b", "a"], "maybe": None, "mode": "Never", "extra": {"a": "1"}}
    made = served.create(WIDGETS, widget(**spec))
    assert made["spec"] == {"name": "abc", "count": 3, **spec}
    assert served.create(WIDGETS, widget("w2", port=80))["spec"]["port"] == 80


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"kind": "Gadget"}, 422, 'kind: Invalid value: "Gadget": must be Widget'),
        ({"apiVersion": f"{GROUP}/v2"}, 400, "does not match the expected API version (example.com/v1)"),
        ({"kind": ""}, 400, "Object 'Kind' is missing"),
    ],
)
def test_wrong_type(served: ApiUnderTest, change: dict[str, Any], code: int, message: str) -> None:
    answered, answer = served.request("POST", WIDGETS, {**widget(), **change})
    assert answered == code
    assert message in answer["message"]


def test_generation_counts_changes_of_the_spec(served: ApiUnderTest) -> None:
    assert served.create(WIDGETS, widget())["metadata"]["generation"] == 1
    _, answer = served.request("PATCH", W1, {"metadata": {"labels": {"a": "1"}}}, content_type=MERGE)
    assert answer["metadata"]["generation"] == 1
    _, answer = served.request("PATCH", f"{W1}/status", {"status": {"nodes": 1}}, content_type=MERGE)
    assert answer["metadata"]["generation"] == 1
    _, answer = served.request("PATCH", W1, {"spec": {"count": 4}}, content_type=MERGE)
    assert answer["metadata"]["generation"] == 2


def test_status_has_its_own_endpoint(served: ApiUnderTest) -> None:
    made = served.create(WIDGETS, {**widget(), "status": {"nodes": 9}})
    assert "status" not in made
    both: dict[str, Any] = {"metadata": {"labels": {"a": "1"}}, "spec": {"count": 5}, "status": {"nodes": 2}}
    _, answer = served.request("PATCH", f"{W1}/status", both, content_type=MERGE)
    assert (answer["spec"]["count"], answer["status"]) == (3, {"nodes": 2})
    assert "labels" not in answer["metadata"]
    both["status"]["nodes"] = 7
    _, answer = served.request("PATCH", W1, both, content_type=MERGE)
    assert (answer["spec"]["count"], answer["status"]) == (5, {"nodes": 2})
    assert served.get(f"{W1}/status")["status"] == {"nodes": 2}
    code, answer = served.request("PATCH", f"{W1}/status", {"status": {"nodes": "x"}}, content_type=MERGE)
    assert code == 422


def test_replace_needs_the_version(served: ApiUnderTest) -> None:
    made = served.create(WIDGETS, widget())
    code, answer = served.request("PUT", W1, widget(count=4))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer["message"]
    made["spec"]["count"] = 4
    code, answer = served.request("PUT", W1, made)
    assert (code, answer["spec"]["count"]) == (200, 4)


def test_lists_and_watches_carry_the_type(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())
    listed = served.get(WIDGETS)
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["kind"] == "Widget"
    version = listed["metadata"]["resourceVersion"]
    with served.watch(WIDGETS, f"resourceVersion={version}&timeoutSeconds=20") as events:
        served.create(WIDGETS, widget("w2"))
        event = next(events)
    assert (event["type"], event["object"]["apiVersion"], event["object"]["kind"]) == ("ADDED", f"{GROUP}/v1", "Widget")


def test_apply_creates_and_owns(served: ApiUnderTest) -> None:
    code, made = served.apply(W1, widget(parts=[{"name": "x", "value": "1"}], tags=["a"]))
    assert code == 201
    part: dict[str, Any] = {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}
    assert managers(made) == {
        ("tester", ""): {"f:spec": {"f:name": {}, "f:parts": part, "f:tags": {'v:"a"': {}}}},
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"typo": 1}, ".spec.typo: field not declared in schema"),
        ({"name": 1}, ".spec.name: expected string, got &value.valueUnstructured{Value:1}"),
        ({"parts": [{"value": "1"}]}, ".spec.parts: element 0: associative list with keys has an element that omits"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, '.spec.parts: duplicate entries for key [name="a"]'),
    ],
)
def test_apply_that_does_not_fit_the_schema_is_a_500(served: ApiUnderTest, spec: dict[str, Any], message: str) -> None:
    code, answer = served.apply(W1, widget(**spec))
    assert code == 500
    assert answer["message"].startswith(
        "failed to create typed patch object (/w1; example.com/v1, Kind=Widget): " + message
    )


def test_apply_of_another_type_is_refused(served: ApiUnderTest) -> None:
    code, answer = served.apply(W1, {**widget(), "kind": "Gadget"})
    assert (code, answer["message"]) == (400, "invalid object type: example.com/v1, Kind=Gadget")


def test_two_appliers_share_a_list(served: ApiUnderTest) -> None:
    served.apply(W1, widget(parts=[{"name": "x", "value": "1"}], tags=["a"]), "first")
    code, both = served.apply(W1, widget(parts=[{"name": "y"}], tags=["b"]), "second")
    assert code == 200
    assert [part["name"] for part in both["spec"]["parts"]] == ["x", "y"]
    assert both["spec"]["tags"] == ["a", "b"]
    assert both["metadata"]["generation"] == 2
    code, answer = served.apply(W1, widget(parts=[{"name": "x", "value": "2"}]), "second")
    assert code == 409
    assert 'conflict with "first": .spec.parts[name="x"].value' in answer["message"]
    _, one = served.apply(W1, widget(), "first")
    assert [part["name"] for part in one["spec"]["parts"]] == ["y"]
    assert one["spec"]["tags"] == ["b"]
    _, none = served.apply(W1, widget(), "second")
    assert "parts" not in none["spec"]
    assert "tags" not in none["spec"]


def test_lists_without_a_type_are_replaced_whole(served: ApiUnderTest) -> None:
    served.apply(W1, widget(order=["a", "b"]), "first")
    code, answer = served.apply(W1, widget(order=["a", "b", "c"]), "second")
    assert code == 409
    assert 'conflict with "first": .spec.order' in answer["message"]
    code, answer = served.apply(W1, widget(order=["c"]), "second", force=True)
    assert (code, answer["spec"]["order"]) == (200, ["c"])
    assert "f:order" not in managers(answer)["first", ""]["f:spec"]


def test_order_of_merged_items_follows_the_applier(served: ApiUnderTest) -> None:
    served.apply(W1, widget(parts=[{"name": name} for name in "abc"]), "first")
    _, answer = served.apply(W1, widget(parts=[{"name": name} for name in "ca"]), "second")
    assert [part["name"] for part in answer["spec"]["parts"]] == ["b", "c", "a"]


def test_emptying_a_map_that_another_writer_made_is_refused(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget(extra={"a": "1"}))
    served.apply(W1, widget(extra={"a": "2"}), force=True)
    code, answer = served.apply(W1, widget(), force=True)
    assert code == 422
    assert 'spec.extra: Invalid value: "null": spec.extra in body must be of type object: "null"' in answer["message"]


def test_identical_apply_of_a_defaulted_object_writes_nothing(served: ApiUnderTest) -> None:
    _, first = served.apply(W1, widget(parts=[{"name": "x"}]))
    code, second = served.apply(W1, widget(parts=[{"name": "x"}]))
    assert (code, second) == (200, first)


def test_conditions_are_applied_by_type(served: ApiUnderTest) -> None:
    served.create(WIDGETS, widget())

    def report(manager: str, **conditions: str) -> Any:
        listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
        body = {**widget(), "status": {"conditions": listed}}
        del body["spec"]
        return served.apply(f"{W1}/status", body, manager)

    assert report("one", Ready="True")[0] == 200
    code, answer = report("two", Published="False")
    assert code == 200
    assert [c["type"] for c in answer["status"]["conditions"]] == ["Ready", "Published"]
    assert set(managers(answer)) == {("unknown", ""), ("one", "status"), ("two", "status")}
    code, answer = report("two", Ready="False")
    assert code == 409
    assert 'conflict with "one" with subresource "status": .status.conditions[type="Ready"].status' in answer["message"]


def test_apply_to_the_status_of_a_missing_object(served: ApiUnderTest) -> None:
    assert served.apply(f"{W1}/status", {**widget(), "status": {"nodes": 1}})[0] == 404


def test_dry_run_checks_everything(served: ApiUnderTest) -> None:
    path = f"{W1}?fieldManager=a&dryRun=All"
    code, answer = served.request("PATCH", path, widget(), content_type="application/apply-patch+yaml")
    assert (code, answer["spec"]["count"]) == (201, 3)
    assert served.request("GET", W1)[0] == 404
    code, _ = served.request("PATCH", path, widget(count=9), content_type="application/apply-patch+yaml")
    assert code == 422


@pytest.mark.real_api("CEL rules of a CRD")
def test_cel_rules(api: ApiUnderTest) -> None:
    crd = gizmo_crd()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "self.count < 5", "message": "too many"}]
    api.install_crd(crd)
    code, answer = api.request("POST", GIZMOS, {**widget(count=5), "kind": "Gizmo"})
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "too many" in answer["message"]
