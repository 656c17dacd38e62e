"""Server-sent events over real sockets: resumed, bounded, and cheap for slow readers."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.snapshot.clusters import view
from tests.ui.serving import Served, facts_of, rack_nodes, served


class Reader:
    """Reads one stream event by event."""

    def __init__(self, port: int, since: str = "", last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self._connection.request("GET", f"/api/events?since={since}", headers={"Last-Event-ID": last} if last else {})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()

    def next(self, *names: str) -> dict[str, Any]:
        """The next event, or the next one of these names."""
        found: dict[str, str] = {}
        for line in (text.decode().rstrip("\n") for text in self._answer):
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif found.get("event") and (not names or found["event"] in names):
                return found | {"data": json.loads(found["data"])}
            else:
                found = {}
        pytest.fail("the stream ended")


def _degrade(server: Served, name: str, state: str = "degraded") -> None:
    server.facts.put_node(view(name, "r0", state=state), "")
    server.broadcaster.tick()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, facts_of(rack_nodes()), max_streams=3, status_seconds=0.05, send_seconds=0.2) as found:
        yield found


def test_a_stream_has_what_changed_after_the_snapshot(server: Served) -> None:
    since = server.ask("/api/snapshot")[2]["id"]
    _degrade(server, "n0")
    with Reader(server.port, since) as reader:
        first = reader.next("delta", "reset")
        _degrade(server, "n1")
        second = reader.next("delta", "reset")
    assert [first["id"], second["id"]] == ["e1-1", "e1-2"]
    assert [[row["name"] for row in event["data"]["put"]] for event in (first, second)] == [["n0"], ["n1"]]


def test_last_event_id_wins_over_the_query(server: Served) -> None:
    for name in ("n0", "n1", "n2"):
        _degrade(server, name)
    with Reader(server.port, "e1-0", last="e1-2") as reader:
        assert reader.next("delta", "reset")["id"] == "e1-3"


@pytest.mark.parametrize("since", ["", "other-1", "nonsense", "e1-99"])
def test_an_unknown_position_gets_a_reset(server: Served, since: str) -> None:
    _degrade(server, "n0")
    with Reader(server.port, since) as reader:
        assert reader.next()["event"] == "reset"
        _degrade(server, "n1")
        assert reader.next("delta", "reset")["id"] == "e1-2"


def test_status_is_sent_periodically_and_at_once_on_failure(tmp_path: Path) -> None:
    with served(tmp_path, status_seconds=0.05) as server, Reader(server.port, "e1-0") as reader:
        assert [reader.next()["event"] for _ in range(3)] == ["status"] * 3
    with served(tmp_path / "again", status_seconds=1000) as server, Reader(server.port, "e1-0") as reader:
        assert reader.next()["data"]["stale"] is None
        server.facts.mark_failing("nodes", "gone")
        server.broadcaster.tick()
        assert reader.next()["data"]["stale"]["why"] == ["nodes: gone"]


def test_the_number_of_streams_is_limited(server: Served) -> None:
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(Reader(server.port, "e1-0")) for _ in range(3)]
        for reader in readers:
            reader.next("status")
        with Reader(server.port) as refused:
            assert refused.status == 503
    _wait_until_free(server)
    with Reader(server.port, "e1-0") as reader:
        assert reader.status == 200


def test_a_page_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    nodes = tuple(view(f"n{i}", "r0", labels={"example.com/long": "x" * 63}) for i in range(400))
    with served(tmp_path, facts_of(nodes), max_streams=1, status_seconds=1000, send_seconds=0.2) as server:
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect(("127.0.0.1", server.port))
            idle.sendall(b"GET /api/events?since=e1-0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            idle.recv(64)
            for turn in range(200):
                for i in range(400):
                    server.facts.put_node(view(f"n{i}", "r0", state="degraded" if turn % 2 else "ok"), "")
                server.broadcaster.tick()
                if not server.stream.open:
                    break
            _wait_until_free(server)
        with Reader(server.port, f"e1-{server.broadcaster.number}") as reader:
            assert reader.next("status")


def _wait_until_free(server: Served) -> None:
    """Until no stream is open: asking for an answer gives the server its turns."""
    for _ in range(2000):
        if not server.stream.open:
            return
        server.ask("/healthz")
    pytest.fail("the stream is still open")


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    with served(tmp_path, status_seconds=1000) as server:
        reader = Reader(server.port, "e1-0")
        reader.next("status")
    with reader, pytest.raises(pytest.fail.Exception, match="the stream ended"):
        reader.next()
