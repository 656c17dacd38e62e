"""LLDP frames from packet sockets (packet(7)).

Packet sockets need CAP_NET_RAW and the host's network namespace.

Each NIC has a socket of its own that hears nothing else: what a pod sends into its own interface,
at whatever rate, reaches none of them. The kernel drops whatever is no LLDP frame from the cable
before it costs anything.
"""

import ctypes
import logging
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from toposcope.kube.runtime import REAL, Runtime
from toposcope.switches.lldp import ETHERTYPE, GROUPS

log = logging.getLogger("switches")

FRAMES_PER_SECOND: Final = 32
"""Of one NIC: a neighbour that floods its port gets no more of this machine's CPU.

A switch sends one in 5 to 30 s.
"""
_MOST_FRAME_BYTES: Final = 2048
_BUFFER_BYTES: Final = 64 << 10
"""Bytes of frames that the kernel keeps for one NIC."""

_SOL_PACKET: Final = 263
"""This and the next ones are in packet(7)."""
_ADD_MEMBERSHIP: Final = 1
_MULTICAST: Final = 0
_MEMBERSHIP: Final = "=iHH8s"
"""struct packet_mreq."""
_TO_US: Final = 0
_TO_A_GROUP: Final = 2
"""PACKET_HOST, PACKET_MULTICAST: frames that came in.

PACKET_OUTGOING are those that this machine sent.
"""

# The kernel's linux/filter.h; `man 2 socket` calls it a classic BPF program.
_SO_ATTACH_FILTER: Final = 26
_INSTRUCTION: Final = struct.Struct("=HBBI")
"""struct sock_filter: code, jumps if true and if false, operand."""
_LOAD_WORD: Final = 0x20
_LOAD_HALF: Final = 0x28
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_PACKET_TYPE: Final = 0xFFFFF000 + 4
"""SKF_AD_OFF + SKF_AD_PKTTYPE: where the type of a frame can be loaded from."""
_DESTINATION_OFFSET_BYTES: Final = 0
_ETHERTYPE_OFFSET_BYTES: Final = 12


class LldpSockets:
    """Receives the LLDP frames of some interfaces. Raises PermissionError without CAP_NET_RAW."""

    def __init__(self, runtime: Runtime = REAL) -> None:
        self._runtime = runtime
        self._nics: dict[str, _Nic] = {}
        self._failed: dict[str, str] = {}
        _unbound().close()  # fails here without CAP_NET_RAW

    def filenos(self) -> list[int]:
        """For select."""
        return [nic.fileno() for nic in self._nics.values()]

    def join(self, netdevs: Iterable[str]) -> None:
        """Listen on these interfaces only; one that was replaced by its namesake is reopened."""
        wanted = frozenset(netdevs)
        for netdev in self._nics.keys() - wanted:
            self._nics.pop(netdev).close()
        for netdev in sorted(wanted):
            try:
                self._listen(netdev)
            # it has gone, or the system has no room; the next call tries again
            except OSError as error:
                self._say(netdev, str(error))
            else:
                self._failed.pop(netdev, None)

    def frames(self) -> Iterator[tuple[str, bytes]]:
        """The interface and content of the frames that have come, within each one's budget."""
        now = self._runtime.monotonic()
        for netdev, nic in self._nics.items():
            for frame in nic.frames(now):
                yield netdev, frame

    def close(self) -> None:
        """Stop receiving."""
        self.join(())

    def _listen(self, netdev: str) -> None:
        nic = self._nics.get(netdev)
        try:
            index = socket.if_nametoindex(netdev)
        except OSError:
            index = 0
        if nic and nic.index == index:
            return
        if nic:
            self._nics.pop(netdev).close()
        if not index:
            raise OSError("there is no such interface")
        self._nics[netdev] = _Nic(netdev, index, self._runtime.monotonic())

    def _say(self, netdev: str, why: str) -> None:
        """Log what has changed."""
        if self._failed.get(netdev) == why:
            return
        self._failed[netdev] = why
        log.warning("%s: cannot listen: %s", netdev, why)


class _Nic:
    """The socket of one interface, and how many frames it may still deliver."""

    def __init__(self, netdev: str, index: int, now: float) -> None:
        """Raises OSError where the interface has gone."""
        self.index = index
        self._may = float(FRAMES_PER_SECOND)
        self._counted = now
        self._socket = _unbound()
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            # before it is bound: so nothing else is ever queued
            _attach(self._socket, lldp_filter())
            for group in GROUPS:  # the NIC's firmware drops these frames otherwise
                membership = struct.pack(_MEMBERSHIP, index, _MULTICAST, len(group), group)
                self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
            self._socket.bind((netdev, ETHERTYPE))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def frames(self, now: float) -> Iterator[bytes]:
        """What has come, within the budget.

        The rest waits in the kernel, which drops what finds no room.
        """
        earned = (now - self._counted) * FRAMES_PER_SECOND
        self._may = min(self._may + earned, FRAMES_PER_SECOND)
        self._counted = now
        while self._may >= 1:
            self._may -= 1
            try:
                yield self._socket.recv(_MOST_FRAME_BYTES)
            except BlockingIOError:
                self._may += 1
                return
            # the interface went down; the kernel binds the socket again when it is back
            except OSError:
                continue

    def close(self) -> None:
        self._socket.close()


def lldp_filter() -> list[tuple[int, int, int, int]]:
    """The program that passes LLDP frames from the cable.

    Each step has a code, the jumps if true and if false, and an operand.
    """
    group_ends = [int.from_bytes(group[4:], "big") for group in GROUPS]
    group_begins = int.from_bytes(GROUPS[0][:4], "big")
    return [
        (_LOAD_WORD, 0, 0, _PACKET_TYPE),
        (_JUMP_IF_EQUAL, 1, 0, _TO_A_GROUP),
        (_JUMP_IF_EQUAL, 0, 8, _TO_US),
        (_LOAD_HALF, 0, 0, _ETHERTYPE_OFFSET_BYTES),
        (_JUMP_IF_EQUAL, 0, 6, ETHERTYPE),
        (_LOAD_WORD, 0, 0, _DESTINATION_OFFSET_BYTES),
        (_JUMP_IF_EQUAL, 0, 4, group_begins),
        (_LOAD_HALF, 0, 0, _DESTINATION_OFFSET_BYTES + 4),
        (_JUMP_IF_EQUAL, 3, 0, group_ends[0]),
        (_JUMP_IF_EQUAL, 2, 0, group_ends[1]),
        (_JUMP_IF_EQUAL, 1, 0, group_ends[2]),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, _MOST_FRAME_BYTES),
    ]


def _unbound() -> socket.socket:
    """A socket that hears nothing yet: its protocol is none. Raises PermissionError."""
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


def _attach(receiver: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    packed = bytearray()
    for step in program:
        packed += _INSTRUCTION.pack(*step)
    steps = ctypes.create_string_buffer(bytes(packed))
    place = ctypes.addressof(steps)
    # struct sock_fprog: the number of steps, and where they are
    pointer = struct.pack("@HP", len(program), place)
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)
