"""Create, replace, patch, delete: optimistic locking, preconditions, what is refused and how."""

from typing import Any

import pytest

from tests.support.api import JSON_PATCH, MERGE, NODES, ApiUnderTest, node
from tests.support.tables import each_case, named_objects

NODE = f"{NODES}/n1"
LABELS = {"b": "2"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
def made(api: ApiUnderTest) -> dict[str, Any]:
    """A node, read again after whatever the server adds to a new one."""
    api.create(NODES, node("n1", labels={"a": "1"}))
    return api.get(NODE)


def lease(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}, "spec": spec}


def test_create_completes_the_object(api: ApiUnderTest) -> None:
    made = api.create(NODES, node("n1"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["resourceVersion"].isdigit()
    assert made["metadata"]["creationTimestamp"].endswith("Z")


@pytest.mark.usefixtures("made")
def test_create_of_an_existing_name(api: ApiUnderTest) -> None:
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


def test_unknown_places(api: ApiUnderTest) -> None:
    code, answer = api.request("GET", f"{NODES}/none")
    assert (code, answer["message"]) == (404, 'nodes "none" not found')
    code, answer = api.request("GET", "/api/v1/none")
    assert (code, answer["message"]) == (404, "the server could not find the requested resource")
    assert api.request("GET", "/apis/none.example.com/v1/things") == (404, "404 page not found\n")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    code, answer = api.request("POST", "/api/v1/namespaces/none/configmaps", body)
    assert (code, answer["message"]) == (404, 'namespaces "none" not found')
    code, answer = api.request("PUT", NODES, node("x"))
    assert (code, answer["reason"]) == (405, "MethodNotAllowed")


def test_replace_with_the_current_version(api: ApiUnderTest, made: dict[str, Any]) -> None:
    made["metadata"]["labels"] = {"b": "2"}
    code, answer = api.request("PUT", NODE, made)
    assert code == 200
    assert answer["metadata"]["labels"] == {"b": "2"}
    assert answer["metadata"]["uid"] == made["metadata"]["uid"]
    code, answer = api.request("PUT", NODE, made)
    assert (code, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on nodes "n1": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )


def test_replace_that_changes_nothing_writes_nothing(api: ApiUnderTest, made: dict[str, Any]) -> None:
    assert api.request("PUT", NODE, made) == (200, made)


@pytest.mark.usefixtures("made")
def test_replace_guards(api: ApiUnderTest) -> None:
    code, answer = api.request("PUT", NODE, node("n1", uid="0000"))
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: 0000, UID in object meta: " in answer["message"]
    code, answer = api.request("PUT", NODE, node("other"))
    assert (code, answer["message"]) == (400, "the name of the object (other) does not match the name on the URL (n1)")
    assert api.request("PUT", f"{NODES}/none", node("none"))[0] == 404


@pytest.mark.usefixtures("made")
def test_merge_patch(api: ApiUnderTest) -> None:
    patch = {"metadata": {"labels": {"a": None, "b": "2"}}, "spec": {"unschedulable": True}}
    answer = api.patch(NODE, patch)
    assert answer["metadata"]["labels"] == {"b": "2"}
    assert answer["spec"]["unschedulable"] is True


@pytest.mark.usefixtures("made")
def test_json_patch(api: ApiUnderTest) -> None:
    steps = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/a"},
        {"op": "add", "path": "/metadata/labels/x.y~1z", "value": "1"},
        {"op": "add", "path": "/spec/podCIDRs", "value": ["10.0.0.0/24"]},
        {"op": "add", "path": "/metadata/labels/b", "value": "2"},
        {"op": "replace", "path": "/metadata/labels/b", "value": "3"},
    ]
    code, answer = api.request("PATCH", NODE, steps, content_type=JSON_PATCH)
    assert code == 200, answer
    assert answer["metadata"]["labels"] == {"x.y/z": "1", "b": "3"}
    assert answer["spec"]["podCIDRs"] == ["10.0.0.0/24"]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    "step", [{"op": "test", "path": "/metadata/name", "value": "x"}, {"op": "remove", "path": "/metadata/labels/none"}]
)
def test_json_patch_that_does_not_fit(api: ApiUnderTest, step: dict[str, Any]) -> None:
    code, answer = api.request("PATCH", NODE, [step], content_type=JSON_PATCH)
    assert (code, answer["reason"]) == (422, "Invalid")


@pytest.mark.usefixtures("made")
def test_patch_guards(api: ApiUnderTest) -> None:
    stale = {"metadata": {"resourceVersion": "1", "labels": {"b": "2"}}}
    assert api.request("PATCH", NODE, stale, content_type=MERGE)[0] == 409
    other = {"metadata": {"uid": "0000"}}
    code, answer = api.request("PATCH", NODE, other, content_type=MERGE)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert api.request("PATCH", f"{NODES}/none", {}, content_type=MERGE)[0] == 404
    assert api.request("PATCH", NODE, b"{", content_type=MERGE)[0] == 400
    assert api.request("PATCH", NODE, {}, content_type="application/json")[0] == 415


@pytest.mark.usefixtures("made")
def test_each_endpoint_leaves_the_others_part_alone(api: ApiUnderTest) -> None:
    both = {"spec": {"unschedulable": True}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    answer = api.patch(NODE, both)
    assert "capacity" not in answer["status"]
    both["spec"] = {"unschedulable": False}
    answer = api.patch(f"{NODE}/status", both)
    assert answer["spec"]["unschedulable"] is True
    assert answer["status"]["capacity"] == {"nvidia.com/gpu": "8"}


def test_delete(api: ApiUnderTest, made: dict[str, Any]) -> None:
    wrong = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "0000"}}
    code, answer = api.request("DELETE", NODE, wrong)
    assert (code, answer["reason"]) == (409, "Conflict")
    code, answer = api.request("DELETE", NODE)
    assert (code, answer["status"]) == (200, "Success")
    assert answer["details"] == {"name": "n1", "kind": "nodes", "uid": made["metadata"]["uid"]}
    assert api.request("DELETE", NODE)[0] == 404


def test_a_node_made_again_is_another_one(api: ApiUnderTest, made: dict[str, Any]) -> None:
    api.request("DELETE", NODE)
    again = api.create(NODES, node("n1"))
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert "labels" not in again["metadata"]


def test_finalizers_hold_an_object(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1", finalizers=["example.com/hold"]))
    code, answer = api.request("DELETE", NODE)
    assert code == 200
    assert answer["metadata"]["deletionTimestamp"]
    assert api.get(NODE)["metadata"]["finalizers"] == ["example.com/hold"]
    api.patch(NODE, {"metadata": {"finalizers": None}})
    assert api.request("GET", NODE)[0] == 404


@pytest.mark.usefixtures("made")
def test_delete_of_a_selection(api: ApiUnderTest) -> None:
    api.create(NODES, node("n2", labels={"a": "2"}))
    code, answer = api.request("DELETE", f"{NODES}?labelSelector=a%3D1")
    assert code == 200
    assert [item["metadata"]["name"] for item in answer["items"]] == ["n1"]
    assert [item["metadata"]["name"] for item in api.get(NODES)["items"]] == ["n2"]


@pytest.mark.usefixtures("made")
@each_case("simulator.yaml")
def test_dry_runs_answer_and_store_nothing(api: ApiUnderTest, method: str, path: str, body: Any, kind: str) -> None:
    before = api.get(NODES)["items"]
    code, answer = api.request(method, f"{path}dryRun=All", body, content_type=kind)
    assert code in (200, 201)
    assert body is None or answer["metadata"]["labels"].items() >= LABELS.items()
    assert api.get(NODES)["items"] == before


def test_leases_are_locked_by_version(api: ApiUnderTest) -> None:
    api.create(LEASES, lease(holderIdentity="one", leaseDurationSeconds=15, leaseTransitions=0))
    mine = api.get(f"{LEASES}/leader")
    theirs = api.get(f"{LEASES}/leader")
    mine["spec"]["renewTime"] = "2026-01-01T00:00:00.000001Z"
    code, answer = api.request("PUT", f"{LEASES}/leader", mine)
    assert code == 200
    assert answer["spec"]["renewTime"] == "2026-01-01T00:00:00.000001Z"
    theirs["spec"]["holderIdentity"] = "two"
    code, answer = api.request("PUT", f"{LEASES}/leader", theirs)
    assert (code, answer["reason"]) == (409, "Conflict")
    assert 'leases.coordination.k8s.io "leader": the object has been modified' in answer["message"]
    assert api.get(f"{LEASES}/leader")["spec"]["holderIdentity"] == "one"


def test_leases_cannot_be_replaced_blindly(api: ApiUnderTest) -> None:
    api.create(LEASES, lease(holderIdentity="one"))
    code, answer = api.request("PUT", f"{LEASES}/leader", lease(holderIdentity="two"))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value" in answer["message"]


EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_series_are_counted_by_patch(api: ApiUnderTest) -> None:
    api.create(EVENTS, named_objects("simulated_objects.yaml")["event"])
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    answer = api.patch(f"{EVENTS}/p.1", series)
    assert answer["series"]["count"] == 2
