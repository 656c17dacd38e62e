"""The node endpoint over real sockets: what it answers, and what no client can do to it."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from toposcope.telemetry.http_head import LARGEST_HEAD
from toposcope.telemetry.node_endpoint import EndpointConnection, EndpointLimits, NodeEndpoint, listening_socket, serve
from toposcope.telemetry.served_document import DocumentFile

FIRST = b'{"version":1,"node":"n1"}'
SECOND = b'{"version":1,"node":"n2"}'
USUAL = EndpointLimits()
QUICK = EndpointLimits(head_seconds=0.1, idle_seconds=0.1, write_seconds=0.1, look_seconds=0.01)


@dataclass
class Reply:
    """One answer, with its headers by names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def problem(self) -> dict[str, Any]:
        """What is wrong with the request."""
        problem: dict[str, Any] = json.loads(self.body)
        return problem


@dataclass
class Client:
    """A connection to the endpoint."""

    sock: socket.socket
    left: bytes = field(default=b"")

    def send(self, text: str) -> None:
        self.sock.sendall(text.encode())

    def reply(self, *, has_body: bool = True) -> Reply:
        """The next answer; fails where none comes."""
        while b"\r\n\r\n" not in self.left:
            self._more()
        head, _, self.left = self.left.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        length = int(headers.get("content-length", "0")) if has_body else 0
        while len(self.left) < length:
            self._more()
        body, self.left = self.left[:length], self.left[length:]
        return Reply(int(first.split()[1]), headers, body)

    def get(self, target: str = "/v1/topology", *headers: str, method: str = "GET") -> Reply:
        lines = [f"{method} {target} HTTP/1.1", "Host: x", *headers]
        self.send("\r\n".join(lines) + "\r\n\r\n")
        return self.reply(has_body=method != "HEAD")

    def is_closed(self) -> bool:
        """Waits for the end of the connection; fails after ten seconds."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        data = self.sock.recv(65536)
        assert data, f"closed after {self.left!r}"
        self.left += data


@dataclass
class Endpoint:
    """A running endpoint and the file that it serves."""

    file: Path
    port: int
    endpoint: NodeEndpoint
    loop: asyncio.AbstractEventLoop
    clients: list[Client] = field(default_factory=list)

    def client(self, address: str = "127.0.0.1") -> Client:
        """A client at this address."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=10, source_address=(address, 0))
        client = Client(sock)
        self.clients.append(client)
        return client

    def write(self, content: bytes) -> None:
        """Replace the file, and have the endpoint look at it."""
        new = self.file.with_suffix(".new")
        new.write_bytes(content)
        new.replace(self.file)
        self.do(self.endpoint.look)

    def connection(self) -> EndpointConnection:
        """The only one."""
        (connection,) = self.endpoint.connections
        assert isinstance(connection, EndpointConnection)
        return connection

    def await_bytes(self, count: int) -> None:
        """Wait until the only connection holds this many that it has not answered."""
        while self.do(lambda: len(self.connection()._received)) < count:
            pass

    def do(self, work: Any) -> Any:
        """Do something in the endpoint's thread; what it returns."""

        async def call() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)


@contextmanager
def running(folder: Path, limits: EndpointLimits = USUAL) -> Iterator[Endpoint]:
    file = folder / "topology.json"
    endpoint = NodeEndpoint(DocumentFile(file), limits)
    listening = listening_socket(0)
    port = listening.getsockname()[1]
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(endpoint, listening, stop)))
    thread.start()
    site = Endpoint(file, port, endpoint, loop)
    try:
        yield site
    finally:
        for client in site.clients:
            client.sock.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Endpoint]:
    with running(tmp_path) as site:
        site.write(FIRST)
        yield site


def test_document_is_answered_with_its_etag(site: Endpoint) -> None:
    client = site.client()
    reply = client.get()
    assert reply.status == 200
    assert reply.body == FIRST
    assert reply.headers["content-type"] == "application/json"
    etag = reply.headers["etag"]

    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        unchanged = client.get("/v1/topology", f"If-None-Match: {known}")
        assert unchanged.status == 304
        assert unchanged.headers["etag"] == etag
    assert client.get("/v1/topology", 'If-None-Match: "other"').body == FIRST

    site.write(SECOND)
    changed = client.get("/v1/topology", f"If-None-Match: {etag}")
    assert changed.body == SECOND
    assert changed.headers["etag"] != etag


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_both_address_families_are_served(site: Endpoint) -> None:
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, site.port), timeout=10) as sock:
            assert Client(sock).get().body == FIRST


def test_host_without_ipv6_serves_ipv4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with running(tmp_path) as site:
        client = site.client()
        assert client.sock.family == socket.AF_INET
        assert client.get("/healthz").body == b"ok\n"


def test_head_has_the_headers_alone(site: Endpoint) -> None:
    client = site.client()
    reply = client.get(method="HEAD")
    assert reply.status == 200
    assert reply.headers["content-length"] == str(len(FIRST))
    assert client.get("/healthz").body == b"ok\n"


@pytest.mark.parametrize(
    ("request_line", "header", "status", "fix"),
    [
        pytest.param("GET /x HTTP/1.1", "", 404, "GET /v1/topology", id="path"),
        pytest.param("PUT /v1/topology HTTP/1.1", "", 405, "GET /v1/topology", id="method"),
        pytest.param("nonsense", "", 400, "send GET PATH HTTP/1.1", id="no-http"),
        pytest.param("GET / HTTP/2.0", "", 400, "send GET PATH HTTP/1.1", id="http-2"),
        pytest.param("GET /v1/topology HTTP/1.1", "bad", 400, "send each header as NAME: VALUE", id="header"),
        pytest.param(
            "GET /v1/topology HTTP/1.1",
            "Content-Length: 5",
            400,
            "send GET or HEAD without a body",
            id="body",
        ),
        pytest.param("GET /v1/topology?wiat=3 HTTP/1.1", "", 400, "GET /v1/topology?wait=SECONDS", id="parameter"),
        pytest.param(
            "GET /v1/topology?wait=61 HTTP/1.1",
            "",
            400,
            "GET /v1/topology?wait=60 with If-None-Match",
            id="wait",
        ),
        pytest.param(f"GET /{'x' * 3000} HTTP/1.1", "", 414, "GET /v1/topology", id="target"),
    ],
)
def test_bad_request_is_refused_with_its_fix(
    site: Endpoint, request_line: str, header: str, status: int, fix: str
) -> None:
    client = site.client()
    end = f"{header}\r\n\r\n" if header else "\r\n"
    client.send(f"{request_line}\r\n{end}")
    reply = client.reply()
    assert reply.status == status
    assert reply.problem["status"] == status
    assert reply.problem["fix"] == fix
    assert client.is_closed()


def test_huge_head_is_refused_before_it_ends(site: Endpoint) -> None:
    client = site.client()
    client.send("GET /v1/topology HTTP/1.1\r\nCookie: " + "x" * 9000)
    assert client.reply().status == 431
    endless = site.client()
    endless.send("GET /" + "x" * 9000)
    assert endless.reply().status == 414


@pytest.mark.regression
def test_refusal_of_a_head_request_has_no_body(site: Endpoint) -> None:
    client = site.client()
    client.send("HEAD /other HTTP/1.1\r\n\r\n")
    reply = client.reply(has_body=False)
    assert reply.status == 404
    assert int(reply.headers["content-length"]) > 0
    assert client.left == b""
    assert client.is_closed()


def test_taken_port_is_an_error(site: Endpoint) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        listening_socket(site.port)


def test_without_a_document_the_answer_is_503(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        reply = site.client().get()
        assert reply.status == 503
        assert reply.headers["retry-after"] == "5"
        assert "has not described this node yet" in reply.problem["detail"]
        assert site.client().get("/healthz").status == 200


def test_pipelined_requests_are_answered_in_order(site: Endpoint) -> None:
    client = site.client()
    client.send("GET /healthz HTTP/1.1\r\n\r\n" * 3 + "GET /v1/topology HTTP/1.0\r\n\r\n")
    bodies = [client.reply().body for _ in range(4)]
    assert bodies == [b"ok\n", b"ok\n", b"ok\n", FIRST]
    assert client.is_closed()


def test_half_a_request_ends_after_its_deadline(tmp_path: Path) -> None:
    with running(tmp_path, QUICK) as site:
        silent, half = site.client(), site.client()
        half.send("GET /v1/topo")
        for client in (silent, half):
            reply = client.reply()
            assert reply.status == 408
            assert client.is_closed()


def test_idle_connection_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, QUICK) as site:
        client = site.client()
        assert client.get("/healthz").status == 200
        assert client.is_closed()


def test_connection_ends_after_its_last_request(tmp_path: Path) -> None:
    with running(tmp_path, EndpointLimits(requests=2)) as site:
        client = site.client()
        assert client.get("/healthz").headers["connection"] == "keep-alive"
        assert client.get("/healthz").headers["connection"] == "close"
        assert client.is_closed()


def test_newest_connection_is_refused_where_there_are_enough(tmp_path: Path) -> None:
    with running(tmp_path, EndpointLimits(connections=2)) as site:
        first, second = site.client(), site.client()
        assert first.get("/healthz").status == 200
        assert second.get("/healthz").status == 200
        refused = site.client().get("/healthz")
        assert refused.status == 503
        assert refused.problem["detail"] == "2 connections are open already"
        assert first.get("/healthz").status == 200


def test_slow_reader_is_dropped(tmp_path: Path) -> None:
    with running(tmp_path, QUICK) as site:
        large = b'{"version":1,"filler":"%s"}' % (b"x" * 200_000)
        site.write(large)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10)
        sock.connect(("127.0.0.1", site.port))
        slow = Client(sock)
        site.clients.append(slow)
        slow.send("GET /v1/topology HTTP/1.1\r\n\r\n" * 50)
        others = site.client()
        assert others.get().body == large
        # It reads nothing until its connection is gone.
        dropped = threading.Event()
        while not dropped.wait(0.02):
            if not site.do(lambda: len(site.endpoint.connections)):
                dropped.set()
        # A reset: the kernel keeps nothing for it either.
        with pytest.raises(ConnectionResetError):
            read_to_the_end(sock)


def read_to_the_end(sock: socket.socket) -> None:
    while sock.recv(65536):
        pass


def test_long_poll_ends_with_304_when_its_time_is_over(site: Endpoint) -> None:
    client = site.client()
    etag = client.get().headers["etag"]
    reply = client.get("/v1/topology?wait=1", f"If-None-Match: {etag}")
    assert reply.status == 304


def begin_poll(site: Endpoint, client: Client) -> None:
    """Have the client wait for another document."""
    etag = client.get().headers["etag"]
    client.send(f"GET /v1/topology?wait=60 HTTP/1.1\r\nIf-None-Match: {etag}\r\n\r\n")
    while not site.do(lambda: len(site.endpoint.waiting)):
        pass


def test_same_document_in_another_file_is_no_change(site: Endpoint) -> None:
    client = site.client()
    begin_poll(site, client)
    site.write(FIRST)
    assert site.do(lambda: len(site.endpoint.waiting)) == 1
    site.write(SECOND)
    assert client.reply().body == SECOND


def test_requests_that_come_during_a_long_poll_are_answered_after_it(site: Endpoint) -> None:
    client = site.client()
    begin_poll(site, client)
    requests = "GET /healthz HTTP/1.1\r\n\r\nGET /v1/topology HTTP/1.0\r\n\r\n"
    client.send(requests)
    site.await_bytes(len(requests))
    site.write(SECOND)
    bodies = [client.reply().body for _ in range(3)]
    assert bodies == [SECOND, b"ok\n", SECOND]
    assert client.is_closed()


def test_client_that_floods_during_its_long_poll_is_read_no_further(site: Endpoint) -> None:
    client = site.client()
    begin_poll(site, client)
    assert site.do(site.connection()._transport.is_reading)
    client.send("x" * (LARGEST_HEAD + 1))
    site.await_bytes(LARGEST_HEAD + 1)
    assert not site.do(site.connection()._transport.is_reading)
    site.write(SECOND)
    assert client.reply().body == SECOND
    assert client.reply().status == 414


def test_client_that_was_read_no_further_is_read_again(site: Endpoint) -> None:
    client = site.client()
    begin_poll(site, client)
    request = "GET /healthz HTTP/1.1\r\n\r\n"
    count = LARGEST_HEAD // len(request) + 1
    client.send(request * count)
    site.await_bytes(len(request) * count)
    site.write(SECOND)
    bodies = [client.reply().body for _ in range(count + 1)]
    assert bodies == [SECOND, *[b"ok\n"] * count]
    assert client.get().body == SECOND


@pytest.mark.regression
def test_request_half_sent_during_a_long_poll_has_the_deadline_of_any(tmp_path: Path) -> None:
    with running(tmp_path, EndpointLimits(head_seconds=0.1)) as site:
        site.write(FIRST)
        client = site.client()
        begin_poll(site, client)
        client.send("GET /v1/topo")
        site.await_bytes(len("GET /v1/topo"))
        site.write(SECOND)
        assert client.reply().body == SECOND
        assert client.reply().problem["detail"] == "the request did not end within 0.1 s"
        assert client.is_closed()


def test_half_a_request_after_a_whole_one_has_the_deadline_of_any(tmp_path: Path) -> None:
    with running(tmp_path, EndpointLimits(head_seconds=0.1)) as site:
        client = site.client()
        client.send("GET /healthz HTTP/1.1\r\n\r\nGET /v1/topo")
        assert client.reply().body == b"ok\n"
        assert client.reply().status == 408


def test_change_reaches_a_thousand_long_polls(site: Endpoint) -> None:
    etag = site.client().get().headers["etag"]
    clients = [site.client() for _ in range(1000)]
    for client in clients:
        client.send(f"GET /v1/topology?wait=60 HTTP/1.1\r\nIf-None-Match: {etag}\r\n\r\n")
    while site.do(lambda: len(site.endpoint.waiting)) < 1000:
        pass
    site.write(SECOND)
    for client in clients:
        assert client.reply().body == SECOND
    assert site.do(lambda: len(site.endpoint.waiting)) == 0


def test_client_that_leaves_waits_no_more(site: Endpoint) -> None:
    client = site.client()
    etag = client.get().headers["etag"]
    client.send(f"GET /v1/topology?wait=60 HTTP/1.1\r\nIf-None-Match: {etag}\r\n\r\n")
    while not site.do(lambda: len(site.endpoint.waiting)):
        pass
    client.sock.close()
    while site.do(lambda: len(site.endpoint.connections)):
        pass
    assert site.do(lambda: len(site.endpoint.waiting)) == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":2}', b"\xff", b"[" * 100_000, b" " * 300_000])
def test_corrupt_file_leaves_the_last_document(
    site: Endpoint, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client = site.client()
    site.write(content)
    site.do(site.endpoint.look)
    assert client.get().body == FIRST
    (message,) = caplog.messages
    assert message.endswith("; the last document is served")

    caplog.set_level(logging.INFO)
    site.write(SECOND)
    assert client.get().body == SECOND
    assert caplog.messages[1:] == [f"{site.file} is good again"]


def test_file_that_goes_leaves_the_last_document(site: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    site.file.unlink()
    for _ in range(2):
        site.do(site.endpoint.look)
    assert site.client().get().body == FIRST
    assert caplog.messages == [f"{site.file} is gone; the last document is served"]


def reports_of(site: Endpoint) -> None:
    """Log what was refused within the last minute."""
    site.do(lambda: site.endpoint.refusals.report(60.0, site.endpoint.connections))


def test_refused_connections_are_logged_with_the_busiest_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path, EndpointLimits(connections=2)) as site:
        first, second = site.client(), site.client()
        assert first.get("/healthz").status == 200
        assert second.get("/healthz").status == 200
        for _ in range(3):
            assert site.client().get("/healthz").status == 503
        reports_of(site)
        reports_of(site)
        (message,) = caplog.messages
        assert message == (
            "3 connections refused and 0 closed for others within 60 s: 2 are open, 2 of them from 127.0.0.1; "
            "let pods close connections after use"
        )


def test_client_with_most_connections_loses_one_to_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, EndpointLimits(connections=2)) as site:
        first, second = site.client(), site.client()
        assert first.get("/healthz").status == 200
        assert second.get("/healthz").status == 200
        other = site.client("127.0.0.2")
        assert other.get("/healthz").status == 200
        assert first.is_closed()
        assert second.get("/healthz").status == 200
        reports_of(site)
        (message,) = caplog.messages
        assert message.startswith("0 connections refused and 1 closed for others within 60 s: 2 are open, 1 of them")


def is_dropped_at_once(site: Endpoint) -> bool:
    """Whether a new connection ends without an answer; that may come before it is known to be open."""
    try:
        client = site.client()
    except ConnectionResetError:
        return True
    return client.is_closed()


def test_refused_connections_beyond_their_number_are_dropped(tmp_path: Path) -> None:
    with running(tmp_path, EndpointLimits(connections=0, refused=1, linger_seconds=60.0)) as site:
        waiting = site.client()
        assert waiting.reply().status == 503
        assert is_dropped_at_once(site)
        waiting.sock.close()
        while site.do(lambda: site.endpoint.refused):
            pass
        assert site.client().reply().status == 503


def test_requests_before_the_first_document_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path) as site:
        assert site.client().get().status == 503
        reports_of(site)
        (message,) = caplog.messages
        assert message == (
            "1 request answered 503 within 60 s: the agent has not described this node yet; "
            "read the log of its container"
        )


def test_faults_of_clients_are_counted_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, QUICK) as site:
        caplog.set_level(logging.INFO)
        assert site.client().reply().status == 408
        assert site.client().get("/other").status == 404
        assert site.client().get(method="POST").status == 405
        reports_of(site)
        assert caplog.messages[-1] == "within 60 s: 1 request too slow, 0 answers not read, 2 requests invalid"


def test_report_comes_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, EndpointLimits(report_seconds=0.01)) as site:
        assert site.client().get().status == 503
        while not caplog.messages:
            pass
        assert site.client().get().status == 503
        while len(caplog.messages) < 2:
            pass
