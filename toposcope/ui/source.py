"""Where facts come from: a running cluster or saved files."""

from dataclasses import dataclass
from typing import Literal, Protocol

from toposcope.snapshot.model import NodeView, Published


@dataclass(frozen=True, slots=True)
class Seen:
    """One node looked at by itself: with its matrix annotation."""

    node: NodeView
    written: str
    """RFC 3339: when its agent last wrote to it; empty where nobody can tell."""


class Source(Protocol):
    """Fills the `Facts` that it was made for, from threads of its own."""

    @property
    def kind(self) -> Literal["cluster", "files"]:
        """What it looks at."""

    def start(self) -> None:
        """Begin."""

    def close(self) -> None:
        """Ask the threads to end."""

    def node(self, name: str) -> Seen | None:
        """One node; None where there is none. Raises KubeError."""

    def published(self) -> tuple[tuple[Published, ...], tuple[str, ...]]:
        """What schedulers have been given, and a sentence for each thing that may not be read. Raises KubeError."""
