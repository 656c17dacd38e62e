"""What a worker whose memory is damaged may send to the agent."""

import mmap
import struct
from typing import Any, Final, NamedTuple

import msgspec
from hypothesis import strategies as st

from tools.fuzz.material import spoiled
from tools.fuzz.subject import Outcome, Subject, held, refusal
from tools.fuzz.subjects.nvml import _tree as tree
from toposcope.agent.annotation import LIMIT
from toposcope.agent.describe import describe
from toposcope.agent.nvml.channel import EVENT, REQUEST, RESULT, START, Channel, ChannelError
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode, decode, encode
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


class _Message(NamedTuple):
    """What a worker leaves: a signal of any kind, and a length and content in the shared memory."""

    kind: bytes
    length: int
    content: bytes


@st.composite
def _cases(draw: st.DrawFn) -> _Message:
    if draw(st.integers(0, 3)) == 0:
        content = draw(st.binary(max_size=60))
    else:
        content = draw(spoiled(_SAMPLES, "0000:1b:00.0", "GPU-0", "0-3").map(_content))
    kind = draw(st.one_of(st.just(RESULT), st.sampled_from(_KINDS), st.binary(max_size=1)))
    length = draw(st.integers(0, (1 << 32) - 1)) if draw(st.integers(0, 5)) == 0 else len(content)
    return _Message(kind, length, content)


def _crowded(raw: Any) -> Any:
    """The same with so many NICs of long names that no annotation has room for all of them."""
    nics = [[f"mlx5_{number:0>50}", *nic[1:]] for number, nic in enumerate(raw[_NICS] * 40)]
    return [*raw[:_NICS], nics[:70], *raw[_NICS + 1 :]]


_LENGTH_AT: Final = 4096
_KINDS: Final = (START, REQUEST, RESULT, EVENT)
_NICS: Final = RawNode._fields.index("nics")
_SMALL: Final = tuple(_sample(machine) for machine in ("hgx-a100-4", "gb200-nvl72-tray"))
_SAMPLES: Final = (*_SMALL, _crowded(_SMALL[0]))


def attempt(case: Any) -> Outcome:
    """An answer or ChannelError; a probe or ValueError; and what is a probe by its types is described."""
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
    description = describe(raw, "node-1")
    for key, value in description.labels.known.items():
        held(is_label_value(str(value)), f"{key}={value!r} is no label value")
    for key, text in description.annotations.items():
        most = LIMIT if key == MATRIX else 2 * LIMIT
        held(text.isascii() and len(text) <= most, f"the annotation {key} has {len(text)} bytes")
    return "taken"


MESSAGES: Final = Subject("messages", "a worker that sends garbage costs one probe, never the agent", _cases(), attempt)
