"""Watches one object by its name: a watch in a thread of its own, through everything that breaks one.

Without msgspec, because agents use it: ten thousand of them, each with a watch or two. See `reflector` for collections.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from toposcope.kube.client import JSON, UNREADABLE, ApiClient, Request
from toposcope.kube.errors import ApiError, KubeError, UnreachableError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.kube.shapes import OBJECT, problem
from toposcope.text import parse, printable

log = logging.getLogger("agent")

_SECONDS: Final = (300, 600)
"""How long one watch lasts: each begins with the state of the object, from the server's cache."""
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


class Watched(NamedTuple):
    """The object to watch: the path of its collection, its name, and what log lines call it."""

    path: str
    name: str
    handle: str
    without: str
    """What happens while it is not watched, for the log."""
    accept: str = JSON


class Clock(NamedTuple):
    """Time and randomness. `wait` sleeps so many seconds; if it returns true the watch ends."""

    wait: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random | None = None


class ObjectWatch:
    """Calls `take` with the object when it comes or changes, `watching` when there is a watch, and when there is none.

    A deletion is not told: what was read last stays what is known.
    """

    def __init__(
        self,
        client: ApiClient,
        watched: Watched,
        take: Callable[[Mapping[str, Any]], object],
        watching: Callable[[bool], object] = lambda _: None,
        clock: Clock | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._watched = watched
        self._take = take
        self._watching = watching
        clock = clock or Clock()
        self._wait = clock.wait
        self._monotonic = clock.monotonic
        self._rng = clock.rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._runtime = runtime
        self._seen = False
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
            self._watching(False)
            pause = self._pause(error, self._monotonic() - began)

    def _pause(self, error: KubeError | None, lasted: float) -> float:
        """Seconds until the next watch; each ends after some minutes, which needs none."""
        if error is None and lasted >= _SHORT:
            self._failures = 0
            return self._rng.uniform(0.0, 1.0)
        if not self._failures:
            why = error or f"it ended after {lasted:.0f} s"
            log.info("no watch of %s: %s (%s)", self._watched.handle, self._watched.without, why)
        first = _AFTERWARDS if self._seen else _AT_START
        longest = min(first * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        return max(asked, self._rng.uniform(1.0, longest))

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._watched.name}",
            "resourceVersion": "0",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._rng.randint(*_SECONDS)),
        }
        request = Request("GET", self._watched.path, query, accept=self._watched.accept)
        told = False
        for line in self._client.stream(request, _IDLE_SECONDS):
            kind, found = _event(line)
            self._handle(kind, found)
            if not told:
                told = True
                self._watching(True)
                if self._failures:
                    log.info("%s is watched again", self._watched.handle)

    def _handle(self, kind: str, found: Mapping[str, Any]) -> None:
        if kind == "ERROR":
            code = found.get("code")
            raise ApiError(
                code if isinstance(code, int) else 0, "Watch", printable(str(found.get("message")))
            )
        if kind not in ("ADDED", "MODIFIED"):
            return
        wrong = problem(found, OBJECT)
        if wrong or found["metadata"]["name"] != self._watched.name:
            raise UnreachableError(
                f"not an event of {self._watched.handle}: {wrong or 'it is about another'}"
            )
        self._seen = True
        self._take(found)


def _event(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """Kind and object of an event. Raises UnreachableError for anything else."""
    try:
        event = parse(line)
    except UNREADABLE as error:
        raise UnreachableError(f"not a watch event: {error}") from error
    if wrong := problem(event, _EVENT):
        raise UnreachableError(f"not a watch event: {wrong}")
    return event["type"], event["object"]
