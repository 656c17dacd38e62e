"""Reads: which objects a request selects, lists in pages, and watches as streams of JSON lines.

Protocol: KEP-365 (list and watch), KEP-956 (bookmarks), KEP-3157 (streaming lists).
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import msgspec

from toposcope.simulator.apiserver.requests import HttpRequest, Response, Route
from toposcope.simulator.apiserver.resources import ServedResource
from toposcope.simulator.apiserver.statuses import Object, StatusError, bad_request, expired
from toposcope.simulator.apiserver.store import Key, Store, Stored, StoredChange, stored
from toposcope.simulator.apiserver.views import ObjectView

Predicate = Callable[[Stored], bool]
_FIRST: Key = ("", "")

_EQUALITY = re.compile(r"(?P<key>[^=!<>\s]+)\s*(?P<how>!=|==|=)\s*(?P<value>[^=!<>\s]*)")
_SET = re.compile(r"(?P<key>[^=!<>\s]+)\s+(?P<how>in|notin)\s+\((?P<values>[^()]*)\)")
_PRESENCE = re.compile(r"(?P<absent>!?)\s*(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)")
# Lines are sent together up to this size; the real server's chunks end at line ends too.
_CHUNK_BYTES = 256 * 1024
# How long a watch lasts whose client names no time, in seconds.
_LONGEST_WATCH_SECONDS = 1800
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. "  # noqa: S105 - no secret
    "You can start a new list without the continue parameter."
)


def predicate(resource: ServedResource, query: Mapping[str, str]) -> Predicate | None:
    """Return the selection a request asks for, None for everything. Raises `StatusError` (400)."""
    tests = []
    label_selector = query.get("labelSelector", "")
    for requirement in _requirements(label_selector):
        tests.append(_label_test(requirement))

    field_selector = query.get("fieldSelector", "")
    for requirement in _requirements(field_selector):
        tests.append(_field_test(resource, requirement))

    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def _requirements(selector: str) -> list[str]:
    """The parts between commas, but for those within parentheses."""
    parts = [""]
    for piece in selector.split(","):
        is_within = parts[-1].count("(") > parts[-1].count(")")
        if is_within:
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return [part.strip() for part in parts if part]


def _label_test(text: str) -> Predicate:
    match = _EQUALITY.fullmatch(text)
    if match:
        return _equality_test(match)
    match = _SET.fullmatch(text)
    if match:
        return _set_test(match)
    match = _PRESENCE.fullmatch(text)
    if match:
        key = match["key"]
        is_absent = bool(match["absent"])
        return lambda item: (key in item.labels) is not is_absent
    raise bad_request(f'unable to parse requirement: "{text}" is no requirement of a label')


def _equality_test(match: re.Match[str]) -> Predicate:
    key = match["key"]
    value = match["value"]
    is_equal = match["how"] != "!="
    return lambda item: (item.labels.get(key) == value) is is_equal


def _set_test(match: re.Match[str]) -> Predicate:
    key = match["key"]
    is_inside = match["how"] == "in"
    values = set()
    for value in match["values"].split(","):
        values.add(value.strip())
    return lambda item: (item.labels.get(key) in values) is is_inside


def _field_test(resource: ServedResource, text: str) -> Predicate:
    match = _EQUALITY.fullmatch(text)
    if not match:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")

    path = match["key"]
    expected = match["value"]
    is_equal = match["how"] != "!="
    if path == "metadata.name":
        return lambda item: (item.key[1] == expected) is is_equal
    if path not in resource.selectable:
        raise bad_request(f"field label not supported: {path}")

    names = path.split(".")
    return lambda item: (_field_text(item, names) == expected) is is_equal


def _field_text(item: Stored, names: Sequence[str]) -> str:
    """The value of a field as selectors spell it; an absent one is empty."""
    value: Any = item.decode()
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value or "")


# Lists


def list_objects(store: Store, request: HttpRequest, route: Route, view: ObjectView) -> Response:
    """Answer a list: a page of it, a selection, or an older version."""
    resource = route.resource
    limit = request.number("limit")
    token = request.query.get("continue", "")
    revision, start = _open_token(token)
    try:
        current, items = store.snapshot(resource.storage, revision)
    except StatusError:
        raise expired(_EXPIRED_TOKEN) from None
    # Later pages show what is there now under the first one's version: a watch from it repeats what
    # changed meanwhile.
    revision = revision or current

    selects = predicate(resource, request.query)
    items = _selected(items, start, route.namespace, selects)
    metadata: Object = {"resourceVersion": str(revision)}
    remaining = len(items) - limit
    if limit > 0 and remaining > 0:
        items = items[:limit]
        metadata["continue"] = _token(revision, items[-1])
        if not selects:
            metadata["remainingItemCount"] = remaining
    chunks = view.many(resource, items, metadata)
    return Response(200, chunks)


def _selected(
    items: list[Stored],
    start: Key,
    namespace: str,
    selects: Predicate | None,
) -> list[Stored]:
    """The objects behind a key, in a namespace if one is given, that a selection accepts."""
    if start > _FIRST:
        items = [item for item in items if item.key > start]
    if namespace:
        items = [item for item in items if item.key[0] == namespace]
    if selects:
        items = [item for item in items if selects(item)]
    return items


def _token(revision: int, last: Stored) -> str:
    """What a client sends back to get the page after an object."""
    content = {"rv": revision, "start": last.key}
    text = msgspec.json.encode(content)
    encoded = base64.urlsafe_b64encode(text)
    return encoded.decode().rstrip("=")


def open_watch(
    store: Store, request: HttpRequest, route: Route, view: ObjectView, *, bookmark_interval: float
) -> Response:
    """Answer a watch; a version that is too old becomes an ERROR event under HTTP 200."""
    query = dict(request.query)
    if route.name:
        query["fieldSelector"] = f"metadata.name={route.name}"
    watch = _Watch(
        resource=route.resource,
        view=view,
        selects=predicate(route.resource, query),
        namespace=route.namespace,
        has_initial_events=request.flag("sendInitialEvents"),
        bookmark_interval=bookmark_interval if request.flag("allowWatchBookmarks") else inf,
        timeout=request.number("timeoutSeconds") or _LONGEST_WATCH_SECONDS,
    )
    revision = request.number("resourceVersion")
    storage = route.resource.storage
    with store.lock:
        initial = None
        try:
            if watch.has_initial_events or not revision:
                revision, initial = store.snapshot(storage)
            position = store.position(storage, revision)
        except StatusError as error:
            return _stream(iter([_error_line(error)]))
        return _stream(_events(store, watch, position, initial, revision))


def _error_line(error: StatusError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": error.status}) + b"\n"


def _stream(chunks: Iterator[bytes]) -> Response:
    return Response(200, chunks, is_stream=True)


def _open_token(token: str) -> tuple[int, Key]:
    if not token:
        return 0, _FIRST
    padding = "=" * (-len(token) % 4)
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + padding))
        namespace, name = content["start"]
        return content["rv"], (namespace, name)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("invalid continue token: continue key is not valid") from None


# Watches


@dataclass(frozen=True, slots=True)
class _Watch:
    """What one client wants to see.

    `namespace` is empty for all. Times are in seconds, and infinite without bookmarks.
    """

    resource: ServedResource
    view: ObjectView
    selects: Predicate | None
    namespace: str
    has_initial_events: bool
    bookmark_interval: float
    timeout: float

    def sees(self, item: Stored | None) -> bool:
        """Whether the object is part of what is watched."""
        if item is None:
            return False
        if self.namespace and item.key[0] != self.namespace:
            return False
        return self.selects is None or self.selects(item)

    def line(self, kind: str, item: Stored) -> bytes:
        """Write one event."""
        return b'{"type":"%s","object":%s}\n' % (
            kind.encode(),
            self.view.one_object(self.resource, item),
        )

    def bookmark(self, revision: int, annotations: Mapping[str, str] | None = None) -> bytes:
        """Write a bookmark: nothing up to `revision` is missing."""
        metadata: Object = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        return b'{"type":"BOOKMARK","object":%s}\n' % self.view.bookmark(self.resource, metadata)

    def event(self, change: StoredChange) -> bytes:
        """Write a change as this client sees it.

        For it, an object that stops matching is deleted.
        """
        before = change.before
        saw = self.sees(before)
        sees = self.sees(change.after)
        if sees and saw:
            return self.line("MODIFIED", change.last)
        if sees:
            return self.line("ADDED", change.last)
        if before is None or not saw:
            return b""
        if change.after is None:
            return self.line("DELETED", change.last)

        # One that left the selection is shown as it was, at the version that took it out.
        as_it_was = stored(before.decode(), change.revision)
        return self.line("DELETED", as_it_was)


def _events(
    store: Store, watch: _Watch, position: int, initial: Sequence[Stored] | None, revision: int
) -> Iterator[bytes]:
    """Yield chunks of lines until the time limit; an empty chunk means that nothing happened.

    `initial` are the objects to send first (None: the client has them), which were current at
    `revision`.
    """
    monotonic = store.runtime.monotonic
    end = monotonic() + watch.timeout
    if initial is not None:
        yield from _initial_chunks(watch, initial, revision)
    next_bookmark = monotonic() + watch.bookmark_interval
    while (now := monotonic()) < end:
        until_bookmark = max(next_bookmark - now, 0.0)
        patience = min(
            store.longest_silence_seconds,
            end - now,
            until_bookmark,
        )
        try:
            changes, revision = _next_changes(store, watch, position, patience)
        except StatusError as error:
            yield _error_line(error)
            return
        position += len(changes)
        yield from _chunks(watch.event(change) for change in changes)
        if monotonic() >= next_bookmark:
            next_bookmark = monotonic() + watch.bookmark_interval
            yield watch.bookmark(revision)
        elif not changes:
            yield b""


def _initial_chunks(watch: _Watch, initial: Sequence[Stored], revision: int) -> Iterator[bytes]:
    seen = [item for item in initial if watch.sees(item)]
    lines = (watch.line("ADDED", item) for item in seen)
    yield from _chunks(lines)

    wants_bookmarks = watch.bookmark_interval < inf
    if watch.has_initial_events and wants_bookmarks:
        annotations = {_INITIAL_EVENTS_END: "true"}
        yield watch.bookmark(revision, annotations)


def _next_changes(
    store: Store, watch: _Watch, position: int, patience: float
) -> tuple[list[StoredChange], int]:
    """The changes from a position on, waited for once, and the store's revision with them."""
    storage = watch.resource.storage
    changed = store.collection(storage).changed
    with changed:
        changes = store.changes_from(storage, position)
        if not changes:
            changed.wait(patience)
            changes = store.changes_from(storage, position)
        return changes, store.revision


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines into chunks of about the same size."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if size:
        yield b"".join(gathered)
