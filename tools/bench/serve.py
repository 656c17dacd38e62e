"""The API server of a benchmark: a process with the arguments FOLDER MACHINES NODES [pods].

It serves `MACHINES` bare Nodes `node-0` ... for agents, and a cluster of `NODES` labelled ones for
the controller, with `pods` some pods on each. Orders come as JSON lists on standard input, and each
is answered with one line of JSON; see `Journal.obey`.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tools.bench.workspace import CRDS, tls
from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.api.label_keys import HOSTNAME
from toposcope.kube.confinement import NOBODY
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.apiserver.requests import HttpRequest, Response
from toposcope.simulator.apiserver.statuses import StatusError
from toposcope.simulator.cluster import large_cluster
from toposcope.simulator.machine import identity
from toposcope.simulator.node_object import node_object, pod_objects

_SPEC: Final = {"publish": {"kai": "Never"}}
"""Grove makes KAI's Topology from the binding, and no Grove runs here."""
_SLICE_SECONDS: Final = 1.0
"""Seconds that one order waits at most; then the caller checks whether that still makes sense."""


_REFUSED: Final = Response.of(
    StatusError(403, "Forbidden", "the policies of an installation refuse that")
)
"""The answer to requests by which programs test that policies confine them.

Where nothing refuses these, programs try again every minute.
"""


class Journal:
    """Every request with the times at which it came and was done, on the machine's clock."""

    def __init__(self, handle: Callable[[HttpRequest], Response]) -> None:
        self._handle = handle
        self._changed = threading.Condition()
        self._entries: list[tuple[str, str, float, float]] = []
        self._gate: tuple[str, str] | None = None
        self._held: float | None = None

    def handle(self, request: HttpRequest) -> Response:
        """Answer a request; the one that the gate waits for stands there until it is released."""
        came = time.monotonic()
        method = request.method
        path = request.path
        with self._changed:
            if self._gate and _is(self._gate, method, path):
                self._held = came
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._gate is None)

        if request.is_dry_run and NOBODY.encode() in request.body:
            response = _REFUSED
        else:
            response = self._handle(request)

        answered = time.monotonic()
        with self._changed:
            self._entries.append((method, path, came, answered))
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
                    self._changed.wait_for(lambda: self._held is not None, _SLICE_SECONDS)
                    return self._held
                case "release", ():
                    self._gate = None
                    self._changed.notify_all()
                case "forget", ():
                    self._entries.clear()
                case "await", (method, part):
                    done = self._changed.wait_for(lambda: self._done(method, part), _SLICE_SECONDS)
                    return self._entries if done else None
                case "entries", ():
                    return self._entries
                case _:
                    raise ValueError(f"no such order: {order} {words}")
        return None

    def _done(self, method: str, part: str) -> bool:
        for entry_method, path, *_ in self._entries:
            if _is((method, part), entry_method, path):
                return True
        return False


def _is(wanted: tuple[str, str], method: str, path: str) -> bool:
    return method == wanted[0] and wanted[1] in path


def main() -> None:
    """Serve until standard input ends."""
    folder = Path(sys.argv[1])
    machines = int(sys.argv[2])
    nodes = int(sys.argv[3])
    extras = sys.argv[4:]

    with EmbeddedApiServer(tls=tls(folder)) as server:
        _load(server, machines, nodes, extras)
        journal = Journal(server.api.handle)
        server.api.handle = journal.handle  # type: ignore[method-assign]  # the one place that every request passes
        _say(server.url)
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=list[str])
            answer = journal.obey(*order)
            _say(answer)


def _load(server: EmbeddedApiServer, machines: int, nodes: int, extras: Sequence[str]) -> None:
    """Load so many bare Nodes, the cluster with its `extras`, and the ClusterTopology."""
    server.load(CRDS)
    bare = [_bare_node(number) for number in range(machines)]
    server.load(bare)

    rails = 0
    if "rails" in extras:
        rails = 8
    server.load(large_cluster(nodes, rails=rails))
    if "pods" in extras:
        for number, node in enumerate(large_cluster(nodes)):
            server.load(pod_objects(node, number))

    topology = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "cluster"},
        "spec": _SPEC,
    }
    server.load([topology])


def _say(answer: object) -> None:
    text = msgspec.json.encode(answer).decode()
    print(text, flush=True)


def _bare_node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    return node_object(name, {HOSTNAME: name}, 8, uid=str(identity(number)))
