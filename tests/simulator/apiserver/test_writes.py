"""Create, replace, patch, delete: optimistic locking, preconditions, what is refused and how."""

from typing import Any

import pytest

from tests.support.api import NODES, ApiUnderTest, node
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


def test_a_node_made_again_is_another_one(api: ApiUnderTest, made: dict[str, Any]) -> None:
    api.request("DELETE", NODE)
    again = api.create(NODES, node("n1"))
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert "labels" not in again["metadata"]


@pytest.mark.usefixtures("made")
@each_case("simulator.yaml")
def test_dry_runs_answer_and_store_nothing(api: ApiUnderTest, method: str, path: str, body: Any, kind: str) -> None:
    before = api.get(NODES)["items"]
    code, answer = api.request(method, f"{path}dryRun=All", body, content_type=kind)
    assert code in (200, 201)
    assert body is None or answer["metadata"]["labels"].items() >= LABELS.items()
    assert api.get(NODES)["items"] == before


EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_series_are_counted_by_patch(api: ApiUnderTest) -> None:
    api.create(EVENTS, named_objects("simulated_objects.yaml")["event"])
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    answer = api.patch(f"{EVENTS}/p.1", series)
    assert answer["series"]["count"] == 2


def test_no_op_apply_makes_no_watch_event(api: ApiUnderTest, made: dict[str, Any]) -> None:
    for value in ("a", "a", "b"):
        api.apply(NODE, node("n1", labels={"key": value}), "agent")
    with api.watch(NODES, f"resourceVersion={made['metadata']['resourceVersion']}&timeoutSeconds=10") as events:
        seen = []
        for event in events:
            seen.append(event["object"]["metadata"]["labels"].get("key"))
            if seen[-1] == "b":
                break
    assert seen == ["a", "b"]


@pytest.mark.usefixtures("made")
def test_status_is_applied_on_its_own_endpoint(api: ApiUnderTest) -> None:
    condition = {"type": "Topology", "status": "True", "reason": "Known", "message": "", "lastTransitionTime": None}
    both = {**node("n1"), "status": {"conditions": [condition]}}
    code, answer = api.apply(NODE, both, "agent")
    assert code == 200
    assert "conditions" not in answer["status"]
    code, answer = api.apply(f"{NODE}/status", both, "agent")
    assert code == 200
    assert [entry["type"] for entry in answer["status"]["conditions"]] == ["Topology"]
    entry = next(e for e in answer["metadata"]["managedFields"] if e.get("subresource") == "status")
    assert list(entry["fieldsV1"]["f:status"]["f:conditions"]) == ['k:{"type":"Topology"}']
