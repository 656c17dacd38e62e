"""Apply, create and Events: what is sent, and what both API servers make of it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from toposcope.kube.client import METADATA, ApiClient, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply, create, event, get, resource_of, verb_of

NOW = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "p",
    "namespace": "kube-system",
    "uid": "u1",
}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}


def lost_rack(
    regarding: dict[str, str] = NODE,
    note: str = "rack is gone",
    instance: str = "controller-0",
    now: datetime = NOW,
) -> Request:
    return event(
        regarding,
        "Warning",
        "TopologyLevelsUnavailable",
        note,
        "controller",
        instance=instance,
        now=now,
    )


def sent(request: Request) -> dict[str, Any]:
    return json.loads(request.body or b"")


def test_apply_is_one_patch_by_one_manager() -> None:
    body = {"metadata": {"name": "n1"}}
    request = apply(
        f"{NODES}/n1",
        body,
        "toposcope-agent",
        force=True,
        is_metadata_only=True,
    )
    assert request.method == "PATCH"
    assert request.content_type == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "toposcope-agent", "force": "true"}
    assert request.accept == METADATA


def test_apply_without_force_of_a_whole_object_says_so() -> None:
    request = apply("/x", {}, "m", force=False)
    assert request.query["force"] == "false"
    assert request.accept == "application/json"


def test_create_refuses_unknown_fields() -> None:
    request = create("/x", {"a": 1}, "m")
    assert request.method == "POST"
    assert request.query == {"fieldManager": "m", "fieldValidation": "Strict"}
    assert request.content_type == "application/json"


def test_get_is_a_get() -> None:
    assert get("/x") == Request("GET", "/x", {})
    request = get("/x", is_metadata_only=True)
    assert request.accept == METADATA


def label(
    client: ApiClient,
    manager: str,
    *,
    force: bool = False,
    metadata_only: bool = False,
    **labels: str,
) -> dict[str, Any]:
    """Apply labels of node n1; the server's answer."""
    request = apply(
        f"{NODES}/n1",
        node("n1", labels=labels),
        manager,
        force=force,
        is_metadata_only=metadata_only,
    )
    answer: dict[str, Any] = client.call(request)
    return answer


def test_what_an_apply_no_longer_names_goes(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1", labels={"foreign": "stays"}))
    client = clients()
    label(client, "m", metadata_only=True, a="1", b="2")
    label(client, "m", metadata_only=True, b="3")
    found = client.call(get(f"{NODES}/n1", is_metadata_only=True))
    assert found["kind"] == "PartialObjectMetadata"
    labels = found["metadata"]["labels"]
    assert "a" not in labels
    assert labels["b"] == "3"
    assert labels["foreign"] == "stays"


def test_without_force_a_foreign_value_is_a_conflict(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1"))
    client = clients()
    label(client, "first", a="1")
    with pytest.raises(ApiError, match=r'^409 .*conflict with "first"'):
        label(client, "second", a="2")
    taken = label(client, "second", force=True, a="2")
    assert taken["metadata"]["labels"]["a"] == "2"


def test_text_beyond_the_basic_plane_arrives(api: ApiUnderTest, clients: Clients) -> None:
    """Escaped as surrogates, as Python's own json does it, it is a 400."""
    api.create(NODES, node("n1"))
    body = node("n1", annotations={"note": "😀 ü"})
    request = apply(f"{NODES}/n1", body, "m", force=True)
    answer = clients().call(request)
    assert answer["metadata"]["annotations"]["note"] == "😀 ü"


def test_an_object_that_is_there_is_a_conflict(api: ApiUnderTest, clients: Clients) -> None:
    api.create(NODES, node("n1"))
    client = clients()
    with pytest.raises(ApiError, match=r"^409 AlreadyExists"):
        client.call(create(NODES, node("n1"), "m"))
    with pytest.raises(ApiError, match=r"^404"):
        client.call(get(f"{NODES}/n2"))


def events(api: ApiUnderTest) -> list[dict[str, Any]]:
    """Those of the default namespace."""
    found: list[dict[str, Any]] = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return found


@pytest.mark.parametrize(
    ("regarding", "namespace"),
    [
        pytest.param(NODE, "default", id="node"),
        pytest.param(POD, "kube-system", id="pod"),
    ],
)
def test_where_events_are(api: ApiUnderTest, clients: Clients, regarding: dict[str, str], namespace: str) -> None:
    made = clients().call(lost_rack(regarding))
    name = made["metadata"]["name"]
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}"
    found = api.get(path)
    assert found["regarding"] == regarding
    assert found["eventTime"] == "2026-01-02T03:04:05.000067Z"
    assert found["type"] == "Warning"
    assert found["note"] == "rack is gone"
    assert found["reportingController"] == "gpu.topology/controller"
    api.request("DELETE", path)


def test_the_same_event_is_told_once(api: ApiUnderTest, clients: Clients) -> None:
    client = clients()
    client.call(lost_rack())
    with pytest.raises(ApiError, match=r"^409"):
        client.call(lost_rack())
    client.call(lost_rack(note="another"))
    client.call(lost_rack(now=NOW.replace(second=6)))
    assert len(events(api)) == 3


@pytest.mark.parametrize(
    "note",
    [
        pytest.param("x" * 5000, id="ascii"),
        pytest.param("ü" * 5000, id="two-bytes"),
        pytest.param("x" + "ü" * 5000, id="odd"),
        pytest.param("xyz" + "😀" * 5000, id="four-bytes"),
        pytest.param("two\nlines", id="lines"),
        pytest.param("", id="nothing"),
    ],
)
def test_notes_of_any_length(api: ApiUnderTest, clients: Clients, note: str) -> None:
    made = clients().call(lost_rack(note=note))
    kept = made.get("note", "")
    assert note.startswith(kept)
    size = len(kept.encode())
    assert size <= 1024
    assert size > 1020 or kept == note
    assert events(api)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("n" * 253, id="one-word"),
        pytest.param("n" * 235 + "-" + "n" * 17, id="dash-at-the-cut"),
        pytest.param("n" * 235 + "." + "n" * 17, id="dot-at-the-cut"),
        pytest.param("n" * 233 + "---" + "n" * 17, id="dashes-at-the-cut"),
    ],
)
def test_long_names(api: ApiUnderTest, clients: Clients, name: str) -> None:
    long_node = {**NODE, "name": name}
    made = clients().call(lost_rack(long_node, instance="i" * 500))
    assert made["regarding"]["name"] == name
    assert len(made["reportingInstance"]) == 128
    assert events(api)


def test_an_empty_namespace_is_no_namespace() -> None:
    without_namespace = {**NODE, "namespace": ""}
    request = lost_rack(without_namespace)
    assert request.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert sent(request)["metadata"]["namespace"] == "default"


def test_a_reporter_without_instance_is_its_own() -> None:
    told = sent(lost_rack(instance=""))
    assert told["reportingInstance"] == "controller"


def test_an_unserved_resource_is_not_found(clients: Clients) -> None:
    unserved = get("/apis/no.such.group/v1/things")
    with pytest.raises(ApiError, match=r"^404"):
        clients().call(unserved)


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
    request = apply("/api/v1/nodes/n1", {}, "m", force=True)
    assert verb_of(request) == "apply"
