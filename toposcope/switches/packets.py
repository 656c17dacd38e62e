"""LLDP frames from a packet socket (packet(7)), which takes CAP_NET_RAW and the host's network namespace."""

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from toposcope.switches.lldp import ETHERTYPE, GROUPS

_SOL_PACKET: Final = 263
_ADD_MEMBERSHIP: Final = 1
_ORIGDEV: Final = 9
"""Names the port that a frame came in by; without it that of a bond's active member is the bond."""
_MULTICAST: Final = 0
_MEMBERSHIP: Final = "=iHH8s"
"""struct packet_mreq."""
_LARGEST: Final = 2048
_BURST: Final = 64
"""Frames of one turn: a neighbour that floods its port gets no more of this machine's CPU."""


class LldpSocket:
    """Receives the LLDP frames of all interfaces. Raises PermissionError without CAP_NET_RAW."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self._socket.setblocking(False)
        self._socket.setsockopt(_SOL_PACKET, _ORIGDEV, 1)
        self._joined: set[tuple[str, int]] = set()

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def join(self, netdevs: Iterable[str]) -> None:
        """Have the interfaces take frames to LLDP's group addresses; their firmware drops them otherwise."""
        there = set()
        for netdev in netdevs:
            with contextlib.suppress(OSError):  # it has gone
                there.add((netdev, socket.if_nametoindex(netdev)))
        for netdev, index in there - self._joined:
            for group in GROUPS:
                membership = struct.pack(_MEMBERSHIP, index, _MULTICAST, len(group), group)
                with contextlib.suppress(OSError):  # same
                    self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
            self._joined.add((netdev, index))
        self._joined &= there

    def frames(self) -> Iterator[tuple[str, bytes]]:
        """The interface and content of the frames that have come, but no more than a burst of them."""
        for _ in range(_BURST):
            try:
                frame, address = self._socket.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            except OSError:  # an interface went down
                continue
            yield address[0], frame

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()
