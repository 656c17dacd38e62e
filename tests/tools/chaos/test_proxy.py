"""The proxy before a server that answers over TLS."""

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools.apiserver.certificates import Certificates, make_certificates
from tools.chaos.proxy import Mode, Proxy, ProxyThread

LONG = "x" * 5_000


class Upstream(BaseHTTPRequestHandler):
    """Answers /long with a long line, anything else with its path; keeps connections."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = (LONG if self.path == "/long" else self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Client:
    """One kept connection through the proxy."""

    def __init__(self, port: int, certificates: Certificates, timeout: float = 20.0) -> None:
        context = ssl.create_default_context(cafile=certificates.ca)
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=timeout)
        self._responses: list[http.client.HTTPResponse] = []

    def get(self, path: str = "/") -> http.client.HTTPResponse:
        self.connection.request("GET", path)
        self._responses.append(self.connection.getresponse())
        return self._responses[-1]

    def close(self) -> None:
        """Close the connection, and responses that took it over because the server ended it."""
        for response in self._responses:
            response.close()
        self.connection.close()

    def body(self, path: str = "/") -> bytes:
        return self.get(path).read()


class Place:
    """A proxy, and clients of it."""

    def __init__(self, thread: ProxyThread, proxy: Proxy, certificates: Certificates) -> None:
        self.proxy = proxy
        self._thread = thread
        self._certificates = certificates
        self.clients: list[Client] = []

    def switch(self, mode: Mode) -> None:
        self._thread.switch(self.proxy, mode)

    def client(self, **more: Any) -> Client:
        self.clients.append(Client(self.proxy.port, self._certificates, **more))
        return self.clients[-1]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with ProxyThread() as proxies:
        made = Place(proxies, proxies.add(("127.0.0.1", server.server_address[1]), certificates), certificates)
        yield made
        for client in made.clients:
            client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_passes_on_what_comes_over_one_connection(place: Place) -> None:
    client = place.client()
    assert [client.body(path) for path in ("/a", "/b")] == [b"/a", b"/b"]
    assert place.proxy.cuts == 0


def test_it_cuts_in_the_middle(place: Place) -> None:
    client = place.client()
    assert client.body("/a") == b"/a"
    place.switch(Mode.CUT)
    arrived = b""
    with contextlib.suppress(OSError, http.client.HTTPException):  # it depends on where the middle was
        arrived = client.body("/long")
    assert len(arrived) < len(LONG)
    assert place.proxy.cuts == 1
    place.switch(Mode.PASS)
    assert place.client().body("/b") == b"/b"


def test_it_throttles_new_requests_also_on_a_kept_connection(place: Place) -> None:
    client = place.client()
    client.body("/a")
    place.switch(Mode.THROTTLE)
    answer = client.get("/b")
    assert (answer.status, answer.getheader("Retry-After")) == (429, "1")
    assert json.loads(answer.read())["reason"] == "TooManyRequests"
    assert place.client().get("/c").status == 429


def test_it_refuses_what_is_open_and_what_comes(place: Place) -> None:
    client = place.client()
    client.body("/a")
    place.switch(Mode.REFUSE)
    with pytest.raises((OSError, http.client.HTTPException)):
        client.body("/b")
    with pytest.raises((ConnectionError, ssl.SSLError)):
        place.client().body("/c")


def test_a_silent_connection_never_speaks_again_and_a_new_one_does(place: Place) -> None:
    client = place.client(timeout=0.3)
    client.body("/a")
    place.switch(Mode.SILENT)
    place.switch(Mode.PASS)
    with pytest.raises(TimeoutError):
        client.body("/b")
    assert place.client().body("/c") == b"/c"


def test_what_stalled_goes_on_afterwards(place: Place) -> None:
    client = place.client()
    client.body("/a")
    place.switch(Mode.STALL)
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.append(client.body("/b")))
    asking.start()
    other = place.client(timeout=0.3)
    with pytest.raises(TimeoutError):
        other.body("/c")
    assert answers == []
    place.switch(Mode.PASS)
    asking.join()
    assert answers == [b"/b"]


def test_slow_is_whole(place: Place) -> None:
    place.switch(Mode.SLOW)
    assert place.client().body("/long") == LONG.encode()
