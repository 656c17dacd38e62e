"""Vital product data of a PCI function: the few facts that tell network functions apart.

Only root can read it. The kernel passes on the bytes of the device's capability (PCI Local Bus
Specification 3.0, appendix I): resources, of which the read-only one (tag 0x90) holds fields of two
letters, a length and a value. On NVIDIA's network functions

- one of the fields is a list with `SMDL=SW_MNG` if the function is a bridge through which the
  Fabric Manager of an HGX B200 or B300 reaches the NVSwitches (NVIDIA Fabric Manager user guide);
- `V3` is one UUID for all functions of a card, the Data Direct function among them (`rdma_topo` of
  rdma-core pairs them by it).

In a recording the same facts are lines of text, `V3=...` and `SMDL=...`: the rest of the data
identifies the card.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SUBMODEL: Final = re.compile(rb"SMDL=(\w+)")
_MANAGEMENT: Final = "SW_MNG"
_CARD: Final = b"V3"
_READ_ONLY_TAG: Final = 0x90
_LARGE_TAG_BIT: Final = 0x80
_END_TAG: Final = 0x78
_LARGE_HEADER_BYTES: Final = 3
_SMALL_HEADER_BYTES: Final = 1
_FIELD_HEADER_BYTES: Final = 3


class Vpd(NamedTuple):
    """What is known of a function from its vital product data."""

    submodel: str = ""
    """The value of `SMDL`; empty: it has none."""
    card: str = ""
    """The UUID that the functions of one card share; empty: it has none."""

    @property
    def manages_nvswitches(self) -> bool:
        """Whether the function is a bridge to the NVSwitches, and no NIC of any network."""
        return self.submodel == _MANAGEMENT

    @property
    def text(self) -> str:
        """The facts as a recording holds them."""
        lines = []
        if self.card:
            lines.append(f"V3={self.card}")
        if self.submodel:
            lines.append(f"SMDL={self.submodel}")
        return "\n".join(lines)


def parse_vpd(data: bytes) -> Vpd:
    """The facts in vital product data, or in a recording's text.

    Damaged data holds what can still be found.
    """
    recorded = _recorded(data)
    if recorded is not None:
        return recorded
    submodel, card = b"", b""
    for keyword, value in _fields(_read_only(data)):
        if keyword == _CARD:
            card = value.strip(b"\0 ")
        found = _SUBMODEL.search(value)
        if found:
            submodel = found[1]
    if not submodel and b"SMDL=SW_MNG" in data:  # in a form that is not understood
        submodel = b"SW_MNG"
    return Vpd(submodel=_text(submodel), card=_text(card))


def _recorded(data: bytes) -> Vpd | None:
    """The facts in a recording's text, as `Vpd.text` wrote it; None if it is none."""
    submodel, card = b"", b""
    for word in data.split():
        keyword, _, value = word.partition(b"=")
        if keyword == _CARD:
            card = value
        elif keyword == b"SMDL":
            submodel = value
        else:
            return None
    return Vpd(submodel=_text(submodel), card=_text(card))


def _text(value: bytes | None) -> str:
    return (value or b"").decode("ascii", "replace")


def _read_only(data: bytes) -> bytes:
    """The content of the read-only resource.

    Empty if there is none, as far as it goes if it is cut off.
    """
    at = 0
    while at < len(data):
        tag = data[at]
        if tag & _LARGE_TAG_BIT:
            start = at + _LARGE_HEADER_BYTES
            length = int.from_bytes(data[at + 1 : start], "little")
        else:
            start = at + _SMALL_HEADER_BYTES
            length = tag & 0x07
            if tag & 0xF8 == _END_TAG:
                break
        if tag == _READ_ONLY_TAG:
            return data[start : start + length]
        at = start + length
    return b""


def _fields(resource: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The fields of the read-only resource, keyword and value, as far as they are whole."""
    at = 0
    while at + _FIELD_HEADER_BYTES <= len(resource):
        start = at + _FIELD_HEADER_BYTES
        end = start + resource[at + 2]
        if end > len(resource):
            break
        yield resource[at : at + 2], resource[start:end]
        at = end
