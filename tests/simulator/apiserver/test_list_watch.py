"""Lists and watches: pages, selectors, bookmarks, streaming lists, versions that are too old or too new."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.simulator.apiserver.widgets import WIDGETS, widget_crd
from tests.support.api import METADATA, NODES, ApiUnderTest, node
from tests.support.tables import each_case

END_MARK = "k8s.io/initial-events-end"
STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
def version(api: ApiUnderTest) -> str:
    """Version of the list once there are five nodes."""
    for name in ("a", "b", "c", "d", "e"):
        api.create(NODES, node(name, labels={"name": name, **({"rack": "r1"} if name in "ab" else {})}))
    return api.get(NODES)["metadata"]["resourceVersion"]


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def kinds(events: Iterator[dict[str, Any]], count: int) -> list[tuple[str, str]]:
    """Type and object name of the next events."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in islice(events, count)]


def relabel(api: ApiUnderTest, node_name: str, /, **labels: str | None) -> dict[str, Any]:
    return api.patch(f"{NODES}/{node_name}", {"metadata": {"labels": labels}})


@pytest.mark.usefixtures("version")
def test_pages_have_the_version_of_the_first_one(api: ApiUnderTest) -> None:
    first = api.get(f"{NODES}?limit=2")
    version = first["metadata"]["resourceVersion"]  # a kube-apiserver writes, too: its own lease
    assert names(first["items"]) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    relabel(api, "e", name="changed")
    second = api.get(f"{NODES}?limit=2&continue={first['metadata']['continue']}")
    assert names(second["items"]) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == version
    last = api.get(f"{NODES}?limit=2&continue={second['metadata']['continue']}")
    assert names(last["items"]) == ["e"]
    assert not last["metadata"].get("continue")


@pytest.mark.usefixtures("version")
@each_case("simulator.yaml")
def test_selectors(api: ApiUnderTest, selector: str, expected: str) -> None:
    assert names(api.get(f"{NODES}?{selector}")["items"]) == list(expected)


@each_case("simulator.yaml")
def test_queries_that_make_no_sense(api: ApiUnderTest, query: str, message: str) -> None:
    code, answer = api.request("GET", f"{NODES}?{query}")
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert message in answer["message"]


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
@pytest.mark.parametrize("start", ["timeoutSeconds=20", "timeoutSeconds=20&resourceVersion=0"])
def test_watch_from_nowhere_begins_with_what_is_there(api: ApiUnderTest, start: str) -> None:
    with api.watch(NODES, start) as events:
        assert kinds(events, 5) == [("ADDED", name) for name in "abcde"]
        api.request("DELETE", f"{NODES}/c")
        assert kinds(events, 1) == [("DELETED", "c")]


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


def test_too_old_a_version_is_an_error_event_under_http_200(api: ApiUnderTest) -> None:
    api.ensure_crd(widget_crd())  # the history of a resource begins when it is first served
    with api.watch(WIDGETS, "resourceVersion=1&timeoutSeconds=20") as events:
        (event,) = events
    assert event["type"] == "ERROR"
    assert (event["object"]["kind"], event["object"]["code"], event["object"]["reason"]) == ("Status", 410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")


def test_watch_ends_after_its_time(api: ApiUnderTest, version: str) -> None:
    with api.watch(NODES, f"resourceVersion={version}&timeoutSeconds=1") as events:
        assert list(events) == []


def test_watch_shows_objects_enter_and_leave_a_selection(api: ApiUnderTest, version: str) -> None:
    with api.watch(NODES, f"resourceVersion={version}&timeoutSeconds=20&labelSelector=rack") as events:
        relabel(api, "c", rack="r2")
        relabel(api, "c", rack="r3")
        left = relabel(api, "c", rack=None)
        relabel(api, "c", name="unseen")
        relabel(api, "a", rack="r9")
        seen = [next(events) for _ in range(4)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
        ("ADDED", "c"),
        ("MODIFIED", "c"),
        ("DELETED", "c"),
        ("MODIFIED", "a"),
    ]
    # The object of such a deletion has the version of the change that took it out.
    assert seen[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert seen[2]["object"]["metadata"]["labels"]["rack"] == "r3"


def test_watch_of_one_name(api: ApiUnderTest, version: str) -> None:
    query = f"resourceVersion={version}&timeoutSeconds=20&fieldSelector=metadata.name%3Db"
    with api.watch(NODES, query) as events:
        relabel(api, "a", name="x")
        relabel(api, "b", name="x")
        assert kinds(events, 1) == [("MODIFIED", "b")]


def test_watch_of_a_namespace_sees_only_its_own(api: ApiUnderTest) -> None:
    path = "/api/v1/namespaces/{}/configmaps"
    version = api.get(path.format("default"))["metadata"]["resourceVersion"]
    with api.watch(path.format("default"), f"resourceVersion={version}&timeoutSeconds=20") as events:
        for namespace in ("kube-public", "default"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"in-{namespace}"}}
            api.create(path.format(namespace), body)
        assert kinds(events, 1) == [("ADDED", "in-default")]
    api.request("DELETE", f"{path.format('kube-public')}/in-kube-public")
