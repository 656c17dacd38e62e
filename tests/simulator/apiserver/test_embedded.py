"""What only the embedded server has: faults on demand, bulk loading, TLS by choice, a program of its own."""

import contextlib
import http.client
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.runtime import ManualRuntime
from tools.apiserver.certificates import make_certificates
from tools.apiserver.client import HttpClient
from toposcope.simulator.apiserver import EmbeddedApiServer


@pytest.fixture
def client(embedded_server: EmbeddedApiServer, tmp_path: Path) -> ApiUnderTest:
    return ApiUnderTest.of_embedded(embedded_server, tmp_path)


def test_rejections_run_out_and_requests_are_counted(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.reject(429, 2, retry_after=3)
    for _ in range(2):
        answer = client.ask("GET", NODES)
        assert (answer.code, answer.body["reason"], answer.headers["Retry-After"]) == (429, "TooManyRequests", "3")
        assert answer.body["details"]["retryAfterSeconds"] == 3
    embedded_server.faults.reject(500, applies=lambda request: request.method == "POST")
    assert client.request("GET", NODES)[0] == 200
    assert [client.request("POST", NODES, node("n1"))[0] for _ in range(2)] == [500, 201]
    assert embedded_server.requests == {("GET", NODES): 3, ("POST", NODES): 2}


def test_expired_history_ends_a_running_watch(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = client.create(NODES, node("n1"))["metadata"]["resourceVersion"]
    with client.watch(NODES, f"resourceVersion={version}") as events:
        embedded_server.faults.expire_history()
        (event,) = events
    assert event["object"]["code"] == 410


def test_expired_continue_token(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    for name in ("a", "b"):
        client.create(NODES, node(name))
    token = client.get(f"{NODES}?limit=1")["metadata"]["continue"]
    embedded_server.faults.expire_history()
    code, answer = client.request("GET", f"{NODES}?limit=1&continue={token}")
    assert (code, answer["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in answer["message"]


def test_cut_watch_ends_in_the_middle_of_a_line(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    version = client.create(NODES, node("n1"))["metadata"]["resourceVersion"]
    path = f"{NODES}?watch=1&resourceVersion={version}"
    with HttpClient(client.url, None).open("GET", path) as response:
        embedded_server.faults.cut_watches()
        client.create(NODES, node("n2"))
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
    assert cut.value.partial
    assert not cut.value.partial.endswith(b"\n")
    with client.watch(NODES, f"resourceVersion={version}") as events:
        assert next(events)["object"]["metadata"]["name"] == "n2"


def test_frozen_server_answers_after_its_thaw(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.faults.freeze()
    with pytest.raises(TimeoutError), HttpClient(client.url, None, timeout=0.05).open("GET", NODES):
        pass
    embedded_server.faults.thaw()
    assert client.request("GET", NODES)[0] == 200


def test_history_is_bounded(tmp_path: Path) -> None:
    with EmbeddedApiServer(history=4) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        first = client.create(NODES, node("n0"))["metadata"]["resourceVersion"]
        made = [client.create(NODES, node(f"m{index}")) for index in range(8)]
        with client.watch(NODES, f"resourceVersion={first}") as events:
            assert next(events)["object"]["code"] == 410
        with client.watch(NODES, f"resourceVersion={made[4]['metadata']['resourceVersion']}") as events:
            assert [next(events)["object"]["metadata"]["name"] for _ in range(3)] == ["m5", "m6", "m7"]


@pytest.mark.regression
def test_bookmarks_come_at_their_interval(tmp_path: Path) -> None:
    with EmbeddedApiServer(bookmark_interval=0.02) as server:
        client = ApiUnderTest.of_embedded(server, tmp_path)
        version = client.get(NODES)["metadata"]["resourceVersion"]
        server.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elsewhere"}}])
        with client.watch(NODES, f"resourceVersion={version}&allowWatchBookmarks=true") as events:
            event = next(events)
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


def test_loaded_objects_are_there(embedded_server: EmbeddedApiServer, client: ApiUnderTest) -> None:
    embedded_server.load(node(f"n{index}", labels={"a": str(index)}) for index in range(3))
    listed = client.get(NODES)["items"]
    assert [item["metadata"]["name"] for item in listed] == ["n0", "n1", "n2"]
    assert all(item["metadata"]["uid"] for item in listed)
    with pytest.raises(LookupError, match=r"no resource serves kind 'Thing' of example\.com/v1"):
        embedded_server.load([{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}])


def test_tls_and_the_time_of_the_clock(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    moment = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    runtime = ManualRuntime(moment.timestamp())
    with EmbeddedApiServer(tls=files, runtime=runtime) as server:
        with contextlib.closing(HttpClient(server.url, files.ca)) as client:
            made = client.request("POST", NODES, node("n1", labels={"a": "1"})).body["metadata"]
            assert made["creationTimestamp"] == made["managedFields"][0]["time"] == "2020-02-03T04:05:06Z"
        cluster = server.kubeconfig()["clusters"][0]["cluster"]
    assert cluster == {"server": server.url, "certificate-authority": str(files.ca)}
