"""What agent and worker say to each other: a kind, a length and some bytes, over a stream socket."""

import select
import socket
import struct
import time
from enum import IntEnum
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError

_HEAD: Final = struct.Struct("!BI")
_LARGEST: Final = 8 << 20
"""A probe of the largest machine is some 100 kB; more is a broken sender."""


class Kind(IntEnum):
    """What a frame is."""

    REQUEST = 1
    """To the worker: probe now. No content."""
    RESULT = 2
    """A probe is done: a RawNode as JSON."""
    LAST = 3
    """The same, and the worker ends now and must not be asked again."""
    EVENT = 4
    """At any time between probes: something happened that is worth a probe at once; what, in words."""


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    content: bytes = b""


class FrameError(ToposcopeError):
    """The other process is gone, or sent something that is no frame."""


def send(to: socket.socket, frame: Frame) -> None:
    """Send one frame. Raises Broken when the other side is gone."""
    try:
        to.sendall(_HEAD.pack(frame.kind, len(frame.content)) + frame.content)
    except OSError as error:
        raise FrameError(f"cannot send: {error}") from error


def receive(source: socket.socket, timeout: float | None) -> Frame | None:
    """The next frame, or None when none was complete within `timeout` seconds (None: wait for ever).

    After a None the stream may stand in the middle of a frame: the caller must drop it. Raises Broken.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    head = _read(source, _HEAD.size, deadline)
    if head is None:
        return None
    kind, length = _HEAD.unpack(head)
    if kind not in _KINDS:
        raise FrameError(f"a message of kind {kind}")
    if length > _LARGEST:
        raise FrameError(f"a message of {length} bytes")
    content = _read(source, length, deadline)
    return None if content is None else Frame(Kind(kind), content)


_KINDS: Final = frozenset(Kind)


def _read(source: socket.socket, size: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        if deadline is not None and not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        try:
            piece = source.recv(size - len(data))
        except OSError as error:
            raise FrameError(f"cannot receive: {error}") from error
        if not piece:
            raise FrameError("the other process is gone")
        data += piece
    return bytes(data)
