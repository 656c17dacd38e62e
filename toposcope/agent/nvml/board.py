"""Where the worker writes what it is about to ask, and the agent reads it when an answer is late.

A page of memory that both processes share: forty steps a probe cost nothing this way, and neither side can block on
the other.
"""

import mmap
import os
import struct
from typing import Final

_HEAD: Final = struct.Struct("=II")
_SIZE: Final = 4096


class Board:
    """One short text and a count of how often it was changed, in the memory that `descriptor` stands for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)

    @classmethod
    def new(cls) -> "Board":
        """An empty one; a process that gets its descriptor sees the same. Raises OSError."""
        descriptor = os.memfd_create("toposcope-steps")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def write(self, text: str) -> None:
        """Replace the text; longer ones are cut."""
        data = text.encode(errors="replace")[: _SIZE - _HEAD.size]
        count, _ = _HEAD.unpack_from(self._memory)
        self._memory[_HEAD.size : _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._memory, 0, (count + 1) & 0xFFFFFFFF, len(data))

    def read(self) -> tuple[int, str]:
        """How often the text was changed, and the text; one that is being written just now may be mixed up."""
        count, length = _HEAD.unpack_from(self._memory)
        return count, self._memory[_HEAD.size : _HEAD.size + min(length, _SIZE - _HEAD.size)].decode(errors="replace")

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.descriptor)
