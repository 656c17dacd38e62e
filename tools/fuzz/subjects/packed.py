"""Snapshots that `toposcope save` wrote, damaged on their way, or written by somebody else."""

import dataclasses
import io
import tempfile
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tools.fuzz.material import spoiled
from tools.fuzz.subject import Outcome, Subject, held, refusal
from tools.fuzz.subjects.workloads import cluster
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.snapshot.decode import every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, read_packed, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import TopologyNotFoundError, select_scope
from toposcope.snapshot.tree import tree

_HEAD: Final = len(MAGIC) + 2
_NODES: Final = 8


@cache
def _saved() -> Snapshot:
    """The cluster that is saved: something in every field."""
    document = msgspec.json.decode(cluster())
    for number, item in enumerate(document["items"][:_NODES]):
        item["metadata"]["labels"][STATE] = "ok" if number else "degraded"
        item["metadata"]["annotations"] = {MATRIX: f'{{"version":1,"gpus":[],"reasons":["{number}"]}}'}
    document["items"][-1]["spec"] = {
        "nodeName": "n0",
        "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "3"}}}],
    }
    snapshot = load_files(["-"], io.BytesIO(msgspec.json.encode(document)), keep_matrix=every)
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    return dataclasses.replace(snapshot, taken_at=moment, warnings=("pods of other namespaces could not be seen",))


@cache
def _whole() -> bytes:
    out = io.BytesIO()
    write_packed(_saved(), out)
    return out.getvalue()


@cache
def _parts() -> Mapping[str, Any]:
    """What each part of the file holds."""
    parts = msgspec.msgpack.decode(_whole()[_HEAD:])
    names = ("cluster", "matrices", "pods")
    return {name: msgspec.msgpack.decode(zlib.decompress(part)) for name, part in zip(names, parts, strict=True)}


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot says, but for the name of its file. Raises InputError where its pods cannot be read."""
    names = [node.name for node in snapshot.nodes]
    return {
        "nodes": snapshot.nodes,
        "labels": [node.labels for node in snapshot.nodes],
        "pods": None if snapshot.pods is None else tuple(snapshot.pods),
        "requested": [dict(snapshot.requested.get(name, {})) for name in names],
        "topologies": snapshot.topologies,
        "published": snapshot.published,
        "warnings": snapshot.warnings,
        "time": snapshot.taken_at,
        "catalogue": snapshot.catalogue,
    }


def attempt(case: Any) -> Outcome:
    """The whole cluster, or a sentence; never part of one as if it were all."""
    path = Path(tempfile.gettempdir()) / "cluster.snapshot"
    path.write_bytes(_forged(*case) if isinstance(case[0], str) else _damaged(*case))
    try:
        snapshot = read_packed(path, every)
        facts = _facts(snapshot)
    except InputError as error:
        for problem in error.problems:
            refusal(problem)
        return "refused"
    if not isinstance(case[0], str):
        held(len(facts["nodes"]) == _NODES, f"{len(facts['nodes'])} of {_NODES} nodes are read without a word")
        for name, saved in _facts(_saved()).items():
            held(facts[name] == saved, f"{name} were saved as {saved}, and are read as {facts[name]} without a word")
    try:
        tree(snapshot, select_scope(snapshot))
    except TopologyNotFoundError as error:  # a forged file with several
        return refusal(error)
    return "taken"


def _damaged(cut: int, changes: list[tuple[int, int]]) -> bytes:
    whole = _whole()
    damaged = bytearray(whole)
    for at, value in changes:
        damaged[len(MAGIC) + at % (len(whole) - len(MAGIC))] = value
    return bytes(damaged[: len(damaged) - cut % len(whole)])


def _forged(name: str, content: Any) -> bytes:
    """The file with another content in one part, its checksum made to fit."""
    parts = [_zipped(content if part == name else honest) for part, honest in _parts().items()]
    return _whole()[:_HEAD] + msgspec.msgpack.encode(parts)


def _zipped(content: Any) -> bytes:
    try:
        return zlib.compress(msgspec.msgpack.encode(content))
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, a number that no msgpack holds
        return zlib.compress(repr(content).encode("utf-8", "replace"))


@st.composite
def _forgeries(draw: DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(_parts())))
    return name, draw(spoiled([_parts()[name]], "n0", "nvidia.com/gpu", "rack"))


PACKED: Final = Subject(
    "packed",
    "a damaged snapshot is reported and never read by halves",
    st.one_of(
        st.tuples(
            st.one_of(st.just(0), st.just(0), st.integers(0, 5000)),
            st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
        ),
        _forgeries(),
    ),
    attempt,
)
