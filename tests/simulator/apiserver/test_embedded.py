"""What only the embedded server has: faults on demand, bulk loading, TLS by choice, a program of its own."""

import contextlib
import http.client
from datetime import datetime
from pathlib import Path

import pytest
from tests.simulator.apiserver.dialogue import config_map, expect, names_of, version_of
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.runtime import ManualRuntime
from tools.apiserver.certificates import make_certificates
from tools.apiserver.client import HttpClient
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import HttpRequest

STAMP = "2020-02-03T04:05:06Z"


@pytest.fixture
def client(embedded_server: EmbeddedApiServer, tmp_path: Path) -> ApiUnderTest:
    return ApiUnderTest.of_embedded(embedded_server, tmp_path)


def created(client: ApiUnderTest, name: str) -> str:
    """Create a Node; its version."""
    return version_of(client.create(NODES, node(name)))


def since(version: str) -> str:
    return f"resourceVersion={version}"


def is_post(request: HttpRequest) -> bool:
    return request.method == "POST"


def test_rejections_run_out(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.reject(429, 2, retry_after=3)
    for _rejection in range(2):
        answer = client.ask("GET", NODES)
        assert answer.code == 429
        assert answer.headers["Retry-After"] == "3"
        assert answer.body["reason"] == "TooManyRequests"
        details = answer.body["details"]
        assert details["retryAfterSeconds"] == 3
    nodes = client.get(NODES)
    assert nodes["items"] == []


def test_rejection_applies_to_chosen_requests(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.reject(500, applies=is_post)
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
    assert embedded_server.requests == {
        ("GET", NODES): 2,
        ("POST", NODES): 2,
    }


def test_expired_history_ends_a_running_watch(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = created(client, "n1")
    query = since(version)
    with client.watch(NODES, query) as events:
        embedded_server.faults.expire_history()
        (event,) = events
    assert event["object"]["code"] == 410


def test_expired_history_ends_a_paged_list(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    created(client, "a")
    created(client, "b")
    first_page = client.get(f"{NODES}?limit=1")
    token = first_page["metadata"]["continue"]
    embedded_server.faults.expire_history()
    code, answer = client.request("GET", f"{NODES}?limit=1&continue={token}")
    assert code == 410
    assert answer["reason"] == "Expired"
    assert "The provided continue parameter is too old" in answer["message"]


def test_cut_watch_ends_in_the_middle_of_a_line(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = created(client, "n1")
    query = since(version)
    http_client = HttpClient(client.url, None)
    with http_client.open("GET", f"{NODES}?watch=1&{query}") as response:
        embedded_server.faults.cut_watches()
        created(client, "n2")
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    received = cut.value.partial
    assert received
    assert not received.endswith(b"\n")
    with client.watch(NODES, query) as events:
        expect(events, "ADDED n2")


def test_frozen_server_answers_after_its_thaw(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.freeze()
    impatient = HttpClient(client.url, None, timeout=0.05)
    with pytest.raises(TimeoutError), impatient.open("GET", NODES):
        pass
    embedded_server.faults.thaw()
    nodes = client.get(NODES)
    assert nodes["items"] == []


def test_history_is_bounded(tmp_path: Path) -> None:
    with EmbeddedApiServer(history=4) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        versions = []
        for number in range(9):
            versions.append(created(client, f"n{number}"))
        too_old = since(versions[0])
        with client.watch(NODES, too_old) as events:
            event = next(events)
            assert event["object"]["code"] == 410
        within_history = since(versions[5])
        with client.watch(NODES, within_history) as events:
            expect(events, "ADDED n6", "ADDED n7", "ADDED n8")


@pytest.mark.regression
def test_bookmarks_come_at_their_interval(tmp_path: Path) -> None:
    with EmbeddedApiServer(bookmark_interval=0.02) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        nodes = client.get(NODES)
        version = version_of(nodes)
        server.load([config_map("elsewhere")])
        query = f"{since(version)}&allowWatchBookmarks=true"
        with client.watch(NODES, query) as events:
            event = next(events)
    assert event["type"] == "BOOKMARK"
    later = version_of(event["object"])
    assert int(later) > int(version)


def test_loaded_objects_are_listed(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    nodes = [node("n0"), node("n1"), node("n2")]
    embedded_server.load(nodes)
    listed = client.get(NODES)
    assert names_of(listed) == ["n0", "n1", "n2"]
    for item in listed["items"]:
        assert item["metadata"]["uid"]


def test_object_of_an_unserved_kind_cannot_be_loaded(embedded_server: EmbeddedApiServer) -> None:
    thing = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
    }
    with pytest.raises(LookupError, match=r"no resource serves kind 'Thing' of example\.com/v1"):
        embedded_server.load([thing])


def test_server_with_tls_stamps_by_its_clock(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    moment = datetime.fromisoformat(STAMP)
    runtime = ManualRuntime(moment.timestamp())
    labelled = node("n1", labels={"a": "1"})
    with EmbeddedApiServer(tls=files, runtime=runtime) as server:
        with contextlib.closing(HttpClient(server.url, files.ca)) as client:
            answer = client.request("POST", NODES, labelled)
        kubeconfig = server.kubeconfig()
    metadata = answer.body["metadata"]
    assert metadata["creationTimestamp"] == STAMP
    entry = metadata["managedFields"][0]
    assert entry["time"] == STAMP
    cluster = kubeconfig["clusters"][0]["cluster"]
    assert cluster == {
        "server": server.url,
        "certificate-authority": str(files.ca),
    }
