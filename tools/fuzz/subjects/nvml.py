"""NVML that answers anything: errors of every code, numbers out of range, bytes that are no text."""

import tempfile
from pathlib import Path
from typing import Any, Final

import pynvml
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.agent.annotation import LIMIT
from toposcope.agent.describe import describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import decode, encode
from toposcope.agent.sysfs import Sysfs
from toposcope.api.label_keys import MATRIX, PREFIX
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.label_values import is_label_value

_MACHINES: Final = ("dgx-h200", "gb200-nvl72-tray", "power9-v100", "k80-4")
_CALLS: Final = tuple(name for name in dir(SimulatedNvml) if name.startswith("nvml"))
_CODES: Final = (*range(1, 30), 999, -1, 12345)
_ODD: Final[tuple[Any, ...]] = (
    0, 1, -1, 7, 18, 65535, 2**31, 2**32 - 1, 2**63, "", "NVIDIA H200", "\x00", "é" * 100, "x" * 5000,
    "GPU-" + "0" * 32, (0, 0), (1, 1), None, True,
)  # fmt: skip
_TALKING: Final = ("nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlSystemGetDriverVersion")
"""What they answer goes into labels and the annotation: every second oddity is one of theirs."""
_trees: dict[str, Path] = {}


def _tree(machine: str) -> Path:
    if machine not in _trees:
        _trees[machine] = Path(tempfile.mkdtemp(prefix="sysfs-"))
        write_sysfs(load_profile(machine), _trees[machine])
    return _trees[machine]


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
            return _fitting(name, value, real, arguments)

        return answer

    oddities: dict[str, tuple[int, Any, int]]


def _fitting(name: str, value: Any, real: Any, arguments: tuple[Any, ...]) -> Any:
    """An odd answer of the type that the binding gives: ctypes sees to types, nobody to what they say."""
    truth = real(*arguments)
    if isinstance(truth, bool) or truth is None:
        return truth
    if isinstance(truth, int):
        number = value if isinstance(value, int) else len(str(value))
        return (
            min(max(number, 0), 64)
            if name in {"nvmlDeviceGetCount", "nvmlDeviceGetMaxMigDeviceCount"}
            else number & 0xFFFFFFFF
        )
    if isinstance(truth, str):
        return str(value)
    if hasattr(truth, "busId"):
        truth.busId = str(value).encode("utf-8", "replace")[:31].replace(b"\0", b"?")
    return truth


def attempt(case: Any) -> Outcome:
    """A node described: legal labels, an annotation within its size, or a problem in words."""
    machine, oddities, remembered = case
    nvml = _Odd(load_profile(machine))
    nvml.oddities = dict(oddities)
    gateway = Nvml(nvml)
    raw = decode(encode(probe(gateway, Sysfs(_tree(machine)), gateway.start())))
    description = describe(raw, "node-1", remembered)
    for key, value in description.labels.known.items():
        held(key.startswith(PREFIX), f"a label that is not ours: {key}")
        held(is_label_value(str(value)), f"{key}={value!r} is no label value")
    for key, text in description.annotations.items():
        most = LIMIT if key == MATRIX else 2 * LIMIT
        held(text.isascii() and len(text) <= most, f"the annotation {key} has {len(text)} bytes")
    if description.problem:
        return refusal(description.problem)
    held(description.sentence, "nothing is said of the node")
    return "taken"


NVML: Final = Subject(
    "nvml",
    "whatever NVML answers, labels are legal and the annotation stays within its size",
    st.tuples(
        st.sampled_from(_MACHINES),
        st.dictionaries(
            st.one_of(st.sampled_from(_CALLS), st.sampled_from(_TALKING)),
            st.tuples(st.one_of(st.just(0), st.sampled_from(_CODES)), st.sampled_from(_ODD), st.integers(0, 6)),
            max_size=6,
        ),
        st.one_of(st.none(), st.text(max_size=40)),
    ),
    attempt,
)
