r"""A snapshot in one small file that loads at once: `toposcope save` writes it, `--from` reads it.

    TOPOSCOPE-SNAPSHOT 4\n | msgpack of `_File`

Every node and every pod is a row. What repeats from row to row (label values, resource lists,
conditions) is stored once, in a table, and a row holds its place there: 100,000 nodes take some
megabytes. Cluster, link matrices and pods are compressed on their own, and a CRC detects damage.
Pods and matrices are decoded when one of them is needed: what the pods of each node request
is stored beside the nodes.
"""

import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import msgspec

from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE, Topology
from toposcope.api.label_keys import STATE
from toposcope.api.label_values import is_harmless_value, is_name
from toposcope.hardware.topology import State
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.pod_rules import HostPort, PodTerm
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.kube.pod_resources import MOST_AMOUNT, Requests
from toposcope.snapshot.cutter import BYTES_PER_OBJECT, LIMIT, TooLargeError
from toposcope.snapshot.decode import KeepMatrix, topology_of
from toposcope.snapshot.model import (
    NOTHING,
    NodeView,
    Owner,
    PodView,
    PublishedTopology,
    Snapshot,
    SummedPods,
)
from toposcope.snapshot.problems import InputError, Place, Problem
from toposcope.text import bounded

MAGIC: Final = b"TOPOSCOPE-SNAPSHOT "
_VERSION: Final = b"4\n"
_FAST: Final = 1
"""zlib's level; the next ones take three times as long and save a tenth of the size."""
_WITH_CRC: Final = 31
"""zlib's window bits for gzip's form, whose CRC finds a changed byte of a UUID.

Adler-32, the checksum of zlib's own form, does not.
"""
_PARTS: Final = 3
_AROUND_PARTS_BYTES: Final = 1 << 16
"""Of a file besides its parts, and what parts that cannot be compressed grow by."""
_LIMIT_PART_OF_ROWS: Final = 4
"""The limit divided by this is what the nodes may unpack to, and what the pods may.

Rows of small values take far more memory when read.
"""
_OWN_NAME: Final = -1
"""Stands for a label value that is the node's own name."""
_NONE: Final = -1
"""Stands for nothing: as older files have it, which hold less of each pod."""
_INTEGER_BITS: Final = 63
WITHOUT_RULES: Final = (
    "saved by an earlier version, which kept neither all labels of pods nor their anti-affinity "
    "and host ports; save it again: toposcope save FILE"
)
_UNREADABLE: Final = (
    zlib.error,
    msgspec.MsgspecError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a damaged file raises."""

_T = TypeVar("_T")


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; fewer only at the end."""


class _File(msgspec.Struct, frozen=True):
    """A file's parts, each in msgpack under gzip."""

    cluster: bytes
    """A `_Cluster`."""
    matrices: bytes
    """`_Matrices`."""
    pods: bytes
    """`_Pods`."""


class _Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One node; numbers are places in the tables of `_Cluster`."""

    name: str
    uid: str
    keys: int
    """Its label keys."""
    values: list[int]
    """The values of these labels, in `strings`; `_OWN_NAME` for its own name."""
    ready: bool
    schedulable: bool
    taints: int
    allocatable: int
    conditions: int
    requested: int
    """The sum of its pods' requests."""
    is_of_azure: bool = False


class _Cluster(msgspec.Struct, frozen=True):
    """Everything but link matrices and pods."""

    taken_at: datetime | None
    warnings: list[str]
    lacks_pods: bool
    topologies: list[dict[str, Any]]
    published: list[PublishedTopology]
    catalogue: Catalogue | None
    """None: the reader's built-in one."""
    served: dict[str, bool]
    scheduler_profiles: SchedulerProfiles | None
    objects: list[dict[str, Any]]
    pods: int | None
    """The number of pods; None: not known."""
    nodes: list[_Node]
    """In the order of their names."""
    keys: list[list[str]]
    strings: list[str]
    taints: list[tuple[Taint, ...]]
    allocatable: list[dict[str, int]]
    conditions: list[dict[str, str]]
    requested: list[dict[str, int]]
    unready_agents: dict[str, str] = {}
    """By node: why the pod of its agent is not Ready."""
    knows_pod_rules: bool = False
    """Older files do not say, and hold neither all labels of pods nor what these ask of others."""


class _Matrices(msgspec.Struct, frozen=True):
    """The link matrices of the nodes."""

    distinct: list[str | None]
    places: list[int]
    """For each of `_Cluster.nodes` the place of its matrix in `distinct`."""


class _Pod(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One pod; numbers, but for the priority, are places in the tables of `_Pods`."""

    name: str
    namespace: int
    node: int
    phase: int
    requests: int
    owner: int
    labels: int
    annotations: int
    scheduler: int
    waiting: int
    wants: int
    priority: int
    selectable: int = _NONE
    around: int = _NONE


class _Around(msgspec.Struct, frozen=True):
    """What a pod asks of the pods around it."""

    repels: tuple[PodTerm, ...]
    ports: tuple[HostPort, ...]


_ALONE: Final = _Around((), ())


class _Pods(msgspec.Struct, frozen=True):
    pods: list[_Pod]
    strings: list[str]
    requests: list[dict[str, int]]
    owners: list[Owner | None]
    metadata: list[dict[str, str]]
    """Labels and annotations."""
    wants: list[dict[str, Any]]
    selectable: list[tuple[str, ...]] = []
    around: list[_Around] = []


class _Table(Generic[_T]):
    """Distinct values in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[_T] = []
        self._place_of_content: dict[bytes, int] = {}
        self._place_of_object: dict[int, int] = {}
        self._objects: list[Any] = []
        """Kept alive, so that no other object gets the id of one of them."""

    def place(self, value: Any) -> int:
        """The place of an equal value; equal values are mostly the same object."""
        place = self._place_of_object.get(id(value))
        if place is not None:
            return place

        content: Any = value
        if isinstance(value, Mapping):
            content = dict(value)
        new_place = len(self.values)
        place = self._place_of_content.setdefault(_encoded(content), new_place)
        if place == new_place:
            self.values.append(content)

        self._place_of_object[id(value)] = place
        self._objects.append(value)
        return place


def write_packed(snapshot: Snapshot, out: IO[bytes]) -> int:
    """Write the snapshot; returns its size in bytes. Raises OSError."""
    cluster = _packed_cluster(snapshot)
    matrices = _packed_matrices(snapshot.nodes)
    pods = _packed_pods(snapshot.pods or ())
    parts = _File(
        cluster=_zipped(cluster),
        matrices=_zipped(matrices),
        pods=_zipped(pods),
    )
    content = MAGIC + _VERSION + msgspec.msgpack.encode(parts)
    out.write(content)
    return len(content)


def _packed_cluster(snapshot: Snapshot) -> _Cluster:
    keys = _Table[list[str]]()
    strings = _Table[str]()
    taints = _Table[tuple[Taint, ...]]()
    allocatable = _Table[dict[str, int]]()
    conditions = _Table[dict[str, str]]()
    requested = _Table[dict[str, int]]()
    keys_of: dict[int, list[str]] = {}  # nodes with equal label keys share `places`
    rows = []
    for node in snapshot.nodes:
        node_keys = keys_of.get(id(node.places))
        if node_keys is None:
            node_keys = keys_of[id(node.places)] = list(node.places)

        values = [
            _OWN_NAME if value == node.name else strings.place(value) for value in node.values
        ]
        by_pods = snapshot.by_pods.get(node.name, NOTHING)
        row = _Node(
            name=node.name,
            uid=node.uid,
            keys=keys.place(node_keys),
            values=values,
            ready=node.is_ready,
            schedulable=node.is_schedulable,
            taints=taints.place(node.taints),
            allocatable=allocatable.place(node.allocatable),
            conditions=conditions.place(node.conditions),
            requested=requested.place(_storable_sums(by_pods)),
            is_of_azure=node.is_of_azure,
        )
        rows.append(row)

    catalogue = snapshot.catalogue
    return _Cluster(
        taken_at=snapshot.taken_at,
        warnings=list(snapshot.warnings),
        lacks_pods=snapshot.lacks_pods,
        topologies=[_document(topology) for topology in snapshot.topologies],
        published=list(snapshot.published),
        catalogue=None if catalogue == BUILT_IN else catalogue,
        served=dict(snapshot.served),
        scheduler_profiles=snapshot.scheduler_profiles,
        objects=[dict(document) for document in snapshot.objects],
        pods=None if snapshot.pods is None else len(snapshot.pods),
        nodes=rows,
        keys=keys.values,
        strings=strings.values,
        taints=taints.values,
        allocatable=allocatable.values,
        conditions=conditions.values,
        requested=requested.values,
        unready_agents=dict(snapshot.unready_agents),
        knows_pod_rules=snapshot.knows_pod_rules,
    )


def _storable_sums(amounts: Requests) -> Requests:
    """The sums of many pods' requests, each within what a file can hold."""
    if not amounts:
        return amounts
    counts = amounts.values()
    if max(counts) <= MOST_AMOUNT and min(counts) >= -MOST_AMOUNT:
        return amounts

    storable = {}
    for resource, count in amounts.items():
        at_most = min(MOST_AMOUNT, count)
        storable[resource] = max(-MOST_AMOUNT, at_most)
    return storable


def _document(topology: Topology) -> dict[str, Any]:
    """The fields of the object that `toposcope.api.cluster_topology.read` needs."""
    metadata: dict[str, Any] = {
        "name": topology.name,
        "uid": topology.uid,
        "generation": topology.generation,
    }
    if topology.owner:
        metadata["labels"] = {MANAGED_BY: TOPOSCOPE}
        metadata["ownerReferences"] = [{"controller": True, "kind": KIND, "uid": topology.owner}]

    return {
        "metadata": metadata,
        "spec": dict(topology.spec),
        "status": dict(topology.status),
    }


def _packed_matrices(nodes: Iterable[NodeView]) -> _Matrices:
    distinct = _Table[str | None]()
    places = [distinct.place(node.matrix) for node in nodes]
    return _Matrices(distinct.values, places)


def _packed_pods(pods: Iterable[PodView]) -> _Pods:
    strings = _Table[str]()
    requests = _Table[dict[str, int]]()
    owners = _Table[Owner | None]()
    metadata = _Table[dict[str, str]]()
    wants = _Table[dict[str, Any]]()
    selectable = _Table[tuple[str, ...]]()
    around = _Table[_Around]()
    rows = []
    for pod in pods:
        row = _Pod(
            name=pod.name,
            namespace=strings.place(pod.namespace),
            node=strings.place(pod.node),
            phase=strings.place(pod.phase),
            requests=requests.place(pod.requests),
            owner=owners.place(pod.owner),
            labels=metadata.place(pod.labels),
            annotations=metadata.place(pod.annotations),
            scheduler=strings.place(pod.scheduler),
            waiting=strings.place(pod.waiting),
            wants=wants.place(pod.wants),
            priority=pod.priority,
            selectable=selectable.place(pod.selectable) if pod.selectable else _NONE,
        )
        if pod.repels or pod.ports:
            place = around.place(_Around(pod.repels, pod.ports))
            row = msgspec.structs.replace(row, around=place)
        rows.append(row)

    return _Pods(
        pods=rows,
        strings=strings.values,
        requests=requests.values,
        owners=owners.values,
        metadata=metadata.values,
        wants=wants.values,
        selectable=selectable.values,
        around=around.values,
    )


def _zipped(part: msgspec.Struct) -> bytes:
    return zlib.compress(_encoded(part), _FAST, _WITH_CRC)


def _encoded(content: Any) -> bytes:
    """As msgpack; whole numbers of more than 64 bits get an exponent, as Kubernetes gives them."""
    try:
        return msgspec.msgpack.encode(content)
    except OverflowError:
        plain = msgspec.to_builtins(content)
        return msgspec.msgpack.encode(_storable(plain))


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _storable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(part) for part in value]
    if not isinstance(value, int) or value.bit_length() <= _INTEGER_BITS:
        return value
    if value.bit_length() < sys.float_info.max_exp:
        return float(value)
    return math.inf if value > 0 else -math.inf


def read_packed(path: Path, keep_matrix: KeepMatrix, limit: int = LIMIT) -> Snapshot:
    """The snapshot in a file of `write_packed`; see `unpacked`. Raises InputError."""
    try:
        with path.open("rb") as file:
            return unpacked(str(path), file, keep_matrix, limit)
    except OSError as error:
        raise _input_error(str(path), error.strerror or str(error)) from error


def unpacked(name: str, stream: Readable, keep_matrix: KeepMatrix, limit: int = LIMIT) -> Snapshot:
    """The snapshot in a stream.

    `limit` is how many bytes a part may unpack to, and bounds its nodes and pods. Raises OSError,
    and InputError, which comes later where its pods turn out to be damaged.
    """
    most = _PARTS * limit + _AROUND_PARTS_BYTES
    content = stream.read(most + 1)
    if len(content) > most:
        too_large = TooLargeError("the snapshot", most, limit)
        raise _input_error(name, str(too_large))

    head = MAGIC + _VERSION
    if not content.startswith(head):
        raise _input_error(
            name, "written by another version of Toposcope; save it again: toposcope save FILE"
        )

    parts = memoryview(content)[len(head) :]
    try:
        return _snapshot(name, parts, keep_matrix, limit)
    except TooLargeError as error:
        raise _input_error(name, str(error)) from error
    except _UNREADABLE as error:
        raise _damaged(name) from error


def _input_error(name: str, why: str) -> InputError:
    return InputError(Problem(Place(name), "", why))


def _damaged(name: str) -> InputError:
    return _input_error(name, "a damaged snapshot; save it again: toposcope save FILE")


def _snapshot(name: str, content: memoryview, keep_matrix: KeepMatrix, limit: int) -> Snapshot:
    parts = msgspec.msgpack.decode(content, type=_File)
    cluster = _unzipped(parts.cluster, _Cluster, limit // _LIMIT_PART_OF_ROWS, limit)
    _check_count("nodes", len(cluster.nodes), limit)
    bare_nodes = _node_views(cluster)
    nodes = _with_matrices(bare_nodes, parts.matrices, keep_matrix, limit)
    pods = _lazy_pods(name, parts.pods, cluster, limit)
    knows_pod_rules = cluster.knows_pod_rules or cluster.pods is None
    lacking = () if knows_pod_rules else (f"{name}: {WITHOUT_RULES}",)

    return Snapshot(
        source=name,
        taken_at=cluster.taken_at,
        nodes=tuple(nodes),
        pods=pods,
        topologies=tuple(map(topology_of, cluster.topologies)),
        published=tuple(cluster.published),
        served=cluster.served,
        scheduler_profiles=cluster.scheduler_profiles,
        objects=tuple(cluster.objects),
        unready_agents=cluster.unready_agents,
        knows_pod_rules=knows_pod_rules,
        warnings=(*map(bounded, cluster.warnings), *lacking),
        lacks_pods=cluster.lacks_pods,
        catalogue=cluster.catalogue or BUILT_IN,
    )


def _lazy_pods(name: str, content: bytes, cluster: _Cluster, limit: int) -> "_LazyPods | None":
    count = cluster.pods
    if count is None:
        return None
    _check_count("pods", count, limit)
    requested = {}
    for node in cluster.nodes:
        requested[node.name] = cluster.requested[node.requested]

    return _LazyPods(requested, count, lambda: _pod_views(name, content, count, limit))


def _check_count(what: str, count: int, limit: int) -> None:
    most = limit // BYTES_PER_OBJECT
    if count < 0:
        raise ValueError(f"{count} {what}")
    if count > most:
        raise TooLargeError("the snapshot", most, limit, what)


def _unzipped(content: bytes, kind: type[_T], most: int, limit: int) -> _T:
    """The part of which `_zipped` made this content, which may unpack to `most` bytes.

    Raises TooLargeError and the errors of `_UNREADABLE`.
    """
    most = max(1, most)
    unzip = zlib.decompressobj(_WITH_CRC)
    text = unzip.decompress(content, most)
    if len(text) == most and not unzip.eof:
        raise TooLargeError("a part of the snapshot", most, limit)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("the part does not end where it should")
    return msgspec.msgpack.decode(text, type=kind)


def _node_views(cluster: _Cluster) -> list[NodeView]:
    """The nodes, without matrices. Raises ValueError for what the API server would refuse."""
    strings = cluster.strings
    for value in strings:
        if not is_harmless_value(value):
            raise ValueError("a label value that the API server would refuse")

    positions = [_positions(keys) for keys in cluster.keys]
    views = []
    for row in cluster.nodes:
        name = row.name
        places = positions[row.keys]
        _check_name(name)
        if len(row.values) != len(places):
            raise ValueError("a node needs a value for each of its label keys")

        values = [name if place == _OWN_NAME else strings[place] for place in row.values]
        view = NodeView(
            name=name,
            uid=row.uid,
            places=places,
            values=tuple(values),
            is_ready=row.ready,
            is_schedulable=row.schedulable,
            taints=cluster.taints[row.taints],
            allocatable=cluster.allocatable[row.allocatable],
            conditions=cluster.conditions[row.conditions],
            matrix=None,
            is_of_azure=row.is_of_azure,
        )
        views.append(view)
    return views


def _positions(keys: list[str]) -> dict[str, int]:
    """The position of each label key. Raises ValueError."""
    positions: dict[str, int] = {}
    for key in keys:
        if not key.isprintable() or key in positions:
            raise ValueError("a label key that the API server would refuse")
        positions[key] = len(positions)
    return positions


def _check_name(name: str) -> None:
    if not is_name(name):
        raise ValueError("a name that the API server would refuse")


def _with_matrices(
    nodes: list[NodeView], packed_matrices: bytes, keep_matrix: KeepMatrix, limit: int
) -> list[NodeView]:
    """The nodes; those that `keep_matrix` chooses have their link matrices."""
    wanted = []
    for number, node in enumerate(nodes):
        not_ok = node.label(STATE) not in (None, State.OK)
        if keep_matrix(node.name, not_ok):
            wanted.append(number)
    if not wanted:
        return nodes

    matrices = _unzipped(packed_matrices, _Matrices, limit, limit)
    if len(matrices.places) != len(nodes):
        raise ValueError("a node needs a link matrix, or none")
    for number in wanted:
        place = matrices.places[number]
        matrix = matrices.distinct[place]
        nodes[number] = msgspec.structs.replace(nodes[number], matrix=matrix)
    return nodes


class _LazyPods(SummedPods):
    """Pods that are read when one of them is asked for."""

    def __init__(
        self,
        requested: Mapping[str, Mapping[str, int]],
        count: int,
        read: Callable[[], tuple[PodView, ...]],
    ) -> None:
        """`read` may raise InputError."""
        self.requested = requested
        self._count = count
        self._read = read

    @cached_property
    def _pods(self) -> tuple[PodView, ...]:
        return self._read()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PodView]:
        return iter(self._pods)

    def __getitem__(self, index: Any) -> Any:
        return self._pods[index]


def _pod_views(name: str, content: bytes, count: int, limit: int) -> tuple[PodView, ...]:
    try:
        packed = _unzipped(content, _Pods, limit // _LIMIT_PART_OF_ROWS, limit)
        if len(packed.pods) != count:
            raise ValueError(f"{len(packed.pods)} pods instead of {count}")
        return tuple(_each_pod(packed))
    except TooLargeError as error:
        raise _input_error(name, str(error)) from error
    except _UNREADABLE as error:
        raise _damaged(name) from error


def _each_pod(packed: _Pods) -> Iterator[PodView]:
    """The pods. Raises ValueError for what the API server would refuse."""
    strings = packed.strings
    namespaces = {row.namespace for row in packed.pods}
    nodes = {row.node for row in packed.pods}
    for place in namespaces | nodes:
        name = strings[place]
        if name:
            _check_name(name)

    for row in packed.pods:
        _check_name(row.name)
        selectable: tuple[str, ...] = ()
        if row.selectable != _NONE:
            selectable = packed.selectable[row.selectable]
            if len(selectable) % 2:
                raise ValueError("a label of a pod needs a value")
        around = _ALONE
        if row.around != _NONE:
            around = packed.around[row.around]
        yield PodView(
            namespace=strings[row.namespace],
            name=row.name,
            node=strings[row.node],
            phase=strings[row.phase],
            requests=packed.requests[row.requests],
            owner=packed.owners[row.owner],
            labels=packed.metadata[row.labels],
            annotations=packed.metadata[row.annotations],
            scheduler=strings[row.scheduler],
            waiting=strings[row.waiting],
            wants=packed.wants[row.wants],
            priority=row.priority,
            selectable=selectable,
            repels=around.repels,
            ports=around.ports,
        )
