"""The formats in which a topology can be written, listed by a system's `FORMATS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import TopologyLevels


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The options of one format, set by the flags that it declares."""

    name: str | None = None
    """The resource's name; None for the topology's name."""
    cluster_id: str | None = None
    level: str | None = None
    block_size: int | None = None
    pcie_gen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFlag:
    """A flag of one format, which sets the field of `ExportOptions` of its name."""

    field: str
    help: str
    metavar: str | None = None
    choices: tuple[int, ...] | None = None
    number: str = ""
    """What its number counts, as in `a number of nodes`; at least 1. Empty for a flag of text."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to write a format."""

    name: str
    write: Callable[[TopologyLevels, ExportOptions], Mapping[str, Any]]
    """The document. Raises ExportError."""
    note: str = ""
    """What to know about it."""
    missing: Callable[[ExportOptions], str] | None = None
    """What the document lacks without a flag, and what to do; empty if it is complete."""

    def notes(self, options: ExportOptions) -> tuple[str, ...]:
        """What to know about the document."""
        parts = []
        if self.note:
            parts.append(self.note)
        missing = self.missing(options) if self.missing else ""
        if missing:
            parts.append(missing)
        if not parts:
            return ()
        return ("; ".join(parts),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsFormat:
    """A format that lists levels; the first variant is the default."""

    name: str
    variants: tuple[Variant, ...]
    has_json_default: bool = False
    """Whether JSON is the default."""
    flags: tuple[ExportFlag, ...] = ()
    loses_own_names: bool = False
    """Whether the scheduler ignores nodes whose hostname is the value of the broadest level."""


class Hierarchy(Protocol):
    """The levels of a topology with its nodes."""

    @property
    def name(self) -> str:
        """The topology's name; empty if there is none."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Broadest first."""

    def table(self) -> Table:
        """The nodes by their levels."""

    def level(self, name: str) -> int:
        """The position of a level. Raises an error that lists the levels."""


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file, and notes for standard error."""

    content: str | list[Any]
    """A text, or a document to write as YAML."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFormat:
    """A format that lists nodes; the first variant is the default."""

    name: str
    variants: tuple[str, ...]
    write: Callable[[Hierarchy, str, ExportOptions], ExportedFile]
    """The file in one of the variants. Raises ExportError."""
    flags: tuple[ExportFlag, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedNode:
    """The facts of one node that a file is written from."""

    name: str
    matrix: str
    """The annotation that its agent published."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFormat:
    """A format that describes one node."""

    name: str
    variants: tuple[str, ...]
    write: Callable[[ExportedNode, ExportOptions], ExportedFile]
    """The file. Raises ExportError."""
    flags: tuple[ExportFlag, ...] = ()


Format = LevelsFormat | NodesFormat | NodeFormat

LEVELS_WITHOUT_NAMES = "label keys only: this format has no names of levels"
"""A note of formats that list label keys."""
