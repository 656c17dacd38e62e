"""Connections that do nothing do not keep others out."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ui.serving import Served, served
from toposcope.ui import server as ui_server

MOST = 20
REQUEST = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(ui_server, "CONNECTIONS", MOST)
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def open_to(server: Served) -> Iterator["Connections"]:
    with contextlib.ExitStack() as stack:
        yield Connections(server, stack)


class Connections:
    """Connections to the server that stay open until the test ends."""

    def __init__(self, server: Served, stack: contextlib.ExitStack) -> None:
        self._server = server
        self._stack = stack

    def __call__(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._server.port), timeout=20)
        self._stack.enter_context(connection)
        connection.sendall(sent)
        return connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it has sent is read."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


@pytest.mark.regression
@pytest.mark.parametrize("part", [b"", b"GET /api/snap", b"POST /api/check HTTP/1.1\r\nHost: localhost\r\n"])
def test_half_open_connections_keep_nobody_out(server: Served, open_to: Connections, part: bytes) -> None:
    for _ in range(3 * MOST):
        open_to(part)
    for path in ("/healthz", "/readyz", "/api/snapshot", "/"):
        assert server.ask(path)[0] == 200


def test_longest_idle_connection_is_closed(server: Served, open_to: Connections) -> None:
    oldest, stream, kept = open_to(), open_to(REQUEST % b"/api/events"), open_to()
    assert stream.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    others = [open_to() for _ in range(MOST - 4)]
    assert server.ask("/healthz")[0] == 200  # by now all of them have been accepted
    kept.sendall(REQUEST % b"/healthz")
    assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200 ")

    others.append(open_to())
    assert server.ask("/healthz")[0] == 200
    assert is_closed(oldest)
    assert not any(map(is_closed, (stream, kept, *others)))

    newest = [open_to() for _ in range(MOST - 2)]
    assert server.ask("/healthz")[0] == 200
    assert all(map(is_closed, others))
    assert not any(map(is_closed, (stream, *newest)))


def test_oldest_connection_is_closed_where_all_are_in_use(server: Served, open_to: Connections) -> None:
    streams = []
    for _ in range(MOST):
        streams.append(open_to(REQUEST % b"/api/events"))
        assert streams[-1].recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert server.ask("/healthz")[0] == 200
    assert is_closed(streams[0])
    assert not any(map(is_closed, streams[1:]))
