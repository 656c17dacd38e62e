"""A stream of bytes cut where a pattern matches, so that a file of any size passes through a few megabytes."""

import re
from typing import IO, Final

_CHUNK: Final = 1 << 20
_OVERLAP: Final = 512
"""No pattern here matches more than this."""


class Cutter:
    """Reads a stream piece by piece; `line` is the number of the line that the next piece begins on, from 1."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._buffer = b""
        self._at = 0
        self._ended = False
        self.line = 1

    def starts_with(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Whether what comes next matches; nothing is consumed. Looks ahead by one chunk at most."""
        while len(self._buffer) - self._at < _CHUNK and self._more():
            pass
        return pattern.match(self._buffer, self._at)

    def until(self, pattern: re.Pattern[bytes], *, skip: int = 0) -> bytes | None:
        """What comes before the next match, which begins the next piece. None when there is no more: see `rest`.

        `skip` bytes are part of the piece whatever they are.
        """
        begin = self._at + skip
        while True:
            match = pattern.search(self._buffer, begin)
            # A match that touches the end might be longer, or begin otherwise, with what is still to come.
            if match and (self._ended or match.end() + _OVERLAP < len(self._buffer)):
                return self._take(match.start())
            seen = match.start() if match else max(begin, len(self._buffer) - _OVERLAP)
            offset = seen - self._at
            if not self._more():
                if match:
                    continue
                return None
            begin = self._at + offset

    def take(self, length: int) -> bytes:
        """The next bytes, which `starts_with` has seen."""
        return self._take(self._at + length)

    def rest(self) -> bytes:
        """Everything that is left."""
        chunks = [self._buffer[self._at :]]
        while not self._ended and (chunk := self._stream.read(_CHUNK)):
            chunks.append(chunk)
        self._buffer, self._at, self._ended = b"".join(chunks), 0, True
        return self._take(len(self._buffer))

    def _take(self, end: int) -> bytes:
        piece = self._buffer[self._at : end]
        self._at = end
        if end == len(self._buffer):
            self._buffer, self._at = b"", 0  # a piece may be gigabytes, and must not be kept twice
        self.line += piece.count(b"\n")
        return piece

    def _more(self) -> bool:
        # As much again as there is: a piece of any length is then copied a few times only.
        chunk = b"" if self._ended else self._stream.read(max(_CHUNK, len(self._buffer) - self._at))
        if not chunk:
            self._ended = True
            return False
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return True
