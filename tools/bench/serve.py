"""The API server of a benchmark: a process with the arguments FOLDER MACHINES NODES [pods].

It serves `MACHINES` bare Nodes `node-0` ... for agents, and a cluster of `NODES` labelled ones for
the controller, with `pods` some pods on each. Orders come as JSON lists on standard input, and each
is answered with one line of JSON; see `Journal.obey`.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from tools.bench.workspace import CRDS, tls
from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.api.label_keys import HOSTNAME
from toposcope.kube.confinement import NOBODY
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import Request, Response
from toposcope.simulator.apiserver.statuses import StatusError
from toposcope.simulator.cluster import large_cluster
from toposcope.simulator.machine import identity
from toposcope.simulator.node_object import node_object, pod_objects

_SPEC: Final = {"publish": {"kai": "Never"}}
"""Grove makes KAI's Topology from the binding, and no Grove runs here."""
_SLICE: Final = 1.0
"""Seconds that one order waits at most; then the caller checks whether that still makes sense."""


_REFUSED: Final = Response.of(
    StatusError(403, "Forbidden", "the policies of an installation refuse that")
)
"""To what programs try to prove that policies confine them.

Unrefused, they try again every minute.
"""


class Journal:
    """Every request with the times at which it came and was done, on the machine's clock."""

    def __init__(self, handle: Callable[[Request], Response]) -> None:
        self._handle = handle
        self._changed = threading.Condition()
        self._entries: list[tuple[str, str, float, float]] = []
        self._gate: tuple[str, str] | None = None
        self._held: float | None = None

    def handle(self, request: Request) -> Response:
        """Answer a request; the one that the gate waits for stands there until it is released."""
        came = time.monotonic()
        with self._changed:
            if self._gate and _is(self._gate, request.method, request.path):
                self._held = came
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._gate is None)
        response = (
            _REFUSED if request.dry and NOBODY.encode() in request.body else self._handle(request)
        )
        with self._changed:
            self._entries.append((request.method, request.path, came, time.monotonic()))
            self._changed.notify_all()
        return response

    def obey(self, order: str, *words: str) -> Any:
        """Carry out one order.

        What waits answers None when nothing has happened for a moment: ask again.

        hold METHOD PART: let the next request whose path contains PART stand before it is answered
        held: wait until it has come; when it came
        release: let it go on
        forget: drop all entries
        await METHOD PART: wait until such a request has been done since then; all entries
        entries: all entries as (method, path, came, done)
        """
        with self._changed:
            match order, words:
                case "hold", (method, part):
                    self._gate, self._held = (method, part), None
                case "held", ():
                    self._changed.wait_for(lambda: self._held is not None, _SLICE)
                    return self._held
                case "release", ():
                    self._gate = None
                    self._changed.notify_all()
                case "forget", ():
                    self._entries.clear()
                case "await", (method, part):
                    done = self._changed.wait_for(lambda: self._done(method, part), _SLICE)
                    return self._entries if done else None
                case "entries", ():
                    return self._entries
                case _:
                    raise ValueError(f"no such order: {order} {words}")
        return None

    def _done(self, method: str, part: str) -> bool:
        return any(_is((method, part), *entry[:2]) for entry in self._entries)


def _is(wanted: tuple[str, str], method: str, path: str) -> bool:
    return method == wanted[0] and wanted[1] in path


def main() -> None:
    """Serve until standard input ends."""
    folder = Path(sys.argv[1])
    machines = int(sys.argv[2])
    nodes = int(sys.argv[3])
    extras = sys.argv[4:]
    topology = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "cluster"},
        "spec": _SPEC,
    }
    with EmbeddedApiServer(tls=tls(folder)) as server:
        server.load(CRDS)
        server.load(_bare_node(number) for number in range(machines))
        server.load(large_cluster(nodes, rails=8 if "rails" in extras else 0))
        if "pods" in extras:
            for number, node in enumerate(large_cluster(nodes)):
                server.load(pod_objects(node, number))
        server.load([topology])
        journal = Journal(server.api.handle)
        server.api.handle = journal.handle  # type: ignore[method-assign]  # the one place that every request passes
        print(msgspec.json.encode(server.url).decode(), flush=True)
        for line in sys.stdin:
            answer = journal.obey(*msgspec.json.decode(line, type=list[str]))
            print(msgspec.json.encode(answer).decode(), flush=True)


def _bare_node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    return node_object(name, {HOSTNAME: name}, 8, uid=str(identity(number)))
