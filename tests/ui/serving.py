"""A page's server in this process, on a real socket, over facts that a test changes, and what a page gets of it."""

import contextlib
import gzip
import http.client
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from typing import Any

import msgspec
from tests.snapshot.clusters import snapshot, view
from toposcope.kube.runtime import Runtime
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui import protocol
from toposcope.ui.answers import Answers
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.computing import Answerer, Computing
from toposcope.ui.facts import Facts
from toposcope.ui.guard import LOCAL
from toposcope.ui.known import KnownCluster, Sent, WorkerCopy
from toposcope.ui.program import listening
from toposcope.ui.questions import NoPlanError, Question, QuestionOutcome
from toposcope.ui.routes import Routes
from toposcope.ui.saved import fill
from toposcope.ui.server import Server, application
from toposcope.ui.source import FactsSource, FullNode
from toposcope.ui.stream import StreamServer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Toposcope</title>\n'
    '<link rel="stylesheet" href="assets/app.css">\n'
    '<script src="assets/app.js" defer></script></head><body><main></main></body></html>\n'
)


class Unfollowed:
    """Stops a source of files from following them by itself: the test does."""

    def wait(self, timeout: float) -> bool:
        return timeout > 0

    def is_set(self) -> bool:
        return True


@dataclass
class Ticks:
    """Seconds that a test turns by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class ManualRuntime(Runtime):
    """A runtime whose clocks a test turns by hand."""

    seconds: float = 0.0
    unix: float = NOW.timestamp()

    def monotonic(self) -> float:
        return self.seconds

    def cpu_seconds(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.unix, UTC)


def bundle(folder: Path, script: str = '"use strict";\n', style: str = "body { margin: 0 }\n") -> Bundle:
    """A page that was built, in short."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets" / "app.js").write_text(script)
    (folder / "assets" / "app.css").write_text(style)
    return Bundle(folder)


@dataclass
class Nodes:
    """A source with the nodes that a test gives it."""

    kind: Any = "cluster"
    full: dict[str, FullNode] = field(default_factory=dict)
    broken: Exception | None = None
    requires: RequiredLevels = field(default_factory=RequiredLevels)

    def start(self) -> None: ...

    def close(self) -> None: ...

    def node(self, name: str) -> FullNode | None:
        if self.broken:
            raise self.broken
        return self.full.get(name)

    def published(self) -> Snapshot:
        return Snapshot("test", None, (), None)

    def required(self) -> RequiredLevels:
        return self.requires


@dataclass
class InThisProcess:
    """Answers without a worker, from the cluster as it is when somebody asks."""

    snapshot: Callable[[], Snapshot]

    def submit(self, question: Question, _seconds: float | None = None) -> Future[bytes]:
        known = WorkerCopy()
        for message in Sent().news(KnownCluster(self.snapshot())):
            known.take(message)
        answer = Answers(known).answer(question)
        future: Future[bytes] = Future()
        if answer.outcome is QuestionOutcome.NO_PLAN:
            future.set_exception(NoPlanError(answer.error))
        else:
            assert answer.outcome is QuestionOutcome.ANSWERED, answer.error
            future.set_result(bytes(answer.body))
        return future


@dataclass
class Served:
    """The server and what is behind it."""

    facts: Facts
    broadcaster: Broadcaster
    stream: StreamServer
    source: Nodes
    port: int

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers (lower case) and the body, decoded where it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            data = answer.read()
        received = {name.lower(): text for name, text in answer.getheaders()}
        content: Any = data
        is_json = received.get("content-type") == "application/json"
        if data and is_json and "content-encoding" not in received:
            content = json.loads(data)
        return answer.status, received, content

    def status(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> int:
        """The status of an answer."""
        status, _, _ = self.ask(path, method, body, **headers)
        return status

    def get(self, path: str) -> Any:
        """What is at a path, which must be there."""
        status, _, content = self.ask(path)
        assert status == 200, content
        return content

    def check(self, text: str) -> tuple[int, Any]:
        """Have a workload checked."""
        body = json.dumps({"workload": text}).encode()
        status, _, answer = self.ask("/api/check", "POST", body, Content_Type="application/json")
        return status, answer


def facts_of(nodes: Iterable[NodeView], *topologies: dict[str, Any], clock: ManualRuntime | None = None) -> Facts:
    """Facts of a cluster without pods."""
    facts = Facts(
        "https://cluster.test",
        ("all",),
        lambda: None,
        clock or ManualRuntime(),
    )
    fill(facts, snapshot(tuple(nodes), (), *topologies))
    facts.mark_synced("all")
    return facts


def broadcaster_of(facts: Facts) -> Broadcaster:
    """A broadcaster that has had its first look."""
    found = Broadcaster(facts, "cluster", "e1", ManualRuntime())
    found.tick()
    return found


def rack_nodes(count: int = 4) -> tuple[NodeView, ...]:
    """Nodes in racks of two."""
    nodes = []
    for number in range(count):
        nodes.append(view(f"n{number}", f"r{number // 2}"))
    return tuple(nodes)


@contextlib.contextmanager
def answering(
    listener: socket,
    broadcaster: Broadcaster,
    source: FactsSource,
    page: Bundle,
    *,
    hosts: Iterable[str] = LOCAL,
    computing: Answerer | None = None,
    **how: Any,
) -> Iterator[StreamServer]:
    """A server that answers on this socket, with a worker of its own unless one is given; it ends with the block."""
    streams = StreamServer(broadcaster, **how)
    started = threading.Event()
    own = Computing(broadcaster.facts.snapshot, source.published, source.required)
    routes = Routes(broadcaster, source, page, streams, computing or own)
    server = Server(application(routes, hosts), streams, started.set, own.close)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert started.wait(20)
        yield streams
    finally:
        server.should_exit = True
        thread.join(20)
        own.close()
        listener.close()
        assert not thread.is_alive()


@contextlib.contextmanager
def served(
    folder: Path,
    facts: Facts | None = None,
    source: Nodes | None = None,
    *,
    ready: bool = True,
    page: Bundle | None = None,
    **how: Any,
) -> Iterator[Served]:
    """A server of a page that is built in `folder` unless one is given."""
    facts = facts or facts_of(rack_nodes())
    source = source or Nodes()
    broadcaster = Broadcaster(facts, "cluster", "e1", ManualRuntime())
    if ready:
        broadcaster.tick()
    listener = listening("127.0.0.1", 0)
    with answering(listener, broadcaster, source, page or bundle(folder), **how) as streams:
        yield Served(facts, broadcaster, streams, source, listener.getsockname()[1])


def decoded(snapshot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The nodes of a snapshot one by one, as rows."""
    nodes = snapshot["nodes"]
    free = nodes["free"]
    rows = {}
    for i, name in enumerate(nodes["name"]):
        number = str(i)
        rows[name] = {
            "name": name,
            "gpus": nodes["gpus"][i],
            "free": None if free is None else free[i],
            "blocked": nodes["blocked"].get(number),
            "marks": _listed(nodes["marks"], i),
            "views": _listed(nodes["views"], i),
            "facts": _there(nodes["facts"], i, name),
            "labels": _there(nodes["labels"], i, name),
            "reasons": nodes["reasons"].get(number, []),
            "apart": nodes["apart"].get(number, ""),
        }
    return rows


def _listed(column: dict[str, Any], i: int) -> list[str]:
    code = column["codes"][i]
    values: list[list[str]] = column["values"]
    return values[code]


def _there(columns: dict[str, Any], i: int, name: str) -> dict[str, str]:
    found = {}
    for key, column in columns.items():
        code = column["codes"][i]
        if code == protocol.OWN_NAME:
            found[key] = name
        elif code != protocol.ABSENT:
            found[key] = column["values"][code]
    return found


def fetched(broadcaster: Broadcaster) -> dict[str, Any]:
    """A snapshot as a page gets it."""
    _, content = broadcaster.packed()
    found: dict[str, Any] = msgspec.json.decode(gzip.decompress(content))
    return found
