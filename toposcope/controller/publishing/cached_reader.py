"""The published kinds, watched.

A manual edit is noticed at once, and a pass that changes nothing sends no request. The cache is
good enough to see that nothing has to be done. Whatever has to be done is decided again on fresh
answers of the server: a cache may be a moment old, and schedulers obey what is written here.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from toposcope.controller.informer import Cache, Informer, InformerFactory
from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.registry import FOLLOWED
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.discovery import Served, is_gone
from toposcope.kube.errors import ApiError
from toposcope.kube.reflector import Raw

log = logging.getLogger(__name__)

T = TypeVar("T")
Document = dict[str, Any]
_NOISE: Final = frozenset({"resourceVersion", "managedFields", "generation"})
"""What every write changes, of a status too."""
_NOT_FOUND: Final = 404


def _paths() -> Iterator[str]:
    for kind in FOLLOWED:
        for version in kind.versions:
            yield kind.path(version)


_PATHS: Final = frozenset(_paths())
"""Of all collections that are followed where they are served."""


class Cached(NamedTuple):
    """What is known of a path."""

    document: Document | None
    """None: there is nothing."""


_ABSENT: Final = Cached(None)


class WriteNeededError(ToposcopeError):
    """Work on cached objects has come to the point where something must be written."""


class CachedReader:
    """Answers publishers' reads from watched memory, else by `client`.

    One thread calls `refresh` and `decide`.
    """

    def __init__(self, client: ApiClient, informers: InformerFactory) -> None:
        self._client = client
        self._factory = informers
        self._served: Served | None = None
        self._followed: dict[PublishedKind, Informer[Document]] = {}
        self._is_from_memory = False
        self._unseen: set[str] = set()
        """Paths of objects that we wrote and that the watch has not delivered since."""
        self.is_blocked = False
        """Whether a publisher waits, perhaps for something to go."""
        self.urgent = informers.runtime.event()
        """Set when something goes while a publisher waits: it may come back in a moment."""
        self.schemas = 0
        """Grows with every change of a CRD: what was refused may be accepted."""

    def refresh(self, served: Served, changed: Callable[[], None]) -> None:
        """Watch the served kinds; other threads call `changed`.

        Raises KubeError if unsure whether a kind is gone.
        """
        self._served = served
        for kind in FOLLOWED:
            version = served.version(kind)
            old = self._followed.get(kind)
            if version is not None:
                self._follow(kind, kind.path(version), changed)
            elif old is not None and is_gone(self._factory.client, old.path):
                log.info("%s is no longer served", old.path)
                del self._followed[kind]
                old.end()
                changed()

    def _follow(self, kind: PublishedKind, path: str, changed: Callable[[], None]) -> None:
        """Watch the collection at `path` from now on, if it is another one than before."""
        old = self._followed.get(kind)
        if old is not None and old.path == path:
            return
        log.info("following %s", path)
        cache = _Documents(kind, changed, self._gone)
        new = Informer(
            self._factory,
            path,
            name=kind.name,
            decode=_decode,
            cache=cache,
            handler=cache,
        )
        self._followed[kind] = new
        new.start()
        if old is not None:
            old.end()

    def _gone(self) -> None:
        if self.is_blocked:
            self.urgent.set()

    @property
    def is_outdated(self) -> bool:
        """Whether a watched kind is no longer served."""
        return any(followed.is_not_found for followed in self._followed.values())

    def close(self) -> None:
        """Stop all watches, from any thread; `stop` must be set, which ends those that follow."""
        for followed in tuple(self._followed.values()):
            followed.end()

    def decide(self, work: Callable[[], T]) -> T:
        """Do `work` on the cache.

        Its first write aborts it; then it is done again on fresh answers of the server.
        """
        self._is_from_memory = True
        try:
            return work()
        except WriteNeededError:
            self._is_from_memory = False
            return work()
        finally:
            self._is_from_memory = False

    def call(self, request: Request) -> Any:
        """Answer or send a request.

        Raises KubeError as a client does, WriteNeededError within `decide`.
        """
        if request.method == "GET":
            return self._get(request)
        if request.query.get("dryRun") == "All":
            return self._client.call(request)
        if self._is_from_memory:
            raise WriteNeededError(f"{request.method} {request.path}")
        self._unseen.add(request.path)
        return self._client.call(request)

    def _get(self, request: Request) -> Any:
        path = request.path
        if not self._is_from_memory or path in self._unseen:
            return self._read(request)
        cached = self._cached(path)
        if cached is None:
            return self._read(request)
        if cached.document is None:
            raise ApiError(_NOT_FOUND, "NotFound", f"{path} is not there")
        return cached.document

    def _read(self, request: Request) -> Any:
        """Ask the server; once the watch has caught up with the answer, the cache is used again."""
        path = request.path
        if path not in self._unseen:
            return self._client.call(request)
        cached = self._cached(path)
        document = cached.document if cached else None
        try:
            answer = self._client.call(request)
        except ApiError as error:
            if error.is_not_found and document is None:
                self._unseen.discard(path)
            raise
        if document is not None and _version(document) == _version(answer):
            self._unseen.discard(path)
        return answer

    def _cached(self, path: str) -> Cached | None:
        """What the server has at a path; None if that is not known."""
        if self._served is None:
            return None
        _, _, group, *segments = path.split("/")
        if not segments:
            return _group(self._served, group)
        if len(segments) == 1:
            return _resources(self._served, group, segments[0])
        return self._followed_objects(path)

    def _followed_objects(self, path: str) -> Cached | None:
        """A collection that is followed, or an object of one; None if that is not known."""
        collection, _, name = path.rpartition("/")
        for followed in self._followed.values():
            if followed.path == path:
                return _items(followed)
            if followed.path == collection:
                return _item(followed, name)

        if collection in _PATHS or path in _PATHS:
            # Of a kind that is followed where it is served there is nothing.
            return _ABSENT
        return None


def _group(served: Served, group: str) -> Cached:
    """The versions of an API group, as discovery lists them."""
    versions = served.groups.get(group)
    if versions is None:
        return _ABSENT
    listed = [{"version": version} for version in sorted(versions)]
    return Cached({"versions": listed})


def _resources(served: Served, group: str, version: str) -> Cached | None:
    """The resources of a version, as discovery lists them."""
    names = served.resources.get(f"{group}/{version}")
    if names is not None:
        listed = [{"name": name} for name in sorted(names)]
        return Cached({"resources": listed})

    # Of a version that was not read only this is known: whether it exists.
    versions = served.groups.get(group, frozenset())
    if version in versions:
        return None
    return _ABSENT


def _items(followed: Informer[Document]) -> Cached | None:
    """A collection; None without a working watch: it may have changed since."""
    if not _is_current(followed):
        return None
    items = followed.cache.items()
    return Cached({"items": items})


def _item(followed: Informer[Document], name: str) -> Cached | None:
    """An object of a collection; None as above."""
    if not _is_current(followed):
        return None
    document = followed.cache.get(name)
    return Cached(document)


def _is_current(followed: Informer[Document]) -> bool:
    return followed.is_synced and followed.error is None


class _Documents(Cache[Document]):
    """The objects of one kind; `on_gone` is called after one was deleted."""

    def __init__(
        self, kind: PublishedKind, changed: Callable[[], None], on_gone: Callable[[], None]
    ) -> None:
        super().__init__(changed, self._has_same_essence)
        self._kind = kind
        self._on_gone = on_gone

    def gone(self, name: str) -> None:
        super().gone(name)
        self._on_gone()

    def _has_same_essence(self, before: Document, after: Document) -> bool:
        """Whether nothing differs that a publisher looks at."""
        return self._essence(before) == self._essence(after)

    def _essence(self, document: Document) -> tuple[object, object, object]:
        metadata = dict(document["metadata"])
        for key in _NOISE:
            metadata.pop(key, None)
        spec = document.get("spec")
        status = document.get("status") or {}
        verdict = status.get(self._kind.verdict_field)
        return metadata, spec, verdict


def _version(document: Mapping[str, Any]) -> Any:
    return document["metadata"].get("resourceVersion")


def _decode(raw: Raw) -> tuple[str, str, Document]:
    """Raises ValueError for anything but an object."""
    document: Document = msgspec.json.decode(raw, type=Document)
    try:
        metadata = document["metadata"]
        name = str(metadata["name"])
        version = str(metadata["resourceVersion"])
        metadata.pop("managedFields", None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an object without a name or resourceVersion") from error
    return name, version, document
