"""LLDP: what one frame says about the port that sent it (IEEE 802.1AB-2016, clauses 8 and 9.2.7.7).

No library: scapy, the one that is kept, is 10 MB of all protocols. Frames come from whoever is at
the other end of a cable, so nothing here trusts a length, an order or a text.
"""

import hashlib
import ipaddress
from collections.abc import Iterator
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError
from toposcope.hardware.neighbours import plain

ETHERTYPE: Final = 0x88CC
GROUPS: Final = tuple(bytes.fromhex(f"0180c20000{last}") for last in ("0e", "03", "00"))
"""Nearest bridge, nearest bridge that is no two-port relay, nearest customer bridge (802.1AB, table
7-1)."""
_HEADER_OCTETS: Final = 14
_END: Final = 0
_CHASSIS: Final = 1
_PORT: Final = 2
_TTL: Final = 3
_PORT_DESCRIPTION: Final = 4
_NAME: Final = 5
_CAPABILITIES: Final = 7
_MANDATORY: Final = (_CHASSIS, _PORT, _TTL)
"""The first three, in this order."""
_ONCE: Final = frozenset({_CHASSIS, _PORT, _TTL, _PORT_DESCRIPTION, _NAME, _CAPABILITIES})
_TTL_OCTETS: Final = 2
_LEAST_ID_OCTETS: Final = 2
"""Subtype and one octet."""
_MOST_ID_OCTETS: Final = 256
"""Subtype and at most 255 octets (8.5.2.3)."""
_MAC: Final = {_CHASSIS: 4, _PORT: 3}
_ADDRESS: Final = {_CHASSIS: 5, _PORT: 4}
_MAC_OCTETS: Final = 6
_FAMILIES: Final = {1: 4, 2: 16}
"""Address family (IANA) to its octets: IPv4, IPv6."""
_HASH_DIGITS: Final = 40
_CAPABILITY_OCTETS: Final = 4
_FORWARDING_BITS: Final = 0b0001_0100
"""Capabilities Bridge and Router (table 8-4), of those that are enabled."""


class LldpError(ToposcopeError):
    """A frame that is no valid LLDPDU; the receiver drops it (9.2.7.7.1)."""


class Lldpdu(NamedTuple):
    """One LLDPDU. Texts are printable ASCII of at most 63 characters."""

    msap: bytes
    """Chassis id and port id, word for word: what identifies the sender."""
    ttl: int
    """Seconds; 0: the sender says goodbye."""
    switch: str = ""
    id: str = ""
    port: str = ""
    is_forwarding: bool | None = None
    """Whether it is a bridge or router: a host or a NIC's firmware may speak too.

    None if it does not say.
    """


def decode(frame: bytes) -> Lldpdu:
    """What an Ethernet frame says. Raises LldpError."""
    destination = frame[:6]
    ethertype = frame[12:_HEADER_OCTETS]
    is_lldp = ethertype == ETHERTYPE.to_bytes(2, "big")
    if destination not in GROUPS or not is_lldp:
        raise LldpError("not an LLDP frame")
    values = _values(frame[_HEADER_OCTETS:])
    chassis = values[_CHASSIS]
    port = values[_PORT]
    msap = _with_length(chassis) + _with_length(port)
    seconds = values[_TTL][:2]
    ttl = int.from_bytes(seconds, "big")
    if not ttl:
        return Lldpdu(msap, 0)

    name = values.get(_NAME, b"")
    port_description = values.get(_PORT_DESCRIPTION, b"")
    capabilities = values.get(_CAPABILITIES, b"")
    return Lldpdu(
        msap=msap,
        ttl=ttl,
        switch=_text(name),
        id=_identity(_CHASSIS, chassis),
        port=_port(port, port_description),
        is_forwarding=_is_forwarding(capabilities),
    )


def _values(octets: bytes) -> dict[int, bytes]:
    """The values of the TLVs by type, as far as they are valid. Raises LldpError."""
    values: dict[int, bytes] = {}
    for place, (kind, value) in enumerate(_tlvs(octets), start=1):
        is_mandatory = kind in _MANDATORY or place in _MANDATORY
        if is_mandatory and kind != place:
            raise LldpError("the first three TLVs must be chassis id, port id and TTL, each once")
        if kind in _ONCE and kind in values:
            raise LldpError(f"TLV {kind} occurs twice")
        values[kind] = value

    ttl = values.get(_TTL, b"")
    if len(ttl) < _TTL_OCTETS:
        raise LldpError("the TTL is missing")

    _check_id(_CHASSIS, values[_CHASSIS])
    _check_id(_PORT, values[_PORT])
    return values


def _check_id(kind: int, value: bytes) -> None:
    """Raise LldpError if a TLV has no id."""
    length = len(value)
    if length < _LEAST_ID_OCTETS or length > _MOST_ID_OCTETS:
        raise LldpError(f"TLV {kind} has no id")


def _with_length(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def _port(value: bytes, description: bytes) -> str:
    port = _identity(_PORT, value)
    if value[0] == _MAC[_PORT]:  # a switch whose port has a name beside its address
        port = _text(description) or port
    return port.removeprefix("name:")


def _tlvs(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each TLV, up to the end TLV or the end of the frame.

    Raises LldpError if one is cut.
    """
    at = 0
    while at + 2 <= len(octets):
        begin = at + 2
        head = int.from_bytes(octets[at:begin], "big")
        kind = head >> 9
        length = head & 0x1FF
        value = octets[begin : begin + length]
        if kind == _END:
            return
        if len(value) < length:
            raise LldpError(f"TLV {kind} is cut off")
        yield kind, value
        at = begin + length


def _identity(kind: int, value: bytes) -> str:
    """A chassis or port id as `mac:...`, `ip:...` or `name:...` by its subtype.

    Subtypes are in 8.5.2.2 and 8.5.3.2.
    """
    subtype = value[0]
    octets = value[1:]
    if subtype == _MAC[kind] and len(octets) == _MAC_OCTETS:
        mac = octets.hex(":")
        return f"mac:{mac}"

    family = octets[0]
    address = octets[1:]
    length = _FAMILIES.get(family)
    if subtype == _ADDRESS[kind] and length == len(address):
        ip = ipaddress.ip_address(address)
        return f"ip:{ip}"

    text = _text(octets)
    name = f"name:{text}"
    is_whole = octets == text.encode()
    if is_whole and plain(name) == name:
        return name
    # no text, or too long: two must not become one
    digest = hashlib.sha256(octets).hexdigest()
    shown = digest[:_HASH_DIGITS]
    return f"sha256:{shown}"


def _is_forwarding(capabilities: bytes) -> bool | None:
    """By the system's capabilities that are enabled, the second pair of octets."""
    if len(capabilities) != _CAPABILITY_OCTETS:
        return None
    return bool(capabilities[3] & _FORWARDING_BITS)


def _text(octets: bytes) -> str:
    text = octets.rstrip(b"\0").decode("utf-8", "replace")
    return plain(text)
