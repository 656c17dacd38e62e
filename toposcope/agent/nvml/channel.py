"""What agent and worker share.

A socket for signals, each whole or not there, and memory for answers and steps. An answer is in
memory before it is signalled, so neither side can block in the middle of one, and the forty steps
that a worker announces in a probe cost nothing. `multiprocessing.connection` would cost each agent
1.3 MB and 10 ms of its start, and its `recv_bytes` waits without a limit for the rest of a message.
"""

import fcntl
import mmap
import os
import select
import socket
import struct
from typing import Final

from toposcope.errors import ToposcopeError

START: Final = b"S"
"""To a worker that is a fresh interpreter: what it needs is in memory."""
REQUEST: Final = b"P"
"""To the worker: probe now."""
LISTEN: Final = b"L"
"""To the worker, after a probe: the next one is due then, in decimal monotonic seconds.

Until then report events.
"""
RESULT: Final = b"R"
"""To the agent: a probe is done and in memory. The next one comes only on request."""
EVENT: Final = b"E"
"""To the agent, between probes: something happened that calls for a probe at once.

What, in words.
"""

_STEP: Final = struct.Struct("=II")
"""How many steps were announced, and how long the last one's name is, which follows."""
_LENGTH: Final = struct.Struct("=I")
"""How long the content is, which follows."""
_NAME_OFFSET_BYTES: Final = _STEP.size
_LENGTH_OFFSET_BYTES: Final = 4096
_MOST_NAME_BYTES: Final = _LENGTH_OFFSET_BYTES - _NAME_OFFSET_BYTES
_CONTENT_OFFSET_BYTES: Final = _LENGTH_OFFSET_BYTES + _LENGTH.size
_CONTENT_BYTES: Final = 8 << 20
"""A probe of the largest machine is some 100 kB. Only pages that were written to take memory."""
_MEMORY_BYTES: Final = _CONTENT_OFFSET_BYTES + _CONTENT_BYTES
_MEMORY_FLAGS: Final = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_MOST_SIGNAL_BYTES: Final = 4096


class ChannelError(ToposcopeError):
    """The other process is gone, or sent what is not a message."""


class Channel:
    """One end of the channel.

    `connection` is a SOCK_SEQPACKET socket, `memory` the descriptor of the memory that both ends
    map.
    """

    def __init__(self, connection: socket.socket, memory: int) -> None:
        self._socket = connection
        self._descriptor = memory
        self._memory = mmap.mmap(memory, _MEMORY_BYTES)

    @classmethod
    def pair(cls) -> tuple["Channel", "Channel"]:
        """The agent's end and the worker's. Raises OSError.

        The memory keeps its size for good: a worker that shrank it would have the agent die of
        SIGBUS.
        """
        memory = os.memfd_create("toposcope-worker", _MEMORY_FLAGS)
        os.ftruncate(memory, _MEMORY_BYTES)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        our_end = cls(ours, memory)
        their_memory = os.dup(memory)
        their_end = cls(theirs, their_memory)
        return our_end, their_end

    @property
    def descriptors(self) -> tuple[int, int]:
        """What a process needs to open this end: those of the socket and the memory."""
        return self._socket.fileno(), self._descriptor

    def fileno(self) -> int:
        """What `select` waits for."""
        return self._socket.fileno()

    def announce(self, step: str) -> None:
        """Tell the agent what comes next; a long name is cut."""
        name = step.encode(errors="replace")[:_MOST_NAME_BYTES]
        length = len(name)
        name_end = _NAME_OFFSET_BYTES + length
        self._memory[_NAME_OFFSET_BYTES:name_end] = name
        count, _ = _STEP.unpack_from(self._memory)
        next_count = (count + 1) & 0xFFFFFFFF
        _STEP.pack_into(self._memory, 0, next_count, length)

    def step(self) -> tuple[int, str]:
        """How many steps were announced, and the last one.

        Its name may be mixed up while it is written.
        """
        count, length = _STEP.unpack_from(self._memory)
        name_end = min(_NAME_OFFSET_BYTES + length, _LENGTH_OFFSET_BYTES)
        name = self._memory[_NAME_OFFSET_BYTES:name_end]
        return count, name.decode(errors="replace")

    def store(self, content: bytes) -> None:
        """Put content into memory, in place of the one before.

        Raises ChannelError when it is too large.
        """
        length = len(content)
        if length > _CONTENT_BYTES:
            raise ChannelError(f"{length} bytes are more than a probe can have")
        content_end = _CONTENT_OFFSET_BYTES + length
        self._memory[_CONTENT_OFFSET_BYTES:content_end] = content
        _LENGTH.pack_into(self._memory, _LENGTH_OFFSET_BYTES, length)

    def load(self) -> bytes:
        """The content in memory.

        Raises ChannelError for a length that `store` cannot have written.
        """
        (length,) = _LENGTH.unpack_from(self._memory, _LENGTH_OFFSET_BYTES)
        if length > _CONTENT_BYTES:
            raise ChannelError(f"{length} bytes are more than a probe can have")
        return self._memory[_CONTENT_OFFSET_BYTES : _CONTENT_OFFSET_BYTES + length]

    def send(self, kind: bytes, words: str = "") -> None:
        """Send a signal. Raises ChannelError."""
        try:
            self._socket.send(kind + words.encode(errors="replace")[:_MOST_SIGNAL_BYTES])
        except OSError as error:
            raise ChannelError(f"cannot send: {error}") from error

    def wait(self, seconds: float) -> bool:
        """Whether a signal, or the end of the other process, came within `seconds`."""
        return bool(select.select([self], [], [], seconds)[0])

    def receive(self) -> tuple[bytes, str]:
        """Wait for the next signal; its kind and words. Raises ChannelError."""
        try:
            signal = self._socket.recv(1 + _MOST_SIGNAL_BYTES)
        except OSError as error:
            raise ChannelError(f"cannot receive: {error}") from error
        if not signal:
            raise ChannelError("the other process is gone")
        kind, words = signal[:1], signal[1:].decode(errors="replace")
        if kind not in (START, REQUEST, LISTEN, RESULT, EVENT):
            raise ChannelError(f"a signal of kind {kind!r}")
        return kind, words

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
        self._memory.close()
        os.close(self._descriptor)
