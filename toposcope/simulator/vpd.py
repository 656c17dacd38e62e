"""Vital product data of a simulated network function (PCI Local Bus Specification 3.0)."""

from typing import Final

_NAME_TAG: Final = 0x82
_READ_ONLY_TAG: Final = 0x90
_END_TAG: Final = 0x78


def vpd_data(*, card: str, submodel: str = "") -> bytes:
    """The data of a function: the UUID of its card, and `SMDL` where it has one."""
    maker = "MLX:MN=MLNX:CSKU=V2:UUID=V3"
    if submodel:
        maker += f":SMDL={submodel}"

    content = _field(b"V3", card) + _field(b"VA", maker)
    name = _resource(_NAME_TAG, b"Network adapter")
    read_only = _resource(_READ_ONLY_TAG, content)
    end = bytes([_END_TAG])
    return name + read_only + end


def _field(keyword: bytes, text: str) -> bytes:
    value = text.encode()
    length = bytes([len(value)])
    return keyword + length + value


def _resource(tag: int, content: bytes) -> bytes:
    head = bytes([tag])
    length = len(content)
    return head + length.to_bytes(2, "little") + content
