"""What an agent reads: strings and annotations, NVML, /sys, and its worker's messages."""

import ctypes
import mmap
import os
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pynvml
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, documents, held, refusal, spoiled, strings, subject, words
from toposcope.agent import baseline
from toposcope.agent.annotation import LIMIT_BYTES
from toposcope.agent.describe import Description, describe
from toposcope.agent.nvml.channel import EVENT, REQUEST, RESULT, START, Channel, ChannelError
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode, decode, encode
from toposcope.agent.sysfs import Sysfs
from toposcope.api.label_keys import MATRIX, PREFIX
from toposcope.api.label_values import is_label_value, label_safe, short_name
from toposcope.hardware.matrix_annotation import MatrixError, NodeMatrix, parse, reasons
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs


@cache
def _tree(machine: str) -> tuple[Path, tuple[str, ...]]:
    """A machine's /sys, and the files and links in it."""
    root = Path(tempfile.mkdtemp(prefix="sysfs-"))
    write_sysfs(load_profile(machine), root)
    files = sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() or path.is_symlink()
    )
    return root, tuple(files)


def _probed(nvml: SimulatedNvml, machine: str) -> RawNode:
    gateway = Nvml(nvml)
    return probe(gateway, Sysfs(_tree(machine)[0]), gateway.start())


def _publishable(description: Description) -> None:
    """Every label is legal and ours, and the annotations stay within their size."""
    for key, value in description.labels.by_key.items():
        is_ours = key.startswith(PREFIX)
        held(is_ours, f"a label that is not ours: {key}")
        text = str(value)
        is_legal = is_label_value(text)
        held(is_legal, f"{key}={value!r} is no label value")

    for key, text in description.annotations.items():
        limit = 2 * LIMIT_BYTES
        if key == MATRIX:
            limit = LIMIT_BYTES
        size = len(text)
        fits = text.isascii() and size <= limit
        held(fits, f"the annotation {key} has {size} bytes")


def _json(document: Any) -> bytes:
    try:
        return msgspec.json.encode(document)
    # a lone surrogate, a number that no JSON of ours holds
    except (UnicodeEncodeError, OverflowError):
        return repr(document).encode("utf-8", "replace")


# Any string on its way to a label value: products, node names, chassis serials.
_NODE_NAME: Final = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,4}", fullmatch=True
)
"""What the API server takes for the name of a Node (RFC 1123), but for its length."""

_HEAD: Final = "a" * 50
"""So long that two names which begin so are told apart by what is made of the rest only."""
_NAMES: Final = st.one_of(
    st.tuples(_NODE_NAME, _NODE_NAME),
    st.tuples(_NODE_NAME.map(_HEAD.__add__), _NODE_NAME.map(_HEAD.__add__)),
)


@subject(
    "every written value is legal, and two nodes never share one",
    st.tuples(strings("NVIDIA H200", "rack 7"), _NAMES),
)
def labels(case: Any) -> Outcome:
    """Every value made is one that the API server takes; two node names keep two values."""
    text, (first, second) = case
    first_short = short_name(first)
    second_short = short_name(second)
    for name, short in ((first, first_short), (second, second_short)):
        is_legal = is_label_value(short)
        held(is_legal, f"{short!r} of node {name!r} is no label value")
    if first != second:
        differ = first_short != second_short
        held(differ, f"{first!r} and {second!r} become one value")

    safe = label_safe(text)
    if safe is None:
        return "refused"
    is_legal = bool(safe) and is_label_value(safe)
    held(is_legal, f"{safe!r} of {text!r} is no label value")
    is_stable = label_safe(safe) == safe
    held(is_stable, f"{safe!r} does not stay itself")
    return "taken"


# Annotations that a hostile or broken node writes: read by its agent, by `toposcope` and by those
# who look at it.
_ANNOTATIONS: Final = spoiled(documents("annotations.yaml"), "X", "NV18", "SYS", "mlx5_0")


@subject(
    "a node's annotations are read or refused as a whole, by every reader",
    st.one_of(_ANNOTATIONS, strings("{}", "[]", "{" * 60)),
)
def annotations(case: Any) -> Outcome:
    """Both annotations are read, or refused as a whole."""
    text = case if isinstance(case, str) else _json(case).decode()
    remembered = baseline.decode(text)
    if remembered is not None:
        held(
            baseline.decode(baseline.encode(remembered)) == remembered,
            "a reference does not survive its own writing",
        )
    reasons(text)
    try:
        matrix = parse(text)
    except MatrixError as error:
        return refusal(error)
    if matrix.links is not None:
        held(
            len(matrix.links.cells) == len(matrix.devices),
            "the matrix has other devices than are named",
        )
    if isinstance(case, dict):
        _undamaged(case, matrix)
    return "taken"


def _undamaged(document: dict[str, Any], matrix: NodeMatrix) -> None:
    """What was read is all that was written, in its order."""
    gpus = document.get("gpus", [])
    nics = document.get("nics", [])
    names = []
    for device in (*gpus, *nics):
        uuid = device.get("uuid", "")
        name = device.get("name", uuid)
        names.append(name)
    read_names = [device.name for device in matrix.devices]
    held(read_names == names, f"of the devices {names} were read {matrix.devices}")

    for name in ("reasons", "disputes"):
        written = document.get(name, [])
        was_read = list(getattr(matrix, name))
        held(was_read == written, f"{name} are not those of the annotation")
    _whole_matrix(document, matrix)


def _whole_matrix(document: dict[str, Any], matrix: NodeMatrix) -> None:
    """The cells that were read are those that were written, spaces apart."""
    cells = []
    if matrix.links is not None:
        for index, row in enumerate(matrix.links.cells):
            half = row[: index + 1]
            cells.append(" ".join(half))

    rows = document.get("matrix", [])
    written = []
    for row in rows:
        words = row.split()
        written.append(" ".join(words))
    held(cells == written, f"of the matrix {rows} was read {cells}")


# NVML that answers anything: errors of every code, numbers out of range, bytes that are no text.
_MACHINES: Final = ("dgx-h200", "gb200-nvl72-tray", "power9-v100", "k80-4")
_CALLS: Final = tuple(name for name in dir(SimulatedNvml) if name.startswith("nvml"))
_CODES: Final = (*range(1, 30), 999, -1, 12345)
_ODD: Final[tuple[Any, ...]] = (
    0, 1, -1, 7, 18, 65535, 2**31, 2**32 - 1, 2**63, "", "NVIDIA H200", "\x00", "é" * 100,
    "x" * 5000,
    "GPU-" + "0" * 32, (0, 0), (1, 1), None, True,
)  # fmt: skip
_TALKING: Final = ("nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlSystemGetDriverVersion")
"""What they answer goes into labels and the annotation: every second oddity is one of theirs."""


class _Odd(SimulatedNvml):
    """A machine some of whose calls answer what the case says, from the given call on."""

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if not name.startswith("nvml") or name not in (odd := super().__getattribute__("oddities")):
            return real

        def answer(*arguments: Any) -> Any:
            code, value, after = odd[name]
            odd[name] = (code, value, after - 1)
            if after > 0:
                return real(*arguments)
            if code:
                raise pynvml.NVMLError(code)
            return _fitting(value, real(*arguments))

        return answer

    oddities: dict[str, tuple[int, Any, int]]


def _fitting(value: Any, truth: Any) -> Any:
    """An odd answer of the type that the binding gives.

    ctypes checks types; nothing checks what the values say.
    """
    if isinstance(truth, bool) or truth is None:
        return truth
    if isinstance(truth, str):
        return str(value)

    number = len(str(value))
    if isinstance(value, int):
        number = value
    number &= 0xFFFFFFFF
    if isinstance(truth, int):
        return number
    if isinstance(truth, ctypes.Array):
        truth[0].value.uiVal = number
    if hasattr(truth, "busId"):
        encoded = str(value).encode("utf-8", "replace")
        truth.busId = encoded[:31].replace(b"\0", b"?")
    return truth


_ODDITY: Final = st.tuples(
    st.one_of(st.just(0), st.sampled_from(_CODES)), st.sampled_from(_ODD), st.integers(0, 6)
)
_ODDITIES: Final = st.dictionaries(
    st.one_of(st.sampled_from(_CALLS), st.sampled_from(_TALKING)), _ODDITY, max_size=6
)


@subject(
    "whatever NVML answers, labels are legal and the annotation stays within its size",
    st.tuples(st.sampled_from(_MACHINES), _ODDITIES, st.one_of(st.none(), st.text(max_size=40))),
)
def nvml(case: Any) -> Outcome:
    """A node described: legal labels, an annotation within its size, or a problem in words."""
    machine, oddities, remembered = case
    odd = _Odd(load_profile(machine))
    odd.oddities = dict(oddities)
    raw = decode(encode(_probed(odd, machine)))
    description = describe(raw, "node-1", remembered)
    _publishable(description)
    if description.problem:
        return refusal(description.problem)
    held(description.sentence, "the node has no sentence")
    return "taken"


# A /sys with files gone, empty, cut or full of anything, as half-mounted and foreign kernels show
# it.
_MACHINE: Final = "hgx-a100-4"
_CONTENTS: Final = (*(word.encode("latin-1") for word in words("sysfs")), b"x" * 5000)


_CONTENT: Final = st.one_of(st.none(), st.sampled_from(_CONTENTS), st.binary(max_size=20))


@subject(
    "whatever /sys shows, labels are legal or the problem is reported",
    st.lists(st.tuples(st.integers(0, 5000), _CONTENT), max_size=8),
)
def sysfs(case: Any) -> Outcome:
    """A node described, with the tree put back afterwards."""
    root, files = _tree(_MACHINE)
    undo = []
    try:
        for number, content in case:
            path = str(root / files[number % len(files)])
            if os.path.lexists(path):
                undo.append(_changed(path, content))
        description = describe(_probed(SimulatedNvml(load_profile(_MACHINE)), _MACHINE), "node-1")
    finally:
        for put_back in reversed(undo):
            put_back()
    _publishable(description)
    return refusal(description.problem) if description.problem else "taken"


def _changed(path: str, content: bytes | None) -> Any:
    """Change one entry; what puts it back."""
    if os.path.islink(path):  # noqa: PTH114 - paths are text here
        target = os.readlink(path)  # noqa: PTH115 - same
        os.unlink(path)  # noqa: PTH108 - same
        if content:
            text = content.decode("ascii", "replace").replace("\0", "?").strip()
            os.symlink(text[:200] or "gone", path)  # noqa: PTH211 - same

        def link_back() -> None:
            if os.path.lexists(path):
                os.unlink(path)  # noqa: PTH108 - same
            os.symlink(target, path)  # noqa: PTH211 - same

        return link_back
    before = Path(path).read_bytes()
    if content is None:
        os.unlink(path)  # noqa: PTH108 - same
    else:
        Path(path).write_bytes(content)
    return lambda: Path(path).write_bytes(before)


# What a worker whose memory is damaged may send to the agent.
class _Message(NamedTuple):
    """What a worker leaves: a signal of any kind, and a length and content in the shared memory."""

    kind: bytes
    length: int
    content: bytes


@st.composite
def _cases(draw: st.DrawFn) -> _Message:
    one_in_four = st.integers(0, 3)
    one_in_six = st.integers(0, 5)
    if draw(one_in_four) == 0:
        any_bytes = st.binary(max_size=60)
        content = draw(any_bytes)
    else:
        documents = spoiled(_SAMPLES, "0000:1b:00.0", "GPU-0", "0-3")
        texts = documents.map(_json)
        content = draw(texts)
    kinds = st.one_of(
        st.just(RESULT),
        st.sampled_from(_KINDS),
        st.binary(max_size=1),
    )
    kind = draw(kinds)
    length = len(content)
    if draw(one_in_six) == 0:
        any_length = st.integers(0, (1 << 32) - 1)
        length = draw(any_length)
    return _Message(kind, length, content)


def _crowded(raw: Any) -> Any:
    """The same with so many NICs of long names that no annotation has room for all of them."""
    crowded = list(raw)
    nics = []
    for number, nic in enumerate(raw[_NICS] * 40):
        nics.append([f"mlx5_{number:0>50}", *nic[1:]])
    crowded[_NICS] = nics[:70]
    return crowded


_LENGTH_AT: Final = 4096
_KINDS: Final = (START, REQUEST, RESULT, EVENT)
_NICS: Final = RawNode._fields.index("nics")
_SMALL: Final = tuple(
    msgspec.json.decode(encode(_probed(SimulatedNvml(load_profile(machine)), machine)))
    for machine in ("hgx-a100-4", "gb200-nvl72-tray")
)
_SAMPLES: Final = (*_SMALL, _crowded(_SMALL[0]))


@subject("a worker that sends garbage costs one probe, never the agent", _cases())
def messages(case: Any) -> Outcome:
    """A message becomes an answer or a ChannelError, and an answer a probe or a ValueError.

    A probe whose types are right can be described.
    """
    agent, worker = Channel.pair()
    try:
        worker.store(case.content)
        with mmap.mmap(worker.descriptors[1], 2 * _LENGTH_AT) as memory:
            struct.pack_into("=I", memory, _LENGTH_AT, case.length)
        worker.send(case.kind, "XID 79")
        worker.close()
        kind, _ = agent.receive()
        content = agent.load()
    except ChannelError as error:
        return refusal(error)
    finally:
        agent.close()
    held(kind in _KINDS, f"a signal of the unknown kind {kind!r} is taken")
    try:
        raw = decode(content)
    except ValueError as error:
        return refusal(f"the probe's answer is malformed: {error}")
    _publishable(describe(raw, "node-1"))
    return "taken"
