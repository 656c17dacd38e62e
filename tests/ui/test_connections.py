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
    monkeypatch.setattr(ui_server, "MAX_CONNECTIONS", MOST)
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

    def stream(self) -> socket.socket:
        """A connection on which the server sends events."""
        connection = self(REQUEST % b"/api/events")
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200 ")
        return connection

    def several(self, count: int) -> list[socket.socket]:
        """Connections that do nothing."""
        return [self() for _ in range(count)]


def expect_all_closed(connections: list[socket.socket]) -> None:
    for number, connection in enumerate(connections):
        assert is_closed(connection), f"connection {number} is open"


def expect_all_open(connections: list[socket.socket]) -> None:
    for number, connection in enumerate(connections):
        assert not is_closed(connection), f"connection {number} is closed"


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
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /api/snap", id="part-of-a-line"),
        pytest.param(b"POST /api/check HTTP/1.1\r\nHost: localhost\r\n", id="part-of-the-head"),
    ],
)
def test_half_open_connections_keep_nobody_out(server: Served, open_to: Connections, part: bytes) -> None:
    for _ in range(3 * MOST):
        open_to(part)
    for path in ("/healthz", "/readyz", "/api/snapshot", "/"):
        assert server.status(path) == 200


def test_longest_idle_connection_is_closed(server: Served, open_to: Connections) -> None:
    oldest = open_to()
    stream = open_to.stream()
    kept = open_to()
    others = open_to.several(MOST - 4)
    assert server.status("/healthz") == 200  # by now all of them have been accepted
    kept.sendall(REQUEST % b"/healthz")
    answer = kept.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200 ")

    others.append(open_to())
    assert server.status("/healthz") == 200
    assert is_closed(oldest)
    expect_all_open([stream, kept, *others])

    newest = open_to.several(MOST - 2)
    assert server.status("/healthz") == 200
    expect_all_closed(others)
    expect_all_open([stream, *newest])


def test_oldest_connection_is_closed_where_all_are_in_use(server: Served, open_to: Connections) -> None:
    streams = [open_to.stream() for _ in range(MOST)]
    assert server.status("/healthz") == 200
    oldest, *others = streams
    assert is_closed(oldest)
    expect_all_open(others)
