"""Copes with standard streams that are closed, or whose reader is gone, without a traceback."""

import contextlib
import errno
import os
import stat
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from toposcope.text import escaped_lines

EXIT_NO_READER: Final = 141
"""Exit code when the reader of the output is gone: that of a program killed by SIGPIPE."""
_EXIT_ERROR: Final = 2
_MOST_BYTES: Final = 64 << 20
"""Of a configuration, a topology, a recording or a pasted matrix."""


def open_all() -> None:
    """Reopen streams that were closed before the start (`2>&-`); else a file takes their place.

    Writing to a closed standard output still fails and is reported; a closed standard error
    discards what it gets.
    """
    if sys.stdin is None:
        sys.stdin = _on_null(os.O_RDONLY, "r")
    if sys.stdout is None:
        sys.stdout = _on_null(os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _on_null(os.O_WRONLY, "w")


def _on_null(flags: int, mode: str) -> TextIO:
    number = os.open(os.devnull, flags)
    stream = os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
    return cast("TextIO", stream)


def read_small(name: str) -> bytes:
    """The content of a file, or of standard input (`-`). Raises OSError, also for one without end.

    A pipe is read once, and its content kept: a second reader would find nothing in it.
    """
    if name in _pipes:
        return _pipes[name]

    with _opened(name) as file:
        content = file.read(_MOST_BYTES + 1)
        is_pipe = name != "-" and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)

    if len(content) > _MOST_BYTES:
        raise OSError(
            errno.EFBIG, f"larger than {_MOST_BYTES >> 20} MiB; is it the right file?", name
        )
    if is_pipe:
        _pipes[name] = content
    return content


_pipes: dict[str, bytes] = {}


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    """The open file; leaving the block closes it, unless it is standard input."""
    if name == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    return Path(name).open("rb")


def forget(stream: TextIO) -> None:
    """Discard what Python would flush at exit."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return  # not a file
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def say(text: str) -> None:
    """Print to standard error, if anything still reads it."""
    try:
        print(escaped_lines(text), file=sys.stderr, flush=True)
    except OSError:
        forget(sys.stderr)


def flushed(code: int) -> int:
    """Flush standard output; the exit code, or another where that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget(sys.stdout)
        return EXIT_NO_READER
    except OSError as error:
        forget(sys.stdout)
        say(f"toposcope: cannot write the output: {error.strerror or error}")
        return _EXIT_ERROR
    return code
