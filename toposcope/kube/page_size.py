"""How many objects a page of a list may have: fewer where they are so large that an answer would be too large.

Anybody who may write an object can make it large: 256 KiB of annotations, 1.5 MiB in all. One always fits.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from toposcope.kube.errors import AnswerTooLargeError

USUAL: Final = 500
"""As kubectl has it."""

T = TypeVar("T")


class PageSize:
    """The size of the pages of one list, which only shrinks."""

    def __init__(self, most: int = USUAL) -> None:
        self._limit = most

    def read(self, read: Callable[[str], T]) -> T:
        """What `read` returns for a value of `limit`; half of it where the answer is too large, down to 1.

        Raises what `read` raises.
        """
        while True:
            try:
                return read(str(self._limit))
            except AnswerTooLargeError:
                if self._limit == 1:
                    raise
                self._limit //= 2
