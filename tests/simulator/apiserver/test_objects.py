"""Creates, replaces, patches and deletes: what is stored, and what is refused with which status."""

import re
from typing import Any

import pytest
from tests.simulator.apiserver.dialogue import EVENTS, LEASES, NODE, config_map, create_node, names_of, version_of
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest, node

OTHER_UID = "0000"
JSON = "application/json"

# Creates


def test_create_completes_the_object(api: ApiUnderTest) -> None:
    metadata = create_node(api)["metadata"]
    assert metadata["uid"]
    assert re.fullmatch("[0-9]+", metadata["resourceVersion"])
    assert metadata["creationTimestamp"].endswith("Z")


def test_create_of_an_existing_name_is_refused(api: ApiUnderTest) -> None:
    create_node(api)
    code, answer = api.request("POST", NODES, node("n1"))
    assert code == 409
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'nodes "n1" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "n1", "kind": "nodes"},
        "code": 409,
    }


def test_recreated_node_has_another_uid_and_no_labels(api: ApiUnderTest) -> None:
    first = create_node(api, a="1")
    api.request("DELETE", NODE)
    second = api.create(NODES, node("n1"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "labels" not in second["metadata"]


# Places that are not there


def test_missing_node_is_not_found(api: ApiUnderTest) -> None:
    code, answer = api.request("GET", f"{NODES}/none")
    assert code == 404
    assert 'nodes "none" not found' in answer["message"]


def test_unknown_resource_is_not_found(api: ApiUnderTest) -> None:
    code, answer = api.request("GET", "/api/v1/none")
    assert code == 404
    assert "the server could not find the requested resource" in answer["message"]


def test_unknown_group_is_not_found_as_text(api: ApiUnderTest) -> None:
    code, answer = api.request("GET", "/apis/none.example.com/v1/things")
    assert code == 404
    assert "404 page not found" in answer


def test_create_in_an_unknown_namespace_is_not_found(api: ApiUnderTest) -> None:
    code, answer = api.request("POST", "/api/v1/namespaces/none/configmaps", config_map("x"))
    assert code == 404
    assert 'namespaces "none" not found' in answer["message"]


def test_replace_of_a_collection_is_not_allowed(api: ApiUnderTest) -> None:
    code, answer = api.request("PUT", NODES, node("n1"))
    assert code == 405
    assert answer["reason"] == "MethodNotAllowed"


# Replaces


def test_replace_with_the_current_version_keeps_the_uid(api: ApiUnderTest) -> None:
    create_node(api, a="1")
    current = api.get(NODE)
    replacement = node(
        "n1",
        labels={"b": "2"},
        resourceVersion=version_of(current),
    )
    code, answer = api.request("PUT", NODE, replacement)
    assert code == 200
    assert answer["metadata"]["labels"] == {"b": "2"}
    assert answer["metadata"]["uid"] == current["metadata"]["uid"]

    code, answer = api.request("PUT", NODE, replacement)
    assert code == 409
    assert answer["reason"] == "Conflict"
    assert answer["message"] == (
        'Operation cannot be fulfilled on nodes "n1": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_replace_that_changes_nothing_writes_nothing(api: ApiUnderTest) -> None:
    create_node(api, a="1")
    current = api.get(NODE)  # after whatever the server adds to a new one
    code, answer = api.request("PUT", NODE, current)
    assert code == 200
    assert answer == current


def test_replace_with_another_uid_is_refused(api: ApiUnderTest) -> None:
    create_node(api)
    other = node("n1", uid=OTHER_UID)
    code, answer = api.request("PUT", NODE, other)
    assert code == 409
    assert answer["reason"] == "Conflict"
    assert "Precondition failed: UID in precondition: 0000, UID in object meta: " in answer["message"]


def test_replace_under_another_name_is_refused(api: ApiUnderTest) -> None:
    create_node(api)
    code, answer = api.request("PUT", NODE, node("other"))
    assert code == 400
    assert "the name of the object (other) does not match the name on the URL (n1)" in answer["message"]


def test_replace_of_a_missing_node_is_not_found(api: ApiUnderTest) -> None:
    code, _answer = api.request("PUT", f"{NODES}/none", node("none"))
    assert code == 404


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "leader"},
    "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0},
}


RENEWED_AT = "2026-01-01T00:00:00.000001Z"


def test_leases_are_locked_by_their_version(api: ApiUnderTest) -> None:
    path = f"{LEASES}/leader"
    api.create(LEASES, LEASE)
    mine = api.get(path)
    theirs = api.get(path)
    mine["spec"]["renewTime"] = RENEWED_AT
    code, answer = api.request("PUT", path, mine)
    assert code == 200
    assert answer["spec"]["renewTime"] == RENEWED_AT

    theirs["spec"]["holderIdentity"] = "two"
    code, answer = api.request("PUT", path, theirs)
    assert code == 409
    assert answer["reason"] == "Conflict"
    assert 'leases.coordination.k8s.io "leader": the object has been modified' in answer["message"]
    stored = api.get(path)
    assert stored["spec"]["holderIdentity"] == "one"


def test_lease_cannot_be_replaced_without_its_version(api: ApiUnderTest) -> None:
    api.create(LEASES, LEASE)
    code, answer = api.request("PUT", f"{LEASES}/leader", LEASE)
    assert code == 422
    assert answer["reason"] == "Invalid"
    assert "metadata.resourceVersion: Invalid value" in answer["message"]


# Patches


def test_merge_patch_sets_and_removes_fields(api: ApiUnderTest) -> None:
    create_node(api, a="1")
    change = {
        "metadata": {"labels": {"a": None, "b": "2"}},
        "spec": {"unschedulable": True},
    }
    patched = api.patch(NODE, change)
    assert patched["metadata"]["labels"] == {"b": "2"}
    assert patched["spec"]["unschedulable"] is True


STEPS = [
    {"op": "test", "path": "/metadata/labels/a", "value": "1"},
    {"op": "remove", "path": "/metadata/labels/a"},
    {"op": "add", "path": "/metadata/labels/x.y~1z", "value": "1"},
    {"op": "add", "path": "/spec/podCIDRs", "value": ["10.0.0.0/24"]},
    {"op": "add", "path": "/metadata/labels/b", "value": "2"},
    {"op": "replace", "path": "/metadata/labels/b", "value": "3"},
]
"""A JSON patch in which the order matters."""


def test_json_patch_takes_its_steps_in_order(api: ApiUnderTest) -> None:
    create_node(api, a="1")
    code, answer = api.request("PATCH", NODE, STEPS, content_type=JSON_PATCH)
    assert code == 200
    labels = answer["metadata"]["labels"]
    assert labels == {"x.y/z": "1", "b": "3"}
    assert answer["spec"]["podCIDRs"] == ["10.0.0.0/24"]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"op": "test", "path": "/metadata/name", "value": "x"}, id="failed-test"),
        pytest.param({"op": "remove", "path": "/metadata/labels/none"}, id="missing-label"),
    ],
)
def test_json_patch_that_cannot_be_made_is_invalid(api: ApiUnderTest, step: dict[str, str]) -> None:
    create_node(api, b="3")
    code, answer = api.request("PATCH", NODE, [step], content_type=JSON_PATCH)
    assert code == 422
    assert answer["reason"] == "Invalid"


def test_patch_of_another_version_conflicts(api: ApiUnderTest) -> None:
    create_node(api)
    change = {
        "metadata": {
            "resourceVersion": "1",
            "labels": {"b": "2"},
        },
    }
    code, _answer = api.request("PATCH", NODE, change, content_type=MERGE)
    assert code == 409


def test_patch_of_another_uid_is_invalid(api: ApiUnderTest) -> None:
    create_node(api)
    change = {"metadata": {"uid": OTHER_UID}}
    code, answer = api.request("PATCH", NODE, change, content_type=MERGE)
    assert code == 422
    assert answer["reason"] == "Invalid"


def test_patch_of_a_missing_node_is_not_found(api: ApiUnderTest) -> None:
    code, _answer = api.request("PATCH", f"{NODES}/none", {}, content_type=MERGE)
    assert code == 404


def test_patch_that_is_no_json_is_a_bad_request(api: ApiUnderTest) -> None:
    create_node(api)
    code, _answer = api.request("PATCH", NODE, b"{", content_type=MERGE)
    assert code == 400


def test_patch_of_another_media_type_is_unsupported(api: ApiUnderTest) -> None:
    create_node(api)
    code, _answer = api.request("PATCH", NODE, {}, content_type=JSON)
    assert code == 415


def test_endpoints_of_object_and_status_leave_each_others_part_alone(api: ApiUnderTest) -> None:
    create_node(api)
    capacity = {"nvidia.com/gpu": "8"}
    change: dict[str, Any] = {
        "spec": {"unschedulable": True},
        "status": {"capacity": capacity},
    }
    patched = api.patch(NODE, change)
    status = patched.get("status", {})
    assert "capacity" not in status

    change["spec"] = {"unschedulable": False}
    patched = api.patch(f"{NODE}/status", change)
    assert patched["spec"]["unschedulable"] is True
    assert patched["status"]["capacity"] == capacity


EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "p.1"},
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "reportingController": "gpu.topology/controller",
    "reportingInstance": "controller-0",
    "action": "Check",
    "reason": "TopologyLevelsUnavailable",
    "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "u"},
    "note": "rack is gone",
    "type": "Warning",
}


def test_series_of_an_event_is_counted_by_patch(api: ApiUnderTest) -> None:
    api.create(EVENTS, EVENT)
    series = {
        "count": 2,
        "lastObservedTime": "2026-01-01T00:01:00.000000Z",
    }
    patched = api.patch(f"{EVENTS}/p.1", {"series": series})
    assert patched["series"]["count"] == 2


# Deletes


def test_delete_answers_with_what_went(api: ApiUnderTest) -> None:
    create_node(api)
    code, answer = api.request("DELETE", NODE)
    assert code == 200
    assert answer["status"] == "Success"
    details = answer["details"]
    assert details["name"] == "n1"
    assert details["kind"] == "nodes"

    code, _answer = api.request("DELETE", NODE)
    assert code == 404


def test_delete_of_another_uid_conflicts(api: ApiUnderTest) -> None:
    create_node(api)
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": OTHER_UID},
    }
    code, answer = api.request("DELETE", NODE, options)
    assert code == 409
    assert answer["reason"] == "Conflict"


def test_finalizers_hold_a_deleted_object(api: ApiUnderTest) -> None:
    held = node("n1", finalizers=["example.com/hold"])
    api.create(NODES, held)
    code, answer = api.request("DELETE", NODE)
    assert code == 200
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    stored = api.get(NODE)
    assert stored["metadata"]["finalizers"] == ["example.com/hold"]

    change = {"metadata": {"finalizers": None}}
    api.patch(NODE, change)
    code, _answer = api.request("GET", NODE)
    assert code == 404


def test_delete_of_a_selection_leaves_the_others(api: ApiUnderTest) -> None:
    create_node(api, "n1", a="1")
    create_node(api, "n2", a="2")
    code, answer = api.request("DELETE", f"{NODES}?labelSelector=a%3D1")
    assert code == 200
    assert names_of(answer) == ["n1"]
    remaining = api.get(NODES)
    assert names_of(remaining) == ["n2"]


# Dry runs


def dry_run(api: ApiUnderTest, request: str, body: Any = None, *, content_type: str = MERGE) -> tuple[int, Any]:
    """The code and the answer to a request, as in `PUT /path`, that stores nothing."""
    method, path = request.split()
    separator = "&" if "?" in path else "?"
    return api.request(
        method,
        f"{path}{separator}dryRun=All",
        body,
        content_type=content_type,
    )


def test_dry_runs_answer_and_store_nothing(api: ApiUnderTest) -> None:
    create_node(api, a="1")
    version = version_of(api.get(NODE))

    other = node("n2", labels={"b": "2"})
    code, created = dry_run(api, f"POST {NODES}", other, content_type=JSON)
    assert code == 201, created
    assert created["metadata"]["labels"]["b"] == "2"

    labelled = node("n1", labels={"b": "2"})
    code, replaced = dry_run(api, f"PUT {NODE}", labelled, content_type=JSON)
    assert code == 200, replaced
    assert replaced["metadata"]["labels"]["b"] == "2"

    change = {"metadata": {"labels": {"b": "2"}}}
    code, patched = dry_run(api, f"PATCH {NODE}", change)
    assert code == 200, patched
    assert patched["metadata"]["labels"]["b"] == "2"

    code, applied = dry_run(
        api,
        f"PATCH {NODE}?fieldManager=agent",
        labelled,
        content_type=APPLY,
    )
    assert code == 200, applied
    assert applied["metadata"]["labels"]["b"] == "2"

    for path in (NODE, NODES):
        code, deleted = dry_run(api, f"DELETE {path}")
        assert code == 200, deleted

    nodes = api.get(NODES)
    assert names_of(nodes) == ["n1"]
    assert version_of(nodes["items"][0]) == version
