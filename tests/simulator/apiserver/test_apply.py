"""Server-side apply (KEP-555): who owns which label, conflicts, and what goes with its last owner."""

from typing import Any

import pytest
from tests.simulator.apiserver.dialogue import METADATA_ONLY, NODE, applied, conflict, create_node, owners_of
from tests.support.api import APPLY, ApiUnderTest, node

WANTED = node("n1", labels={"x.y/z": "a"})
NO_LABELS = node("n1", labels={})
CONDITION = {"type": "Topology", "status": "True", "reason": "Known", "message": "", "lastTransitionTime": None}


@pytest.fixture
def labelled(api: ApiUnderTest) -> ApiUnderTest:
    """The API server with a Node n1, of which nobody owns the label `zone` by apply."""
    create_node(api, zone="a")
    return api


def relabel(api: ApiUnderTest, manager: str, label: str, value: str) -> Any:
    """The Node after a merge patch of one label."""
    change = {"metadata": {"labels": {label: value}}}
    return api.patch(f"{NODE}?fieldManager={manager}", change)


def test_apply_adds_labels_and_owns_them(labelled: ApiUnderTest) -> None:
    answer = applied(labelled, NODE, WANTED, "agent")
    metadata = answer["metadata"]
    assert metadata["labels"] == {"zone": "a", "x.y/z": "a"}
    assert owners_of(answer, "x.y/z") == ["agent Apply"]
    fields = metadata["managedFields"][0]
    assert fields["fieldsV1"] == {
        "f:metadata": {
            "f:labels": {"f:x.y/z": {}},
        },
    }
    assert fields["fieldsType"] == "FieldsV1"
    assert fields["apiVersion"] == "v1"


def test_another_writer_takes_a_label_over(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, WANTED, "agent")
    patched = relabel(labelled, "other", "x.y/z", "b")
    assert owners_of(patched, "x.y/z") == ["other Update"]


def test_apply_over_another_owner_conflicts_unless_forced(labelled: ApiUnderTest) -> None:
    relabel(labelled, "other", "x.y/z", "b")
    refusal = conflict(labelled, NODE, WANTED, "agent")
    assert refusal["reason"] == "Conflict"
    assert refusal["message"] == (
        'Apply failed with 1 conflict: conflict with "other" using v1: .metadata.labels.x.y/z'
    )
    (cause,) = refusal["details"]["causes"]
    assert cause == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "other" using v1',
        "field": ".metadata.labels.x.y/z",
    }

    forced = applied(labelled, NODE, WANTED, "agent", force=True)
    labels = forced["metadata"]["labels"]
    assert labels == {"zone": "a", "x.y/z": "a"}
    assert owners_of(forced, "x.y/z") == ["agent Apply"]


def test_several_conflicts_are_listed_by_manager(labelled: ApiUnderTest) -> None:
    first = node("n1", labels={"a": "1"})
    applied(labelled, NODE, first, "first")
    relabel(labelled, "second", "b", "1")
    wanted = node("n1", labels={"a": "2", "b": "2"})
    refusal = conflict(labelled, NODE, wanted, "agent")
    assert refusal["message"].splitlines() == [
        'Apply failed with 2 conflicts: conflicts with "first":',
        "- .metadata.labels.a",
        'conflicts with "second" using v1:',
        "- .metadata.labels.b",
    ]


def test_label_left_out_is_removed_when_nobody_else_owns_it(labelled: ApiUnderTest) -> None:
    both = node("n1", labels={"x.y/z": "a", "kept": "1"})
    applied(labelled, NODE, both, "agent")
    kept = node("n1", labels={"kept": "1"})
    answer = applied(labelled, NODE, kept, "agent")
    labels = answer["metadata"]["labels"]
    assert labels == {"zone": "a", "kept": "1"}

    without_labels = node("n1")
    answer = applied(labelled, NODE, without_labels, "agent")
    metadata = answer["metadata"]
    assert metadata["labels"] == {"zone": "a"}
    assert len(metadata["managedFields"]) == 1


def test_co_owned_label_stays_when_one_owner_drops_it(labelled: ApiUnderTest) -> None:
    relabel(labelled, "other", "x.y/z", "a")
    answer = applied(labelled, NODE, WANTED, "agent")
    assert owners_of(answer, "x.y/z") == ["agent Apply", "other Update"]

    answer = applied(labelled, NODE, NO_LABELS, "agent")
    labels = answer["metadata"]["labels"]
    assert labels == {"zone": "a", "x.y/z": "a"}
    assert owners_of(answer, "x.y/z") == ["other Update"]


def test_last_of_two_appliers_removes_a_shared_label(labelled: ApiUnderTest) -> None:
    applied(labelled, NODE, WANTED, "first")
    applied(labelled, NODE, WANTED, "second")
    answer = applied(labelled, NODE, NO_LABELS, "first")
    labels = answer["metadata"]["labels"]
    assert labels == {"zone": "a", "x.y/z": "a"}

    answer = applied(labelled, NODE, NO_LABELS, "second")
    labels = answer["metadata"]["labels"]
    assert labels == {"zone": "a"}


def test_apply_needs_a_field_manager(labelled: ApiUnderTest) -> None:
    code, answer = labelled.request(
        "PATCH",
        NODE,
        node("n1"),
        content_type=APPLY,
    )
    assert code == 422
    assert answer["reason"] == "Invalid"
    assert "fieldManager: Required value: is required for apply patch" in answer["message"]


def test_apply_needs_a_type(labelled: ApiUnderTest) -> None:
    untyped: dict[str, Any] = {"metadata": {}}
    answer = applied(labelled, NODE, untyped, "a", code=400)
    assert "invalid object type: /, Kind=" in answer["message"]


def test_apply_of_another_version_conflicts(labelled: ApiUnderTest) -> None:
    older = node("n1", resourceVersion="1")
    answer = conflict(labelled, NODE, older, "agent")
    assert answer["reason"] == "Conflict"
    assert "the object has been modified; please apply your changes to the latest version" in answer["message"]


def test_apply_of_another_uid_is_invalid(labelled: ApiUnderTest) -> None:
    other = node("n1", uid="0000", labels={"a": "b"})
    answer = applied(labelled, NODE, other, "agent", code=422)
    assert answer["reason"] == "Invalid"
    assert 'Node "n1" is invalid: metadata.uid: Invalid value: "0000": field is immutable' in answer["message"]


def test_reply_to_an_apply_can_be_metadata_only(labelled: ApiUnderTest) -> None:
    code, answer = labelled.request(
        "PATCH",
        f"{NODE}?fieldManager=agent",
        node("n1", labels={"a": "b"}),
        content_type=APPLY,
        accept=METADATA_ONLY,
    )
    assert code == 200
    assert answer["kind"] == "PartialObjectMetadata"
    assert answer["apiVersion"] == "meta.k8s.io/v1"
    labels = answer["metadata"]["labels"]
    assert labels == {"zone": "a", "a": "b"}
    assert "status" not in answer


def test_status_is_applied_on_its_own_endpoint(labelled: ApiUnderTest) -> None:
    both = node("n1")
    both["status"] = {"conditions": [CONDITION]}
    answer = applied(labelled, NODE, both, "agent")
    status = answer.get("status", {})
    assert "conditions" not in status

    answer = applied(labelled, f"{NODE}/status", both, "agent")
    (condition,) = answer["status"]["conditions"]
    assert condition["type"] == "Topology"
