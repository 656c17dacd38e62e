"""`/metrics`, `/healthz` and `/readyz` as Prometheus and a kubelet ask for them."""

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry, Gauge
from toposcope.telemetry.handler import Page, TelemetryHandler
from toposcope.telemetry.prometheus import page
from toposcope.telemetry.server import _LOOK_SECONDS, TelemetryServer, _Server


def bare() -> Page:
    """The metrics of a program that has none."""
    return page(CollectorRegistry())


@dataclass
class Program:
    """What a served program has to say."""

    server: TelemetryServer
    problem: dict[str, str]
    gauge: Gauge

    def get(self, path: str, host: str = "127.0.0.1") -> tuple[int, str, str]:
        """Status, content type and text."""
        connection = http.client.HTTPConnection(host, self.server.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type", ""), response.read().decode()


@pytest.fixture(scope="module")
def running() -> Iterator[Program]:
    registry = CollectorRegistry()
    problem = {"healthz": "", "readyz": ""}
    gauge = Gauge("toposcope_test", "Things.", ["name"], registry=registry)
    server = TelemetryServer(0, lambda: page(registry), lambda: problem["healthz"], lambda: problem["readyz"])
    yield Program(server, problem, gauge)
    server.close()


@pytest.fixture
def program(running: Program) -> Program:
    running.problem.update(healthz="", readyz="")
    return running


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/healthz?verbose"])
def test_check_without_problem_answers_ok(program: Program, path: str) -> None:
    code, content_type, text = program.get(path)
    assert code == 200
    assert content_type == "text/plain; charset=utf-8"
    assert text == "ok\n"


@pytest.mark.parametrize(("check", "other_check"), [("healthz", "readyz"), ("readyz", "healthz")])
def test_problem_is_reported_by_its_own_check_alone(program: Program, check: str, other_check: str) -> None:
    program.problem[check] = "nodes have not been listed: the API server says „nein“"
    code, _content_type, text = program.get(f"/{check}")
    assert code == 503
    assert text == "nodes have not been listed: the API server says „nein“\n"
    for path in (f"/{other_check}", "/metrics"):
        code, _content_type, _text = program.get(path)
        assert code == 200, path


def test_metrics_are_those_of_the_registry(program: Program) -> None:
    program.gauge.labels("düsseldorf").set(3)
    code, content_type, text = program.get("/metrics")
    assert code == 200
    assert content_type.startswith("text/plain; version=")
    assert 'toposcope_test{name="düsseldorf"} 3.0' in text.splitlines()
    assert "python_info" not in text


@pytest.mark.parametrize("path", ["/", "/metrics/", "//", "/healthz/../metrics", "/%6detrics"])
def test_other_paths_say_which_there_are(program: Program, path: str) -> None:
    code, _content_type, text = program.get(path)
    assert code == 404
    assert text == "try /metrics, /healthz or /readyz\n"


@pytest.mark.parametrize(
    ("request_text", "code"),
    [
        pytest.param("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 501, id="post"),
        pytest.param("GET /healthz HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET /readyz HTTP/1.1\r\n\r\n", 200, id="body"),
        pytest.param("GET /healthz HTTP/1.0\r\n\r\n", 200, id="http-1.0"),
        pytest.param("GET /healthz HTTP/1.1\r\nConnection: Close\r\n\r\n", 200, id="asked-for"),
        pytest.param("GET /healthz\r\n\r\n", 400, id="http-0.9"),
        pytest.param("GET /healthz HTTP/2.0\r\n\r\n", 400, id="http-2"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: x", 400, id="cut"),
        pytest.param("GET /healthz HTTP/1.1\r\n" + "a: b\r\n" * 200 + "\r\n", 400, id="many-headers"),
        pytest.param("GET /" + "a" * 70000 + " HTTP/1.1\r\n\r\n", 400, id="long-path"),
    ],
)
def test_request_that_no_other_may_follow_ends_the_connection(program: Program, request_text: str, code: int) -> None:
    with socket.create_connection(("127.0.0.1", program.server.port), timeout=10) as client:
        client.sendall(request_text.encode())
        client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # what was not read is thrown away
            while part := client.recv(1 << 16):
                answer += part
    assert answer.startswith(b"HTTP/1.1 %d " % code)
    assert answer.count(b"Content-Length: ") == 1


def test_one_connection_serves_many_probes(program: Program) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", program.server.port, timeout=10)
    with contextlib.closing(connection):
        for path in ("/healthz", "/nothing", "/metrics", "/readyz"):
            connection.request("GET", path)
            assert connection.getresponse().read()


def test_pods_of_an_ipv6_cluster_are_probed_too(program: Program) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    code, _content_type, _text = program.get("/healthz", host="::1")
    assert code == 200


def test_host_without_ipv6_is_probed_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Server, "address_family", socket.AF_INET)
    server = TelemetryServer(0, bare, str, str)
    program = Program(server, {}, Gauge("z", "Z.", registry=CollectorRegistry()))
    assert program.get("/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
    server.close()


def test_silent_connection_ends_without_a_word(
    program: Program, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TelemetryHandler, "timeout", 0.05)
    with socket.create_connection(("127.0.0.1", program.server.port), timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert client.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_probe_is_answered_while_another_hangs() -> None:
    asked = threading.Event()
    answer = threading.Event()

    def hanging() -> str:
        asked.set()
        answer.wait(30)
        return ""

    server = TelemetryServer(0, bare, hanging, lambda: "not yet")
    program = Program(server, {}, Gauge("x", "X.", registry=CollectorRegistry()))
    slow = threading.Thread(target=program.get, args=("/healthz",))
    slow.start()
    assert asked.wait(30)
    code, _content_type, _text = program.get("/readyz")
    assert code == 503
    answer.set()
    slow.join(30)
    server.close()


def test_taken_port_is_an_error(program: Program) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        TelemetryServer(program.server.port, bare, str, str)


def test_scraper_that_is_gone_before_the_answer_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()
    gone = threading.Event()

    def slow() -> Page:
        asked.set()
        assert gone.wait(30)
        return b"x" * (8 << 20), "text/plain"

    server = TelemetryServer(0, slow, str, str)
    scraper = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
    scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert asked.wait(30)
    scraper.close()
    handlers = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
    gone.set()
    for handler in handlers:
        handler.join(30)
    server.close()
    assert handlers
    assert capfd.readouterr().err == ""


def test_defect_while_answering_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> Page:
        raise ValueError("a defect")

    server = TelemetryServer(0, broken, str, str)
    program = Program(server, {}, Gauge("y", "Y.", registry=CollectorRegistry()))
    with pytest.raises(http.client.RemoteDisconnected):
        program.get("/metrics")
    server.close()
    assert "ValueError: a defect" in capfd.readouterr().err


def test_closed_server_leaves_its_port_to_the_next() -> None:
    first = TelemetryServer(0, bare, str, str)
    idle = socket.create_connection(("127.0.0.1", first.port), timeout=10)
    first.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", first.port), timeout=10)
    second = TelemetryServer(first.port, bare, str, str)
    assert second.port == first.port
    second.close()
    idle.close()


@pytest.mark.regression
def test_server_ends_at_once_and_not_when_it_looks_next() -> None:
    server = TelemetryServer(0, bare, str, str)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < _LOOK_SECONDS / 2
