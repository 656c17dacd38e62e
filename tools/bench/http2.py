"""As much of HTTP/2 (RFC 9113) as it takes to hold thousands of watches over a few connections.

Headers of answers are not read: an answer that is no stream of events shows in its first line.
"""

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tools.bench.workspace import MeasurementError

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_BYTES: Final = 9
_DATA: Final = 0x0
_HEADERS: Final = 0x1
_RESET: Final = 0x3
_SETTINGS: Final = 0x4
_PING: Final = 0x6
_GOAWAY: Final = 0x7
_WINDOW: Final = 0x8
_ACK: Final = 0x1
_WHOLE_REQUEST_FLAGS: Final = 0x5
"""END_STREAM and END_HEADERS."""
_INITIAL_WINDOW: Final = 0x4
_STREAM_WINDOW_BYTES: Final = 1 << 24
_CONNECTION_WINDOW_BYTES: Final = 1 << 30
"""Bytes that the server may send before it waits for us.

They are more than a measurement needs, so that it never waits.
"""
_READ_BYTES: Final = 1 << 20
_ONE_BYTE_LIMIT: Final = 127
"""Lengths below it take one byte in HPACK (RFC 7541, 5.1)."""


class Streams:
    """One connection, and the lines that come on its streams."""

    def __init__(self, address: tuple[str, int], ca_file: Path, headers: Mapping[str, str]) -> None:
        host, _ = address
        context = ssl.create_default_context(cafile=str(ca_file))
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(address)
        self.socket = context.wrap_socket(plain, server_hostname=host)
        self._headers = headers
        self._next = 1
        self._received = b""
        self._lines: dict[int, bytes] = {}

        settings = struct.pack(">HI", _INITIAL_WINDOW, _STREAM_WINDOW_BYTES)
        frame = _frame(_SETTINGS, 0, 0, settings)
        self.socket.sendall(_PREFACE + frame)
        window = struct.pack(">I", _CONNECTION_WINDOW_BYTES)
        self._send(_WINDOW, 0, 0, window)

    def get(self, path: str) -> None:
        """Begin a request on a stream of its own."""
        headers = {
            ":method": "GET",
            ":scheme": "https",
            ":path": path,
            **self._headers,
        }
        block = b""
        for name, value in headers.items():
            block += _literal(name, value)
        self._send(_HEADERS, _WHOLE_REQUEST_FLAGS, self._next, block)
        self._lines[self._next] = b""
        self._next += 2

    def read(self) -> Iterator[bytes]:
        """The whole lines that have come on any stream. Raises MeasurementError where one ends."""
        self._received += self.socket.recv(_READ_BYTES)
        while self.socket.pending():
            self._received += self.socket.recv(_READ_BYTES)

        while len(self._received) >= _HEAD_BYTES:
            head = self._received[:_HEAD_BYTES]
            length = int.from_bytes(head[:3], "big")
            kind = head[3]
            flags = head[4]
            stream = int.from_bytes(head[5:], "big")
            end = _HEAD_BYTES + length
            if len(self._received) < end:
                return

            payload = self._received[_HEAD_BYTES:end]
            self._received = self._received[end:]
            yield from self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> Iterator[bytes]:
        if kind in (_RESET, _GOAWAY):
            raise MeasurementError(f"the API server ended a stream: {payload!r}")

        is_answer = bool(flags & _ACK)
        if kind == _SETTINGS and not is_answer:
            self._send(_SETTINGS, _ACK, 0, b"")
        if kind == _PING and not is_answer:
            self._send(_PING, _ACK, 0, payload)

        if kind == _DATA:
            text = self._lines[stream] + payload
            *lines, rest = text.split(b"\n")
            self._lines[stream] = rest
            yield from lines

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.socket.sendall(_frame(kind, flags, stream, payload))

    def close(self) -> None:
        """End all streams."""
        self.socket.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    length = len(payload)
    head = length.to_bytes(3, "big")
    head += bytes((kind, flags))
    head += stream.to_bytes(4, "big")
    return head + payload


def _literal(name: str, value: str) -> bytes:
    """A header field without indexing, as RFC 7541, 6.2.2 has it, neither part compressed."""
    return b"\0" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    octets = text.encode()
    size = len(octets)
    if size < _ONE_BYTE_LIMIT:
        return bytes([size]) + octets

    length = bytes([_ONE_BYTE_LIMIT])
    rest = size - _ONE_BYTE_LIMIT
    while rest > _ONE_BYTE_LIMIT:
        low = rest % 128
        length += bytes([low + 128])
        rest //= 128
    length += bytes([rest])
    return length + octets
