"""Where the worker writes what it is about to ask, and the keeper reads it when an answer is late.

A page of memory that both processes share: forty steps a probe cost nothing this way, and neither side can block on
the other.
"""

import mmap
import struct
from typing import Final

_HEAD: Final = struct.Struct("=II")
_SIZE: Final = 4096


class Board:
    """One short text and a count of how often it was changed; make it before the fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._count = 0

    def write(self, text: str) -> None:
        """Replace the text; longer ones are cut."""
        data = text.encode()[: _SIZE - _HEAD.size]
        self._count = (self._count + 1) & 0xFFFFFFFF
        self._memory[_HEAD.size : _HEAD.size + len(data)] = data
        self._memory[: _HEAD.size] = _HEAD.pack(self._count, len(data))

    def read(self) -> tuple[int, str]:
        """How often the text was changed, and the text; one that is being written just now may be mixed up."""
        count, length = _HEAD.unpack(self._memory[: _HEAD.size])
        return count, self._memory[_HEAD.size : _HEAD.size + min(length, _SIZE - _HEAD.size)].decode(errors="replace")
