"""The problems of an input and where they are, so that one run shows all; and progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toposcope.errors import ToposcopeError


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the input. Numbers count from 1; 0: none."""

    file: str
    document: int = 0
    item: int = 0
    """In the document's list."""
    line: int = 0

    @property
    def position(self) -> str:
        """The place within the file; empty where it is not known."""
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
        parts = [str(self.place), self.field, self.message]
        return ": ".join(filter(None, parts))


class InputError(ToposcopeError):
    """Unusable input, with all its problems."""

    problems: Sequence[Problem]

    def __init__(self, *problems: Problem) -> None:
        lines = map(str, problems)
        super().__init__("\n".join(lines))
        self.problems = problems


class FieldError(ValueError):
    """A value that the API server would refuse in the field at `path`, as msgspec writes it."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(f"{why} - at `{path}`")
        self.why = why
        self.path = path


class Progress(Protocol):
    """Called now and then while objects are read."""

    def __call__(self, what: str, count: int, share: float | None = None) -> None:
        """Show that `count` objects have been read, and `share` of the work is done (0 to 1)."""


def silent(what: str, count: int, share: float | None = None) -> None:
    """Show nothing."""
    del what, count, share


class Meter:
    """How much of some files has been read; unknown if one of them has no size (standard input)."""

    def __init__(self, names: Iterable[str]) -> None:
        self._total_bytes = 0
        self._read_bytes = 0
        for name in names:
            path = Path(name)
            if not path.is_file():
                self._total_bytes = 0
                break
            self._total_bytes += path.stat().st_size

    def read(self, count: int) -> None:
        """Count bytes that have been read."""
        self._read_bytes += count

    @property
    def share(self) -> float | None:
        """The share that has been read; None: unknown."""
        if not self._total_bytes:
            return None
        share = self._read_bytes / self._total_bytes
        return min(1.0, share)
