"""Server-sent events over real sockets: bounded, and cheap for slow readers."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from tests.snapshot.clusters import view
from tests.ui.serving import Served, facts_of, rack_nodes, served
from toposcope.ui import protocol


class Reader:
    """Reads one stream event by event."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self._connection.request("GET", "/api/events")
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()

    def next(self, after: str | None = None) -> dict[str, Any]:
        """The next event, or the next one that has another id."""
        for line in self._answer:
            name, _, value = line.decode().partition(": ")
            if name != "data":
                continue
            found: dict[str, Any] = json.loads(value)
            if found["id"] != after:
                return found
        pytest.fail("the stream ended")

    def next_id(self, after: str | None = None) -> str:
        """The id of the next event, or of the next one that has another id."""
        event = self.next(after)
        return str(event["id"])


def newest_id(server: Served) -> str:
    """The id of the snapshot that the server has."""
    snapshot = server.get("/api/snapshot")
    return str(snapshot["id"])


def _degrade(server: Served, name: str, state: str = "degraded") -> None:
    server.facts.put_node(view(name, "r0", state=state), "")
    server.broadcaster.tick()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    facts = facts_of(rack_nodes())
    with served(
        tmp_path,
        facts,
        max_streams=3,
        status_seconds=1000,
        send_seconds=0.2,
    ) as found:
        yield found


def test_stream_says_at_once_which_snapshot_is_the_newest(server: Served) -> None:
    with Reader(server.port) as reader:
        first = reader.next_id()
        assert first == newest_id(server)
        _degrade(server, "n0")
        second = reader.next_id(after=first)
        assert second == newest_id(server)
        _degrade(server, "n1")
        third = reader.next_id(after=second)
        assert third == newest_id(server)
    assert third != first


def test_before_the_cluster_has_been_read_there_is_no_snapshot_to_fetch(tmp_path: Path) -> None:
    with served(tmp_path, ready=False, status_seconds=1000) as server, Reader(server.port) as reader:
        assert reader.next_id() == ""
        server.broadcaster.tick()
        assert reader.next_id() == newest_id(server)


def test_status_is_sent_periodically(tmp_path: Path) -> None:
    with served(tmp_path, status_seconds=0.05) as server, Reader(server.port) as reader:
        first = reader.next_id()
        assert reader.next_id() == first
        assert reader.next_id() == first


def test_status_is_sent_at_once_on_failure(tmp_path: Path) -> None:
    with served(tmp_path, status_seconds=1000) as server, Reader(server.port) as reader:
        news = msgspec.convert(reader.next(), protocol.News)
        assert news.status.stale is None
        server.facts.mark_failing("nodes", "gone")
        server.broadcaster.tick()
        event = reader.next()
        stale = event["status"]["stale"]
        assert stale["why"] == ["nodes: gone"]


def test_number_of_streams_is_limited(server: Served) -> None:
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(Reader(server.port)) for _ in range(3)]
        for reader in readers:
            reader.next()
        with Reader(server.port) as refused:
            assert refused.status == 503
    _wait_until_free(server)
    with Reader(server.port) as reader:
        assert reader.status == 200


def test_page_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    with served(tmp_path, max_streams=1, status_seconds=1000, send_seconds=0.2) as server:
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect(("127.0.0.1", server.port))
            idle.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            idle.recv(64)
            for turn in range(200):
                server.facts.warn("nodes", f"{turn} " * 50_000)
                server.broadcaster.tick()
                if not server.stream.open_streams:
                    break
            _wait_until_free(server)
        newest, _ = server.broadcaster.packed()
        with Reader(server.port) as reader:
            assert reader.next_id() == newest


def _wait_until_free(server: Served) -> None:
    """Until no stream is open: asking for an answer gives the server its turns."""
    for _ in range(2000):
        if not server.stream.open_streams:
            return
        server.ask("/healthz")
    pytest.fail("the stream is still open")


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    with served(tmp_path, status_seconds=1000) as server:
        reader = Reader(server.port)
        reader.next()
    with reader, pytest.raises(pytest.fail.Exception, match="the stream ended"):
        reader.next()
