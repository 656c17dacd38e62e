"""Watches from a version, and streaming lists; pages, selectors and what a watch selects: test_conversations.py."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.support.api import METADATA, NODES, ApiUnderTest, node

END_MARK = "k8s.io/initial-events-end"
STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
def version(api: ApiUnderTest) -> str:
    """Version of the list once there are five nodes."""
    for name in ("a", "b", "c", "d", "e"):
        api.create(NODES, node(name, labels={"name": name, **({"rack": "r1"} if name in "ab" else {})}))
    return api.get(NODES)["metadata"]["resourceVersion"]


def kinds(events: Iterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    """Type and object name of the next events."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in islice(events, count)]


def relabel(api: ApiUnderTest, node_name: str, /, **labels: str | None) -> dict[str, Any]:
    return api.patch(f"{NODES}/{node_name}", {"metadata": {"labels": labels}})


def test_watch_from_a_version_shows_what_came_after(api: ApiUnderTest, version: str) -> None:
    relabel(api, "a", name="x")
    api.create(NODES, node("f"))
    last = api.get(f"{NODES}/b")
    api.request("DELETE", f"{NODES}/b")
    with api.watch(NODES, f"resourceVersion={version}&timeoutSeconds=20") as events:
        seen = [next(events) for _ in range(3)]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in seen] == [
        ("MODIFIED", "a"),
        ("ADDED", "f"),
        ("DELETED", "b"),
    ]
    assert seen[0]["object"]["kind"] == "Node"
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in seen]
    assert versions == sorted(versions)
    assert versions[2] > int(last["metadata"]["resourceVersion"])


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("start", ["", "&resourceVersion=0"])
def test_streaming_list_ends_with_a_mark(api: ApiUnderTest, start: str) -> None:
    with api.watch(NODES, f"{STREAMING}&timeoutSeconds=20{start}") as events:
        assert sorted(kinds(events, 5)) == [("ADDED", name) for name in "abcde"]
        mark = next(events)
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "Node"
        assert mark["object"]["metadata"]["annotations"] == {END_MARK: "true"}
        changed = relabel(api, "a", name="x")["metadata"]["resourceVersion"]
        event = next(events)
    assert event["type"] == "MODIFIED"
    assert event["object"]["metadata"]["resourceVersion"] == changed
    assert int(changed) > int(mark["object"]["metadata"]["resourceVersion"])


def test_streaming_list_of_metadata(api: ApiUnderTest, version: str) -> None:
    with api.watch(NODES, f"{STREAMING}&timeoutSeconds=20&resourceVersion={version}", accept=METADATA) as events:
        seen = [next(events) for _ in range(6)]
    assert {event["object"]["kind"] for event in seen} == {"PartialObjectMetadata"}
    assert seen[-1]["type"] == "BOOKMARK"
    assert seen[-1]["object"]["metadata"]["annotations"] == {END_MARK: "true"}
