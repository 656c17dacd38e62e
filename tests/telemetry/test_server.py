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
from tests.support.tables import each_case
from toposcope.telemetry.handler import Page
from toposcope.telemetry.prometheus import page
from toposcope.telemetry.server import _LOOK_SECONDS, TelemetryServer


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
def test_all_is_well(program: Program, path: str) -> None:
    assert program.get(path) == (200, "text/plain; charset=utf-8", "ok\n")


@pytest.mark.parametrize("check", ["healthz", "readyz"])
def test_a_problem_is_said_by_its_own_check_alone(program: Program, check: str) -> None:
    program.problem[check] = "nodes have not been listed: the API server says „nein“"
    code, _, text = program.get(f"/{check}")
    assert (code, text) == (503, program.problem[check] + "\n")
    other = "readyz" if check == "healthz" else "healthz"
    assert program.get(f"/{other}")[0] == 200
    assert program.get("/metrics")[0] == 200


def test_metrics_are_those_of_the_registry(program: Program) -> None:
    program.gauge.labels("düsseldorf").set(3)
    code, kind, text = program.get("/metrics")
    assert code == 200
    assert kind.startswith("text/plain; version=")
    assert 'toposcope_test{name="düsseldorf"} 3.0' in text.splitlines()
    assert "python_info" not in text


@pytest.mark.parametrize("path", ["/", "/metrics/", "//", "/healthz/../metrics", "/%6detrics"])
def test_other_paths_say_which_there_are(program: Program, path: str) -> None:
    code, _, text = program.get(path)
    assert (code, text) == (404, "try /metrics, /healthz or /readyz\n")


@each_case("tables/telemetry.yaml")
def test_what_may_not_be_followed_by_another_request_ends_the_connection(
    program: Program, begin: str, filler: str, times: int, end: str, code: int
) -> None:
    with socket.create_connection(("127.0.0.1", program.server.port), timeout=10) as client:
        client.sendall(f"{begin}{filler * times}{end}".encode())
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
    assert program.get("/healthz", host="::1")[0] == 200


def test_a_probe_is_answered_while_another_hangs() -> None:
    asked, answer = threading.Event(), threading.Event()

    def hanging() -> str:
        asked.set()
        answer.wait(30)
        return ""

    server = TelemetryServer(0, bare, hanging, lambda: "not yet")
    program = Program(server, {}, Gauge("x", "X.", registry=CollectorRegistry()))
    slow = threading.Thread(target=program.get, args=("/healthz",))
    slow.start()
    assert asked.wait(30)
    assert program.get("/readyz")[:1] == (503,)
    answer.set()
    slow.join(30)
    server.close()


def test_a_port_that_is_taken(program: Program) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        TelemetryServer(program.server.port, bare, str, str)


def test_a_scraper_that_is_gone_before_the_answer_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    asked, gone = threading.Event(), threading.Event()

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


def test_a_defect_while_answering_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> Page:
        raise ValueError("a defect")

    server = TelemetryServer(0, broken, str, str)
    with pytest.raises(http.client.RemoteDisconnected):
        Program(server, {}, Gauge("y", "Y.", registry=CollectorRegistry())).get("/metrics")
    server.close()
    assert "ValueError: a defect" in capfd.readouterr().err


def test_a_closed_server_leaves_its_port_to_the_next() -> None:
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
def test_it_ends_at_once_and_not_when_it_looks_next() -> None:
    server = TelemetryServer(0, bare, str, str)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < _LOOK_SECONDS / 2
