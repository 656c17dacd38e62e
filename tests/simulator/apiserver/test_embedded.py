"""What only the embedded server has: faults on demand, bulk loading, TLS by choice, a program of its own."""

import contextlib
import http.client
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.simulator.apiserver.dialogue import config_map, expect, names_of, version_of
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.runtime import ManualRuntime
from tools.apiserver.certificates import make_certificates
from tools.apiserver.client import HttpClient
from toposcope.simulator.apiserver import EmbeddedApiServer


@pytest.fixture
def client(embedded_server: EmbeddedApiServer, tmp_path: Path) -> ApiUnderTest:
    return ApiUnderTest.of_embedded(embedded_server, tmp_path)


def created(client: ApiUnderTest, name: str) -> str:
    """Create a Node; its version."""
    return version_of(client.create(NODES, node(name)))


def since(version: str) -> str:
    return f"resourceVersion={version}"


def test_rejections_run_out(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.reject(429, 2, retry_after=3)
    for _rejection in range(2):
        answer = client.ask("GET", NODES)
        assert answer.code == 429
        assert answer.headers["Retry-After"] == "3"
        assert answer.body["reason"] == "TooManyRequests"
        assert answer.body["details"]["retryAfterSeconds"] == 3
    assert client.get(NODES)["items"] == []


def test_rejection_applies_to_chosen_requests(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.reject(500, applies=lambda request: request.method == "POST")
    client.get(NODES)
    code, _answer = client.request("POST", NODES, node("n1"))
    assert code == 500
    created(client, "n1")


def test_requests_are_counted(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    client.get(NODES)
    client.get(NODES)
    created(client, "n1")
    embedded_server.faults.reject(500)
    client.request("POST", NODES, node("n2"))
    assert embedded_server.requests == {("GET", NODES): 2, ("POST", NODES): 2}


def test_expired_history_ends_a_running_watch(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = created(client, "n1")
    with client.watch(NODES, since(version)) as events:
        embedded_server.faults.expire_history()
        (event,) = events
    assert event["object"]["code"] == 410


def test_expired_history_ends_a_paged_list(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    created(client, "a")
    created(client, "b")
    token = client.get(f"{NODES}?limit=1")["metadata"]["continue"]
    embedded_server.faults.expire_history()
    code, answer = client.request("GET", f"{NODES}?limit=1&continue={token}")
    assert code == 410
    assert answer["reason"] == "Expired"
    assert "The provided continue parameter is too old" in answer["message"]


def test_cut_watch_ends_in_the_middle_of_a_line(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = created(client, "n1")
    path = f"{NODES}?watch=1&{since(version)}"
    with HttpClient(client.url, None).open("GET", path) as response:
        embedded_server.faults.cut_watches()
        created(client, "n2")
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert cut.value.partial
    assert not cut.value.partial.endswith(b"\n")
    with client.watch(NODES, since(version)) as events:
        expect(events, "ADDED n2")


def test_frozen_server_answers_after_its_thaw(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.freeze()
    with pytest.raises(TimeoutError), HttpClient(client.url, None, timeout=0.05).open("GET", NODES):
        pass
    embedded_server.faults.thaw()
    assert client.get(NODES)["items"] == []


def test_history_is_bounded(tmp_path: Path) -> None:
    with EmbeddedApiServer(history=4) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        versions = [created(client, f"n{number}") for number in range(9)]
        with client.watch(NODES, since(versions[0])) as events:
            assert next(events)["object"]["code"] == 410
        with client.watch(NODES, since(versions[5])) as events:
            expect(events, "ADDED n6", "ADDED n7", "ADDED n8")


@pytest.mark.regression
def test_bookmarks_come_at_their_interval(tmp_path: Path) -> None:
    with EmbeddedApiServer(bookmark_interval=0.02) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        version = version_of(client.get(NODES))
        server.load([config_map("elsewhere")])
        with client.watch(NODES, f"{since(version)}&allowWatchBookmarks=true") as events:
            event = next(events)
    assert event["type"] == "BOOKMARK"
    assert int(version_of(event["object"])) > int(version)


def test_loaded_objects_are_listed(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.load([node("n0"), node("n1"), node("n2")])
    nodes = client.get(NODES)
    assert names_of(nodes) == ["n0", "n1", "n2"]
    for item in nodes["items"]:
        assert item["metadata"]["uid"]


def test_object_of_an_unserved_kind_cannot_be_loaded(embedded_server: EmbeddedApiServer) -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    with pytest.raises(LookupError, match=r"no resource serves kind 'Thing' of example\.com/v1"):
        embedded_server.load([thing])


def test_server_with_tls_stamps_by_its_clock(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    moment = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    runtime = ManualRuntime(moment.timestamp())
    with EmbeddedApiServer(tls=files, runtime=runtime) as server:
        with contextlib.closing(HttpClient(server.url, files.ca)) as client:
            answer = client.request("POST", NODES, node("n1", labels={"a": "1"}))
        cluster = server.kubeconfig()["clusters"][0]["cluster"]
    metadata = answer.body["metadata"]
    assert metadata["creationTimestamp"] == "2020-02-03T04:05:06Z"
    assert metadata["managedFields"][0]["time"] == "2020-02-03T04:05:06Z"
    assert cluster == {"server": server.url, "certificate-authority": str(files.ca)}
