"""List and watch: keeps a handler equal to a collection of the API server.

It does so through everything that breaks a watch. The `kubernetes` package's own Watch and informer
are not used: they lose the resourceVersion, loop hot on errors and hang on half-open connections.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.client import JSON, METADATA, METADATA_LIST, ApiClient, Request, WatchStream
from toposcope.kube.errors import ApiError, KubeError, ResourceExpiredError, UnreachableError
from toposcope.kube.listing import UNREADABLE
from toposcope.kube.pages import pages
from toposcope.kube.runtime import REAL, Runtime
from toposcope.text import printable

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 300
WATCH_FACTOR: Final = (1.0, 2.0)
"""Random factor for the duration of a watch."""
_IDLE_SECONDS: Final = 150.0
"""The API server bookmarks an idle watch about once a minute; more silence is a dead connection."""
_LOG_AGAIN_SECONDS: Final = 60.0
"""Between two log lines about a failure that repeats itself."""
_FIRST_PAUSE_SECONDS: Final = 0.5
_SCHEDULE: Final = Schedule(first_seconds=_FIRST_PAUSE_SECONDS, longest_seconds=60.0)
RELIST_REASONS: Final = ("first", "expired", "unreachable", "failed", "asked")
"""Why a collection is read in whole: for the first time; the version has left the server's
memory (410); the server may have been away; the read before failed; more labels are wanted
(`relist`)."""
_NOT_STREAMED: Final = frozenset({400, 403, 404, 405, 422})
_GONE: Final = 410
_SERVER_ERROR: Final = 500

Raw: TypeAlias = bytes | memoryview | msgspec.Raw
"""One object as JSON."""

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """What a reflector keeps up to date; called from the reflector's thread."""

    def replace(self, items: Mapping[str, T_contra]) -> None:
        """The whole collection, by name: after each complete list."""

    def put(self, name: str, item: T_contra) -> None:
        """One object came or changed."""

    def gone(self, name: str) -> None:
        """One object was deleted."""

    def failing(self, error: KubeError | None) -> None:
        """The collection cannot be read at the moment (the items stay), or can again (None)."""


class Observer(Protocol):
    """Hooks for metrics; called from the reflector's thread, at every event: be quick."""

    def listed(self, path: str, reason: str) -> None:
        """The whole collection is listed; the reason is one of `RELIST_REASONS`."""

    def heard(self, path: str) -> None:
        """The server sent an event or a bookmark."""

    def ended(self, path: str) -> None:
        """The collection is no longer watched."""


class _Nobody:
    def listed(self, path: str, reason: str) -> None:
        """See `Observer`."""

    def heard(self, path: str) -> None: ...

    def ended(self, path: str) -> None: ...


class Stop(Protocol):
    """The part of `threading.Event` that waits for a while or for the end of the program."""

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds; True as soon as the program ends."""

    def is_set(self) -> bool:
        """Whether the program ends."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None

    @property
    def key(self) -> str:
        return key(self.namespace, self.name)

    @property
    def ends_list(self) -> bool:
        """Whether the bookmark that carries it ends a streamed list."""
        annotations = self.annotations or {}
        return annotations.get("k8s.io/initial-events-end") == "true"


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Page(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None
    metadata: dict[str, Any] = {}


_EVENT: Final = msgspec.json.Decoder(_Event)
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_STARTS: Final = tuple(
    (kind, b'{"type":"%s","object":' % kind.encode()) for kind in ("ADDED", "MODIFIED", "DELETED")
)
_OBJECT: Final = msgspec.json.Decoder(_Object)
_STATUS: Final = msgspec.json.Decoder(_Status)
_PAGE: Final = msgspec.json.Decoder(_Page)


def key(namespace: str, name: str) -> str:
    """The name of an object in its collection, which may span namespaces: `namespace/name`."""
    return f"{namespace}/{name}" if namespace else name


class Reflector(Generic[T]):
    """Lists and watches one collection.

    `decode` turns an object's JSON into (name as of `key`, resourceVersion, item).

    An object that `decode` refuses (msgspec.ValidationError, or any ValueError) is logged and left
    out: one bad object must not hide the others. `stop` does the waiting. `accept` is the Accept
    header for objects, `selector` a selector of labels.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        decode: Callable[[Raw], tuple[str, str, T]],
        handler: Handler[T],
        stop: Stop,
        *,
        observer: Observer | None = None,
        accept: str = JSON,
        selector: str = "",
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._path = path
        self._selected = {"labelSelector": selector} if selector else {}
        self._observer = observer or _Nobody()
        self._reason = "first"
        self._decode = decode
        self._handler = handler
        self._stop = stop
        self._rng = runtime.rng()
        self._accept = accept
        self._can_stream = True
        self._has_to_relist = False
        """Whether everything is to be read again."""
        self._open: WatchStream | None = None
        self._version = ""
        self._backoff = Backoff(_SCHEDULE, self._rng)
        self._runtime = runtime
        self._logged = ""
        """The failure that was logged last; empty: none since the collection was read."""
        self._logs_again_at = 0.0

    def run(self) -> None:
        """Follow the collection until `stop` is set. Never raises a KubeError."""
        while not self._stop.is_set():
            try:
                self._list_or_watch()
            except KubeError as error:
                if self._has_to_relist or self._stop.is_set():
                    continue  # we closed the stream ourselves
                self._note_relist(error)
                self._log_failure(error)
                self._handler.failing(error)
                self._stop.wait(self._backoff.failed(error))
        self._observer.ended(self._path)

    def _log_failure(self, error: KubeError) -> None:
        """Log a failure; one that repeats itself only once a minute."""
        text = str(error)
        now = self._runtime.monotonic()
        if text == self._logged and now < self._logs_again_at:
            return
        self._logged = text
        self._logs_again_at = now + _LOG_AGAIN_SECONDS
        log.warning("cannot watch %s: %s", self._path, text)

    def _list_or_watch(self) -> None:
        if self._version and not self._has_to_relist:
            self._watch()
            return
        if self._has_to_relist:
            self._reason = "asked"
            self._has_to_relist = False
        self._version = ""  # so that a list that fails is tried again
        self.sync()

    def _note_relist(self, error: KubeError) -> None:
        """Note whether the collection must be listed again after this failure, and why."""
        if isinstance(error, ResourceExpiredError):
            self._version, self._reason = "", "expired"
        elif not self._version:
            self._reason = "failed"
        elif _may_have_been_away(error):
            self._version, self._reason = "", "unreachable"

    def relist(self) -> None:
        """Read the whole collection again, from another thread: what `decode` keeps has changed."""
        self._has_to_relist = True
        if self._open:
            self._open.interrupt()

    def sync(self) -> None:
        """Read the whole collection once and hand it over.

        Raises KubeError; then nothing was handed over.
        """
        self._observer.listed(self._path, self._reason)
        items = self._streamed() if self._can_stream else None
        if items is None:
            items = self._paged()
            self._can_stream = False
        if not self._version:
            raise UnreachableError(
                f"the list of {self._path} has no resourceVersion: not a Kubernetes API server"
            )
        self._handler.replace(items)
        self._handler.failing(None)
        if self._logged:
            self._logged = ""
            log.info("watching %s again", self._path)

    def _streamed(self) -> dict[str, T] | None:
        """The collection as a streamed list (KEP-3157); None when the server has no such thing."""
        query = {
            **self._selected,
            "watch": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        items: dict[str, T] = {}
        try:
            for kind, raw in self._events(query):
                if kind == "BOOKMARK":
                    meta = _meta(raw)
                    if meta.ends_list:
                        self._version = meta.resource_version
                        return items
                elif kind != "DELETED":
                    self._add(items, raw)
                else:
                    items.pop(_meta(raw).key, None)
        except ResourceExpiredError:
            raise
        except ApiError as error:
            if error.status not in _NOT_STREAMED:
                raise
            log.info(
                "%s does not support streaming lists (%s); listing in pages",
                self._path,
                error.message,
            )
            return None
        raise UnreachableError(f"the streamed list of {self._path} ended before it was complete")

    def _paged(self) -> dict[str, T]:
        items: dict[str, T] = {}
        accept = METADATA_LIST if self._accept == METADATA else self._accept
        request = Request("GET", self._path, self._selected, accept=accept)
        version = ""
        for page in pages(request, self._page, _token_of):
            for raw in page.items or ():
                self._add(items, raw)
            version = str(page.metadata.get("resourceVersion", ""))
        self._version = version
        return items

    def _page(self, request: Request) -> _Page:
        try:
            return _PAGE.decode(self._client.read(request))
        except UNREADABLE as error:
            raise UnreachableError(
                f"the answer to a list of {self._path} is not a list: {error}"
            ) from error

    def _watch(self) -> None:
        """Follow changes from the last version on, until the server ends the stream.

        Servers do that every few minutes.
        """
        seconds = WATCH_SECONDS * self._rng.uniform(*WATCH_FACTOR)
        query = {
            **self._selected,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        has_event = False
        for kind, raw in self._events(query):
            if self._has_to_relist or self._stop.is_set():
                return
            if not has_event:
                has_event = True
                # Not after a list: what breaks every watch at once must not be listed all the time.
                self._backoff.reset()
                self._handler.failing(None)
            if kind == "BOOKMARK":
                version = _meta(raw).resource_version
            elif kind == "DELETED":
                version = self._gone(raw)
            else:
                version = self._put(raw)
            # An object without one is malformed, and no reason to forget where we are.
            self._version = version or self._version
        if not self._has_to_relist:
            # No hot loop if the server ends every watch at once.
            self._stop.wait(_FIRST_PAUSE_SECONDS)

    def _put(self, raw: Raw) -> str:
        changed: dict[str, T] = {}
        version = self._add(changed, raw)
        for name, item in changed.items():
            self._handler.put(name, item)
        return version

    def _gone(self, raw: Raw) -> str:
        meta = _meta(raw)
        if meta.name:
            self._handler.gone(meta.key)
        return meta.resource_version

    def _add(self, items: dict[str, T], raw: Raw) -> str:
        """Decode one object into `items` (unless it is malformed); return its resourceVersion."""
        try:
            name, version, items[name] = self._decode(raw)
        except (ValueError, RecursionError) as error:
            meta = _meta(raw)
            log.warning(
                "skipping %s %r: it violates the schema of its API (%s)",
                self._path,
                meta.key,
                error,
            )
            return meta.resource_version
        return version

    def _events(self, query: dict[str, str]) -> Iterator[tuple[str, Raw]]:
        """Kind and object of each event.

        Raises Expired or ApiError for an ERROR event, Unreachable for garbage.
        """
        request = Request("GET", self._path, query, accept=self._accept)
        self._open = self._client.stream(request, _IDLE_SECONDS)
        if self._has_to_relist or self._stop.is_set():
            return  # requested before there was a stream to interrupt
        for line in self._open:
            self._observer.heard(self._path)
            try:
                kind, raw = _event(line)
                if kind != "ERROR":
                    yield kind, raw
                    continue
                status = _STATUS.decode(raw)
            except UNREADABLE as error:
                raise UnreachableError(
                    f"not a watch event of {self._path} ({error}): {line[:80]!r}"
                ) from error
            refusal = ResourceExpiredError if status.code == _GONE else ApiError
            raise refusal(status.code, printable(status.reason), printable(status.message))


def _token_of(page: _Page) -> str:
    return str(page.metadata.get("continue") or "")


def _may_have_been_away(error: KubeError) -> bool:
    """Whether there may have been no API server for a while; gateways say so by 502, 503 and 504.

    Only then can etcd be restored from a backup. Nothing would show it: a watch from a version that
    is lost waits until the versions get there, and then continues as if nothing had happened in
    between.
    """
    return not isinstance(error, ApiError) or error.status > _SERVER_ERROR


def _event(line: bytes) -> tuple[str, Raw]:
    """Kind and object of an event; the object is not checked yet. Raises what msgspec does.

    Every API server begins the line of a change like this. To find the end of an object that is the
    rest of the line would cost a third of decoding it.
    """
    for kind, start in _STARTS:
        if line.startswith(start) and line.endswith(b"}"):
            return kind, memoryview(line)[len(start) : -1]
    event = _EVENT.decode(line)
    return event.type, event.object


def _meta(raw: Raw) -> _Meta:
    """The metadata of an object; empty if malformed.

    Raises UnreachableError for anything but JSON.
    """
    try:
        return _OBJECT.decode(raw).metadata
    except UNREADABLE as error:
        try:
            _ANYTHING.decode(raw)
        except UNREADABLE as worse:
            raise UnreachableError(
                f"not an object in JSON ({worse}): {bytes(raw)[:80]!r}"
            ) from worse
        log.warning("metadata of an object cannot be read: %s", error)
        return _Meta()
