"""The formats that a topology is written in: what `FORMATS` in a system's `export.py` lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.levels import TopologyLevels


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What a user may say about one format, by flags of the same names."""

    cluster_id: str = ""
    level: str | None = None
    block_size: int | None = None
    node: str = ""
    pcie_gen: int | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to write a format."""

    name: str
    write: Callable[[TopologyLevels, ExportOptions], Any]
    """The document. Raises ExportError."""
    note: str = ""
    """What to know about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsFormat:
    """A format that lists levels; the first variant is the default."""

    name: str
    variants: tuple[Variant, ...]
    json: bool = False
    """Whether it is written as JSON where the user does not say."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The levels of a topology with its nodes."""

    name: str
    levels: tuple[Level, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class ExportedText:
    """A file, and notes for standard error."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFormat:
    """A format that lists nodes, as a text of its own."""

    name: str
    variants: tuple[str, ...]
    write: Callable[[Hierarchy, str, ExportOptions], ExportedText]
    """The file in one of the variants. Raises ExportError."""


Format = LevelsFormat | NodesFormat
Formats = Sequence[Format]
