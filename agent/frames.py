"""Messages between the agent's processes: JSON objects with their length in front, over a stream socket."""

import select
import socket
import struct
import time
from typing import Final

import msgspec

_LENGTH: Final = struct.Struct("!I")
_LARGEST: Final = 8 << 20
"""A probe of the largest machine is some 200 kB; more is a broken sender."""


class Message(msgspec.Struct, omit_defaults=True):
    """One message; which fields are set says what it is."""

    request: bool = False
    """Probe now."""
    result: msgspec.Raw = msgspec.Raw()
    """Sent when a probe is done: a RawNode."""
    failure: str = ""
    """Sent instead of a result: why there is none, in plain words."""
    reason: str = ""
    """With a failure: the word that metrics count it under."""
    event: str = ""
    """Sent at any time between probes: something happened that is worth a probe at once."""
    final: bool = False
    """With a result: the worker ends now and must not be asked again."""


class Broken(Exception):
    """The other process is gone, or sent something that is no message."""


def send(to: socket.socket, message: Message) -> None:
    """Send one message. Raises Broken when the other side is gone."""
    body = msgspec.json.encode(message)
    try:
        to.sendall(_LENGTH.pack(len(body)) + body)
    except OSError as error:
        raise Broken(f"cannot send: {error}") from error


def receive(source: socket.socket, timeout: float | None) -> Message | None:
    """The next message, or None when none was complete within `timeout` seconds (None: wait for ever).

    After a None the stream may stand in the middle of a message: the caller must drop it. Raises Broken.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    head = _read(source, _LENGTH.size, deadline)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _LARGEST:
        raise Broken(f"a message of {length} bytes")
    body = _read(source, length, deadline)
    if body is None:
        return None
    try:
        return msgspec.json.decode(body, type=Message)
    except msgspec.MsgspecError as error:
        raise Broken(f"not a message: {error}") from error


def _read(source: socket.socket, size: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([source], [], [], left)[0]:
            return None
        try:
            piece = source.recv(size - len(data))
        except OSError as error:
            raise Broken(f"cannot receive: {error}") from error
        if not piece:
            raise Broken("the other process is gone")
        data += piece
    return bytes(data)
