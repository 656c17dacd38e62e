"""What comes in from the other end of a cable: LLDP frames, on their way to an annotation."""

from typing import Any, Final

from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, held, refusal, subject
from toposcope.hardware.neighbours import (
    MAX_ANNOTATION_CHARACTERS,
    neighbours_text,
    parse_neighbours,
)
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import LldpError, decode

_ETHERNET: Final = bytes.fromhex("0180c200000e02000000000188cc")
_VALUE: Final = st.one_of(
    st.binary(max_size=40), st.text(max_size=60).map(str.encode), st.binary(max_size=511)
)
_ID: Final = st.one_of(
    st.binary(min_size=2, max_size=24), st.text(min_size=1).map(lambda text: b"\7" + text.encode())
)
_TTL: Final = st.sampled_from((b"\0\x78", b"\xff\xff", b"\0\0", b"\1"))
_GOOD: Final = st.tuples(_ID, _ID, _TTL, st.dictionaries(st.integers(4, 8), _VALUE)).map(
    lambda parts: b"".join(
        _tlv(kind, value) for kind, value in (*enumerate(parts[:3], 1), *parts[3].items())
    )
)
_ANY: Final = st.lists(st.tuples(st.integers(0, 8), _VALUE, st.integers(-1, 1)), max_size=8).map(
    lambda tlvs: b"".join(_tlv(*tlv) for tlv in tlvs)
)
_CUT: Final = st.tuples(_GOOD, st.integers(0, 80)).map(lambda parts: parts[0][: parts[1]])
_FRAMES: Final = st.lists(
    st.one_of(
        *(octets.map(_ETHERNET.__add__) for octets in (_GOOD, _CUT, _ANY)), st.binary(max_size=80)
    ),
    min_size=1,
    max_size=8,
)


def _tlv(kind: int, value: bytes, off: int = 0) -> bytes:
    """A TLV whose length may be off by one."""
    claimed = len(value) + off
    length = max(0, min(511, claimed))
    head = kind << 9 | length
    return head.to_bytes(2, "big") + value


_PROMISE: Final = (
    "whatever a neighbour sends costs at most that frame and yields a legal annotation or none"
)


@subject(_PROMISE, _FRAMES, is_guided=True)
def lldp(case: Any) -> Outcome:
    """Each frame is taken or refused, and a port's neighbour survives its own writing."""
    hearing = Hearing()
    is_taken = False
    why = ""
    for frame in case:
        try:
            neighbour = decode(frame)
            hearing.take("eth0", neighbour, 0.0)
            is_taken = True
        except LldpError as error:
            why = str(error)

    heard = {f"mlx5_{number}": hearing.neighbour("eth0", 1.0) for number in range(64)}
    text = neighbours_text(heard)
    fits = text.isascii() and len(text) <= MAX_ANNOTATION_CHARACTERS
    held(fits, f"the annotation has {len(text)} characters")

    read = parse_neighbours(text)
    survives = bool(read)
    for nic, neighbour_read in read.items():
        if heard[nic] != neighbour_read:
            survives = False
    held(survives, "it does not survive its own writing")
    return "taken" if is_taken else refusal(why)
