"""Cuts a stream of bytes where a pattern matches.

Files of any size pass through a few megabytes of memory. What kubectl prints of 15,000 nodes and
41,000 pods (809 MiB) is read in 1.8 s of CPU and 53 MiB this way; decoded in one piece it takes
2.1 s and 1.3 GiB. Limits keep hostile files out of it: one piece without end, or a few megabytes of
gzip that unpack to gigabytes.
"""

import re
from typing import IO, Final

from toposcope.errors import ToposcopeError

LIMIT: Final = 256 << 20
"""Bytes of one piece: a list of 10,000 Nodes on a single line has as many."""
OF_FILE: Final = 32
"""One file may unpack to this many times the limit.

kubectl's JSON of 100,000 nodes has 5.3 GiB.
"""
_CHUNK: Final = 1 << 17
"""Bytes read at a time: few enough for a processor's cache, and for memory that is used again."""
_OVERLAP: Final = 512
"""Bytes; no pattern here matches more than this."""
BYTES_PER_OBJECT: Final = 256
"""The limit divided by this is how many objects one file may have.

An object of a few bytes takes far more memory when kept.
"""


class TooLargeError(ToposcopeError):
    """More than the limit; the message names the flag that raises it."""

    def __init__(self, what: str, most: int, limit: int, unit: str = "MiB") -> None:
        amount = f"{most:,}"
        if unit == "MiB":
            amount = _mebibytes(most)
        super().__init__(
            f"{what} has more than {amount} {unit}; if it is really that large, raise "
            f"--from-limit (now {_mebibytes(limit)})"
        )


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):g}"


class Cutter:
    """Reads a stream piece by piece."""

    def __init__(self, stream: IO[bytes], *, count_lines: bool = True, limit: int = LIMIT) -> None:
        """`limit` is in bytes."""
        self._stream = stream
        self._count_lines = count_lines
        self._limit = limit
        self._total = 0
        self._buffer = b""
        self._at = 0
        self._ended = False
        self.offset = 0
        """The offset of the next piece."""
        self.line = 1 if count_lines else 0
        """The line that the next piece begins on, from 1; 0 where lines are not counted."""

    def starts_with(self, pattern: re.Pattern[bytes], *, after: int = 0) -> re.Match[bytes] | None:
        """The match of what comes `after` bytes from here; nothing is consumed.

        Looks ahead by one chunk.
        """
        self._fill()
        return pattern.match(self._buffer, self._at + after)

    def until(self, pattern: re.Pattern[bytes], *, skip: int = 0) -> bytes | None:
        """The bytes before the next match, which begins the next piece; None: no match.

        The first `skip` bytes are part of the piece whatever they are.
        """
        begin = self._at + skip
        while True:
            match = pattern.search(self._buffer, begin)
            size = len(self._buffer)
            if match:
                resume = match.start()
                # A match that touches the end might be longer, or begin elsewhere, with what is
                # still to come.
                if self._ended or match.end() + _OVERLAP < size:
                    return self.take(resume - self._at)
            else:
                resume = max(begin, size - _OVERLAP)

            searched = resume - self._at
            if self._more():
                begin = self._at + searched
            elif not match:
                return None

    def until_last(self, separator: bytes) -> memoryview | None:
        """The bytes before the last separator in the next chunk or two; nothing is consumed."""
        for _ in range(2):
            self._fill()
            end = self._buffer.rfind(separator, self._at)
            if end >= 0:
                return memoryview(self._buffer)[self._at : end]
            if not self._more():
                break
        return None

    def take(self, length: int) -> bytes:
        """The next bytes, after a peek at them."""
        piece = self._buffer[self._at : self._at + length]
        self.skip(length)
        return piece

    def skip(self, length: int) -> None:
        """Skip bytes that were peeked at."""
        end = self._at + length
        if self._count_lines:
            self.line += self._buffer.count(b"\n", self._at, end)
        self.offset += length
        self._at = end
        if end == len(self._buffer):
            self._buffer, self._at = b"", 0  # a piece may be gigabytes, and must not be kept twice

    def rest(self) -> bytes:
        """The rest of the stream."""
        chunks = [self._buffer[self._at :]]
        size = len(chunks[0])
        while not self._ended:
            chunk = self._read(_CHUNK)
            if not chunk:
                self._ended = True
            chunks.append(chunk)
            size += len(chunk)
            self.check(size)

        self._buffer = b"".join(chunks)
        self._at = 0
        return self.take(len(self._buffer))

    def check(self, size: int) -> None:
        """Raise TooLargeError for a piece larger than the limit."""
        if size > self._limit:
            raise TooLargeError("one document", self._limit, self._limit)

    def _read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._total += len(chunk)
        most = self._limit * OF_FILE
        if self._total > most:
            raise TooLargeError("the unpacked file", most, self._limit)
        return chunk

    def _fill(self) -> None:
        while len(self._buffer) - self._at < _CHUNK and self._more():
            pass

    def _more(self) -> bool:
        """Read more; whether there was any."""
        held = len(self._buffer) - self._at
        self.check(held)
        if self._ended:
            return False

        # As much again as there is: a piece of any length is then copied only a few times.
        within_limit = min(held, self._limit - held)
        chunk = self._read(max(_CHUNK, within_limit))
        if not chunk:
            self._ended = True
            return False

        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return True
