"""The rest of a stream, after pieces of it were taken."""

import io

import pytest
from toposcope.snapshot.cutter import Cutter, TooLargeError


def test_rest_is_what_was_not_taken() -> None:
    cutter = Cutter(io.BytesIO(b"kind: Node\n"))
    assert cutter.rest() == b"kind: Node\n"
    assert cutter.line == 2
    assert cutter.rest() == b""


def test_rest_of_many_chunks_is_in_one_piece() -> None:
    text = b"x" * 300_000
    assert Cutter(io.BytesIO(text)).rest() == text


def test_rest_beyond_the_limit_is_refused() -> None:
    cutter = Cutter(io.BytesIO(b"x" * 300_000), limit=200_000)
    with pytest.raises(TooLargeError):
        cutter.rest()
