"""What reflector tests share: a mirror as handler, clocks that do not wait, clients that follow a script."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from toposcope.kube.client import ApiClient, Request, WatchStream
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Raw

PATIENCE = 30.0  # seconds until a test gives up

Item = tuple[str, Any]
"""resourceVersion and labels."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    labels: dict[str, str] = {}


class _Thing(msgspec.Struct):
    metadata: _Meta


def decode(raw: Raw) -> tuple[str, str, Item]:
    """Raises msgspec.ValidationError, as the decoders of the program do."""
    meta = msgspec.json.decode(raw, type=_Thing).metadata
    return meta.name, meta.resource_version, (meta.resource_version, meta.labels)


class Mirror:
    """A handler that keeps the collection, and checks that no change comes twice, too late or out of nowhere."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.calls: list[str] = []
        self.mistakes: list[str] = []
        self.error: KubeError | None = None
        self.errors: list[KubeError] = []
        self._changed = threading.Condition()

    def replace(self, items: Mapping[str, Item]) -> None:
        with self._changed:
            self.items = dict(items)
            self._note("replace " + " ".join(sorted(items)))

    def put(self, name: str, item: Item) -> None:
        with self._changed:
            known = self.items.get(name)
            if known and int(item[0]) <= int(known[0]):
                self.mistakes.append(f"{name} {item[0]} after {known[0]}")
            self.items[name] = item
            self._note(f"put {name}")

    def gone(self, name: str) -> None:
        with self._changed:
            if not self.items.pop(name, None):
                self.mistakes.append(f"{name} is gone, and was never there")
            self._note(f"gone {name}")

    def failing(self, error: KubeError | None) -> None:
        with self._changed:
            self.error = error
            if error:
                self.errors.append(error)
            self._changed.notify_all()

    def wait_for(self, done: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(done, PATIENCE), (self.calls[-20:], self.error)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.notify_all()


class Waits:
    """A `Stop` that records how long it was asked to wait, and ends the program after so many waits."""

    def __init__(self, most: int) -> None:
        self.waits: list[float] = []
        self._most = most
        self.ended = False

    def wait(self, timeout: float) -> bool:
        threading.Event().wait(min(timeout, 0))  # refuses what a real one refuses
        self.waits.append(timeout)
        return self.is_set()

    def is_set(self) -> bool:
        return self.ended or len(self.waits) >= self._most


class Impatient(threading.Event):
    """A `Stop` that never waits."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


Answer = bytes | KubeError | Iterable[bytes | KubeError]


class ScriptedStream(WatchStream):
    """Lines of a script; an error among them is raised."""

    def __init__(self, script: Iterable[bytes | KubeError]) -> None:
        self._script = script

    def __iter__(self) -> Iterator[bytes]:
        for line in self._script:
            if isinstance(line, KubeError):
                raise line
            yield line

    def interrupt(self) -> None: ...


class ScriptedClient(ApiClient):
    """Answers streams and reads in order; whoever asks for more ends the program."""

    def __init__(
        self,
        stop: Waits,
        streams: Iterable[Answer] = (),
        pages: Iterable[Answer] = (),
    ) -> None:
        self._stop = stop
        self._streams = iter(streams)
        self._pages = iter(pages)
        self.queries: list[Mapping[str, str]] = []

    def script(self, streams: Iterable[Answer]) -> None:
        """Answer with these streams from now on."""
        self._streams = iter(streams)

    def stream(self, request: Request, idle_timeout: float) -> WatchStream:
        del idle_timeout
        self.queries.append(request.query)
        script = next(self._streams, None)
        if script is None:
            self._stop.ended = True
            return ScriptedStream([])
        if isinstance(script, bytes | KubeError):
            return ScriptedStream([script])
        return ScriptedStream(script)

    def read(self, request: Request) -> bytes:
        self.queries.append(request.query)
        answer = next(self._pages)
        if isinstance(answer, KubeError):
            raise answer
        assert isinstance(answer, bytes)
        return answer


def event(kind: str, name: str, version: int, **metadata: Any) -> bytes:
    """One line of a watch."""
    line = {
        "type": kind,
        "object": thing(name, version, **metadata),
    }
    return msgspec.json.encode(line)


def thing(name: str, version: int, **metadata: Any) -> dict[str, Any]:
    numbered = {
        "name": name,
        "resourceVersion": str(version),
        **metadata,
    }
    return {"metadata": numbered}


def bookmark(version: int, *, end: bool = False) -> bytes:
    metadata: dict[str, Any] = {
        "resourceVersion": str(version),
        "creationTimestamp": None,
    }
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    line = {
        "type": "BOOKMARK",
        "object": {"kind": "Node", "metadata": metadata},
    }
    return msgspec.json.encode(line)


def failure(code: int, reason: str = "Expired") -> bytes:
    """An error in the stream of a watch that began with 200."""
    status = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": "injected",
    }
    return msgspec.json.encode({"type": "ERROR", "object": status})


def page(*things: dict[str, Any], version: int = 1, following: str = "") -> bytes:
    """A page of a list."""
    metadata = {"resourceVersion": str(version)}
    if following:
        metadata["continue"] = following
    body = {
        "kind": "NodeList",
        "items": things,
        "metadata": metadata,
    }
    return msgspec.json.encode(body)
