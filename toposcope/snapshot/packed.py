r"""A snapshot in one small file that loads at once: `toposcope save` writes it, `--from` reads it.

    TOPOSCOPE-SNAPSHOT 3\n | msgpack of `_File`

Nodes and pods are stored by column and each distinct value once, so 100,000 nodes take some
megabytes. Cluster, link matrices and pods are compressed on their own, and a CRC detects damage.
Pods and matrices are decoded when somebody asks for one of them: what the pods of each node request
is stored beside the nodes.
"""

import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import msgspec

from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE, Topology
from toposcope.api.label_keys import STATE
from toposcope.api.label_values import is_harmless_value, is_name
from toposcope.hardware.topology import State
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.kube.pod_resources import MOST, Requests
from toposcope.snapshot.cutter import BYTES_PER_OBJECT, LIMIT, TooLargeError
from toposcope.snapshot.decode import KeepMatrix, topology_of
from toposcope.snapshot.model import (
    NOTHING,
    NodeView,
    Owner,
    PodView,
    Published,
    Snapshot,
    SummedPods,
)
from toposcope.snapshot.problems import InputError, Place, Problem
from toposcope.text import bounded

MAGIC: Final = b"TOPOSCOPE-SNAPSHOT "
_VERSION: Final = b"3\n"
_FAST: Final = 1
"""zlib's level; the next ones take three times as long and save a tenth of the size."""
_CRC: Final = 31
"""gzip's form: a byte was found that changes a UUID and leaves Adler-32, the checksum of zlib's own form, as it was."""
_EITHER: Final = 47
"""Files from before that are in zlib's."""
_UNREADABLE: Final = (
    zlib.error,
    msgspec.MsgspecError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
_PARTS: Final = 3
_WORD: Final = 63
_AROUND_PARTS: Final = 1 << 16
"""Bytes of a file besides its three parts, and what three parts that cannot be compressed grow by."""
_OF_COLUMNS: Final = 4
"""The part of the limit that nodes, and pods, may unpack to: lists of small values take far more when read."""

_T = TypeVar("_T")


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes; fewer only at the end."""


class Column(msgspec.Struct, Generic[_T], frozen=True, array_like=True):
    """One value per row: the distinct values, and each row's place among them (empty where all rows are equal)."""

    values: list[_T]
    places: list[int]

    def rows(self, count: int) -> Iterable[_T]:
        """The value of each of `count` rows.

        Raises ValueError, or IndexError later, where the column is damaged.
        """
        if len(self.values) == 1 and not self.places:
            return repeat(self.values[0], count)
        if len(self.places) != count:
            raise ValueError(f"{len(self.places)} values in {count} rows")
        return map(self.values.__getitem__, self.places)


def _column(rows: Iterable[Any]) -> Column[Any]:
    """The column of these values, all of which have to outlive this call: equal ones are mostly the same object."""
    distinct: dict[bytes, tuple[int, Any]] = {}
    place_of: dict[int, int] = {}
    places = []
    for row in rows:
        place = place_of.get(id(row))
        if place is None:
            value = dict(row) if isinstance(row, Mapping) else row
            place, _ = distinct.setdefault(_encoded(value), (len(distinct), value))
            place_of[id(row)] = place
        places.append(place)
    return Column([value for _, value in distinct.values()], places if len(distinct) > 1 else [])


class _Cluster(msgspec.Struct, frozen=True, array_like=True):
    taken_at: datetime | None
    warnings: list[str]
    topologies: list[dict[str, Any]]
    published: list[Published]
    catalogue: Catalogue | None
    """None: the reader's built-in one."""
    pods: int | None
    """How many; None where they are not known."""
    nodes: int
    name: Column[str]
    """Of each node, in the order of the names, as are the columns below."""
    uid: Column[str]
    keys: Column[list[str]]
    """Label keys."""
    labels: list[list[Column[str | None]]]
    """For each of the distinct `keys`: the values of each key on the nodes that have these; None is the node's name."""
    ready: Column[bool]
    schedulable: Column[bool]
    taints: Column[tuple[Taint, ...]]
    allocatable: Column[dict[str, int]]
    conditions: Column[dict[str, str]]
    requested: Column[dict[str, int]]
    served: dict[str, bool] = {}
    grove: SchedulerProfiles | None = None
    objects: list[dict[str, Any]] = []


class _Pods(msgspec.Struct, frozen=True, array_like=True):
    """The fields of `PodView`, in its order."""

    namespace: Column[str]
    name: Column[str]
    node: Column[str]
    phase: Column[str]
    requests: Column[dict[str, int]]
    owner: Column[Owner | None]
    labels: Column[dict[str, str]]
    annotations: Column[dict[str, str]]
    scheduler: Column[str]
    waiting: Column[str]
    wants: Column[dict[str, Any]]
    priority: Column[int] = Column([0], [])


class _File(msgspec.Struct, frozen=True, array_like=True):
    """Each part is msgpack under gzip."""

    cluster: bytes
    """A `_Cluster`."""
    matrices: bytes
    """A Column[str | None] over the nodes."""
    pods: bytes
    """`_Pods`."""


def write_packed(snapshot: Snapshot, out: IO[bytes]) -> int:
    """Write the snapshot; returns its size in bytes. Raises OSError."""
    pods = snapshot.pods or ()
    packed_pods = _zipped(
        _Pods(*(_column(map(attrgetter(field), pods)) for field in PodView.__struct_fields__))
    )
    parts = _File(
        _zipped(_cluster(snapshot)),
        _zipped(_column(node.matrix for node in snapshot.nodes)),
        packed_pods,
    )
    content = MAGIC + _VERSION + msgspec.msgpack.encode(parts)
    out.write(content)
    return len(content)


def _cluster(snapshot: Snapshot) -> _Cluster:
    nodes = snapshot.nodes
    keys_of = {id(node.places): list(node.places) for node in nodes}
    groups: dict[tuple[str, ...], list[NodeView]] = {}
    for node in nodes:
        groups.setdefault(tuple(keys_of[id(node.places)]), []).append(node)
    labels = [
        [
            _column(None if node.values[at] == node.name else node.values[at] for node in members)
            for at in range(len(keys))
        ]
        for keys, members in groups.items()
    ]
    requested = [_summed(snapshot.by_pods.get(node.name, NOTHING)) for node in nodes]
    alike = ("name", "uid", "ready", "schedulable", "taints", "allocatable", "conditions")
    fields = {field: _column(map(attrgetter(field), nodes)) for field in alike}
    return _Cluster(
        taken_at=snapshot.taken_at,
        warnings=list(snapshot.warnings),
        topologies=[_document(topology) for topology in snapshot.topologies],
        published=list(snapshot.published),
        catalogue=None if snapshot.catalogue == BUILT_IN else snapshot.catalogue,
        pods=None if snapshot.pods is None else len(snapshot.pods),
        nodes=len(nodes),
        keys=_column(keys_of[id(node.places)] for node in nodes),
        labels=labels,
        requested=_column(requested),
        served=dict(snapshot.served),
        grove=snapshot.grove,
        objects=[dict(document) for document in snapshot.objects],
        **fields,
    )


def _summed(amounts: Requests) -> Requests:
    """Amounts that many pods request together, each within what a file can hold."""
    if all(abs(count) <= MOST for count in amounts.values()):
        return amounts
    return {resource: max(-MOST, min(MOST, count)) for resource, count in amounts.items()}


def _document(topology: Topology) -> dict[str, Any]:
    """As much of the object as `toposcope.api.cluster_topology.read` needs."""
    metadata: dict[str, Any] = {
        "name": topology.name,
        "uid": topology.uid,
        "generation": topology.generation,
    }
    if topology.owner:
        metadata["labels"] = {MANAGED_BY: TOPOSCOPE}
        metadata["ownerReferences"] = [{"controller": True, "kind": KIND, "uid": topology.owner}]
    return {"metadata": metadata, "spec": dict(topology.spec), "status": dict(topology.status)}


def read_packed(path: Path, keep_matrix: KeepMatrix, limit: int = LIMIT) -> Snapshot:
    """The snapshot in a file of `write_packed`; see `unpacked`. Raises InputError."""
    try:
        with path.open("rb") as file:
            return unpacked(str(path), file, keep_matrix, limit)
    except OSError as error:
        raise _input_error(str(path), error.strerror or str(error)) from error


def unpacked(name: str, stream: Readable, keep_matrix: KeepMatrix, limit: int = LIMIT) -> Snapshot:
    """The snapshot in a stream; `limit` is how many bytes a part may unpack to, and bounds its nodes and pods.

    Raises OSError, and InputError, which comes later where its pods turn out to be damaged.
    """
    most = _PARTS * limit + _AROUND_PARTS
    content = stream.read(most + 1)
    if len(content) > most:
        raise _input_error(name, str(TooLargeError("the snapshot", most, limit)))
    if not content.startswith(MAGIC + _VERSION):
        raise _input_error(
            name, "written by another version of Toposcope; save it again: toposcope save FILE"
        )
    try:
        return _snapshot(name, memoryview(content)[len(MAGIC + _VERSION) :], keep_matrix, limit)
    except TooLargeError as error:
        raise _input_error(name, str(error)) from error
    except _UNREADABLE as error:
        raise _damaged(name) from error


def _snapshot(name: str, content: memoryview, keep_matrix: KeepMatrix, limit: int) -> Snapshot:
    parts = msgspec.msgpack.decode(content, type=_File)
    cluster = _unzipped(parts.cluster, _Cluster, limit, _OF_COLUMNS)
    _check_count("nodes", cluster.nodes, (cluster.name,), limit)
    nodes = [*_node_views(cluster)]
    wanted = [keep_matrix(node.name, node.label(STATE) not in (None, State.OK)) for node in nodes]
    if any(wanted):
        matrices = _unzipped(parts.matrices, Column[str | None], limit).rows(cluster.nodes)
        rows = zip(nodes, matrices, wanted, strict=True)
        nodes = [
            msgspec.structs.replace(node, matrix=matrix) if keep else node
            for node, matrix, keep in rows
        ]
    return Snapshot(
        source=name,
        taken_at=cluster.taken_at,
        nodes=tuple(nodes),
        pods=_lazy_pods(name, parts.pods, cluster, limit),
        topologies=tuple(map(topology_of, cluster.topologies)),
        published=tuple(cluster.published),
        served=cluster.served,
        grove=cluster.grove,
        objects=tuple(cluster.objects),
        warnings=tuple(map(bounded, cluster.warnings)),
        catalogue=cluster.catalogue or BUILT_IN,
    )


def _lazy_pods(name: str, content: bytes, cluster: _Cluster, limit: int) -> "_LazyPods | None":
    if cluster.pods is None:
        return None
    _check_most("pods", cluster.pods, limit)
    requested = dict(
        zip(cluster.name.rows(cluster.nodes), cluster.requested.rows(cluster.nodes), strict=True)
    )
    return _LazyPods(requested, cluster.pods, lambda count: _pod_views(name, content, count, limit))


def _check_count(what: str, count: int, names: Sequence[Column[str]], limit: int) -> None:
    """Raise TooLargeError or ValueError for a number of rows that the names do not bear out: two are never equal."""
    _check_most(what, count, limit)
    if count > 1 and all(len(column.places) != count for column in names):
        raise ValueError(f"{count} {what} without names of their own")


def _check_most(what: str, count: int, limit: int) -> None:
    most = limit // BYTES_PER_OBJECT
    if count < 0:
        raise ValueError(f"{count} {what}")
    if count > most:
        raise TooLargeError("the snapshot", most, limit, what)


def _input_error(name: str, why: str) -> InputError:
    return InputError(Problem(Place(name), "", why))


def _damaged(name: str) -> InputError:
    return _input_error(name, "a damaged snapshot; save it again: toposcope save FILE")


def _zipped(content: msgspec.Struct) -> bytes:
    return zlib.compress(_encoded(content), _FAST, _CRC)


def _encoded(content: Any) -> bytes:
    """As msgpack, with whole numbers of more than 64 bits as those that Kubernetes makes of them: with an exponent."""
    try:
        return msgspec.msgpack.encode(content)
    except OverflowError:
        return msgspec.msgpack.encode(_storable(msgspec.to_builtins(content)))


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _storable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(part) for part in value]
    if isinstance(value, int) and value.bit_length() > _WORD:
        if value.bit_length() < sys.float_info.max_exp:
            return float(value)
        return math.inf if value > 0 else -math.inf
    return value


def _unzipped(content: bytes, kind: type[_T], limit: int, part: int = 1) -> _T:
    """The reverse of `_zipped`; `part` of the limit is how much it may be.

    Raises as `_UNREADABLE` says.
    """
    unzip = zlib.decompressobj(_EITHER)
    most = max(1, limit // part)
    text = unzip.decompress(content, most)
    if len(text) == most and not unzip.eof:
        raise TooLargeError("a part of the snapshot", most, limit)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("the part does not end where it should")
    return msgspec.msgpack.decode(text, type=kind)


def _node_views(cluster: _Cluster) -> Iterator[NodeView]:
    """The nodes, without matrices."""
    count = cluster.nodes
    names = list(cluster.name.rows(count))
    if not (
        all(map(is_name, names))
        and all(key.isprintable() for keys in cluster.keys.values for key in keys)
    ):
        raise ValueError("a name or label key that the API server would refuse")
    groups = cluster.keys.places or [0] * count
    members: list[list[str]] = [[] for _ in cluster.keys.values]
    for name, group in zip(names, groups, strict=True):
        members[group].append(name)
    positions, values = [], []
    for keys, columns, owners in zip(cluster.keys.values, cluster.labels, members, strict=True):
        position = {key: at for at, key in enumerate(keys)}
        if not len(position) == len(keys) == len(columns):
            raise ValueError("as many label columns as distinct keys are needed")
        positions.append(position)
        values.append(
            zip(*(_label_values(column, owners) for column in columns), strict=False)
            if keys
            else repeat(())
        )
    return map(
        NodeView,
        names,
        cluster.uid.rows(count),
        map(positions.__getitem__, groups),
        map(next, map(values.__getitem__, groups)),
        cluster.ready.rows(count),
        cluster.schedulable.rows(count),
        cluster.taints.rows(count),
        cluster.allocatable.rows(count),
        cluster.conditions.rows(count),
        repeat(None),
    )


def _label_values(column: Column[str | None], names: Sequence[str]) -> Iterable[str]:
    """A label's value on each of the nodes of these names."""
    values = column.rows(len(names))
    if not all(value is None or is_harmless_value(value) for value in column.values):
        raise ValueError("a label value that the API server would refuse")
    if None in column.values:
        return [name if value is None else value for name, value in zip(names, values, strict=True)]
    return values  # type: ignore[return-value]  # None is not among them


class _LazyPods(SummedPods):
    """Pods that are read when one of them is asked for."""

    def __init__(
        self,
        requested: Mapping[str, Mapping[str, int]],
        count: int,
        read: Callable[[int], tuple[PodView, ...]],
    ) -> None:
        """`read` may raise InputError."""
        self.requested = requested
        self._count = count
        self._read = read

    @cached_property
    def _pods(self) -> tuple[PodView, ...]:
        return self._read(self._count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PodView]:
        return iter(self._pods)

    def __getitem__(self, index: Any) -> Any:
        return self._pods[index]


def _pod_views(name: str, content: bytes, count: int, limit: int) -> tuple[PodView, ...]:
    try:
        pods = _unzipped(content, _Pods, limit, _OF_COLUMNS)
        _check_count("pods", count, (pods.namespace, pods.name), limit)
        if not all(
            map(
                is_name,
                filter(None, (*pods.namespace.values, *pods.name.values, *pods.node.values)),
            )
        ):
            raise ValueError("a name that the API server would refuse")
        columns = msgspec.structs.astuple(pods)
        return tuple(map(PodView, *(column.rows(count) for column in columns)))
    except TooLargeError as error:
        raise _input_error(name, str(error)) from error
    except _UNREADABLE as error:
        raise _damaged(name) from error
