"""One condition of a node selector, in a module of its own because agents read selectors too."""

from dataclasses import dataclass
from typing import Protocol


class Labelled(Protocol):
    """Anything with labels, for selectors."""

    def label(self, key: str) -> str | None:
        """The value of a label; None if there is none."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a node selector; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, node: Labelled) -> bool:
        """Whether the node meets it."""
        value = node.label(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None
