"""What a new object gets, and writes that change nothing; what is refused and how: test_conversations.py."""

from typing import Any

import pytest

from tests.support.api import NODES, ApiUnderTest, node

NODE = f"{NODES}/n1"


@pytest.fixture
def made(api: ApiUnderTest) -> dict[str, Any]:
    """A node, read again after whatever the server adds to a new one."""
    api.create(NODES, node("n1", labels={"a": "1"}))
    return api.get(NODE)


def test_create_completes_the_object(api: ApiUnderTest) -> None:
    made = api.create(NODES, node("n1"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["resourceVersion"].isdigit()
    assert made["metadata"]["creationTimestamp"].endswith("Z")


def test_replace_that_changes_nothing_writes_nothing(api: ApiUnderTest, made: dict[str, Any]) -> None:
    assert api.request("PUT", NODE, made) == (200, made)


def test_a_node_made_again_is_another_one(api: ApiUnderTest, made: dict[str, Any]) -> None:
    api.request("DELETE", NODE)
    again = api.create(NODES, node("n1"))
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert "labels" not in again["metadata"]
