"""The page's server from outside: the first snapshot, a change on its way to a page, and rest.

Nodes have two or three pods each. The API server is the embedded one in a process of its own, over
TLS; it shares two CPUs with what is measured, so elapsed times are upper bounds. CPU and memory are
those of the page's server alone.
"""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from typing import IO, Any, Final, Self

import msgspec

from tools.bench.controller import merge, until_done
from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.usage import cpu_seconds, idle, memory, peak_memory, tree
from tools.bench.workspace import MeasurementError, Program, cluster, has_room, program
from toposcope.api.label_keys import STATE
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.requests import NODES
from toposcope.ui.protocol import News

_SIZES: Final = (1_000, 15_000, 100_000)
_MIB: Final = 1 << 20
_KIB: Final = 1 << 10
_SERVER_BYTES_PER_NODE: Final = 60_000
"""Bytes that one Node and its pods take in the API server, with room for what it sends."""
_CHANGE_COUNT: Final = 10
_PAGE_COUNT: Final = 50
_MOST_MEMORY_MIB: Final = 1024
"""MiB: the limit in the Deployment."""
_REST_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.05
_DATA: Final = b"data: "
_PATIENCE_EVENTS: Final = 12
"""Events, of which one comes at least every ten seconds, until a change counts as lost."""
_SEEN_MILLISECONDS: Final = 2_000
"""Milliseconds, beside the pause, within which a page of 15,000 nodes is to have a change."""


def ui_figures(*, quick: bool) -> Iterator[Figure]:
    """Everything, for one size of cluster after the other."""
    _compile()
    sizes: tuple[int, ...] = _SIZES
    if quick:
        sizes = _SIZES[:1]

    for nodes in sizes:
        if not has_room(nodes, _SERVER_BYTES_PER_NODE):
            continue
        with cluster(nodes, "pods") as (folder, server):
            drained = until_done("drain", folder, server.environment)
            with program("ui", server.environment, folder) as running:
                port = int(running.word())
                yield from _first_figures(nodes, port, running, drained)
                yield from _page_figures(nodes, port, running, server.client())


def _first_figures(
    nodes: int, port: int, running: Program, drained: tuple[float, float, float]
) -> Iterator[Figure]:
    """What the first snapshot costs, beside reading the bytes of the Nodes alone."""
    raw = _first(port, running)
    used = idle(running.pid)
    drained_cpu, drained_peak, _ = drained
    yield Figure(
        f"first snapshot of {nodes:,} nodes, CPU",
        _sample(used, "s"),
        peers=(_peer(drained_cpu, "s"),),
    )
    yield Figure(
        "  memory then",
        _held(running),
        peers=(_peer(drained_peak, "MiB"),),
    )

    peak_mib = peak_memory(running.pid) / _MIB
    yield Figure("  peak memory", _sample(peak_mib, "MiB"))

    size_kib = len(raw) / _KIB
    target = None
    if nodes <= _SIZES[1]:
        target = Target(_KIB)
    yield Figure(
        "  snapshot on the wire",
        _sample(size_kib, "KiB"),
        target,
    )


def _page_figures(nodes: int, port: int, running: Program, client: ApiClient) -> Iterator[Figure]:
    """What changes and rest cost with one page open, then with many."""
    states = []
    for turn in range(_CHANGE_COUNT):
        name = "ok" if turn % 2 else "degraded"
        states.append(_state(name))
    target = None
    if nodes == _SIZES[1]:
        target = Target(_SEEN_MILLISECONDS)

    with ExitStack() as pages:
        page = pages.enter_context(_Stream(port))
        streams = [page]
        changes = [_change(client, streams, running, state) for state in states]
        yield from _noticed("a state changed", changes, target)
        resting = _sample(_resting(running), "ms/s")
        yield Figure("  at rest with one page, CPU", resting)

        while len(streams) < _PAGE_COUNT:
            page = pages.enter_context(_Stream(port))
            streams.append(page)
        changes = [_change(client, streams, running, state) for state in states]
        yield from _noticed(f"a state changed, with {_PAGE_COUNT} pages", changes)
        resting = _sample(_resting(running), "ms/s")
        yield Figure(f"  at rest with {_PAGE_COUNT} pages, CPU", resting)
        yield Figure(
            "  memory in the end",
            _held(running),
            Target(_MOST_MEMORY_MIB),
        )


def _compile() -> None:
    """Run every program once on a small cluster."""
    with cluster(nodes=1) as (folder, server):
        until_done("drain", folder, server.environment)
        with program("ui", server.environment, folder) as running:
            _first(int(running.word()), running)


def _held(running: Program) -> Sample:
    """The memory of all its processes."""
    total = memory(tree(running.pid)).total
    return _sample(total / _MIB, "MiB")


def _noticed(
    what: str, trips: list[tuple[float, float]], target: Target | None = None
) -> Iterator[Figure]:
    elapsed, cpu = zip(*trips, strict=True)
    yield Figure(
        f"  {what}, until the first page has it",
        Sample(elapsed, "ms"),
        target,
    )
    yield Figure(
        "    CPU until all have it",
        Sample(cpu, "ms"),
    )


def _resting(running: Program) -> float:
    """Milliseconds of CPU in a second in which nothing changes."""
    before = cpu_seconds(running.pid)
    time.sleep(_REST_SECONDS)
    return 1000 * (cpu_seconds(running.pid) - before) / _REST_SECONDS


def _sample(value: float, unit: str) -> Sample:
    return Sample((value,), unit)


def _peer(value: float, unit: str) -> Peer:
    return Peer("read the bytes of the Nodes only", _sample(value, unit))


def _first(port: int, running: Program) -> bytes:
    """Ask until there is a snapshot; it is as it comes over the wire."""
    while True:
        status, body = _get(port)
        if status == HTTPStatus.OK:
            return body
        if status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise running.failure(f"it answers {status} to api/snapshot")
        running.check()
        time.sleep(_PAUSE_SECONDS)


def _get(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", "/api/snapshot", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _name(client: ApiClient, number: int) -> str:
    request = Request("GET", NODES, {"limit": "100"})
    nodes = client.call(request)["items"]
    return nodes[number]["metadata"]["name"]


def _state(state: str) -> dict[str, Any]:
    return {"metadata": {"labels": {STATE: state}}}


def _change(
    client: ApiClient, streams: "list[_Stream]", running: Program, patch: dict[str, Any]
) -> tuple[float, float]:
    """Milliseconds from a node's change until the first page has it, and of CPU until all have."""
    name = _name(client, 2)
    request = merge(f"{NODES}/{name}", patch)
    before = idle(running.pid)
    began = time.monotonic()

    client.call(request)
    shown = [stream.fetch_newer() for stream in streams]

    first = shown[0] - began
    used = idle(running.pid) - before
    return 1000 * first, 1000 * used


class _Stream:
    """A page's stream of events."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._socket.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._file: IO[bytes] = self._socket.makefile("rb")
        self._shown = self._next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def fetch_newer(self) -> float:
        """Wait for a newer snapshot and fetch it; when that was done. Raises MeasurementError."""
        for _ in range(_PATIENCE_EVENTS):
            newest = self._next()
            if newest != self._shown:
                self._shown = newest
                status, _body = _get(self._port)
                if status != HTTPStatus.OK:
                    raise MeasurementError(f"api/snapshot answers {status}")
                return time.monotonic()
        raise MeasurementError("a change did not reach the page")

    def _next(self) -> str:
        """The id in the next event."""
        for line in self._file:
            if line.startswith(_DATA):
                return msgspec.json.decode(line.removeprefix(_DATA), type=News).id
        raise MeasurementError("the stream ended")
