"""Copies of documents with other values in some places."""

import pytest
from tests.support.documents import Edits, edited, text

ORIGINAL = {"metadata": {"name": "train"}, "spec": {"parts": [{"size": 2}, {"size": 3}]}}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        pytest.param({"metadata.name": "other"}, {**ORIGINAL, "metadata": {"name": "other"}}, id="a-value"),
        pytest.param({"metadata.name": None}, {**ORIGINAL, "metadata": {}}, id="nothing"),
        pytest.param(
            {"spec.parts[1].size": 4}, {**ORIGINAL, "spec": {"parts": [{"size": 2}, {"size": 4}]}}, id="in-a-list"
        ),
        pytest.param({"spec.parts[0]": 7}, {**ORIGINAL, "spec": {"parts": [7, {"size": 3}]}}, id="an-entry"),
        pytest.param(
            {"metadata.labels[a.b/c]": "d"},
            {**ORIGINAL, "metadata": {"name": "train", "labels": {"a.b/c": "d"}}},
            id="a-name-with-dots",
        ),
        pytest.param({"": "text"}, "text", id="the-whole"),
    ],
)
def test_edited_copy_has_the_other_values(edits: Edits, expected: object) -> None:
    assert edited(ORIGINAL, edits) == expected


def test_edited_copy_leaves_its_original_alone() -> None:
    values = {"a": 1}
    copied = edited(ORIGINAL, {"metadata.labels": values})
    copied["metadata"]["labels"]["a"] = 2
    copied["spec"]["parts"].clear()
    assert ORIGINAL == {"metadata": {"name": "train"}, "spec": {"parts": [{"size": 2}, {"size": 3}]}}
    assert values == {"a": 1}


def test_text_loses_its_indentation() -> None:
    block = """
        one
          two
    """
    assert text(block) == "one\n  two"
