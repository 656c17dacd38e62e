"""Server-side apply on node labels: who owns what, and what an apply does to others (KEP-555)."""

from typing import Any

import pytest

from tests.support.api import APPLY, METADATA, NODES, ApiUnderTest, node

NODE = f"{NODES}/n1"
KEY = "gpu.topology/nvlink-domain"


@pytest.fixture
def made(api: ApiUnderTest) -> dict[str, Any]:
    return api.create(NODES, node("n1", labels={"zone": "a"}))


def labels(api: ApiUnderTest) -> dict[str, str]:
    return api.get(NODE)["metadata"].get("labels", {})


def owners(api: ApiUnderTest, key: str) -> set[tuple[str, str]]:
    """Managers of a label, each with its operation."""
    return {
        (entry["manager"], entry["operation"])
        for entry in api.get(NODE)["metadata"].get("managedFields", ())
        if f"f:{key}" in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
    }


def merge(api: ApiUnderTest, manager: str, values: dict[str, str | None]) -> None:
    api.patch(f"{NODE}?fieldManager={manager}", {"metadata": {"labels": values}})


def apply(api: ApiUnderTest, manager: str, values: dict[str, Any], *, force: bool = False) -> tuple[int, Any]:
    return api.apply(NODE, node("n1", labels=values), manager, force=force)


@pytest.mark.usefixtures("made")
def test_apply_adds_labels_and_owns_them(api: ApiUnderTest) -> None:
    code, answer = apply(api, "agent", {KEY: "a"})
    assert code == 200
    assert answer["metadata"]["labels"] == {"zone": "a", KEY: "a"}
    assert owners(api, KEY) == {("agent", "Apply")}
    entry = next(e for e in answer["metadata"]["managedFields"] if e["manager"] == "agent")
    assert entry["apiVersion"] == "v1"
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {f"f:{KEY}": {}}}}


def test_no_op_apply_makes_no_watch_event(api: ApiUnderTest, made: dict[str, Any]) -> None:
    apply(api, "agent", {KEY: "a"})
    apply(api, "agent", {KEY: "a"})
    apply(api, "agent", {KEY: "b"})
    with api.watch(NODES, f"resourceVersion={made['metadata']['resourceVersion']}&timeoutSeconds=10") as events:
        seen = []
        for event in events:
            seen.append(event["object"]["metadata"]["labels"].get(KEY))
            if seen[-1] == "b":
                break
    assert seen == ["a", "b"]


@pytest.mark.usefixtures("made")
def test_another_writer_takes_the_key_over(api: ApiUnderTest) -> None:
    apply(api, "agent", {KEY: "a"})
    merge(api, "other", {KEY: "b"})
    assert owners(api, KEY) == {("other", "Update")}


@pytest.mark.usefixtures("made")
def test_apply_over_another_owner_conflicts_unless_forced(api: ApiUnderTest) -> None:
    merge(api, "other", {KEY: "b"})
    code, answer = apply(api, "agent", {KEY: "a"})
    assert code == 409
    conflict = f'Apply failed with 1 conflict: conflict with "other" using v1: .metadata.labels.{KEY}'
    assert answer["message"] == conflict
    assert answer["reason"] == "Conflict"
    assert answer["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "other" using v1',
            "field": f".metadata.labels.{KEY}",
        }
    ]
    assert apply(api, "agent", {KEY: "a"}, force=True)[0] == 200
    assert labels(api)[KEY] == "a"
    assert owners(api, KEY) == {("agent", "Apply")}


@pytest.mark.usefixtures("made")
def test_several_conflicts_are_listed_by_manager(api: ApiUnderTest) -> None:
    apply(api, "first", {"a": "1"})
    merge(api, "second", {"b": "1"})
    code, answer = apply(api, "agent", {"a": "2", "b": "2"})
    assert code == 409
    assert answer["message"] == (
        'Apply failed with 2 conflicts: conflicts with "first":\n- .metadata.labels.a\n'
        'conflicts with "second" using v1:\n- .metadata.labels.b'
    )


@pytest.mark.usefixtures("made")
def test_key_left_out_is_removed_when_nobody_else_owns_it(api: ApiUnderTest) -> None:
    apply(api, "agent", {KEY: "a", "kept": "1"})
    apply(api, "agent", {"kept": "1"})
    assert labels(api) == {"zone": "a", "kept": "1"}


@pytest.mark.usefixtures("made")
def test_applying_nothing_removes_all_own_labels(api: ApiUnderTest) -> None:
    apply(api, "agent", {KEY: "a"})
    code, answer = api.apply(NODE, node("n1"), "agent")
    assert code == 200
    assert answer["metadata"]["labels"] == {"zone": "a"}
    assert "agent" not in {entry["manager"] for entry in answer["metadata"].get("managedFields", ())}


@pytest.mark.usefixtures("made")
def test_co_owned_key_stays_when_one_owner_drops_it(api: ApiUnderTest) -> None:
    merge(api, "other", {KEY: "a"})
    apply(api, "agent", {KEY: "a"})
    assert owners(api, KEY) == {("other", "Update"), ("agent", "Apply")}
    apply(api, "agent", {})
    assert labels(api)[KEY] == "a"
    assert owners(api, KEY) == {("other", "Update")}


@pytest.mark.usefixtures("made")
def test_two_appliers_share_a_value_and_the_last_one_removes_it(api: ApiUnderTest) -> None:
    assert apply(api, "first", {KEY: "a"})[0] == 200
    assert apply(api, "second", {KEY: "a"})[0] == 200
    apply(api, "first", {})
    assert labels(api)[KEY] == "a"
    apply(api, "second", {})
    assert KEY not in labels(api)


def test_uid_in_the_body_guards_against_another_node_of_the_name(api: ApiUnderTest, made: dict[str, Any]) -> None:
    code, answer = api.apply(NODE, node("n1", uid="0000", labels={KEY: "a"}), "agent")
    assert (code, answer["reason"]) == (422, "Invalid")
    assert 'Node "n1" is invalid: metadata.uid: Invalid value: "0000": field is immutable' in answer["message"]
    assert KEY not in labels(api)
    assert api.apply(NODE, node("n1", uid=made["metadata"]["uid"], labels={KEY: "a"}), "agent")[0] == 200


@pytest.mark.usefixtures("made")
def test_apply_needs_a_field_manager_and_a_type(api: ApiUnderTest) -> None:
    code, answer = api.request("PATCH", NODE, node("n1"), content_type=APPLY)
    assert (code, answer["reason"]) == (422, "Invalid")
    assert "fieldManager: Required value: is required for apply patch" in answer["message"]
    code, answer = api.request("PATCH", f"{NODE}?fieldManager=a", {"metadata": {}}, content_type=APPLY)
    assert (code, answer["message"]) == (400, "invalid object type: /, Kind=")


@pytest.mark.usefixtures("made")
def test_reply_can_be_metadata_only(api: ApiUnderTest) -> None:
    path = f"{NODE}?fieldManager=agent"
    body = node("n1", labels={KEY: "a"})
    code, answer = api.request("PATCH", path, body, content_type=APPLY, accept=METADATA)
    assert code == 200
    assert (answer["kind"], answer["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert answer["metadata"]["labels"][KEY] == "a"
    assert "status" not in answer


@pytest.mark.usefixtures("made")
def test_stale_resource_version_in_an_apply_conflicts(api: ApiUnderTest) -> None:
    code, answer = api.apply(NODE, node("n1", resourceVersion="1", labels={KEY: "a"}), "agent")
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in answer["message"]


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
