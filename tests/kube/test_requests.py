"""Apply, create and Events: what is sent, and what both API servers make of it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from toposcope.kube.client import METADATA, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply, create, event, get, resource_of, verb_of

NOW = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "kube-system", "uid": "u1"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}


def lost_rack(
    regarding: dict[str, str] = NODE, note: str = "rack is gone", instance: str = "controller-0", now: datetime = NOW
) -> Request:
    return event(regarding, "Warning", "TopologyLevelsUnavailable", note, "controller", instance=instance, now=now)


def sent(request: Request) -> dict[str, Any]:
    return json.loads(request.body or b"")


def test_apply_is_one_patch_by_one_manager() -> None:
    request = apply(f"{NODES}/n1", {"metadata": {"name": "n1"}}, "toposcope-agent", force=True, metadata_only=True)
    assert (request.method, request.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert request.query == {"fieldManager": "toposcope-agent", "force": "true"}
    assert request.accept == METADATA
    assert apply("/x", {}, "m", force=False).query["force"] == "false"
    assert apply("/x", {}, "m", force=False).accept == "application/json"


def test_create_refuses_unknown_fields() -> None:
    request = create("/x", {"a": 1}, "m")
    assert (request.method, request.query) == ("POST", {"fieldManager": "m", "fieldValidation": "Strict"})
    assert request.content_type == "application/json"


def test_get_is_a_get() -> None:
    assert get("/x") == Request("GET", "/x", {})
    assert get("/x", metadata_only=True).accept == METADATA


def test_what_an_apply_no_longer_names_goes(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1", labels={"foreign": "stays"}))
    client = clients()
    for labels in ({"a": "1", "b": "2"}, {"b": "3"}):
        client.call(apply(f"{NODES}/n1", node("n1", labels=labels), "m", force=False, metadata_only=True))
    found = client.call(get(f"{NODES}/n1", metadata_only=True))
    assert found["kind"] == "PartialObjectMetadata"
    ours = {key: value for key, value in found["metadata"]["labels"].items() if key in "ab" or key == "foreign"}
    assert ours == {"b": "3", "foreign": "stays"}


def test_without_force_a_foreign_value_is_a_conflict(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1"))
    client = clients()
    client.call(apply(f"{NODES}/n1", node("n1", labels={"a": "1"}), "first", force=False))
    with pytest.raises(ApiError, match=r'^409 .*conflict with "first"'):
        client.call(apply(f"{NODES}/n1", node("n1", labels={"a": "2"}), "second", force=False))
    taken = client.call(apply(f"{NODES}/n1", node("n1", labels={"a": "2"}), "second", force=True))
    assert taken["metadata"]["labels"]["a"] == "2"


def test_text_beyond_the_basic_plane_arrives(api: ApiUnderTest, clients: Clients) -> None:
    """Escaped as surrogates, as Python's own json does it, it is a 400."""
    api.create(NODES, node("n1"))
    body = node("n1", annotations={"note": "😀 ü"})
    answer = clients().call(apply(f"{NODES}/n1", body, "m", force=True))
    assert answer["metadata"]["annotations"]["note"] == "😀 ü"


def test_an_object_that_is_there_is_a_conflict(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1"))
    client = clients()
    with pytest.raises(ApiError, match=r"^409 AlreadyExists"):
        client.call(create(NODES, node("n1"), "m"))
    with pytest.raises(ApiError, match=r"^404"):
        client.call(get(f"{NODES}/n2"))


@pytest.mark.parametrize(("regarding", "namespace"), [(NODE, "default"), (POD, "kube-system")])
def test_where_events_are(api: ApiUnderTest, clients: Clients, regarding: dict[str, str], namespace: str) -> None:
    made = clients().call(lost_rack(regarding))
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/{made['metadata']['name']}"
    found = api.get(path)
    assert found["regarding"] == regarding
    assert found["eventTime"] == "2026-01-02T03:04:05.000067Z"
    assert (found["type"], found["note"]) == ("Warning", "rack is gone")
    assert found["reportingController"] == "gpu.topology/controller"
    api.request("DELETE", path)


def test_the_same_event_is_told_once(api: ApiUnderTest, clients: Clients) -> None:
    client = clients()
    client.call(lost_rack())
    with pytest.raises(ApiError, match=r"^409"):
        client.call(lost_rack())
    client.call(lost_rack(note="another"))
    client.call(lost_rack(now=NOW.replace(second=6)))
    assert len(api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]) == 3


@pytest.mark.parametrize(
    "note",
    ["x" * 5000, "ü" * 5000, "x" + "ü" * 5000, "xyz" + "😀" * 5000, "two\nlines", ""],
    ids=["ascii", "two bytes", "odd", "four bytes", "lines", "nothing"],
)
def test_notes_of_any_length(api: ApiUnderTest, clients: Clients, note: str) -> None:
    kept = clients().call(lost_rack(note=note)).get("note", "")
    assert note.startswith(kept)
    assert len(kept.encode()) <= 1024
    assert len(kept.encode()) > 1020 or kept == note
    assert api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]


@pytest.mark.parametrize(
    "name", ["n" * 253, "n" * 235 + "-" + "n" * 17, "n" * 235 + "." + "n" * 17, "n" * 233 + "---" + "n" * 17]
)
def test_long_names(api: ApiUnderTest, clients: Clients, name: str) -> None:
    made = clients().call(lost_rack({**NODE, "name": name}, instance="i" * 500))
    assert made["regarding"]["name"] == name
    assert len(made["reportingInstance"]) == 128
    assert api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]


def test_an_empty_namespace_is_no_namespace() -> None:
    request = lost_rack({**NODE, "namespace": ""})
    assert request.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert sent(request)["metadata"]["namespace"] == "default"


def test_a_reporter_without_instance_is_its_own() -> None:
    assert sent(lost_rack(instance=""))["reportingInstance"] == "controller"


def test_an_unserved_resource_is_not_found(clients: Clients) -> None:
    with pytest.raises(ApiError, match=r"^404"):
        clients().call(get("/apis/no.such.group/v1/things"))


@pytest.mark.parametrize(
    ("asked", "query", "verb", "resource"),
    [
        pytest.param(["GET", "/api/v1/nodes"], {"limit": "500"}, "list", "nodes", id="list"),
        pytest.param(["GET", "/api/v1/nodes"], {"watch": "true"}, "watch", "nodes", id="watch"),
        pytest.param(["GET", "/api/v1/nodes/n1"], {}, "get", "nodes", id="get"),
        pytest.param(["GET", "/api/v1/namespaces/kube-system"], {}, "get", "namespaces", id="namespace"),
        pytest.param(["GET", "/api/v1/namespaces/a/pods"], {}, "list", "pods", id="namespaced-list"),
        pytest.param(
            ["PATCH", "/apis/gpu.topology/v1alpha1/clustertopologies/cluster/status"],
            {},
            "patch",
            "clustertopologies.gpu.topology/status",
            id="status",
        ),
        pytest.param(
            ["POST", "/apis/events.k8s.io/v1/namespaces/default/events"],
            {"fieldManager": "m"},
            "create",
            "events.events.k8s.io",
            id="event",
        ),
        pytest.param(["PATCH", "/api/v1/nodes/n1"], {}, "patch", "nodes", id="patch"),
        pytest.param(
            ["PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"],
            {},
            "update",
            "leases.coordination.k8s.io",
            id="update",
        ),
        pytest.param(
            ["DELETE", "/apis/kai.scheduler/v1alpha1/topologies/t"],
            {},
            "delete",
            "topologies.kai.scheduler",
            id="delete",
        ),
        pytest.param(["DELETE", "/api/v1/nodes"], {}, "deletecollection", "nodes", id="delete-collection"),
        pytest.param(["GET", "/apis/grove.io/v1alpha1"], {}, "get", "discovery", id="group-discovery"),
        pytest.param(["GET", "/apis"], {}, "get", "discovery", id="groups"),
        pytest.param(["GET", "/api/v1"], {}, "get", "discovery", id="core-discovery"),
    ],
)
def test_verb_and_resource(asked: list[str], query: dict[str, str], verb: str, resource: str) -> None:
    method, path = asked
    request = Request(method, path, query)
    assert resource_of(request) == resource
    assert verb_of(request) == verb


def test_an_apply_is_no_patch() -> None:
    assert verb_of(apply("/api/v1/nodes/n1", {}, "m", force=True)) == "apply"
