"""A collection of the API server as the controller knows it: kept current by a reflector in a thread of its own."""

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from toposcope.kube.client import JSON, ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.reflector import Handler, Observer, Raw, Reflector, Restores, Stop

T = TypeVar("T")
Held = TypeVar("Held")


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


class Following(Generic[Held]):
    """Keeps `index` equal to the collection at `path`, from `start` to `end`. `name` is the thread's."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        name: str,
        decode: Callable[[Raw], tuple[str, str, T]],
        index: Index[Held],
        handler: Handler[T],
        stop: Stop,
        accept: str = JSON,
        observer: Observer | None = None,
        restores: Restores | None = None,
    ) -> None:
        self.path = path
        self.index = index
        self._name = name
        self._end = _End(stop)
        self._reflector = Reflector(
            client, path, decode, handler, self._end, accept=accept, observer=observer, restores=restores
        )

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._reflector.run, name=self._name, daemon=True).start()

    def sync(self) -> None:
        """List the collection once, without following it. Raises KubeError."""
        self._reflector.sync()

    def end(self) -> None:
        """Follow no more; does not wait for the thread."""
        self._end.set()
        self._reflector.relist()  # nothing else ends a stream that is silent

    @property
    def synced(self) -> bool:
        """Whether the collection has been listed at least once."""
        return self.index.synced

    @property
    def error(self) -> KubeError | None:
        """Why it cannot be followed just now; None when it can."""
        return self.index.error

    @property
    def not_found(self) -> bool:
        """Whether the API server has ceased to serve it."""
        return is_not_found(self.index.error)


def is_not_found(error: KubeError | None) -> bool:
    """Whether following fails because nothing of the kind is served."""
    return isinstance(error, ApiError) and error.not_found


class _End:
    """The end of one collection, or of the program."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._event = threading.Event()
        self.set = self._event.set

    def wait(self, timeout: float) -> bool:
        self._event.wait(timeout)
        return self.is_set()

    def is_set(self) -> bool:
        return self._event.is_set() or self._stop.is_set()
