"""`toposcope node-endpoint` from outside: requests, and clients that wait for a change.

The document is that of a DGX H200. CPU and memory are the program's alone; what the kernel holds of
each connection comes on top, a few kilobytes while nothing is sent.
"""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from tools.bench.agent import PROFILE
from tools.bench.machine import make
from tools.bench.report import Figure, Sample, Target
from tools.bench.usage import cpu_seconds, idle, memory, tree
from tools.bench.workspace import MeasurementError, Program, pod_environment, program, scratch
from toposcope.agent.describe import describe
from toposcope.agent.topology_document import topology_document
from toposcope.api.levels import Level
from toposcope.integrations.node_plan import NodePlan, PlannedTopology

_ROUNDS: Final = 10
_CONNECTIONS: Final = 16
"""On which requests are sent at the same time."""
_MIB: Final = 1 << 20
_KIB: Final = 1 << 10
_MOST_MEMORY: Final = 192
"""MiB: the limit of the container."""
_REST_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 20.0
_BLOCK, _RACK = "topology.example.com/block", "topology.example.com/rack"
_LEVELS: Final = (
    Level("block", _BLOCK),
    Level("rack", _RACK),
)
_PLAN: Final = NodePlan((PlannedTopology("cluster", (), _LEVELS),))
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ETAG: Final = re.compile(rb"etag: (\S+)", re.IGNORECASE)


def endpoint_figures(*, quick: bool) -> Iterator[Figure]:
    """20,000 requests and 1,000 clients that wait (1,000 and 100 when quick)."""
    requests = 1_000 if quick else 20_000
    polls = 100 if quick else 1_000
    with scratch() as folder:
        first, second = _documents(folder)
        file = folder / "topology.json"
        file.write_text(first)
        port = _free_port()
        flags = (f"--file={file}", f"--port={port}")
        with program("node_endpoint", pod_environment(folder, "", ""), folder, *flags) as running:
            _wait_until_it_listens(port, running)
            yield from _request_figures(port, running, requests)
            alone = memory(tree(running.pid)).total
            with _clients(port, polls) as clients:
                held = _held_by_waiting(clients, running)
                each_kib = (held - alone) / polls / _KIB
                all_mib = held / _MIB
                yield Figure(
                    f"node endpoint, memory of each of {polls:,} clients that wait",
                    Sample((each_kib,), "KiB"),
                )
                yield Figure(
                    "  memory in all",
                    Sample((all_mib,), "MiB"),
                    Target(_MOST_MEMORY),
                )
                yield _rest_figure(running)
                yield from _change_figures(clients, running, file, second)


@contextmanager
def _clients(port: int, count: int) -> Iterator[list["EndpointClient"]]:
    """Open `count` connections, and close them at the end."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = EndpointClient(port)
            stack.enter_context(client)
            clients.append(client)
        yield clients


def _documents(folder: Path) -> list[str]:
    """Two documents of the machine, in two racks."""
    described = describe(make(PROFILE, folder).raw, "node-1")
    documents = []
    for rack in ("r1", "r2"):
        places = {_BLOCK: "b1", _RACK: rack}
        metadata = {
            "labels": described.labels.by_key | places,
            "annotations": described.annotations,
        }
        document = topology_document("node-1", metadata, _PLAN)
        documents.append(document)
    return documents


def _request_figures(port: int, running: Program, requests: int) -> Iterator[Figure]:
    """What requests cost that get the document, and those of clients that have it already."""
    with EndpointClient(port) as client:
        reply = client.get()
    size_kib = len(reply.body) / _KIB
    in_full = f"{size_kib:.1f} KiB"
    for answer, tag in ((in_full, b""), ("304", reply.etag)):
        rates = []
        for _ in range(_ROUNDS):
            rate = _rate(port, running, requests // _ROUNDS, tag)
            rates.append(rate)
        yield Figure(
            f"node endpoint, requests a second of one CPU, each {answer}",
            Sample(tuple(rates), "/s"),
            Target(1_000, is_at_most=False),
        )


def _rate(port: int, running: Program, requests: int, tag: bytes) -> float:
    """Requests for each second of CPU that they cost the program, with their connections."""
    before = idle(running.pid)
    sent = 0
    with _clients(port, _CONNECTIONS) as clients:
        while sent < requests:
            for client in clients:
                client.send(tag=tag)
            for client in clients:
                client.receive()
            sent += len(clients)
    used = idle(running.pid) - before
    return sent / used


def _held_by_waiting(clients: Sequence["EndpointClient"], running: Program) -> int:
    """Have all of them wait for a change; the bytes that the program then holds."""
    etag = clients[0].get().etag
    for client in clients:
        client.send(tag=etag, wait=60)
    idle(running.pid)
    return memory(tree(running.pid)).total


def _rest_figure(running: Program) -> Figure:
    """What the program does while nothing happens."""
    before = cpu_seconds(running.pid)
    time.sleep(_REST_SECONDS)
    used = cpu_seconds(running.pid) - before
    resting = 1000 * used / _REST_SECONDS
    return Figure("  at rest, CPU", Sample((resting,), "ms/s"))


def _change_figures(
    clients: Sequence["EndpointClient"], running: Program, file: Path, document: str
) -> Iterator[Figure]:
    """When clients that wait have another document. Raises MeasurementError."""
    before = idle(running.pid)
    expected = document.encode()
    new = file.with_suffix(".new")
    new.write_bytes(expected)
    began = time.perf_counter()
    new.replace(file)
    for client in clients:
        reply = client.receive()
        if reply.body != expected:
            raise MeasurementError("a client that waited got another document")
    elapsed_ms = 1000 * (time.perf_counter() - began)

    used = idle(running.pid) - before
    used_ms = 1000 * used
    yield Figure(
        "  a change, until all have it",
        Sample((elapsed_ms,), "ms"),
        Target(5_000),
    )
    yield Figure("  a change, CPU", Sample((used_ms,), "ms"))


class EndpointReply:
    """One answer of the endpoint."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.body = body
        found = _ETAG.search(head)
        self.etag = found[1] if found else b""


class EndpointClient:
    """A connection to the endpoint."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def get(self) -> EndpointReply:
        """The document."""
        self.send()
        return self.receive()

    def send(self, *, tag: bytes = b"", wait: int = 0) -> None:
        """Ask for the document; with `wait` for the next one."""
        lines = [
            b"GET /v1/topology?wait=%d HTTP/1.1" % wait,
            b"Host: toposcope-node",
        ]
        if tag:
            lines.append(b"If-None-Match: " + tag)
        head = b"\r\n".join(lines)
        self._socket.sendall(head + b"\r\n\r\n")

    def receive(self) -> EndpointReply:
        """The next answer. Raises MeasurementError where it is a refusal or none comes."""
        data = bytearray()
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = bytes(data).partition(b"\r\n\r\n")
        _, status, *_ = head.split()
        if status not in (b"200", b"304"):
            raise MeasurementError(f"the endpoint answered {data[:300]!r}")

        length = 0
        found = _LENGTH.search(head)
        if found:
            length = int(found[1])
        while len(body) < length:
            body += self._more()
        return EndpointReply(head, body)

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise MeasurementError("the endpoint closed a connection")
        return data


def _wait_until_it_listens(port: int, running: Program) -> None:
    """Connect until it works. Raises MeasurementError and ConnectionRefusedError."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        running.check()
        try:
            with EndpointClient(port):
                return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
