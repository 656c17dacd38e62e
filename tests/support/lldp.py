"""LLDP frames, put together TLV by TLV."""

BRIDGE = bytes.fromhex("0014 0004")
ROUTER = bytes.fromhex("0014 0010")
STATION = bytes.fromhex("0080 0080")


def tlv(kind: int, value: bytes) -> bytes:
    return (kind << 9 | len(value)).to_bytes(2, "big") + value


def frame(*tlvs: bytes, group: str = "0180c200000e") -> bytes:
    return bytes.fromhex(group + "020000000001" + "88cc") + b"".join(tlvs)


def of_switch(name: str, mac: str, port: str, ttl: int = 120, capabilities: bytes = BRIDGE) -> bytes:
    """What a switch sends on a port."""
    chassis, sender = tlv(1, b"\4" + bytes.fromhex(mac.replace(":", ""))), tlv(2, b"\5" + port.encode())
    more = (tlv(5, name.encode()), tlv(7, capabilities) if capabilities else b"")
    return frame(chassis, sender, tlv(3, ttl.to_bytes(2, "big")), *more, tlv(0, b""))
