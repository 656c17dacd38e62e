"""Inputs that are bad by being large.

Each runs in a child process that measures its time and peak memory. A row says what it may cost. A
higher cost or a traceback is a finding.
"""

import gzip
import http.client
import io
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Final, cast

import msgspec

from tools.bench.report import number
from tools.bench.usage import peak_memory
from tools.fuzz.run import python
from tools.fuzz.subject import held, refusal
from toposcope.agent import baseline
from toposcope.api.cluster_topology import read
from toposcope.api.label_keys import MATRIX, REFERENCE
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.memory import Memory
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.status import conditions_of
from toposcope.hardware.matrix_annotation import MatrixError, parse
from toposcope.hierarchy.controller_config import UnreadableError, read_config
from toposcope.kube.client import _MOST_LINE_BYTES, _lines
from toposcope.kube.errors import UnreachableError
from toposcope.placement.check import Checker
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.documents import documents
from toposcope.snapshot.files import load_files
from toposcope.snapshot.problems import InputError

_MIB: Final = 1 << 20
_NODE: Final = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}'
"""The beginning of a Node."""
_BUSY_SECONDS: Final = 300
"""Seconds of processor time, after which a row counts as hung; a busy machine is no finding."""
_ASLEEP_SECONDS: Final = 1_800.0
"""Seconds by the clock, for one that waits for what never comes."""


@dataclass(frozen=True, slots=True)
class Size:
    """One large input."""

    name: str
    attempt: Callable[[], str]
    """What came of it, in words."""
    peak: int
    """MiB that the whole process may have at its peak, imports (some 60) included."""


@dataclass(frozen=True)
class SizeRun:
    """The result of one large input, in a process of its own."""

    result: str = ""
    seconds: float = 0.0
    peak_mib: float = 0.0
    broken: str = ""
    """Why it failed, in words; empty when it did not."""


def _annotation() -> str:
    gpu = '{"index":0,"pci":"x"}'
    gpus = ",".join([gpu] * 48_000)
    text = '{"version":1,"gpus":[' + gpus + "]}"
    held(len(text) >= _MIB - 50_000, "not large enough")

    annotations = {MATRIX: text, REFERENCE: text}
    node = {"metadata": {"name": "n", "annotations": annotations}}
    raw = msgspec.json.encode(node)
    NodeDecoder(())(raw)
    Decoder().node(lambda kind: msgspec.json.decode(raw, type=kind))

    held(baseline.decode(text) is None, "a reference of a megabyte is believed")
    try:
        parse(text)
    except MatrixError as error:
        refusal(error)
    return (
        "skipped by the controller; refused as a reference by the agent; read by `toposcope matrix`"
    )


def _labels() -> str:
    labels = {f"example.com/l{i}": "x" * 63 for i in range(10_000)}
    decode = NodeDecoder(["example.com/l1"])
    for index in range(200):
        metadata = {"name": f"n{index}", "labels": labels}
        node = {"metadata": metadata}
        raw = msgspec.json.encode(node)
        _, _, facts = decode(raw)
        are_dropped = facts.keys == ("example.com/l1",)
        held(are_dropped, "other labels are kept")
    return "200 such nodes read, one label of each kept"


def _manifests() -> str:
    cluster = io.BytesIO(_NODE + b"}")
    checker = Checker(load_files(["-"], cluster))
    job = b"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: w\nspec:\n  parallelism: 1\n---\n"
    count = 100_000
    manifests = cast("IO[bytes]", _Repeated(job, count))
    problems: list[Any] = []
    read = 0
    for document in documents(["-"], problems.append, manifests):
        checker.check(document.read(dict))
        read += 1

    is_whole = read == count and not problems
    held(is_whole, f"{read} documents, {len(problems)} problems")
    return f"{read:,} checked, one at a time"


class _Repeated(io.RawIOBase):
    """The same bytes over and over, without holding them all."""

    def __init__(self, once: bytes, times: int) -> None:
        super().__init__()
        self._once, self._left, self._rest = once, times, b""

    def read(self, size: int = -1) -> bytes:
        while self._left and len(self._rest) < size:
            block = min(self._left, 1000)
            self._rest += self._once * block
            self._left -= block

        piece = self._rest[:size]
        self._rest = self._rest[size:]
        return piece


def _refused_from_file(content: bytes) -> str:
    try:
        load_files(["-"], io.BytesIO(content))
    except InputError as error:
        held(error.problems, "no problem is named")
        for problem in error.problems[:3]:
            refusal(problem)
        return f"refused: {str(error.problems[0])[:60]}"
    return "read"


def _laughs() -> str:
    """Ten aliases of ten aliases, and so on.

    A kilobyte of it is a billion values once somebody walks through them.
    """
    lines = [
        b"kind: Job",
        b"apiVersion: batch/v1",
        b"metadata: {name: w}",
        b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
    ]
    lines += [
        b"a%d: &a%d [%b]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)
    ]
    bomb = b"\n".join([*lines, b"spec: {template: {spec: {containers: *a9}}}"])
    problems: list[Any] = []
    checker = Checker(load_files(["-"], io.BytesIO(_NODE + b"}")))
    for document in documents(["-"], problems.append, io.BytesIO(bomb)):
        for checked in checker.check(document.read(dict)):
            for finding in checked.reading.findings[:3]:
                refusal(f"{finding.field}: {finding.message}")
    try:
        read_config(
            b"apiVersion: config.gpu.topology/v1alpha1\nkind: ControllerConfig\n" + bomb,
            "config.yaml",
        )
    except UnreadableError as error:
        refusal(error)
    return "checked; refused as a configuration"


def _spec() -> str:
    levels = []
    for index in range(20_000):
        level = {
            "domain": f"d{index}",
            "key": f"example.com/l{index}",
        }
        levels.append(level)
    document = {
        "metadata": {"name": "t", "uid": "u"},
        "spec": {"levels": levels, "required": ["x"] * 20_000},
    }

    topology = read(document)
    assessment = assess(topology, Evidence(()), Memory())
    conditions = conditions_of(topology, assessment, (), is_any_served=True)
    for condition in conditions:
        refusal(condition.message)
    return f"{len(topology.problems):,} problems, the first ones reported"


def _line() -> str:
    class Endless:
        def read1(self, size: int) -> bytes:
            return b"x" * size

    answer: http.client.HTTPResponse = Endless()  # type: ignore[assignment]  # the one method that is used
    try:
        for _ in _lines(answer, _MOST_LINE_BYTES):
            pass
    except UnreachableError as error:
        refusal(error)
        return f"refused: {error}"[:60]
    raise AssertionError("unreachable")


_DEEP_JSON: Final = (
    b'{"kind":"Node","metadata":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}"
)
_LONG_NUMBER: Final = _NODE + b',"status":{"allocatable":{"nvidia.com/gpu":"%b"}}}' % (
    b"9" * 1_000_000
)
SIZES: Final = (
    Size("an annotation of 1 MiB", _annotation, 120),
    Size("200 nodes with 10,000 labels each", _labels, 120),
    Size("100,000 documents in one stream", _manifests, 150),
    Size("JSON nested 200,000 times", partial(_refused_from_file, _DEEP_JSON), 120),
    Size(
        "YAML nested 100,000 times",
        partial(_refused_from_file, b"kind: Node\nmetadata: " + b"[" * 100_000),
        150,
    ),
    Size("YAML aliases worth a billion values", _laughs, 150),
    Size(
        "200 MB of comments in a gzip file of 1 MB",
        lambda: _refused_from_file(gzip.compress(b"# nothing\n" * 20_000_000, 1)),
        700,
    ),
    Size("a ClusterTopology of 20,000 levels", _spec, 150),
    Size("a watch line without end", _line, 200),
    Size("a count of a million digits", partial(_refused_from_file, _LONG_NUMBER), 120),
)


def size_rows(sizes: tuple[Size, ...] = SIZES) -> tuple[list[tuple[str, ...]], list[str]]:
    """A table, its head first, and the findings if there are any."""
    findings: list[str] = []
    rows: list[tuple[str, ...]] = [("large input", "seconds", "peak", "may have", "result")]
    for index, size in enumerate(sizes):
        attempt = _in_child(index)
        broken = attempt.broken
        if not broken and attempt.peak_mib > size.peak:
            broken = f"{attempt.peak_mib:.0f} MiB"
        result = attempt.result
        if broken:
            result = f"BROKEN: {broken}"
            findings.append(f"{size.name}: {result}")

        row = (
            size.name,
            number(attempt.seconds),
            f"{number(attempt.peak_mib)} MiB",
            f"{size.peak} MiB",
            result,
        )
        rows.append(tuple(_first_line(cell) for cell in row))
    return rows, findings


def _first_line(text: str) -> str:
    return text.splitlines()[0]


def _in_child(index: int) -> SizeRun:
    """The result of one row."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        done = python(folder, _ASLEEP_SECONDS, "tools.fuzz.sizes", str(index))

    if done.returncode == -signal.SIGXCPU:
        return SizeRun(broken=f"still at it after {_BUSY_SECONDS} s")
    if done.returncode:
        return SizeRun(broken=done.stderr[-2000:])

    result, seconds, peak_mib = json.loads(done.stdout)
    return SizeRun(
        result=str(result),
        seconds=float(seconds),
        peak_mib=float(peak_mib),
    )


def main() -> int:
    """One row, in the child."""
    resource.setrlimit(resource.RLIMIT_CPU, (_BUSY_SECONDS, 2 * _BUSY_SECONDS))
    index = int(sys.argv[1])
    size = SIZES[index]
    outcome = size.attempt()

    used = resource.getrusage(resource.RUSAGE_SELF)  # its memory would count the parent's
    seconds = used.ru_utime + used.ru_stime
    peak_mib = peak_memory(os.getpid()) / _MIB
    json.dump((outcome, seconds, peak_mib), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
