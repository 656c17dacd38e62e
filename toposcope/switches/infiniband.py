"""The neighbour of an InfiniBand port.

It is asked as `ibnetdiscover` asks its first hop: by directed-route SMPs through the kernel's user
MAD interface. That changes nothing on the fabric, and no subnet manager is asked. Layouts:
InfiniBand Architecture Specification 1.4, 14.2.1.2 and 14.2.5; the kernel's rdma/ib_user_mad.h.
"""

import errno
import fcntl
import os
import select
import struct
from collections.abc import Callable
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.hardware.neighbours import Neighbour, plain

_ENABLE_PKEY: Final = 0x1B03
_REGISTER_AGENT: Final = 0xC01C1B01
_AGENT: Final = struct.Struct("=I4I4B4x")
"""struct ib_user_mad_reg_req: id, method mask, queue pair, class, its version, OUI and RMPP version
of 0."""
_HEADER: Final = struct.Struct("=5I2I H6B16s I H6x")
"""struct ib_user_mad_hdr, with the P_Key's index; `lid` and `qpn` are big-endian."""
_SMP: Final = struct.Struct(">4B H2B Q 2HI Q 2H 28x 64s 64s 64s")
_DIRECTED_ROUTE: Final = 0x81
_GET: Final = 1
_NODE_DESCRIPTION: Final = 0x10
_NODE_INFO: Final = 0x11
_NODE: Final = struct.Struct(">4B 8s8s8s 2HI B3s")
_NODE_KIND_FIELD: Final = 2
_NODE_GUID_FIELD: Final = 5
_NODE_LOCAL_PORT_FIELD: Final = 10
_SWITCH_NODE_TYPE: Final = 2
_PERMISSIVE_LID: Final = 0xFFFF
_STATUS_MASK: Final = 0x7FFF
"""Without the bit that tells the direction of a directed route."""
_TIMEOUT_MS: Final = 200
_MOST_RETRIES: Final = 2
_PATIENCE_MS: Final = 2000
_MANAGED: Final = "MF0;"
"""How NVIDIA's managed switches describe themselves: `MF0;leaf-01:MQM9700/U1`; a director:
`MF0;core:CS8500/L07/U1`."""


class MadError(ToposcopeError):
    """A port's neighbour did not answer, or not as it should."""


def neighbour(
    device: str, port: int, opened: Callable[[str, int], int] = os.open
) -> Neighbour | None:
    """The switch that a port is cabled to; None for another kind of node.

    Raises OSError and MadError.
    """
    descriptor = opened(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Without this the header would have no place for the P_Key's index, and the kernel would
        # complain.
        fcntl.ioctl(descriptor, _ENABLE_PKEY)
        registration = _AGENT.pack(0, 0, 0, 0, 0, 0, _DIRECTED_ROUTE, 1, 0)
        request = bytearray(registration)
        fcntl.ioctl(descriptor, _REGISTER_AGENT, request)
        agent = _AGENT.unpack(request)[0]
        info = _ask(descriptor, agent, port, _NODE_INFO)
        fields = _NODE.unpack_from(info)
        kind = fields[_NODE_KIND_FIELD]
        guid: bytes = fields[_NODE_GUID_FIELD]
        local_port = fields[_NODE_LOCAL_PORT_FIELD]
        if kind != _SWITCH_NODE_TYPE:
            return None
        described = _ask(descriptor, agent, port, _NODE_DESCRIPTION)
    finally:
        os.close(descriptor)
    return Neighbour(
        switch=switch_name(described),
        id=f"guid:{guid.hex()}",
        port=str(local_port),
        by="infiniband",
    )


def switch_name(described: bytes) -> str:
    """The name in a NodeDescription."""
    octets = described.partition(b"\0")[0]
    name = plain(octets.decode("utf-8", "replace"))
    if not name.startswith(_MANAGED):
        return name
    system, _, chip = name.removeprefix(_MANAGED).partition(":")
    # Every chip is a switch of the fabric: those of a box must not look like one, nor like two of
    # one name.
    place = chip.partition("/")[2]
    place = place.removesuffix("U1").strip("/")
    if system and place:
        return f"{system}/{place}"
    return system or place


def _ask(descriptor: int, agent: int, port: int, attribute: int) -> bytes:
    """The 64 octets of an attribute of the node one hop beyond a port."""
    path = bytes((0, port)).ljust(64, b"\0")
    smp = _SMP.pack(
        1,
        _DIRECTED_ROUTE,
        1,
        _GET,
        0,
        0,
        1,
        attribute,
        attribute,
        0,
        0,
        0,
        _PERMISSIVE_LID,
        _PERMISSIVE_LID,
        b"",
        path,
        b"",
    )
    header = _HEADER.pack(
        agent, 0, _TIMEOUT_MS, _MOST_RETRIES, 0, 0, 0, _PERMISSIVE_LID, 0, 0, 0, 0, 0, 0, b"", 0, 0
    )
    os.write(descriptor, header + smp)
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while waiting.poll(_PATIENCE_MS):
        answer = os.read(descriptor, _HEADER.size + _SMP.size)
        if len(answer) != _HEADER.size + _SMP.size:
            raise MadError("the answer is cut off")
        failed = _HEADER.unpack_from(answer)[1]
        if failed:
            raise MadError(f"no answer: {os.strerror(failed)}")
        fields = _SMP.unpack_from(answer, _HEADER.size)
        status = fields[4] & _STATUS_MASK
        # The kernel puts a number of its own into the upper half of the transaction's id.
        transaction = fields[7] & 0xFFFFFFFF
        if transaction != attribute or fields[8] != attribute:
            continue
        if status:
            raise MadError(f"it answers with status {status:#x}")
        data: bytes = fields[14]
        return data
    raise MadError(f"no answer: {os.strerror(errno.ETIMEDOUT)}")
