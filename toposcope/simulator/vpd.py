"""Vital product data of a simulated network function (PCI Local Bus Specification 3.0)."""

from typing import Final

_NAME: Final = 0x82
_READ_ONLY: Final = 0x90
_END: Final = 0x78


def vpd_data(*, card: str, submodel: str = "") -> bytes:
    """The data of a function: the UUID of its card, and `SMDL` where it has one."""
    maker = "MLX:MN=MLNX:CSKU=V2:UUID=V3"
    if submodel:
        maker += f":SMDL={submodel}"
    fields = {b"V3": card.encode(), b"VA": maker.encode()}
    content = b""
    for keyword, value in fields.items():
        content += keyword + bytes([len(value)]) + value
    return _resource(_NAME, b"Network adapter") + _resource(_READ_ONLY, content) + bytes([_END])


def _resource(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + len(content).to_bytes(2, "little") + content
