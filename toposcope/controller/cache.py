"""What the controller knows of the cluster, kept up to date by reflectors and read by the reconcile loop."""

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from toposcope.kube.errors import KubeError

T = TypeVar("T")


class Index(Generic[T]):
    """A collection by name, behind one lock. `changed` is called after every change that is one.

    A node's heartbeat changes the object and not what is kept of it: that is no change. `same` says which other
    differences are none.
    """

    def __init__(self, changed: Callable[[], None], same: Callable[[T, T], bool] = operator.eq) -> None:
        self._changed = changed
        self._same = same
        self._lock = threading.Lock()
        self._items: dict[str, T] = {}
        self.synced = False
        """Whether the whole collection has been read, with everything that is kept of its items now."""
        self.error: KubeError | None = None
        """Why it cannot be followed just now; what is known stands."""

    def items(self) -> list[T]:
        """Everything that is known, in no order."""
        with self._lock:
            return list(self._items.values())

    def get(self, name: str) -> T | None:
        """One object, None when it is not there."""
        with self._lock:
            return self._items.get(name)

    def replace(self, items: Mapping[str, T]) -> None:
        """Take over a complete list."""
        with self._lock:
            same = self.synced and self._items == items
            self._items = dict(items)
            self.synced = True
            if not same:
                self._moved(None)
        if not same:
            self._changed()

    def outdated(self) -> None:
        """More is kept of each item from now on: what is known is no evidence until all have been read again."""
        self.synced = False

    def put(self, name: str, item: T) -> None:
        """One object came or changed."""
        with self._lock:
            before = self._items.get(name)
            same = before is not None and self._same(before, item)
            self._items[name] = item
            if not same:
                self._moved(name)
        if not same:
            self._changed()

    def gone(self, name: str) -> None:
        """One object was deleted."""
        with self._lock:
            same = self._items.pop(name, None) is None
            if not same:
                self._moved(name)
        if not same:
            self._changed()

    def _moved(self, name: str | None) -> None:
        """Hear that one item changed, or all (None). The lock is held."""

    def failing(self, error: KubeError | None) -> None:
        """The collection cannot be followed just now, or can again."""
        self.error = error
