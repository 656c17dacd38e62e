"""The items of a large list as kubectl prints it, many at a time: most of a saved cluster is read here.

Only for what is just as it should be: any other file raises `UnsupportedLayoutError` without more, and who can tell
what is wrong, and where, reads it again. No string of JSON holds a line break, so indentation tells where items end.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from toposcope.errors import ToposcopeError

_LAYOUT: Final = re.compile(rb'\{\n +"apiVersion": "v1",\n( +)"items": \[\n( +)(?=\{\n)')
_TAIL: Final = re.compile(
    rb'(?:,?\n *"(?:kind|metadata|resourceVersion|selfLink)": (?:"[^"\\]*"|\{|\{\})|\n *\})*\s*\Z'
)
"""What kubectl prints after the items, and nothing else."""
_HEAD: Final = 512
_LONGEST_TAIL: Final = 4096
_CHUNK: Final = 1 << 18
"""Bytes read at a time: little enough to stay in a processor's own memory."""
SMALLEST: Final = 4 * _CHUNK
"""Smaller files are not worth it."""


class UnsupportedLayoutError(ToposcopeError):
    """The file is not such a list, or something in it is not as it should be."""


class BulkFile:
    """One file with a list of many lines. Raises Unfit for any other, and OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UnsupportedLayoutError
        self.size = path.stat().st_size
        with path.open("rb") as file:
            layout = _LAYOUT.match(file.read(_HEAD)) if self.size >= SMALLEST else None
            if layout is None:
                raise UnsupportedLayoutError
            self.begin = layout.end()
            self._between = b"\n" + layout[2] + b"},\n" + layout[2] + b"{"
            self.end = self._find_end(file, b"\n" + layout[2] + b"}\n" + layout[1] + b"]")

    def _find_end(self, file: IO[bytes], closing: bytes) -> int:
        """Where the last item ends."""
        at = max(self.begin, self.size - _LONGEST_TAIL)
        file.seek(at)
        tail = file.read()
        found = tail.rfind(closing)
        if found < 0 or not _TAIL.match(tail, found + len(closing)):
            raise UnsupportedLayoutError
        return at + found + closing.index(b"}") + 1

    def lists(self) -> Iterator[memoryview]:
        """The items as JSON lists, one after the other in the same memory. Raises Unfit and OSError.

        A view is good until the next one is asked for, and has to be released by then.
        """
        between = self._between
        after = len(between) - 1
        closing = between.index(b"}") + 1
        # One byte in front is for the bracket; the memory is used again and again, which is half as expensive as new.
        buffer = bytearray(1 + _CHUNK)
        filled = 1
        left = self.end - self.begin
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.begin)
            while left:
                if filled == len(buffer):
                    buffer.extend(bytes(len(buffer)))
                with memoryview(buffer) as view, view[filled : min(len(buffer), filled + left)] as free:
                    count = file.readinto(free)
                if not count:
                    raise UnsupportedLayoutError  # somebody has cut the file off meanwhile
                filled += count
                left -= count
                if not left:
                    break
                cut = buffer.rfind(between, 1, filled)
                if cut < 0:
                    continue
                yield from _bracketed(buffer, cut + closing)
                rest = filled - (cut + after)
                buffer[1 : 1 + rest] = buffer[cut + after : filled]
                filled = 1 + rest
        if filled == len(buffer):
            buffer.append(0)
        yield from _bracketed(buffer, filled)


def _bracketed(buffer: bytearray, end: int) -> Iterator[memoryview]:
    """What is in the buffer up to `end`, as a list."""
    buffer[0], buffer[end] = b"[]"
    with memoryview(buffer) as view, view[: end + 1] as text:
        yield text
