"""Files without end, and files that unpack to gigabytes: each ends in an error that names the limit and its flag."""

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import write_cluster
from tests.support.saved import Object, demo_nodes, saved
from toposcope.snapshot.decode import keep_degraded
from toposcope.snapshot.documents import documents
from toposcope.snapshot.files import load_files
from toposcope.snapshot.packed import read_packed, write_packed
from toposcope.snapshot.problems import InputError, Problem

LIMIT = 1 << 20


class Endless(io.RawIOBase):
    """Begins with `head`, then `unit` for ever; counts what was read."""

    def __init__(self, unit: bytes, head: bytes = b"") -> None:
        self._head = head
        self._unit = unit
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        self.count += size
        head = self._head[:size]
        self._head = self._head[size:]
        units = self._unit * (size // len(self._unit) + 1)
        return head + units[: size - len(head)]


@pytest.mark.regression
@pytest.mark.parametrize("take_list", [None, lambda _place, _text: 0], ids=["one-by-one", "lists"])
@pytest.mark.parametrize(
    ("unit", "head"),
    [
        pytest.param(b"\0", b"", id="zeros"),
        pytest.param(b" ", b"", id="spaces"),
        pytest.param(b"\n", b"", id="empty-lines"),
        pytest.param(b"# x\n", b"", id="comments"),
        pytest.param(b"[", b"", id="brackets"),
        pytest.param(b"x\n", b'{\n    "apiVersion": "v1",\n    "items": [\n        {\n', id="json-list"),
        pytest.param(b"  a\n", b"apiVersion: v1\nitems:\n- x: |\n", id="yaml-list"),
        pytest.param(b'"', b"", id="quotes"),
    ],
)
def test_document_without_end_is_refused_at_the_limit(unit: bytes, head: bytes, take_list: object) -> None:
    problems: list[Problem] = []
    stream = Endless(unit, head)
    tracemalloc.start()
    try:
        found = documents(["-"], problems.append, stream, take_list=take_list, limit=LIMIT)  # type: ignore[arg-type]
        read = list(found)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == []
    message = "one document has more than 1 MiB; if it is really that large, raise --from-limit (now 1)"
    assert message in str(problems[-1])
    assert stream.count < 5 * LIMIT
    assert peak < 40 << 20  # a pattern keeps a state for each of a chunk's line ends


@pytest.mark.regression
def test_file_of_many_documents_without_end_is_refused() -> None:
    problems: list[Problem] = []
    document = b"---\n" + b"#" * 99_000 + b"\n"
    stream = Endless(document)
    found = documents(["-"], problems.append, stream, limit=LIMIT)  # type: ignore[arg-type]
    assert list(found) == []
    assert "the unpacked file has more than 32 MiB" in str(problems[-1])


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.parametrize(
    "layout",
    ['{"apiVersion":"v1","kind":"List","items":[%s]}', '{"items":[%s]}'],
    ids=["list", "no-kind"],
)
@pytest.mark.parametrize(
    "item",
    ["{}", "0", '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}'],
    ids=["empty", "number", "node"],
)
def test_few_bytes_each_are_too_many_objects(layout: str, item: str, tmp_path: Path) -> None:
    size = len(item) + 2
    count = LIMIT // size - 20
    items = ",\n".join([item] * count)
    file = tmp_path / "list.json"
    file.write_text(layout % items)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"(?s)file has more than 4,096 objects; .*raise --from-limit \(now 1\)"):
            load_files([str(file)], limit=LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * LIMIT


@pytest.mark.regression
def test_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    blanks = b" " * (4 * LIMIT)
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(blanks))
    with pytest.raises(InputError, match=r"bomb\.json\.gz: one document has more than 1 MiB"):
        load_files([str(file)], limit=LIMIT)


@pytest.mark.regression
@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
def test_object_has_a_part_of_the_limit(written: Callable[[Object], str], tmp_path: Path) -> None:
    (node,) = demo_nodes(most=1)
    annotation = "y" * (LIMIT // 3)
    node["metadata"]["annotations"] = {"x": annotation}
    file = tmp_path / "node.yaml"
    file.write_text(written(node))
    with pytest.raises(InputError, match=r"has more than 0\.\d+ MiB; .*--from-limit \(now 1\)"):
        load_files([str(file)], limit=LIMIT)


@pytest.mark.regression
def test_cluster_of_any_size_passes_through(tmp_path: Path) -> None:
    nodes = []
    for copy in range(4):
        for number, node in enumerate(demo_nodes()):
            node["metadata"]["name"] = f"n{number}-{copy}"
            nodes.append(node)
    file = tmp_path / "cluster.json"
    file.write_text(saved(nodes))
    assert file.stat().st_size > 2 * LIMIT
    snapshot = load_files([str(file)], limit=LIMIT)
    assert len(snapshot.nodes) == len(nodes)


@pytest.mark.regression
def test_packed_snapshot_has_limits_too(tmp_path: Path) -> None:
    cluster = write_cluster(tmp_path / "cluster.json", *demo_nodes())
    snapshot = load_files([cluster])
    file = tmp_path / "demo.toposcope"
    with file.open("wb") as out:
        write_packed(snapshot, out)
    with pytest.raises(InputError, match=r"a part of the snapshot has more than .* MiB; .*raise --from-limit"):
        read_packed(file, keep_degraded, 100)
