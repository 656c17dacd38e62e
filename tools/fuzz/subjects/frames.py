"""What a worker whose memory is damaged may send to the agent."""

import socket
import struct
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from tools.fuzz.material import spoiled
from tools.fuzz.subject import Outcome, Subject, held, refusal
from tools.fuzz.subjects.nvml import _tree as tree
from toposcope.agent.annotation import LIMIT
from toposcope.agent.describe import describe
from toposcope.agent.nvml.frames import FrameError, Kind, receive
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.result import MalformedResultError, decode
from toposcope.agent.nvml.worker import encode
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.api.label_keys import MATRIX
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.label_values import is_label_value


def _sample(machine: str) -> Any:
    gateway = Nvml(SimulatedNvml(load_profile(machine)))
    return msgspec.json.decode(encode(probe(gateway, Sysfs(tree(machine)), gateway.start())))


def _content(document: Any) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (UnicodeEncodeError, OverflowError):
        return repr(document).encode("utf-8", "replace")


@st.composite
def _cases(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 3)) == 0:
        return draw(st.binary(max_size=60))
    content = draw(spoiled(_SAMPLES, "0000:1b:00.0", "GPU-0", "0-3").map(_content))
    kind = draw(st.one_of(st.sampled_from(list(Kind)), st.integers(0, 255)))
    sent = struct.pack("!BI", kind, len(content)) + content
    return sent[: draw(st.integers(0, len(sent)))] if draw(st.integers(0, 5)) == 0 else sent


def _crowded(raw: Any) -> Any:
    """The same with so many NICs of long names that no annotation has room for all of them."""
    nics = [[f"mlx5_{number:0>50}", *nic[1:]] for number, nic in enumerate(raw[_NICS] * 40)]
    return [*raw[:_NICS], nics[:70], *raw[_NICS + 1 :]]


_NICS: Final = RawNode._fields.index("nics")
_SMALL: Final = tuple(_sample(machine) for machine in ("hgx-a100-4", "gb200-nvl72-tray"))
_SAMPLES: Final = (*_SMALL, _crowded(_SMALL[0]))


def attempt(case: Any) -> Outcome:
    """A frame, or Broken; a probe, or NotAResult; and what is a probe by its types is described."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ours.sendall(case)
        ours.shutdown(socket.SHUT_WR)
        try:
            frame = receive(theirs, 1.0)
        except FrameError as error:
            return refusal(error)
    held(frame is not None, "a stream at its end is not told from a slow one")
    try:
        raw = decode(frame.content if frame else b"")
    except MalformedResultError as error:
        return refusal(f"the probe answered nonsense: {error}")
    found = describe(raw, "node-1")
    for key, value in found.labels.known.items():
        held(is_label_value(str(value)), f"{key}={value!r} is no label value")
    for key, text in found.annotations.items():
        most = LIMIT if key == MATRIX else 2 * LIMIT
        held(text.isascii() and len(text) <= most, f"the annotation {key} has {len(text)} bytes")
    return "taken"


FRAMES: Final = Subject("frames", "a worker that sends garbage costs one probe, never the agent", _cases(), attempt)
