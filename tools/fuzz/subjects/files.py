"""Files that users write or send: captures, configurations, profiles, saved clusters, snapshots."""

import dataclasses
import io
import json
import re
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tools.fuzz.subject import (
    Outcome,
    documents,
    encoded,
    held,
    refusal,
    sample,
    spoiled,
    subject,
    text_of,
    words,
)
from tools.fuzz.subjects.workloads import cluster
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.controller_config import API_VERSION, KIND, UnreadableError, read_config
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.capture_text import CaptureError
from toposcope.simulator.document import DocumentError
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.recording import RecordingError, decode
from toposcope.snapshot.decode import keep_every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import MAGIC, read_packed, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import TopologyNotFoundError, select_scope
from toposcope.snapshot.tree import tree

# Pasted link matrices.
_TABS: Final = sample("matrix-tabs.txt")
_COLUMNS: Final = sample("matrix-columns.txt")
_LINKS: Final = sample("nvlinks.txt")
_SAMPLES: Final = (_TABS, _COLUMNS, _TABS + _LINKS)
_GPU: Final = re.compile("GPU[0-9]+")
_CELL: Final = re.compile("X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS")


@subject(
    "a pasted matrix yields a machine or a clear error",
    text_of(_SAMPLES, words("captures")),
    is_guided=True,
)
def captures(case: Any) -> Outcome:
    """A machine, or a sentence about the cell that is wrong."""
    try:
        machine = machine_from_capture(case)
    except CaptureError as error:
        return refusal(error)
    named = set(_GPU.findall(case))
    held(machine.gpus, "a machine without a GPU")
    held(
        {f"GPU{i}" for i in range(len(machine.gpus))} <= named,
        f"{len(machine.gpus)} GPUs of {sorted(named)}",
    )
    held(
        not (pair := _disagreeing(case)), f"a machine of a matrix whose rows disagree about {pair}"
    )
    return "taken"


def _disagreeing(text: str) -> str:
    """Two devices whose rows differ in the cell that they share, in a well laid out matrix."""
    rows = _rows(text)
    for a, b in product(rows, repeat=2):
        if rows[a].get(b) != rows[b].get(a):
            return f"{a} and {b}"
    return ""


def _rows(text: str) -> dict[str, dict[str, str]]:
    """Device to its cells by column, of the first matrix."""
    lines = iter(text.splitlines())
    devices: list[str] = []
    for line in lines:
        if line.split()[:2] == ["GPU0", "GPU1"]:
            header, _, _ = line.partition("CPU Affinity")
            devices = header.split()
            break

    rows = {}
    for line in lines:
        if not line.split():
            break
        name, *cells = line.split()
        shown = cells[: len(devices)]
        if name in devices and _are_cells(shown):
            rows[name] = dict(zip(devices, cells, strict=False))
    return rows


def _are_cells(texts: Sequence[str]) -> bool:
    return all(_CELL.fullmatch(text) for text in texts)


# The controller's configuration file.
_ENTRIES, _UNTOUCHED = documents("config-entries.yaml")
"""Entries to be spoiled, and good ones beside them, of names that no bad one has."""


_SPOILED: Final = {
    part: st.lists(spoiled(entries), max_size=2) for part, entries in _ENTRIES.items()
}


@subject(
    "a bad entry is named with file and line, and the rest stays in force",
    st.one_of(
        encoded(text_of([sample("config.yaml")], words("configs"))), st.fixed_dictionaries(_SPOILED)
    ),
    is_guided=True,
)
def configs(case: Any) -> Outcome:
    """The catalogue always holds what is built in and what is well; each problem names the file."""
    has_untouched = not isinstance(case, bytes)
    content = case
    if has_untouched:
        content = _with_untouched(case)

    try:
        config = read_config(content, "config.yaml")
    except UnreadableError as error:
        is_named = str(error).startswith("config.yaml")
        held(is_named, f"the file is not named: {error}")
        return refusal(error)
    for problem in config.problems:
        is_placed = problem.startswith("config.yaml:")
        held(is_placed, f"no file and line: {problem}")
        refusal(problem)

    # a domain may have lost one to another
    kept = set[str]()
    for keys in config.catalogue.keys.values():
        kept.update(keys)
    for domain, keys in BUILT_IN.keys.items():
        held(kept.issuperset(keys), f"the keys of {domain} are lost")
    if has_untouched:
        _in_force(config.catalogue)
    return "refused" if config.problems else "taken"


def _with_untouched(entries: dict[str, list[Any]]) -> bytes:
    """A file of the bad entries, each followed by a good one, as the JSON that is YAML too."""
    catalogue = {}
    for part, good in _UNTOUCHED.items():
        catalogue[part] = [*entries[part], good]
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "catalogue": catalogue,
    }
    text = json.dumps(document, ensure_ascii=True)
    return text.encode()


def _in_force(catalogue: Catalogue) -> None:
    held(
        "example.org/aisle" in catalogue.keys.get("aisle", ()),
        "a good domain is lost beside a bad one",
    )
    held("example.org/cabinet" in catalogue.keys["rack"], "a good key is lost beside a bad one")
    held("nowhere" in catalogue.placeholders, "a good placeholder is lost beside a bad one")
    held("example.org/cabinett" in catalogue.advice, "a good near miss is lost beside a bad one")


# Machine profiles and recordings: written by hand, or sent by users.
_FOLDER: Final = Path(load_profile.__code__.co_filename).parent / "profiles"
_TEXTS: Final = tuple(
    (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in profile_names()
)


_GOOD: Final = [yaml.load(text, yaml.CSafeLoader) for text in _TEXTS]


@subject(
    "a profile or recording yields a machine or a clear error",
    st.one_of(encoded(text_of(_TEXTS, words("profiles"))), spoiled(_GOOD, *words("profiles"))),
)
def profiles(case: Any) -> Outcome:
    """A machine, or a sentence; a recording as well."""
    content = (
        case
        if isinstance(case, bytes)
        else yaml.safe_dump(case, allow_unicode=True).encode("utf-8", "replace")
    )
    try:
        decode(content, "sent.json")
    except RecordingError as error:
        refusal(error)
    path = Path(tempfile.gettempdir()) / "profile.yaml"
    path.write_bytes(content)
    try:
        machine = load_profile(path)
    except DocumentError as error:
        return refusal(error)
    held(machine.numa_nodes, "a machine without memory")
    nvml = SimulatedNvml(machine)
    nvml.nvmlInit()
    count = nvml.nvmlDeviceGetCount()
    held(count == len(machine.gpus), f"a machine of {len(machine.gpus)} GPUs shows {count}")
    return "taken"


# Saved clusters: files of any bytes in place of what kubectl printed.
_CLUSTERS: Final = (sample("cluster.json"), sample("cluster.yaml"))


@subject(
    "a file yields a cluster, or every problem in it with file, document and line",
    st.one_of(encoded(text_of(_CLUSTERS, (*words("saved"), "9" * 5000))), st.binary(max_size=200)),
    is_guided=True,
)
def saved(case: Any) -> Outcome:
    """A snapshot with a tree that can be drawn, or every problem with its place."""
    try:
        snapshot = load_files(["-"], io.BytesIO(case))
    except InputError as error:
        held(error.problems, "bad input without a problem")
        for problem in error.problems:
            held(problem.place.file == "standard input", f"the file is not named: {problem}")
            refusal(problem)
        return "refused"
    tree(snapshot, select_scope(snapshot))
    return "taken"


# Snapshots that `toposcope save` wrote, damaged on their way, or written by somebody else.
_HEAD_BYTES: Final = len(MAGIC) + 2
_GZIP_WINDOW_BITS: Final = 31
"""zlib's word for gzip's form."""
_GZIP_TRAILER_BYTES: Final = 8
"""Bytes: CRC and length of what was compressed."""
_NODE_COUNT: Final = 8


@cache
def _saved_cluster() -> Snapshot:
    """The cluster that is saved: something in every field."""
    document = msgspec.json.decode(cluster())
    items = document["items"]
    for number, node in enumerate(items[:_NODE_COUNT]):
        metadata = node["metadata"]
        metadata["labels"][STATE] = "ok" if number else "degraded"
        matrix = f'{{"version":1,"gpus":[],"reasons":["{number}"]}}'
        metadata["annotations"] = {MATRIX: matrix}

    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "3"}}}
    items[-1]["spec"] = {"nodeName": "n0", "containers": [container]}
    file = io.BytesIO(msgspec.json.encode(document))
    snapshot = load_files(["-"], file, keep_matrix=keep_every)
    return dataclasses.replace(
        snapshot,
        taken_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
        warnings=("pods of other namespaces could not be seen",),
    )


@cache
def _whole_file() -> bytes:
    out = io.BytesIO()
    write_packed(_saved_cluster(), out)
    return out.getvalue()


@cache
def _parts() -> Mapping[str, Any]:
    """What each part of the file holds."""
    parts = msgspec.msgpack.decode(_whole_file()[_HEAD_BYTES:])
    return {
        name: msgspec.msgpack.decode(zlib.decompress(part, _GZIP_WINDOW_BITS))
        for name, part in parts.items()
    }


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a snapshot says, except the name of its file.

    Raises InputError where its pods cannot be read.
    """
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


@dataclasses.dataclass(frozen=True)
class _Damaged:
    """The file with some of its bytes changed, then cut short."""

    cut: int
    """How many bytes are missing at its end."""
    changes: list[tuple[int, int]]
    """Places and the bytes that stand there instead."""

    def content(self) -> bytes:
        original = _whole_file()
        damaged = bytearray(original)
        start = len(MAGIC)
        behind_magic = len(original) - start
        for at, value in self.changes:
            place = start + at % behind_magic
            damaged[place] = value
        end = len(damaged) - self.cut % len(original)
        return bytes(damaged[:end])


@dataclasses.dataclass(frozen=True)
class _Rotten:
    """The file with one byte changed in a part before it was compressed; its CRC is the old one."""

    part: str
    place: int
    mask: int
    """The bits that change, 1 to 255."""

    def content(self) -> bytes:
        document = _parts()[self.part]
        content = bytearray(msgspec.msgpack.encode(document))
        original = zlib.compress(content, wbits=_GZIP_WINDOW_BITS)
        place = self.place % len(content)
        content[place] ^= self.mask
        changed = zlib.compress(content, wbits=_GZIP_WINDOW_BITS)

        good_trailer = original[-_GZIP_TRAILER_BYTES:]
        part = changed[:-_GZIP_TRAILER_BYTES] + good_trailer
        return _with_part(self.part, part)


@dataclasses.dataclass(frozen=True)
class _Forged:
    """The file with another document in one part, its CRC made to fit."""

    part: str
    document: Any

    def content(self) -> bytes:
        return _with_part(self.part, _zipped(self.document))


@st.composite
def _forgeries(draw: DrawFn) -> _Forged:
    parts = _parts()
    name = draw(st.sampled_from(sorted(parts)))
    forged = spoiled([parts[name]], "n0", "nvidia.com/gpu", "rack")
    return _Forged(name, draw(forged))


_CHANGES: Final = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4)
_DAMAGE: Final = st.builds(
    _Damaged,
    st.one_of(st.just(0), st.just(0), st.integers(0, 5000)),
    _CHANGES,
)
_ROT: Final = st.builds(
    _Rotten,
    st.sampled_from(["cluster", "matrices", "pods"]),
    st.integers(0, 5000),
    st.integers(1, 255),
)


@subject(
    "a damaged snapshot is reported and never read in part",
    st.one_of(_DAMAGE, _ROT, _forgeries()),
)
def packed(case: _Damaged | _Rotten | _Forged) -> Outcome:
    """The whole cluster, or a sentence; never part of one as if it were all."""
    path = Path(tempfile.gettempdir()) / "cluster.snapshot"
    path.write_bytes(case.content())
    try:
        snapshot = read_packed(path, keep_every)
        facts = _facts(snapshot)
    except InputError as error:
        for problem in error.problems:
            refusal(problem)
        return "refused"
    if not isinstance(case, _Forged):
        held(
            len(facts["nodes"]) == _NODE_COUNT,
            f"{len(facts['nodes'])} of {_NODE_COUNT} nodes are read without a word",
        )
        for name, fact in _facts(_saved_cluster()).items():
            held(
                facts[name] == fact,
                f"{name} were saved as {fact}, and are read as {facts[name]} without a word",
            )
    try:
        tree(snapshot, select_scope(snapshot))
    except TopologyNotFoundError as error:  # a forged file with several
        return refusal(error)
    return "taken"


def _with_part(name: str, compressed: bytes) -> bytes:
    """The file with one part in the place of its own."""
    parts = {}
    for part, document in _parts().items():
        parts[part] = _zipped(document)
    parts[name] = compressed
    whole = _whole_file()
    head = whole[:_HEAD_BYTES]
    return head + msgspec.msgpack.encode(parts)


def _zipped(content: Any) -> bytes:
    try:
        return zlib.compress(msgspec.msgpack.encode(content), wbits=_GZIP_WINDOW_BITS)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, a number that no msgpack holds
        return zlib.compress(repr(content).encode("utf-8", "replace"), wbits=_GZIP_WINDOW_BITS)
