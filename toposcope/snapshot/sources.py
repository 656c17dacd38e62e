"""Where objects are read from; each source is opened once, because a pipe can't be read again."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from toposcope.snapshot.packed import MAGIC

STDIN: Final = "-"


class Prefixed:
    """A stream whose first bytes have been read already; a pipe cannot be rewound."""

    def __init__(
        self,
        head: bytes,
        stream: "IO[bytes] | Prefixed",
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        """`on_read` gets the number of bytes read each time."""
        self._head = head
        self._stream = stream
        self._on_read = on_read

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        chunk = self._head[:size]
        self._head = self._head[size:]
        missing = size - len(chunk)
        if missing > 0:
            chunk += self._stream.read(missing)
        if self._on_read:
            self._on_read(len(chunk))
        return chunk


@dataclass(frozen=True, slots=True)
class Source:
    """A file, directory, pipe or standard input."""

    name: str
    is_packed: bool = False
    """Whether some version of `toposcope save` wrote it."""
    stream: Prefixed | None = None
    """Set for a pipe, which cannot be opened a second time."""

    @contextmanager
    def opened(self) -> Iterator["IO[bytes] | Prefixed"]:
        """A stream of all its bytes. Raises OSError."""
        if self.stream is not None:
            yield self.stream
            return
        with Path(self.name).open("rb") as file:
            yield file


def sources(names: Iterable[str], keep: ExitStack) -> list[Source]:
    """The sources of these names; pipes stay open until `keep` is closed.

    Files that cannot be read count as not packed: whoever opens them says why.
    """
    return [_source(name, keep) for name in names]


def _source(name: str, keep: ExitStack) -> Source:
    path = Path(name)
    if name == STDIN or path.is_dir():
        return Source(name)

    try:
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(len(MAGIC))
            return Source(name, is_packed=head == MAGIC)

        stream = keep.enter_context(path.open("rb"))
        head = stream.read(len(MAGIC))
    except OSError:
        return Source(name)
    return Source(name, is_packed=head == MAGIC, stream=Prefixed(head, stream))
