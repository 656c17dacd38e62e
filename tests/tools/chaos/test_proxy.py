"""The proxy before a server that answers over TLS."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tools.apiserver.certificates import Certificates, make_certificates
from tools.apiserver.client import HttpClient
from tools.chaos.proxy import Mode, Proxy, ProxyThread
from toposcope.simulator.apiserver import EmbeddedApiServer

LONG = "/openapi/v3/api/v1"


@dataclass
class Place:
    """A proxy, and clients of it that keep their connections."""

    thread: ProxyThread
    proxy: Proxy
    certificates: Certificates
    clients: list[HttpClient] = field(default_factory=list)

    def switch(self, mode: Mode) -> None:
        self.thread.switch(self.proxy, mode)

    def client(self, timeout: float = 20.0) -> HttpClient:
        client = HttpClient(
            f"https://127.0.0.1:{self.proxy.port}",
            self.certificates.ca,
            timeout,
        )
        self.clients.append(client)
        return client

    def used_client(self, timeout: float = 20.0) -> HttpClient:
        """One whose connection has carried a request."""
        client = self.client(timeout)
        answer = client.request("GET", "/version")
        assert answer.code == 200
        return client


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    files = make_certificates(tmp_path)
    with EmbeddedApiServer(tls=files) as server, ProxyThread() as proxies:
        _, _, port = server.url.rpartition(":")
        proxy = proxies.add(("127.0.0.1", int(port)), files)
        made = Place(proxies, proxy, files)
        yield made
        for client in made.clients:
            client.close()


def test_proxy_passes_requests_on(place: Place) -> None:
    client = place.used_client()
    assert "paths" in client.request("GET", LONG).body
    assert place.proxy.cuts == 0
    place.switch(Mode.SLOW)
    assert "paths" in client.request("GET", LONG).body


def test_proxy_that_cuts_ends_an_answer_in_the_middle(place: Place) -> None:
    client = place.used_client()
    place.switch(Mode.CUT)
    # It depends on where the middle was: half of the headers is an answer without a body.
    with pytest.raises((OSError, http.client.HTTPException, AssertionError)):
        assert "paths" in client.request("GET", LONG).body
    assert place.proxy.cuts == 1
    place.switch(Mode.PASS)
    place.used_client()


def test_proxy_that_throttles_answers_429_on_kept_connections_too(place: Place) -> None:
    client = place.used_client()
    place.switch(Mode.THROTTLE)
    for asked in (client, place.client()):
        answer = asked.request("GET", "/version")
        assert answer.code == 429
        assert answer.headers["Retry-After"] == "1"
        assert answer.body["reason"] == "TooManyRequests"


def test_proxy_that_refuses_takes_no_connection(place: Place) -> None:
    place.switch(Mode.REFUSE)
    with pytest.raises((ConnectionError, ssl.SSLError)):
        place.client().request("GET", "/version")


def test_silent_connection_stays_silent_and_a_new_one_answers(place: Place) -> None:
    client = place.used_client(timeout=0.3)
    place.switch(Mode.SILENT)
    place.switch(Mode.PASS)
    with pytest.raises(TimeoutError):
        client.request("GET", "/version")
    place.used_client()


def test_stalled_request_is_answered_afterwards(place: Place) -> None:
    client = place.used_client()
    place.switch(Mode.STALL)
    answers: list[int] = []

    def ask() -> None:
        answer = client.request("GET", "/version")
        answers.append(answer.code)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(TimeoutError):
        place.client(timeout=0.3).request("GET", "/version")
    assert answers == []
    place.switch(Mode.PASS)
    asking.join()
    assert answers == [200]
