"""How far reading has come, for whoever waits."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol


class Progress(Protocol):
    """Told now and then what is being read."""

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """`count` objects so far; `share` is the part of the work that is done (0 to 1), None where it is not known."""


class _Silent:
    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        pass


silent: Final[Progress] = _Silent()
"""Nobody wants to know."""


class Meter:
    """How much of some files has been read. Where one of them has no size (standard input), nobody knows."""

    def __init__(self, names: Iterable[str]) -> None:
        self._total = 0
        self._done = 0
        for name in names:
            path = Path(name)
            if path.is_file():
                self._total += path.stat().st_size
            else:
                self._total = 0
                break

    def read(self, count: int) -> None:
        """So many bytes more."""
        self._done += count

    @property
    def share(self) -> float | None:
        """The part that has been read."""
        return min(1.0, self._done / self._total) if self._total else None
