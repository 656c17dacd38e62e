"""Messages between the page's server and its worker: length-prefixed bytes over a socket pair."""

import socket
import struct
import time
from typing import Final

from toposcope.errors import ToposcopeError

READY: Final = b"ready"
"""The worker's first message."""
_LENGTH: Final = struct.Struct("!Q")
_MOST_BYTES_AT_ONCE: Final = 1 << 20


class EndedError(ToposcopeError):
    """The process at the other end has closed the connection, mostly because it has ended."""


class Frames:
    """One end of a connection. For one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, data: bytes, deadline: float | None = None) -> None:
        """Send one message. Raises TimeoutError and EndedError.

        `deadline` is a value of `time.monotonic`; None waits for ever.
        """
        self._connection.settimeout(_seconds_until(deadline))
        try:
            self._connection.sendall(_LENGTH.pack(len(data)) + data)
        except TimeoutError:
            raise
        except OSError as error:
            raise EndedError(f"the connection is closed: {error}") from error

    def receive(self, most: int, deadline: float | None = None) -> bytes:
        """The next message.

        Raises TimeoutError, EndedError, and ValueError where it has more than `most` bytes.
        """
        head = self._read(_LENGTH.size, deadline)
        (length,) = _LENGTH.unpack(head)
        if length > most:
            raise ValueError(f"a message has {length:,} bytes, more than {most:,}")
        return self._read(length, deadline)

    def close(self) -> None:
        """Close this end; the other one notices."""
        self._connection.close()

    def _read(self, length: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < length:
            self._connection.settimeout(_seconds_until(deadline))
            try:
                part = self._connection.recv(min(length - len(data), _MOST_BYTES_AT_ONCE))
            except TimeoutError:
                raise
            except OSError as error:
                raise EndedError(f"the connection is closed: {error}") from error
            if not part:
                raise EndedError("the connection is closed")
            data += part
        return bytes(data)


def _seconds_until(deadline: float | None) -> float | None:
    """Seconds until the deadline. Raises TimeoutError when it is over."""
    if deadline is None:
        return None
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining
