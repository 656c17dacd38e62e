"""Notices within moments what others changed on the Node, its labels or neighbours: a watch in a thread of its own.

It only says so; the loop reads the Node and writes. Without a watch the loop finds out when it reads the Node next.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.publish import OwnedKeys, owned_keys
from toposcope.api.label_keys import SWITCHES
from toposcope.kube.client import METADATA, UNREADABLE, ApiClient, Request
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.kube.requests import NODES
from toposcope.kube.runtime import REAL, Runtime
from toposcope.kube.shapes import OBJECT, problem
from toposcope.topology.text import parse, printable

log = logging.getLogger("agent")

_SECONDS: Final = (300, 600)
"""How long one watch lasts: each begins with the state of the Node, from the server's cache."""
_IDLE_SECONDS: Final = 150.0
"""The API server bookmarks an idle watch about once a minute; more silence is a dead connection."""
_SHORT: Final = 60.0
"""A watch that ends sooner counts as failed."""
_AT_START: Final = 2.0
"""Bound of the random pause before the first watch, which doubles: the network or roles of a new cluster are late."""
_AFTERWARDS: Final = 30.0
"""The same once there has been one: ten thousand agents lose their watches together with an API server."""
_LONGEST_PAUSE: Final = 600.0
_EVENT: Final = {"type": str, "object": dict}


class NodeWatch:
    """Calls `changed` when keys of ours on the Node change and `differs` says that they are not as they should be.

    Also when the NICs have other neighbours.

    `wait` sleeps so many seconds; if it returns true the watch ends.
    """

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        differs: Callable[[OwnedKeys], bool],
        metrics: AgentMetrics,
        changed: Callable[[], object],
        wait: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._name = node_name
        self._differs = differs
        self._metrics = metrics
        self._changed = changed
        self._wait = wait
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._seen: OwnedKeys | None = None
        self._switches: str | None = None
        self._failures = 0

    def start(self) -> None:
        """Watch in a thread that ends with the process."""
        self._runtime.thread("watch", self.run)

    def run(self) -> None:
        """Watch until `wait` says to end. Never raises a KubeError."""
        pause = 0.0
        while not self._wait(pause):
            began = self._monotonic()
            error: KubeError | None = None
            try:
                self._watch()
            except KubeError as caught:
                error = caught
            self._metrics.watching = False
            pause = self._pause(error, self._monotonic() - began)

    def _pause(self, error: KubeError | None, lasted: float) -> float:
        """Seconds until the next watch; each ends after some minutes, which needs none."""
        if error is None and lasted >= _SHORT:
            self._failures = 0
            return self._rng.uniform(0.0, 1.0)
        if not self._failures:
            why = error or f"it ended after {lasted:.0f} s"
            log.info("no watch of node %s: changes by others are found within 12 minutes (%s)", self._name, why)
        first = _AT_START if self._seen is None else _AFTERWARDS
        longest = min(first * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        return max(asked, self._rng.uniform(1.0, longest))

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": "0",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*_SECONDS)),
        }
        for line in self._client.stream(Request("GET", NODES, query, accept=METADATA), _IDLE_SECONDS):
            try:
                event = parse(line)
            except UNREADABLE as error:
                raise UnreachableError(f"not a watch event: {error}") from error
            if wrong := problem(event, _EVENT):
                raise UnreachableError(f"not a watch event: {wrong}")
            self._take(event["type"], event["object"])
            if not self._metrics.watching:
                self._metrics.watching = True
                if self._failures:
                    log.info("node %s is watched again", self._name)

    def _take(self, kind: str, node: Mapping[str, Any]) -> None:
        if kind == "ERROR":
            code = node.get("code")
            raise ApiError(code if isinstance(code, int) else 0, "Watch", printable(str(node.get("message"))))
        if kind not in ("ADDED", "MODIFIED"):
            return
        wrong = problem(node, OBJECT)
        if wrong or node["metadata"]["name"] != self._name:
            raise UnreachableError(f"not an event of this Node: {wrong or 'it is about another'}")
        before, self._seen = self._seen, owned_keys(node["metadata"])
        known, self._switches = self._switches, (node["metadata"].get("annotations") or {}).get(SWITCHES)
        recabled = before is not None and self._switches != known
        if recabled or (self._seen != before and self._differs(self._seen)):
            self._changed()
