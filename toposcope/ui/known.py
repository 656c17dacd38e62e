"""What the worker knows of the cluster: sent once, and afterwards only what has changed.

A snapshot of 100,000 nodes is too much to send with each question. Objects are never changed in
place (see `toposcope.snapshot.model`), so one that is still the same object need not be sent
again. Collections go in small parts: the interpreter does nothing else while it encodes a part,
and the page's server has pages to serve.
"""

import io
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

import msgspec

from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import NodeView, Snapshot

_OBJECTS_PER_MESSAGE: Final = 200
"""Objects of one message."""
_MAX_SHARED_MAPPINGS: Final = 10_000
"""Different mappings that nodes share in the worker; beyond it, it starts to collect them again."""


class KnownCollection(StrEnum):
    """What is sent object by object: fields of `Snapshot`."""

    NODES = "nodes"
    PODS = "pods"
    TOPOLOGIES = "topologies"
    PUBLISHED = "published"
    OBJECTS = "objects"


OF_THE_CLUSTER: Final = (KnownCollection.NODES, KnownCollection.PODS, KnownCollection.TOPOLOGIES)
OF_SCHEDULERS: Final = (KnownCollection.PUBLISHED, KnownCollection.OBJECTS)


@dataclass(frozen=True, slots=True)
class Removed:
    """Objects that no longer exist, by their positions in the list as sent so far."""

    collection: KnownCollection
    places: Sequence[int]


@dataclass(frozen=True, slots=True)
class Added:
    """Objects that are new or have changed; they follow those that stay."""

    collection: KnownCollection
    objects: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Base:
    """A snapshot without its collections; it still says whether pods are known."""

    snapshot: Snapshot

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Base":
        """A snapshot without what is sent object by object."""
        pods = None if snapshot.pods is None else ()
        return cls(replace(snapshot, nodes=(), pods=pods, topologies=(), published=(), objects=()))


@dataclass(frozen=True, slots=True)
class KnownResources:
    """What is known about schedulers' resources, without the resources."""

    served: Mapping[str, bool]
    warnings: tuple[str, ...]
    """The resources that could not be read."""


@dataclass(frozen=True, slots=True)
class Required:
    """What PodGangs and PodGroups require."""

    required: RequiredLevels


Message = Removed | Added | Base | KnownResources | Required


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """What a question is about; what is None stays as the worker knows it."""

    snapshot: Snapshot | None = None
    """Nodes, pods and ClusterTopologies."""
    published: Snapshot | None = None
    """What schedulers read."""
    required: RequiredLevels | None = None


def _no_objects() -> dict[KnownCollection, list[Any]]:
    """Empty lists for all collections."""
    return {collection: [] for collection in KnownCollection}


class Sent:
    """The server's memory of what one worker has been sent."""

    def __init__(self) -> None:
        self._objects = _no_objects()
        self._last: dict[type[Message], Any] = {}

    def news(self, cluster: KnownCluster) -> Iterator[Message]:
        """The messages from which the worker learns this cluster; they count as sent."""
        snapshot = cluster.snapshot
        if snapshot:
            for collection in OF_THE_CLUSTER:
                objects = getattr(snapshot, collection) or ()
                yield from self._difference(collection, objects)
            yield from self._unless_sent(Base.of(snapshot))

        published = cluster.published
        if published:
            for collection in OF_SCHEDULERS:
                objects = getattr(published, collection)
                yield from self._difference(collection, objects)
            served = KnownResources(published.served, published.warnings)
            yield from self._unless_sent(served)

        if cluster.required:
            yield from self._unless_sent(Required(cluster.required))

    def _difference(self, collection: KnownCollection, now: Sequence[Any]) -> Iterator[Message]:
        before = self._objects[collection]
        # The lists keep the objects alive, so no two of them have the same number.
        sent = {id(item) for item in before}
        existing = {id(item) for item in now}
        gone = []
        kept = []
        for place, item in enumerate(before):
            if id(item) in existing:
                kept.append(item)
            else:
                gone.append(place)

        added = [item for item in now if id(item) not in sent]
        self._objects[collection] = kept + added
        if gone:
            yield Removed(collection, gone)

        for start in range(0, len(added), _OBJECTS_PER_MESSAGE):
            end = start + _OBJECTS_PER_MESSAGE
            yield Added(collection, added[start:end])

    def _unless_sent(self, message: Base | KnownResources | Required) -> Iterator[Message]:
        kind = type(message)
        if self._last.get(kind) != message:
            self._last[kind] = message
            yield message


@dataclass
class WorkerCopy:
    """The worker's copy of the cluster."""

    required: RequiredLevels = field(default_factory=RequiredLevels)
    served: KnownResources = field(default_factory=lambda: KnownResources({}, ()))
    version: int = 0
    """Grows with each message."""

    def __post_init__(self) -> None:
        self._objects = _no_objects()
        self._base = Snapshot("", None, (), None)
        self._snapshot: Snapshot | None = None
        self._shared: dict[Any, Any] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The cluster: nodes and ClusterTopologies by name, as `ui.facts` has them."""
        if self._snapshot is None:
            by_name = attrgetter("name")
            nodes = sorted(self._objects[KnownCollection.NODES], key=by_name)
            topologies = sorted(self._objects[KnownCollection.TOPOLOGIES], key=by_name)
            pods = None
            if self._base.pods is not None:
                pods = tuple(self._objects[KnownCollection.PODS])
            self._snapshot = replace(
                self._base,
                nodes=tuple(nodes),
                pods=pods,
                topologies=tuple(topologies),
            )
        return self._snapshot

    @property
    def with_published(self) -> Snapshot:
        """The cluster with what schedulers read."""
        return replace(
            self.snapshot,
            published=tuple(self._objects[KnownCollection.PUBLISHED]),
            served=self.served.served,
            objects=tuple(self._objects[KnownCollection.OBJECTS]),
        )

    def take(self, message: Message) -> None:
        """Apply a message."""
        self.version += 1
        self._snapshot = None
        match message:
            case Removed(collection, places):
                gone = frozenset(places)
                objects = self._objects[collection]
                self._objects[collection] = [
                    item for place, item in enumerate(objects) if place not in gone
                ]
            case Added(KnownCollection.NODES, nodes):
                self._objects[KnownCollection.NODES] += self._sharing(nodes)
            case Added(collection, objects):
                self._objects[collection] += objects
            case Base(snapshot):
                self._base = snapshot
            case KnownResources():
                self.served = message
            case Required(required):
                self.required = required

    def _sharing(self, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
        """The nodes, sharing equal mappings across all messages: grouping compares by identity."""
        if len(self._shared) > _MAX_SHARED_MAPPINGS:
            self._shared.clear()

        by_identity: dict[int, Any] = {}
        for node in nodes:
            yield msgspec.structs.replace(
                node,
                places=self._shared_mapping(node.places, by_identity),
                allocatable=self._shared_mapping(node.allocatable, by_identity),
                conditions=self._shared_mapping(node.conditions, by_identity),
            )

    def _shared_mapping(
        self, mapping: Mapping[str, Any], by_identity: dict[int, Any]
    ) -> Mapping[str, Any]:
        """The mapping that equal ones share; `by_identity` holds those of one message."""
        number = id(mapping)
        shared: Mapping[str, Any] | None = by_identity.get(number)
        if shared is None:
            items = tuple(mapping.items())
            shared = self._shared.setdefault(items, mapping)
            by_identity[number] = shared
        return shared


def _read_only(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _reduced(proxy: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _read_only, (dict(proxy),)


class _Pickler(pickle.Pickler):
    dispatch_table = {MappingProxyType: _reduced}  # noqa: RUF012 - as pickle has it


def encoded(message: Any) -> bytes:
    """The message as bytes: a pickle that can hold read-only mappings."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    return stream.getvalue()


def decoded(data: bytes) -> Any:
    """The message in the bytes.

    They must come from our own parent process: a pickle can run code.
    """
    return pickle.loads(data)  # noqa: S301 - see above
