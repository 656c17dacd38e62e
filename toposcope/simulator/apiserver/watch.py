"""Watches: changes of one collection as a stream of JSON lines, with bookmarks and a time limit.

Protocol: KEP-365 (list and watch), KEP-956 (bookmarks), KEP-3157 (streaming lists).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from toposcope.simulator.apiserver.errors import StatusError
from toposcope.simulator.apiserver.store import stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toposcope.simulator.apiserver.resources import Resource
    from toposcope.simulator.apiserver.selectors import Predicate
    from toposcope.simulator.apiserver.store import Change, Store, Stored
    from toposcope.simulator.apiserver.views import View

# Lines are sent together up to this size; the real server's chunks end at line ends too.
_CHUNK = 256 * 1024
# How long the stream stays silent at most, in seconds: the chance to notice that the client went away.
_IDLE = 1.0
# The last bookmark comes this long before the time limit, in seconds (cacher's cache_watcher.go).
_BEFORE_END = 2.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Watch:
    """What one client wants to see: `namespace` is empty for all, times are seconds."""

    resource: Resource
    view: View
    selects: Predicate | None
    namespace: str = ""
    initial_events: bool = False
    bookmarks: bool = False
    bookmark_interval: float = 60.0
    timeout: float = 1800.0

    def sees(self, item: Stored | None) -> bool:
        """Whether the object is part of what is watched."""
        if item is None or (self.namespace and item.key[0] != self.namespace):
            return False
        return self.selects is None or self.selects(item)

    def line(self, kind: str, item: Stored) -> bytes:
        """Write one event."""
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.view.one(self.resource, item))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Write a bookmark: nothing up to `revision` is missing."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return b'{"type":"BOOKMARK","object":%s}\n' % self.view.bookmark(self.resource, metadata)

    def event(self, change: Change) -> bytes:
        """Write a change as this client sees it: an object that stops matching is deleted for it."""
        before, after = self.sees(change.before), self.sees(change.after)
        if after:
            return self.line("MODIFIED" if before else "ADDED", change.last)
        if change.before is None or not before:
            return b""
        # One that left the selection is shown as it was, at the version that took it out.
        left = stored(change.before.decode(), change.revision) if change.after else change.last
        return self.line("DELETED", left)


def events(
    store: Store, watch: Watch, position: int, initial: Sequence[Stored] | None, revision: int
) -> Iterator[bytes]:
    """Yield chunks of lines until the time limit; an empty chunk means that nothing happened.

    `initial` are the objects to send first (None: the client has them), which were current at `revision`.
    """
    storage = watch.resource.storage
    changed = store.collection(storage).changed
    end = time.monotonic() + watch.timeout
    if initial is not None:
        yield from _chunks(watch.line("ADDED", item) for item in initial if watch.sees(item))
        if watch.bookmarks and watch.initial_events:
            yield watch.bookmark(revision, initial_end=True)
    next_bookmark = _next_bookmark(watch, end)
    while (now := time.monotonic()) < end:
        try:
            with changed:
                changes = store.changes_from(storage, position)
                if not changes:
                    changed.wait(min(_IDLE, end - now, max(next_bookmark - now, 0.0)))
                    changes = store.changes_from(storage, position)
                revision = store.revision
        except StatusError as error:
            yield msgspec.json.encode({"type": "ERROR", "object": error.status}) + b"\n"
            return
        position += len(changes)
        yield from _chunks(watch.event(change) for change in changes)
        if time.monotonic() >= next_bookmark:
            next_bookmark = _next_bookmark(watch, end)
            if watch.bookmarks:
                yield watch.bookmark(revision)
        elif not changes:
            yield b""


def _next_bookmark(watch: Watch, end: float) -> float:
    """Return when the next bookmark is due; never again once the last one before the end is sent."""
    now = time.monotonic()
    last = end - _BEFORE_END
    due = min(now + watch.bookmark_interval, last)
    return due if due > now else float("inf")


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines into chunks of about the same size."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if size:
        yield b"".join(gathered)
