"""Objects in memory: a revision counter, collections of canonical JSON, and the latest changes.

An object is kept as the bytes that go to the wire, without its `kind` and `apiVersion` (which
depend on the version it is read in): a list or a watch of thousands of objects costs a copy and no
encoding.
"""

import threading
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from toposcope.kube.runtime import ConditionVariable, Runtime
from toposcope.simulator.apiserver.statuses import expired

Key = tuple[str, str]  # namespace ("" for cluster scope), name


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


class _WithLabels(msgspec.Struct):
    metadata: _Labelled


_labels_decoder = msgspec.json.Decoder(_WithLabels)


class Stored(msgspec.Struct, frozen=True, dict=True):
    """One object at one revision; `body` lacks the opening brace and the type."""

    key: Key
    revision: int
    body: bytes

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Labels, decoded when a selector first asks."""
        return _labels_decoder.decode(b"{" + self.body).metadata.labels or {}

    def decode(self) -> dict[str, Any]:
        """Return a fresh dict of the object without `kind` and `apiVersion`."""
        obj: dict[str, Any] = msgspec.json.decode(b"{" + self.body)
        return obj


def stored(obj: Mapping[str, Any], revision: int) -> Stored:
    """Encode an object at a revision, its metadata first."""
    metadata = {**obj["metadata"], "resourceVersion": str(revision)}
    document = {"metadata": metadata}
    for key, value in obj.items():
        if key not in ("apiVersion", "kind", "metadata"):
            document[key] = value
    body = msgspec.json.encode(document)
    return Stored(
        key=(metadata.get("namespace", ""), metadata["name"]),
        revision=revision,
        body=body[1:],
    )


class StoredChange(msgspec.Struct, frozen=True):
    """One write: `before` is None for a creation, `after` for a deletion, `last` is for watches."""

    revision: int
    before: Stored | None
    after: Stored | None
    last: Stored


@dataclass(slots=True)
class Collection:
    """All objects of one storage with their latest changes.

    `start` is the absolute position of `changes[0]`; changes up to revision `compacted` are
    forgotten. `changed` is notified of each change, with the store locked: a write wakes the
    watches of its own collection and no others.
    """

    changed: ConditionVariable
    objects: dict[Key, Stored] = field(default_factory=dict)
    changes: list[StoredChange] = field(default_factory=list)
    start: int = 0
    compacted: int = 0
    ordered: list[Stored] | None = None


class Store:
    """Every collection of one server; all methods are safe to call from any thread."""

    longest_silence_seconds = 1.0
    """How long a watch waits at most before it checks that its client is still there."""

    def __init__(self, history: int, runtime: Runtime) -> None:
        self.runtime = runtime
        self.lock = threading.RLock()
        self.revision = 1
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, storage: str) -> Collection:
        """Return the collection of that name, made on first use."""
        with self.lock:
            collection = self._collections.get(storage)
            if collection is None:
                changed = self.runtime.condition(self.lock)
                collection = Collection(changed, compacted=self.revision)
                self._collections[storage] = collection
            return collection

    def wake_watches(self) -> None:
        """Have every watch look up from its wait though nothing has changed."""
        with self.lock:
            for collection in self._collections.values():
                collection.changed.notify_all()

    def get(self, storage: str, key: Key) -> Stored | None:
        """Return the latest state of one object."""
        return self.collection(storage).objects.get(key)

    def put(self, storage: str, obj: Mapping[str, Any]) -> Stored:
        """Create or replace an object at the next revision."""
        with self.lock:
            self.revision += 1
            after = stored(obj, self.revision)
            collection = self.collection(storage)
            before = collection.objects.get(after.key)
            collection.objects[after.key] = after
            self._record(collection, StoredChange(self.revision, before, after, after))
            return after

    def remove(self, storage: str, obj: Mapping[str, Any]) -> Stored:
        """Delete an object; its last state is the one given."""
        with self.lock:
            self.revision += 1
            last = stored(obj, self.revision)
            collection = self.collection(storage)
            before = collection.objects.pop(last.key)
            self._record(collection, StoredChange(self.revision, before, None, last))
            return last

    def _record(self, collection: Collection, change: StoredChange) -> None:
        collection.ordered = None
        collection.changes.append(change)
        # Forgotten in batches: dropping the head of a list one by one would copy it every time.
        if len(collection.changes) > self._history * 5 // 4:
            count = len(collection.changes) - self._history
            collection.compacted = collection.changes[count - 1].revision
            collection.start += count
            del collection.changes[:count]
        collection.changed.notify_all()

    def expire_history(self) -> None:
        """Forget all changes: older revisions answer 410, and so do watches that lag behind."""
        with self.lock:
            # A revision of its own, so that even the newest one handed out counts as old.
            self.revision += 1
            for collection in self._collections.values():
                collection.start += len(collection.changes) + 1
                collection.changes.clear()
                collection.compacted = self.revision
            self.wake_watches()

    def snapshot(self, storage: str, since: int = 0) -> tuple[int, list[Stored]]:
        """Return the revision and all objects by key.

        Raises `StatusError` (410) if changes after `since` are lost.
        """
        with self.lock:
            collection = self.collection(storage)
            if since and since < collection.compacted:
                raise expired(
                    f"The provided resource version is too old: {since} ({collection.compacted})"
                )
            if collection.ordered is None:
                collection.ordered = [item for _, item in sorted(collection.objects.items())]
            return self.revision, collection.ordered

    def position(self, storage: str, revision: int) -> int:
        """Where the changes after `revision` begin.

        Raises `StatusError` (410) when they are forgotten.
        """
        with self.lock:
            collection = self.collection(storage)
            if revision < collection.compacted:
                raise expired(f"too old resource version: {revision} ({collection.compacted})")
            after = bisect_right(collection.changes, revision, key=lambda change: change.revision)
            return collection.start + after

    def changes_from(self, storage: str, position: int) -> list[StoredChange]:
        """Return the changes from an absolute position on.

        Raises `StatusError` (410) when some are forgotten.
        """
        with self.lock:
            collection = self.collection(storage)
            if position < collection.start:
                raise expired("too old resource version: the watch fell behind the history kept")
            return collection.changes[position - collection.start :]
