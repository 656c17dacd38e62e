"""Server-side apply (KEP-555): who owns which label, conflicts, and what goes with its last owner."""

import pytest
from tests.simulator.apiserver.dialogue import METADATA_ONLY, NODE, applied, conflict, create_node, owners_of
from tests.support.api import APPLY, ApiUnderTest, node

CONDITION = {"type": "Topology", "status": "True", "reason": "Known", "message": "", "lastTransitionTime": None}


@pytest.fixture
def labelled(api: ApiUnderTest) -> ApiUnderTest:
    """The API server with a Node n1, of which nobody owns the label `zone` by apply."""
    create_node(api, zone="a")
    return api


def test_apply_adds_labels_and_owns_them(labelled: ApiUnderTest) -> None:
    answer = applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "agent")
    assert answer["metadata"]["labels"] == {"zone": "a", "x.y/z": "a"}
    assert owners_of(answer, "x.y/z") == ["agent Apply"]
    fields = answer["metadata"]["managedFields"][0]
    assert fields["fieldsV1"] == {"f:metadata": {"f:labels": {"f:x.y/z": {}}}}
    assert fields["fieldsType"] == "FieldsV1"
    assert fields["apiVersion"] == "v1"


def test_another_writer_takes_a_label_over(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "agent")
    patched = labelled.patch(f"{NODE}?fieldManager=other", {"metadata": {"labels": {"x.y/z": "b"}}})
    assert owners_of(patched, "x.y/z") == ["other Update"]


def test_apply_over_another_owner_conflicts_unless_forced(labelled: ApiUnderTest) -> None:
    labelled.patch(f"{NODE}?fieldManager=other", {"metadata": {"labels": {"x.y/z": "b"}}})
    refusal = conflict(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "agent")
    assert refusal["reason"] == "Conflict"
    assert refusal["message"] == (
        'Apply failed with 1 conflict: conflict with "other" using v1: .metadata.labels.x.y/z'
    )
    assert refusal["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "other" using v1',
            "field": ".metadata.labels.x.y/z",
        }
    ]

    forced = applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "agent", force=True)
    assert forced["metadata"]["labels"] == {"zone": "a", "x.y/z": "a"}
    assert owners_of(forced, "x.y/z") == ["agent Apply"]


def test_several_conflicts_are_listed_by_manager(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, node("n1", labels={"a": "1"}), "first")
    labelled.patch(f"{NODE}?fieldManager=second", {"metadata": {"labels": {"b": "1"}}})
    refusal = conflict(labelled, NODE, node("n1", labels={"a": "2", "b": "2"}), "agent")
    assert refusal["message"].splitlines() == [
        'Apply failed with 2 conflicts: conflicts with "first":',
        "- .metadata.labels.a",
        'conflicts with "second" using v1:',
        "- .metadata.labels.b",
    ]


def test_label_left_out_is_removed_when_nobody_else_owns_it(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, node("n1", labels={"x.y/z": "a", "kept": "1"}), "agent")
    answer = applied(labelled, NODE, node("n1", labels={"kept": "1"}), "agent")
    assert answer["metadata"]["labels"] == {"zone": "a", "kept": "1"}

    answer = applied(labelled, NODE, node("n1"), "agent")
    assert answer["metadata"]["labels"] == {"zone": "a"}
    assert len(answer["metadata"]["managedFields"]) == 1


def test_co_owned_label_stays_when_one_owner_drops_it(labelled: ApiUnderTest) -> None:
    labelled.patch(f"{NODE}?fieldManager=other", {"metadata": {"labels": {"x.y/z": "a"}}})
    answer = applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "agent")
    assert owners_of(answer, "x.y/z") == ["agent Apply", "other Update"]

    answer = applied(labelled, NODE, node("n1", labels={}), "agent")
    assert answer["metadata"]["labels"] == {"zone": "a", "x.y/z": "a"}
    assert owners_of(answer, "x.y/z") == ["other Update"]


def test_last_of_two_appliers_removes_a_shared_label(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "first")
    applied(labelled, NODE, node("n1", labels={"x.y/z": "a"}), "second")
    answer = applied(labelled, NODE, node("n1", labels={}), "first")
    assert answer["metadata"]["labels"] == {"zone": "a", "x.y/z": "a"}

    answer = applied(labelled, NODE, node("n1", labels={}), "second")
    assert answer["metadata"]["labels"] == {"zone": "a"}


def test_apply_needs_a_field_manager(labelled: ApiUnderTest) -> None:
    code, answer = labelled.request("PATCH", NODE, node("n1"), content_type=APPLY)
    assert code == 422
    assert answer["reason"] == "Invalid"
    assert "fieldManager: Required value: is required for apply patch" in answer["message"]


def test_apply_needs_a_type(labelled: ApiUnderTest) -> None:
    answer = applied(labelled, NODE, {"metadata": {}}, "a", code=400)
    assert "invalid object type: /, Kind=" in answer["message"]


def test_apply_of_another_version_conflicts(labelled: ApiUnderTest) -> None:
    answer = conflict(labelled, NODE, node("n1", resourceVersion="1"), "agent")
    assert answer["reason"] == "Conflict"
    assert "the object has been modified; please apply your changes to the latest version" in answer["message"]


def test_apply_of_another_uid_is_invalid(labelled: ApiUnderTest) -> None:
    answer = applied(labelled, NODE, node("n1", uid="0000", labels={"a": "b"}), "agent", code=422)
    assert answer["reason"] == "Invalid"
    assert 'Node "n1" is invalid: metadata.uid: Invalid value: "0000": field is immutable' in answer["message"]


def test_reply_to_an_apply_can_be_metadata_only(labelled: ApiUnderTest) -> None:
    code, answer = labelled.request(
        "PATCH", f"{NODE}?fieldManager=agent", node("n1", labels={"a": "b"}), content_type=APPLY, accept=METADATA_ONLY
    )
    assert code == 200
    assert answer["kind"] == "PartialObjectMetadata"
    assert answer["apiVersion"] == "meta.k8s.io/v1"
    assert answer["metadata"]["labels"] == {"zone": "a", "a": "b"}
    assert "status" not in answer


def test_status_is_applied_on_its_own_endpoint(labelled: ApiUnderTest) -> None:
    both = {**node("n1"), "status": {"conditions": [CONDITION]}}
    answer = applied(labelled, NODE, both, "agent")
    assert "conditions" not in answer.get("status", {})

    answer = applied(labelled, f"{NODE}/status", both, "agent")
    assert [condition["type"] for condition in answer["status"]["conditions"]] == ["Topology"]
