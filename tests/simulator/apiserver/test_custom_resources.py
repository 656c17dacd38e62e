"""Custom resources: their CRDs' names, schema checks, pruning, defaults, status, generation, applies."""

from typing import Any

import pytest

from tests.simulator.apiserver.widgets import GROUP, WIDGETS, gizmo_crd, widget, widget_crd
from tests.support.api import CRDS, MERGE, ApiUnderTest, crd_conditions, wait_until
from tests.support.tables import each_case

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


def test_defaults_are_filled_in(served: ApiUnderTest) -> None:
    made = served.create(WIDGETS, widget(parts=[{"name": "x"}], count=None))
    assert made["spec"] == {"name": "abc", "count": 3, "parts": [{"name": "x", "weight": 1}]}


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


def test_what_the_schema_allows(served: ApiUnderTest) -> None:
    spec = {"port": "http", "tags": ["b", "a"], "maybe": None, "mode": "Never", "extra": {"a": "1"}}
    assert served.create(WIDGETS, widget(**spec))["spec"] == {"name": "abc", "count": 3, **spec}
    assert served.create(WIDGETS, widget("w2", port=80))["spec"]["port"] == 80


def test_generation_counts_changes_of_the_spec(served: ApiUnderTest) -> None:
    assert served.create(WIDGETS, widget())["metadata"]["generation"] == 1
    answer = served.patch(W1, {"metadata": {"labels": {"a": "1"}}})
    assert answer["metadata"]["generation"] == 1
    answer = served.patch(f"{W1}/status", {"status": {"nodes": 1}})
    assert answer["metadata"]["generation"] == 1
    answer = served.patch(W1, {"spec": {"count": 4}})
    assert answer["metadata"]["generation"] == 2


def test_status_has_its_own_endpoint(served: ApiUnderTest) -> None:
    assert "status" not in served.create(WIDGETS, {**widget(), "status": {"nodes": 9}})
    both: dict[str, Any] = {"metadata": {"labels": {"a": "1"}}, "spec": {"count": 5}, "status": {"nodes": 2}}
    answer = served.patch(f"{W1}/status", both)
    assert (answer["spec"]["count"], answer["status"]) == (3, {"nodes": 2})
    assert "labels" not in answer["metadata"]
    both["status"]["nodes"] = 7
    answer = served.patch(W1, both)
    assert (answer["spec"]["count"], answer["status"]) == (5, {"nodes": 2})
    assert served.get(f"{W1}/status")["status"] == {"nodes": 2}
    code, answer = served.request("PATCH", f"{W1}/status", {"status": {"nodes": "x"}}, content_type=MERGE)
    assert code == 422


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
    assert managers(made) == {("tester", ""): {"f:spec": {"f:name": {}, "f:parts": part, "f:tags": {'v:"a"': {}}}}}


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


def test_dry_run_checks_everything(served: ApiUnderTest) -> None:
    path = f"{W1}?fieldManager=a&dryRun=All"
    code, answer = served.request("PATCH", path, widget(), content_type="application/apply-patch+yaml")
    assert (code, answer["spec"]["count"]) == (201, 3)
    assert served.request("GET", W1)[0] == 404
    code, _ = served.request("PATCH", path, widget(mode="x"), content_type="application/apply-patch+yaml")
    assert code == 422
