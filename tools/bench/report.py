"""Samples, figures, and the table that shows them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements of one thing in one unit.

    `share` is the part of them that lies at or below the figure reported.
    """

    values: tuple[float, ...]
    unit: str
    share: float = 0.5

    @property
    def value(self) -> float:
        """The percentile by nearest rank: always one that was measured."""
        ordered = sorted(self.values)
        rank = math.ceil(self.share * len(ordered))
        return ordered[max(0, rank - 1)]

    def __str__(self) -> str:
        middle = number(self.value)
        text = f"{middle} {self.unit}".rstrip()
        count = len(self.values)
        if count == 1:
            return text

        least = min(self.values)
        most = max(self.values)
        return f"{text} ({number(least)} to {number(most)}, n={count})"


@dataclass(frozen=True, slots=True)
class Target:
    """A number to reach, in the figure's unit; `at_most` says on which side of it is good.

    `limit` is what the figure's first peer took where the target was set, if that is known: on
    another machine the ratio of the two is what counts.
    """

    value: float
    is_at_most: bool = True
    limit: float | None = None

    def is_met(self, value: float, peer: float | None = None) -> bool:
        """Whether a value reaches it, as a number or beside the first peer's of the same run."""
        is_reached = value >= self.value
        if self.is_at_most:
            is_reached = value <= self.value
        if is_reached or self.limit is None or not peer:
            return is_reached
        scaled = value * self.limit / peer
        return self.is_met(scaled)

    def __str__(self) -> str:
        sign = ">="
        if self.is_at_most:
            sign = "<="
        text = f"{sign} {number(self.value)}"
        if self.limit is None:
            return text
        ratio = number(self.value / self.limit)
        return f"{text}, or a ratio of {ratio}"


@dataclass(frozen=True, slots=True)
class Peer:
    """What a figure is compared with, measured in the same run.

    It is a limit that nothing can beat, or a part of it.
    """

    name: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report; peers after the first get lines of their own."""

    name: str
    sample: Sample
    target: Target | None = None
    peers: tuple[Peer, ...] = ()


Rows = list[Sequence[str]]
HEAD: Final[Sequence[str]] = ("figure", "measured", "target", "limit or peer", "ratio")


def rows_of(figure: Figure) -> Rows:
    """The figure's lines under `HEAD`; the ratio is measured / peer."""
    measured = figure.sample.value
    peers = []
    for peer in figure.peers:
        ratio = ""
        limit = peer.sample.value
        if limit:
            ratio = f"{measured / limit:.2f}"
        peers.append((f"{peer.name}: {peer.sample}", ratio))
    if not peers:
        peers.append(("", ""))

    first, *others = peers
    rows: Rows = [(figure.name, str(figure.sample), _target(figure), *first)]
    for other in others:
        rows.append(("", "", "", *other))
    return rows


def _target(figure: Figure) -> str:
    target = figure.target
    if target is None:
        return ""
    limit = None
    if figure.peers:
        limit = figure.peers[0].sample.value
    if target.is_met(figure.sample.value, limit):
        return str(target)
    return f"{target} missed"


def number(value: float) -> str:
    """A number with three digits that mean something."""
    size = abs(value)
    if value == int(value) or size >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{value:,.0f}"
    if size >= 10:  # noqa: PLR2004 - same
        return f"{value:.1f}"
    return f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, two spaces apart."""
    widths = []
    for column in zip(*rows, strict=True):
        widths.append(_width(column))

    lines = []
    for row in rows:
        line = ""
        for cell, width in zip(row, widths, strict=True):
            line += cell.ljust(width) + "  "
        lines.append(line.rstrip())
    return "\n".join(lines)


def _width(cells: Sequence[str]) -> int:
    return max(len(cell) for cell in cells)
