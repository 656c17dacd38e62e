"""The published kinds, watched: a manual edit is noticed at once, and a pass that changes nothing sends no request.

The cache is good enough to see that nothing has to be done. Whatever has to be done is decided again on fresh answers
of the server: a cache may be a moment old, and schedulers obey what is written here.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

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
_GROVES_VERDICTS: Final = "schedulerTopologyStatuses"
"""In a binding's status: whether the KAI Topology that it names has its levels."""
_NOT_FOUND: Final = 404


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
        self._from_memory = False
        self._unseen: set[str] = set()
        """Paths of objects that we wrote and that the watch has not delivered since."""
        self.blocked = False
        """Whether a publisher waits, perhaps for something to go."""
        self.urgent = informers.runtime.event()
        """Set when something goes while a publisher waits: somebody may put it back in a moment."""
        self.schemas = 0
        """Grows with every change of a CRD: what was refused may be accepted."""

    def refresh(self, served: Served, changed: Callable[[], None]) -> None:
        """Watch the served kinds; other threads call `changed`.

        Raises KubeError if unsure whether a kind is gone.
        """
        self._served = served
        for kind in FOLLOWED:
            version, old = served.version(kind), self._followed.get(kind)
            if version is None and old is not None and is_gone(self._factory.client, old.path):
                log.info("%s is no longer served", old.path)
                del self._followed[kind]
                old.end()
                changed()
            path = kind.path(version or "")
            if version is not None and (old is None or old.path != path):
                log.info("following %s", path)
                cache = _Documents(changed, self._gone)
                new = Informer(self._factory, path, kind.name, _decode, cache, cache)
                self._followed[kind] = new
                new.start()
                if old is not None:
                    old.end()

    def _gone(self) -> None:
        if self.blocked:
            self.urgent.set()

    @property
    def outdated(self) -> bool:
        """Whether a watched kind is no longer served."""
        return any(followed.not_found for followed in self._followed.values())

    def close(self) -> None:
        """Stop all watches."""
        for followed in self._followed.values():
            followed.end()

    def decide(self, work: Callable[[], T]) -> T:
        """Do `work` on the cache; at its first write, which aborts it, do it again on fresh answers of the server."""
        self._from_memory = True
        try:
            return work()
        except WriteNeededError:
            self._from_memory = False
            return work()
        finally:
            self._from_memory = False

    def call(self, request: Request) -> Any:
        """Answer or send a request.

        Raises KubeError as a client does, WriteNeededError within `decide`.
        """
        if request.method != "GET" and request.query.get("dryRun") != "All":
            if self._from_memory:
                raise WriteNeededError(f"{request.method} {request.path}")
            self._unseen.add(request.path)
            return self._client.call(request)
        if self._from_memory and request.method == "GET" and request.path not in self._unseen:
            known, answer = self._known(request.path)
            if known:
                if answer is None:
                    raise ApiError(_NOT_FOUND, "NotFound", f"{request.path} is not there")
                return answer
        return self._read(request) if request.method == "GET" else self._client.call(request)

    def _read(self, request: Request) -> Any:
        """Ask the server; once the watch has caught up with the answer, the cache is used again."""
        if request.path not in self._unseen:
            return self._client.call(request)
        _, memory = self._known(request.path)
        try:
            answer = self._client.call(request)
        except ApiError as error:
            if error.not_found and memory is None:
                self._unseen.discard(request.path)
            raise
        if (
            memory is not None
            and memory["metadata"].get("resourceVersion") == answer["metadata"]["resourceVersion"]
        ):
            self._unseen.discard(request.path)
        return answer

    def _known(self, path: str) -> tuple[bool, Mapping[str, Any] | None]:
        """Whether the cache knows what the server has at a path, and that object (None: there is none)."""
        if self._served is None:
            return False, None
        _, _, group, *rest = path.split("/")
        collection, _, name = path.rpartition("/")
        if not rest:
            versions = self._served.groups.get(group)
            return True, None if versions is None else {
                "versions": [{"version": v} for v in sorted(versions)]
            }
        if len(rest) == 1:
            return self._known_resources(group, rest[0])
        followed = next(
            (kind for kind in self._followed.values() if kind.path in {collection, path}), None
        )
        if followed is not None:
            # Without a working watch it may have changed since.
            if not followed.synced or followed.error is not None:
                return False, None
            return True, {
                "items": followed.cache.items()
            } if followed.path == path else followed.cache.get(name)
        kinds = (kind.path(version) for kind in FOLLOWED for version in kind.versions)
        return not {collection, path}.isdisjoint(kinds), None

    def _known_resources(self, group: str, version: str) -> tuple[bool, Mapping[str, Any] | None]:
        served = self._served
        if served is None:
            return False, None
        names = served.resources.get(f"{group}/{version}")
        if names is not None:
            return True, {"resources": [{"name": name} for name in sorted(names)]}
        # Of a version that nobody asked about only this is known: whether it exists.
        return version not in served.groups.get(group, frozenset()), None


class _Documents(Cache[Document]):
    """The objects of one kind; `on_gone` is called after one was deleted."""

    def __init__(self, changed: Callable[[], None], on_gone: Callable[[], None]) -> None:
        super().__init__(changed, _alike)
        self._on_gone = on_gone

    def gone(self, name: str) -> None:
        super().gone(name)
        self._on_gone()


def _decode(raw: Raw) -> tuple[str, str, Document]:
    """Raises ValueError for anything but an object."""
    document: Document = msgspec.json.decode(raw, type=Document)
    try:
        metadata = document["metadata"]
        name, version = str(metadata["name"]), str(metadata["resourceVersion"])
        metadata.pop("managedFields", None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an object without a name or resourceVersion") from error
    return name, version, document


def _alike(one: Document, other: Document) -> bool:
    """Whether nothing differs that a publisher looks at."""
    return _essence(one) == _essence(other)


def _essence(document: Document) -> tuple[object, object, object]:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _NOISE}
    return metadata, document.get("spec"), (document.get("status") or {}).get(_GROVES_VERDICTS)
