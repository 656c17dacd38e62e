"""What is wrong with the input, and where: collected, so that one run shows all of it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; numbers count from 1, and 0 says that there is none."""

    file: str
    document: int = 0
    item: int = 0
    """In the document's list."""
    line: int = 0

    def __str__(self) -> str:
        parts = (("document", self.document), ("item", self.item), ("line", self.line))
        return ", ".join((self.file, *(f"{name} {number}" for name, number in parts if number)))


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that cannot be understood; `field` is its path (`metadata.labels.rack`), empty for no field."""

    place: Place
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.field, self.message) if part)


class BadInput(Exception):
    """Input that cannot be used; `problems` are all that were found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems: Sequence[Problem] = problems
