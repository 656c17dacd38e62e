"""A watched collection.

A cache of what the controller knows, kept current by a reflector in a thread of its own.
"""

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from toposcope.kube.client import JSON, ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.reflector import Handler, Observer, Raw, Reflector, Stop
from toposcope.kube.runtime import REAL, Event, Runtime

T = TypeVar("T")
Kept = TypeVar("Kept")
Decode: TypeAlias = Callable[[Raw], tuple[str, str, T]]
"""As in `Reflector`."""


class Cache(Generic[T]):
    """A collection by name, behind one lock. `changed` is called after every relevant change.

    A node's heartbeat changes the object but not what is kept of it, which is not relevant; `same`
    says which other differences are not.
    """

    def __init__(
        self, changed: Callable[[], None], same: Callable[[T, T], bool] = operator.eq
    ) -> None:
        self._changed = changed
        self._same = same
        self._lock = threading.Lock()
        self._items: dict[str, T] = {}
        self.version = 0
        """Grows with every relevant change."""
        self.is_synced = False
        """Whether the whole collection has been listed, with everything that is kept of its items
        now."""
        self.error: KubeError | None = None
        """Why the collection cannot be watched at the moment; the items stay."""

    def items(self) -> list[T]:
        """All items, in no order."""
        with self._lock:
            return list(self._items.values())

    def by_name(self) -> dict[str, T]:
        """All items by name, as a copy."""
        with self._lock:
            return dict(self._items)

    def get(self, name: str) -> T | None:
        """One item; None if there is none of that name."""
        with self._lock:
            return self._items.get(name)

    def replace(self, items: Mapping[str, T]) -> None:
        """Take over a complete list."""
        with self._lock:
            is_same = self.is_synced and self._items == items
            self._items = dict(items)
            self.is_synced = True
            self.version += not is_same
        if not is_same:
            self._changed()

    def mark_unsynced(self) -> None:
        """More is kept of each item from now on.

        The cache proves nothing until all have been listed again.
        """
        self.is_synced = False

    def put(self, name: str, item: T) -> None:
        """One object was added or changed."""
        with self._lock:
            before = self._items.get(name)
            is_same = before is not None and self._same(before, item)
            self._items[name] = item
            self.version += not is_same
        if not is_same:
            self._changed()

    def gone(self, name: str) -> None:
        """One object was deleted."""
        with self._lock:
            is_same = self._items.pop(name, None) is None
            self.version += not is_same
        if not is_same:
            self._changed()

    def failing(self, error: KubeError | None) -> None:
        """The collection cannot be watched at the moment, or can again (None)."""
        self.error = error


class InformerFactory(NamedTuple):
    """What the informers of one program share: `client` lists and watches, `stop` ends them all."""

    client: ApiClient
    stop: Stop
    observer: Observer | None = None
    runtime: Runtime = REAL

    def reflector(
        self,
        path: str,
        decode: Decode[T],
        handler: Handler[T],
        stop: Stop | None = None,
        accept: str = JSON,
        *,
        selector: str = "",
    ) -> Reflector[T]:
        """A reflector of the collection at `path`; `stop` ends it alone."""
        return Reflector(
            self.client,
            path,
            decode,
            handler,
            stop or self.stop,
            observer=self.observer,
            accept=accept,
            selector=selector,
            runtime=self.runtime,
        )


class Informer(Generic[Kept]):
    """Keeps `cache` equal to the collection at `path`, from `start` to `end`.

    `name` is its thread's.
    """

    def __init__(
        self,
        factory: InformerFactory,
        path: str,
        *,
        name: str,
        decode: Decode[T],
        cache: Cache[Kept],
        handler: Handler[T],
        accept: str = JSON,
        selector: str = "",
    ) -> None:
        self.path = path
        self.cache = cache
        self._name = name
        self._runtime = factory.runtime
        self._end = _End(factory.stop, factory.runtime.event())
        self._reflector = factory.reflector(
            path, decode, handler, self._end, accept, selector=selector
        )

    def start(self) -> None:
        """Begin to watch."""
        self._runtime.thread(self._name, self._reflector.run)

    def sync(self) -> None:
        """List the collection once, without watching it. Raises KubeError."""
        self._reflector.sync()

    def end(self) -> None:
        """Stop watching; does not wait for the thread."""
        self._end.set()
        self._reflector.relist()  # nothing else ends a silent stream

    @property
    def is_synced(self) -> bool:
        """Whether the collection has been listed at least once."""
        return self.cache.is_synced

    @property
    def error(self) -> KubeError | None:
        """Why the collection cannot be watched at the moment; None if it can."""
        return self.cache.error

    @property
    def is_not_found(self) -> bool:
        """Whether the API server no longer serves the collection."""
        return is_not_found(self.cache.error)


def is_not_found(error: KubeError | None) -> bool:
    """Whether a watch fails because the kind is not served."""
    return isinstance(error, ApiError) and error.is_not_found


class _End:
    """The end of one informer, or of the program."""

    def __init__(self, stop: Stop, event: Event) -> None:
        self._stop = stop
        self._event = event
        self.set = event.set

    def wait(self, timeout: float) -> bool:
        self._event.wait(timeout)
        return self.is_set()

    def is_set(self) -> bool:
        return self._event.is_set() or self._stop.is_set()
