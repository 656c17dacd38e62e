"""One collection, followed in a thread of its own until it, or the program, ends."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from toposcope.controller.cache import Index
from toposcope.kube.client import JSON, ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.etcd_restore import Restores
from toposcope.kube.reflector import Handler, Observer, Raw, Reflector, Stop

T = TypeVar("T")
Held = TypeVar("Held")


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
