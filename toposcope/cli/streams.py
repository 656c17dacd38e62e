"""Standard streams that are closed, or that nobody reads any more: no command ends in a traceback for that."""

import os
import sys
from typing import Final, TextIO

NO_READER: Final = 141
"""Exit code where nobody reads the output any more: that of a program that SIGPIPE ends."""
_FAILED: Final = 2


def open_all() -> None:
    """Give a stream that was closed before the start (`2>&-`) a place again.

    Otherwise the next file that is opened would be the stream. To write on a closed standard output still fails and is
    told; what goes to a closed standard error is nowhere to be seen, as was wanted.
    """
    if sys.stdin is None:
        sys.stdin = _on(os.open(os.devnull, os.O_RDONLY), "r")
    if sys.stdout is None:
        sys.stdout = _on(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = _on(os.open(os.devnull, os.O_WRONLY), "w")


def _on(number: int, mode: str) -> TextIO:
    return open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # type: ignore[return-value]


def forget(stream: TextIO) -> None:
    """What Python would flush at its end has nowhere to go either."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return  # no file at all
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def say(text: str) -> None:
    """A line on standard error; nothing where nobody reads it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        forget(sys.stderr)


def flushed(code: int) -> int:
    """The exit code, once everything has been written: another where that cannot be."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget(sys.stdout)
        return NO_READER
    except OSError as error:
        forget(sys.stdout)
        say(f"toposcope: the output cannot be written: {error.strerror or error}")
        return _FAILED
    return code
