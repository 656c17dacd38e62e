r"""A snapshot as one small file that is read in an instant: `toposcope save` writes it, `--from` takes it.

    TOPOSCOPE-SNAPSHOT 2\n | length of the index (8 bytes, big endian) | index | sections, one after the other

The index has each section's compressed length. Index and sections are msgpack under zlib, whose checksum tells a file
that is damaged (in version 1 the index had none: the time and the warnings in it could change unseen). What repeats
from node to node is said once, so 100,000 nodes are some megabytes; pods are not read before somebody asks for one of
them, because what they take of each node stands beside the nodes.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Any, Final, TypeVar

import msgspec

from toposcope.api.cluster_topology import KIND, MANAGED_BY, TOPOSCOPE, Topology
from toposcope.api.label_keys import STATE
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.snapshot.decode import KeepMatrix, topology_of
from toposcope.snapshot.model import NOTHING, NodeView, PodView, Published, Snapshot
from toposcope.snapshot.packed_pods import PodColumns, SavedPods, pack_pods, pod_views
from toposcope.snapshot.problems import InputError, Place, Problem
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.hardware import State
from toposcope.topology.levels import Level

MAGIC: Final = b"TOPOSCOPE-SNAPSHOT "
_VERSION: Final = b"2\n"
_LENGTH: Final = 8
_LARGEST_INDEX: Final = 1 << 20
_LARGEST_SECTION: Final = 1 << 31
_FAST: Final = 1
"""zlib's level; the next ones take three times as long for a tenth of the size."""
_OWN: Final = -1
"""Among a node's label values: its own name."""

_T = TypeVar("_T")


class _Index(msgspec.Struct, frozen=True):
    sections: dict[str, Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_SECTION)]]
    """Name to length in the file, in the file's order."""
    taken_at: datetime | None
    warnings: list[str]


class _Alike(msgspec.Struct, frozen=True, array_like=True):
    """Nodes that carry the same label keys, by name. Numbers are places in the lists of `_Nodes`."""

    keys: list[int]
    columns: list[list[int]]
    """By key: each node's value; a single number where all have the same, `_OWN` for the node's name."""
    names: list[str]
    uids: list[str]
    state: list[int]
    taken: list[int]
    """What its pods ask for: a place in `resources`."""


class _State(msgspec.Struct, frozen=True, array_like=True):
    ready: bool
    schedulable: bool
    taints: int
    allocatable: int
    conditions: int


class _Nodes(msgspec.Struct, frozen=True, array_like=True):
    strings: list[str]
    taints: list[list[tuple[str, str, str]]]
    resources: list[dict[str, int]]
    conditions: list[dict[str, str]]
    states: list[_State]
    alike: list[_Alike]
    pods_known: bool


class _Matrices(msgspec.Struct, frozen=True, array_like=True):
    texts: list[str]
    of: dict[str, int]
    """By the node's name."""


class _Topologies(msgspec.Struct, frozen=True, array_like=True):
    topologies: list[dict[str, Any]]
    published: list[tuple[str, str, str, list[tuple[str, str]], dict[str, Any]]]
    catalogue: Catalogue | None
    """None: the built-in one of whoever reads."""


class _Interned:
    """Values numbered in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def is_packed(name: str) -> bool:
    """Whether the file is a packed snapshot, of whatever version; what cannot be read is somebody else's to tell."""
    try:
        with Path(name).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_packed(snapshot: Snapshot, out: IO[bytes]) -> int:
    """Write the snapshot; how many bytes that are. Raises OSError."""
    sections = {
        "nodes": _zipped(_nodes(snapshot)),
        "topologies": _zipped(_topologies(snapshot)),
        "matrices": _zipped(_matrices(snapshot)),
    }
    if snapshot.pods is not None:
        sections["pods"] = _zipped(pack_pods(snapshot.pods))
    lengths = {name: len(text) for name, text in sections.items()}
    index = _zipped(_Index(lengths, snapshot.taken_at, list(snapshot.warnings)))
    parts = [MAGIC, _VERSION, len(index).to_bytes(_LENGTH), index, *sections.values()]
    for part in parts:
        out.write(part)
    return sum(map(len, parts))


def _zipped(content: msgspec.Struct) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(content), _FAST)


def _unzipped(path: Path, content: bytes, kind: type[_T], what: str, most: int) -> _T:
    """The reverse of `_zipped`, of `most` bytes. Raises BadInput."""
    unzip = zlib.decompressobj()
    try:
        text = unzip.decompress(content, most)
        if not unzip.eof:
            raise _bad(path, f"{what} does not end; is the file complete?")
        if unzip.unused_data:
            raise _bad(path, f"{what} ends early")
        return msgspec.msgpack.decode(text, type=kind)
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:  # the last: texts that are no UTF-8
        raise _bad(path, f"{what} cannot be read") from error


def _nodes(snapshot: Snapshot) -> _Nodes:
    string, taints, resources, conditions, states = (_Interned() for _ in range(5))
    # Looked up by identity first: the snapshot shares these, and hashing them again for each node takes longest.
    known: dict[int, int] = {}

    def shared(thing: Any, intern: _Interned, frozen: Callable[[Any], Any]) -> int:
        found = known.get(id(thing))
        if found is None:
            found = known[id(thing)] = intern(frozen(thing))
        return found

    def state(node: NodeView) -> int:
        return states(
            (
                node.ready,
                node.schedulable,
                shared(node.taints, taints, lambda found: tuple((t.key, t.value, t.effect) for t in found)),
                shared(node.allocatable, resources, _pairs),
                shared(node.conditions, conditions, _pairs),
            )
        )

    groups: dict[tuple[str, ...], list[NodeView]] = {}
    keys_of: dict[int, tuple[str, ...]] = {}
    for node in snapshot.nodes:
        keys = keys_of.get(id(node.places)) or keys_of.setdefault(id(node.places), tuple(node.places))
        groups.setdefault(keys, []).append(node)
    alike = []
    for keys, nodes in groups.items():
        rows = [[_OWN if value == node.name else string(value) for value in node.values] for node in nodes]
        columns = [list(column) for column in zip(*rows, strict=True)]
        alike.append(
            _Alike(
                [string(key) for key in keys],
                [column[:1] if column.count(column[0]) == len(column) else column for column in columns],
                [node.name for node in nodes],
                [node.uid for node in nodes],
                [state(node) for node in nodes],
                [resources(_pairs(snapshot.requested.get(node.name, NOTHING))) for node in nodes],
            )
        )
    return _Nodes(
        list(string.numbers),
        [list(number) for number in taints.numbers],
        [dict(number) for number in resources.numbers],
        [dict(number) for number in conditions.numbers],
        [_State(*number) for number in states.numbers],
        alike,
        snapshot.pods is not None,
    )


def _pairs(mapping: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(mapping.items())


def _matrices(snapshot: Snapshot) -> _Matrices:
    text = _Interned()
    of = {node.name: text(node.matrix) for node in snapshot.nodes if node.matrix is not None}
    return _Matrices(list(text.numbers), of)


def _topologies(snapshot: Snapshot) -> _Topologies:
    return _Topologies(
        [_document(topology) for topology in snapshot.topologies],
        [
            (each.api_version, each.kind, each.name, [(v.domain, v.key) for v in each.levels], dict(each.document))
            for each in snapshot.published
        ],
        None if snapshot.catalogue == BUILT_IN else snapshot.catalogue,
    )


def _document(topology: Topology) -> dict[str, Any]:
    """As much of the object as `toposcope.api.cluster_topology.read` takes."""
    metadata: dict[str, Any] = {"name": topology.name, "uid": topology.uid, "generation": topology.generation}
    if topology.owner:
        metadata["labels"] = {MANAGED_BY: TOPOSCOPE}
        metadata["ownerReferences"] = [{"controller": True, "kind": KIND, "uid": topology.owner}]
    return {"metadata": metadata, "spec": dict(topology.spec), "status": dict(topology.status)}


@dataclass(frozen=True, slots=True)
class _File:
    """A packed snapshot that lies open."""

    path: Path
    index: _Index
    begin: Mapping[str, int]

    def section(self, name: str, kind: type[_T]) -> _T:
        """One section, read from the file. Raises BadInput."""
        length = self.index.sections.get(name)
        if length is None:
            raise _bad(self.path, f"it has no section {name!r}")
        try:
            with self.path.open("rb") as file:
                file.seek(self.begin[name])
                content = file.read(length)
        except OSError as error:
            raise InputError(Problem(Place(str(self.path)), "", error.strerror or str(error))) from error
        return _unzipped(self.path, content, kind, f"section {name!r}", _LARGEST_SECTION)

    def pods(self) -> Iterator[PodView]:
        """Its pods. Raises BadInput."""
        try:
            yield from pod_views(self.section("pods", PodColumns))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise _bad(self.path, "its pods do not fit together") from error


def _bad(path: Path, why: str) -> InputError:
    return InputError(Problem(Place(str(path)), "", f"a damaged snapshot ({why}); save it again: toposcope save FILE"))


def _open(path: Path) -> _File:
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC) + len(_VERSION))
            if head != MAGIC + _VERSION:
                text = "a snapshot of another version of Toposcope; save it again with this one: toposcope save FILE"
                raise InputError(Problem(Place(str(path)), "", text))
            length = int.from_bytes(file.read(_LENGTH), "big")
            content = file.read(min(length, _LARGEST_INDEX))
    except OSError as error:
        raise InputError(Problem(Place(str(path)), "", error.strerror or str(error))) from error
    index = _unzipped(path, content, _Index, "its index", _LARGEST_INDEX)
    at = len(head) + _LENGTH + length
    begin = {}
    for section, size in index.sections.items():
        begin[section] = at
        at += size
    return _File(path, index, begin)


def read_packed(path: Path, keep_matrix: KeepMatrix) -> Snapshot:
    """The snapshot in a file that `write_packed` wrote. Raises BadInput."""
    return _read(_open(path), keep_matrix)


def _read(file: _File, keep_matrix: KeepMatrix) -> Snapshot:
    try:
        return _snapshot(file, keep_matrix)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise _bad(file.path, "its columns do not fit together") from error


def _snapshot(file: _File, keep_matrix: KeepMatrix) -> Snapshot:
    packed = file.section("nodes", _Nodes)
    nodes = sorted(_views(packed), key=attrgetter("name"))
    others = file.section("topologies", _Topologies)
    pods = None
    if packed.pods_known:
        requested: dict[str, Mapping[str, int]] = {}
        for alike in packed.alike:
            requested.update(zip(alike.names, map(packed.resources.__getitem__, alike.taken), strict=True))
        pods = SavedPods(requested, file.pods)
    return Snapshot(
        source=str(file.path),
        taken_at=file.index.taken_at,
        nodes=tuple(_with_matrices(file, nodes, keep_matrix)),
        pods=pods,
        topologies=tuple(map(topology_of, others.topologies)),
        published=tuple(
            Published(version, kind, name, tuple(Level(*level) for level in levels), document)
            for version, kind, name, levels, document in others.published
        ),
        warnings=tuple(file.index.warnings),
        catalogue=others.catalogue or BUILT_IN,
    )


def _views(packed: _Nodes) -> Iterator[NodeView]:
    strings = packed.strings
    taints = [tuple(Taint(*each) for each in found) for found in packed.taints]
    states = packed.states
    columns = (
        [state.ready for state in states],
        [state.schedulable for state in states],
        [taints[state.taints] for state in states],
        [packed.resources[state.allocatable] for state in states],
        [packed.conditions[state.conditions] for state in states],
    )
    for alike in packed.alike:
        count = len(alike.names)
        places = {strings[key]: i for i, key in enumerate(alike.keys)}
        if not count or not len(places) == len(alike.keys) == len(alike.columns):
            raise ValueError("as many label values as keys are needed")
        values = [_values(strings, column, alike.names) for column in alike.columns]
        yield from map(
            NodeView,
            alike.names,
            alike.uids,
            repeat(places),
            zip(*values, strict=False) if values else repeat(()),
            *(map(column.__getitem__, alike.state) for column in columns),
            repeat(None),
        )


def _values(strings: Sequence[str], column: Sequence[int], names: Sequence[str]) -> Iterable[str]:
    """A label's value on each node. Raises IndexError or ValueError where the column is damaged."""
    if len(column) == 1:
        return names if column[0] == _OWN else repeat(strings[column[0]], len(names))
    if len(column) != len(names):
        raise ValueError("a column has as many values as there are nodes")
    if _OWN in column:
        pairs = zip(column, names, strict=True)
        return [name if value == _OWN else strings[value] for value, name in pairs]
    return map(strings.__getitem__, column)


def _with_matrices(file: _File, nodes: list[NodeView], keep_matrix: KeepMatrix) -> Iterator[NodeView]:
    wanted = {node.name for node in nodes if keep_matrix(node.name, node.label(STATE) not in (None, State.OK))}
    if not wanted:
        yield from nodes
        return
    matrices = file.section("matrices", _Matrices)
    for node in nodes:
        number = matrices.of.get(node.name) if node.name in wanted else None
        yield node if number is None else msgspec.structs.replace(node, matrix=matrices.texts[number])
