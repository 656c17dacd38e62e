"""Watches: where they begin, what they show, and how they end."""

import pytest
from tests.simulator.apiserver.dialogue import (
    CONFIG_MAPS,
    METADATA_ONLY,
    NODE,
    Event,
    applied,
    config_map,
    create_node,
    expect,
    version_of,
)
from tests.simulator.apiserver.widgets import WIDGETS, widget_crd
from tests.support.api import NODES, ApiUnderTest, node

TIMEOUT = "timeoutSeconds=20"
STREAMING_LIST = f"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{TIMEOUT}"
END_OF_LIST = {"k8s.io/initial-events-end": "true"}


@pytest.fixture
def two_nodes(api: ApiUnderTest) -> ApiUnderTest:
    """The API server with nodes a and b."""
    create_node(api, "a")
    create_node(api, "b")
    return api


def since(version: str, *parameters: str) -> str:
    """The query of a watch that begins after a version."""
    query = [f"resourceVersion={version}", *parameters, TIMEOUT]
    return "&".join(query)


def label(api: ApiUnderTest, name: str, /, **labels: str | None) -> str:
    """Change labels of a Node; the version of the change."""
    change = {"metadata": {"labels": labels}}
    changed = api.patch(f"{NODES}/{name}", change)
    return version_of(changed)


# Where a watch begins


def test_watch_without_version_begins_with_what_is_there(two_nodes: ApiUnderTest) -> None:
    with two_nodes.watch(NODES, TIMEOUT) as events:
        expect(events, "ADDED a", "ADDED b", in_order=False)


def test_watch_from_zero_begins_with_what_is_there(two_nodes: ApiUnderTest) -> None:
    from_zero = since("0")
    with two_nodes.watch(NODES, from_zero) as events:
        two_nodes.request("DELETE", f"{NODES}/b")
        expect(events, "ADDED a", "ADDED b", "DELETED b")


def test_watch_from_a_version_shows_what_came_after(two_nodes: ApiUnderTest) -> None:
    nodes = two_nodes.get(NODES)
    label(two_nodes, "a", name="x")
    create_node(two_nodes, "f")
    two_nodes.request("DELETE", f"{NODES}/b")
    from_then = since(version_of(nodes))
    with two_nodes.watch(NODES, from_then) as events:
        # What is deleted has a version of its own.
        first, *_others = expect(events, "MODIFIED a", "ADDED f", "DELETED b")
    assert first["object"]["kind"] == "Node"


def test_watch_from_too_old_a_version_ends_with_an_error_event(api: ApiUnderTest) -> None:
    """Under HTTP 200. The history of a resource begins when it is first served."""
    api.ensure_crd(widget_crd())
    too_old = since("1")
    with api.watch(WIDGETS, too_old) as events:
        (error,) = list(events)
    assert error["type"] == "ERROR"
    status = error["object"]
    assert status["kind"] == "Status"
    assert status["code"] == 410
    assert status["reason"] == "Expired"
    assert "too old resource version: 1 (" in status["message"]


def test_watch_ends_after_its_time(api: ApiUnderTest) -> None:
    nodes = api.get(NODES)
    query = f"resourceVersion={version_of(nodes)}&timeoutSeconds=1"
    with api.watch(NODES, query) as events:
        assert list(events) == []


# What it shows


def test_watch_shows_objects_enter_and_leave_a_selection(api: ApiUnderTest) -> None:
    create_node(api, "a", rack="r1")
    create_node(api, "c")
    version = version_of(api.get(NODES))
    racked = since(version, "labelSelector=rack")
    with api.watch(NODES, racked) as events:
        label(api, "c", rack="r2")
        label(api, "c", rack="r3")
        left_at = label(api, "c", rack=None)
        label(api, "c", name="unseen")
        label(api, "a", rack="r9")
        *_entered, left, _last = expect(
            events,
            "ADDED c",
            "MODIFIED c",
            "DELETED c",
            "MODIFIED a",
        )
    last_state = left["object"]
    assert last_state["metadata"]["labels"]["rack"] == "r3"

    # The object of such a deletion has the version of the change that took it out.
    for version in (left_at, version_of(last_state)):
        racked = since(version, "labelSelector=rack")
        with api.watch(NODES, racked) as events:
            expect(events, "MODIFIED a")


def test_watch_of_one_name_shows_no_other(two_nodes: ApiUnderTest) -> None:
    version = version_of(two_nodes.get(NODES))
    of_one = since(version, "fieldSelector=metadata.name%3Db")
    with two_nodes.watch(NODES, of_one) as events:
        label(two_nodes, "a", name="x")
        label(two_nodes, "b", name="x")
        expect(events, "MODIFIED b")


def test_watch_of_a_namespace_shows_only_its_own(api: ApiUnderTest) -> None:
    elsewhere = "/api/v1/namespaces/kube-public/configmaps"
    here = api.get(CONFIG_MAPS)
    from_then = since(version_of(here))
    with api.watch(CONFIG_MAPS, from_then) as events:
        api.create(elsewhere, config_map("elsewhere"))
        api.create(CONFIG_MAPS, config_map("here"))
        expect(events, "ADDED here")
    code, _answer = api.request("DELETE", f"{elsewhere}/elsewhere")
    assert code == 200


def test_apply_that_changes_nothing_makes_no_event(api: ApiUnderTest) -> None:
    create_node(api)
    version = version_of(api.get(NODE))
    labelled = node("n1", labels={"key": "a"})
    applied(api, NODE, labelled, "agent")
    applied(api, NODE, labelled, "agent")
    changed = node("n1", labels={"key": "b"})
    applied(api, NODE, changed, "agent")
    from_then = since(version)
    with api.watch(NODES, from_then) as events:
        first, second = expect(events, "MODIFIED n1", "MODIFIED n1")
    first_labels = first["object"]["metadata"]["labels"]
    assert first_labels["key"] == "a"
    second_labels = second["object"]["metadata"]["labels"]
    assert second_labels["key"] == "b"


# Streaming lists


def assert_ends_the_list(bookmark: Event) -> None:
    """This event says that a watch has shown what was there."""
    metadata = bookmark["object"]["metadata"]
    assert metadata["annotations"] == END_OF_LIST


def test_streaming_list_ends_with_a_bookmark(api: ApiUnderTest) -> None:
    create_node(api)
    with api.watch(NODES, STREAMING_LIST) as events:
        changed_at = label(api, "n1", name="x")
        _listed, bookmark, changed = expect(
            events,
            "ADDED n1",
            "BOOKMARK",
            "MODIFIED n1",
            in_order=False,
        )
    assert bookmark["object"]["kind"] == "Node"
    assert_ends_the_list(bookmark)
    assert version_of(bookmark["object"]) != changed_at
    assert version_of(changed["object"]) == changed_at
    stored = api.get(NODE)
    assert version_of(stored) == changed_at

    with api.watch(NODES, f"{STREAMING_LIST}&resourceVersion=0") as events:
        _listed, bookmark = expect(
            events,
            "ADDED n1",
            "BOOKMARK",
            in_order=False,
        )
    assert_ends_the_list(bookmark)


def test_streaming_list_can_be_of_metadata_only(api: ApiUnderTest) -> None:
    create_node(api)
    version = version_of(api.get(NODES))
    query = f"{STREAMING_LIST}&resourceVersion={version}"
    with api.watch(NODES, query, accept=METADATA_ONLY) as events:
        listed, bookmark = expect(
            events,
            "ADDED n1",
            "BOOKMARK",
            in_order=False,
        )
    assert listed["object"]["kind"] == "PartialObjectMetadata"
    assert bookmark["object"]["kind"] == "PartialObjectMetadata"
    assert_ends_the_list(bookmark)
