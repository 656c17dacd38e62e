"""What is wrong with the input, and where, so that one run shows everything; and progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toposcope.errors import ToposcopeError


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the input; numbers count from 1, 0: none."""

    file: str
    document: int = 0
    item: int = 0
    """In the document's list."""
    line: int = 0

    @property
    def position(self) -> str:
        """Where in the file; empty where that is not known."""
        words = []
        if self.document:
            words.append(f"document {self.document}")
        if self.item:
            words.append(f"item {self.item}")
        if self.line:
            words.append(f"line {self.line}")
        return ", ".join(words)

    def __str__(self) -> str:
        if not self.position:
            return self.file
        return f"{self.file}, {self.position}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `field` is its path (`metadata.labels.rack`), empty for no field."""

    place: Place
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.field, self.message) if part)


class InputError(ToposcopeError):
    """Unusable input; `problems` are all that were found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems: Sequence[Problem] = problems


class Progress(Protocol):
    """Called now and then with what is being read."""

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """`count` objects so far.

        `share` is the part of the work that is done (0 to 1), None where it is not known.
        """


def silent(what: str, count: int, share: float | None = None) -> None:
    """Show nothing."""
    del what, count, share


class Meter:
    """How much of some files has been read; unknown if one of them has no size (standard input)."""

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
        """Count so many more bytes."""
        self._done += count

    @property
    def share(self) -> float | None:
        """The share that has been read; None: unknown."""
        return min(1.0, self._done / self._total) if self._total else None
