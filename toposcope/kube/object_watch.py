"""Watches one object by its name, in a thread of its own, through everything that breaks a watch.

It does without msgspec, because agents use it: ten thousand of them, each with a watch or two. See
`reflector` for collections.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.client import JSON, UNREADABLE, ApiClient, Request
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.kube.shapes import OBJECT, problem
from toposcope.text import parse, printable

log = logging.getLogger("agent")

_WATCH_SECONDS: Final = (300, 600)
"""How long one watch lasts: each begins with the state of the object, from the server's cache."""
_IDLE_SECONDS: Final = 150.0
"""The API server bookmarks an idle watch about once a minute; more silence is a dead connection."""
_SHORT_SECONDS: Final = 60.0
"""A watch that ends sooner counts as failed."""
_AT_START: Final = Schedule(
    first_seconds=2.0, longest_seconds=600.0, jitter=(0.0, 1.0), shortest_seconds=1.0
)
"""Until there has been a watch: the network or roles of a new cluster are late."""
_AFTERWARDS: Final = _AT_START._replace(first_seconds=30.0)
"""Then: ten thousand agents lose their watches together with an API server."""
_EVENT: Final = {"type": str, "object": dict}


class Watched(NamedTuple):
    """The object to watch: the path of its collection, its name, and what log lines call it."""

    path: str
    name: str
    handle: str
    without: str
    """The consequence of not watching it, for the log."""
    accept: str = JSON


def _ignore(_is_watching: bool) -> None: ...


class ObjectWatch:
    """Calls `take` with the object when it comes or changes.

    Calls `watching` when a watch begins, and when it ends. A deletion is not reported: what was
    read last stays valid. Ends once the runtime's event is set, which only tests do.
    """

    def __init__(
        self,
        client: ApiClient,
        watched: Watched,
        take: Callable[[Mapping[str, Any]], object],
        watching: Callable[[bool], object] = _ignore,
        *,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._watched = watched
        self._take = take
        self._watching = watching
        self._runtime = runtime
        self._rng = runtime.rng()
        self._stop = runtime.event()
        self._backoff = Backoff(_AT_START, self._rng)

    def start(self) -> None:
        """Watch in a thread that ends with the process."""
        self._runtime.thread("watch", self.run)

    def run(self) -> None:
        """Watch for ever. Never raises a KubeError."""
        pause = 0.0
        while not self._stop.wait(pause):
            began = self._runtime.monotonic()
            error: KubeError | None = None
            try:
                self._watch()
            except KubeError as caught:
                error = caught
            self._watching(False)
            pause = self._pause(error, self._runtime.monotonic() - began)

    def _pause(self, error: KubeError | None, lasted: float) -> float:
        """Seconds until the next watch; each ends after some minutes, which needs none."""
        if error is None and lasted >= _SHORT_SECONDS:
            self._backoff.reset()
            return self._rng.uniform(0.0, 1.0)
        if not self._backoff.failures:
            why = error or f"it ended after {lasted:.0f} s"
            log.info("no watch of %s: %s (%s)", self._watched.handle, self._watched.without, why)
        return self._backoff.failed(error)

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._watched.name}",
            "resourceVersion": "0",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*_WATCH_SECONDS)),
        }
        request = Request("GET", self._watched.path, query, accept=self._watched.accept)
        is_established = False
        for line in self._client.stream(request, _IDLE_SECONDS):
            kind, watched_object = _event(line)
            self._handle(kind, watched_object)
            if not is_established:
                is_established = True
                self._watching(True)
                if self._backoff.failures:
                    log.info("%s is watched again", self._watched.handle)

    def _handle(self, kind: str, watched_object: Mapping[str, Any]) -> None:
        if kind == "ERROR":
            raise _refusal(watched_object)
        if kind not in ("ADDED", "MODIFIED"):
            return
        wrong = problem(watched_object, OBJECT)
        if wrong or watched_object["metadata"]["name"] != self._watched.name:
            why = wrong or "it is about another object"
            raise UnreachableError(f"not an event of {self._watched.handle}: {why}")
        self._backoff.schedule = _AFTERWARDS
        self._take(watched_object)


def _refusal(status: Mapping[str, Any]) -> ApiError:
    """The error in an ERROR event."""
    code = status.get("code")
    if not isinstance(code, int):
        code = 0
    return ApiError(code, "Watch", printable(str(status.get("message"))))


def _event(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """Kind and object of an event. Raises UnreachableError for anything else."""
    try:
        event = parse(line)
    except UNREADABLE as error:
        raise UnreachableError(f"not a watch event: {error}") from error
    wrong = problem(event, _EVENT)
    if wrong:
        raise UnreachableError(f"not a watch event: {wrong}")
    return event["type"], event["object"]
