"""LLDP frames, put together TLV by TLV."""

MULTICAST = "0180c200000e"
SENDER = "020000000001"
ETHERTYPE = "88cc"

# Capabilities, the first half what a system can do, the second what it does
BRIDGE = bytes.fromhex("0014 0004")
ROUTER = bytes.fromhex("0014 0010")
STATION = bytes.fromhex("0080 0080")


def tlv(kind: int, value: bytes) -> bytes:
    """One TLV of any type."""
    head = kind << 9 | len(value)
    return head.to_bytes(2, "big") + value


def chassis_mac(mac: str) -> bytes:
    """A chassis id that is an address, as in `b8:59:9f:00:00:01`."""
    return tlv(1, b"\4" + octets(mac))


def port_name(name: str) -> bytes:
    """A port id that is an interface's name."""
    return tlv(2, b"\5" + name.encode())


def time_to_live(seconds: int) -> bytes:
    """How long the sender is to be believed."""
    return tlv(3, seconds.to_bytes(2, "big"))


def port_description(text: str) -> bytes:
    """What the port is called beside its id."""
    return tlv(4, text.encode())


def system_name(name: bytes) -> bytes:
    """What the sender is called."""
    return tlv(5, name)


def capabilities(value: bytes) -> bytes:
    """What the sender is and does."""
    return tlv(7, value)


END = tlv(0, b"")


def octets(mac: str) -> bytes:
    """An address without its colons."""
    return bytes.fromhex(mac.replace(":", ""))


def frame(*tlvs: bytes, group: str = MULTICAST) -> bytes:
    """An Ethernet frame with these TLVs."""
    head = bytes.fromhex(group + SENDER + ETHERTYPE)
    return head + b"".join(tlvs)


def of_switch(name: str, mac: str, port: str, ttl: int = 120, does: bytes = BRIDGE) -> bytes:
    """What a switch sends on a port; with nothing that it does, it does not say."""
    tlvs = [
        chassis_mac(mac),
        port_name(port),
        time_to_live(ttl),
        system_name(name.encode()),
    ]
    if does:
        tlvs.append(capabilities(does))
    return frame(*tlvs, END)
