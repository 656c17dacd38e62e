"""Curves on axes that count in powers of ten, as SVG: one file for light and dark pages, with no font of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Final

from tools.docgen.drawing import picture

_WIDTH: Final = 500
_HEIGHT: Final = 320
_LEFT: Final = 62
_RIGHT: Final = 150
_TOP: Final = 44
_BOTTOM: Final = 44
_APART: Final = 15
"""Pixels from one name at the end of a curve to the next."""
_NARROW: Final = 1.2
"""Powers of ten on an axis up to which 2 and 5 are marked as well."""
_DOT: Final = 3
_STYLE: Final = """<style>
  .c0{stroke:#0969da} .c1{stroke:#1a7f37} .c2{stroke:#8250df} .c3{stroke:#9a6700} .c4{stroke:#cf222e}
  .t0{fill:#0969da} .t1{fill:#1a7f37} .t2{fill:#8250df} .t3{fill:#9a6700} .t4{fill:#cf222e}
  .curve{fill:none;stroke-width:2} .grid{stroke:#d1d9e0;stroke-width:1} .end{text-anchor:end}
  @media (prefers-color-scheme:dark){
    .c0{stroke:#58a6ff} .c1{stroke:#3fb950} .c2{stroke:#bc8cff} .c3{stroke:#d29922} .c4{stroke:#ff7b72}
    .t0{fill:#58a6ff} .t1{fill:#3fb950} .t2{fill:#bc8cff} .t3{fill:#d29922} .t4{fill:#ff7b72}
    .grid{stroke:#30363d}
  }
</style>"""


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y), both more than 0, and the words at the end of the curve through them."""

    words: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels, a power of ten as wide as the next."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> "_Axis":
        low, high = log10(min(values)), log10(max(values))
        if ceil(high) - floor(low) > _NARROW:
            return cls(floor(low + 1e-9), max(ceil(high - 1e-9), floor(low + 1e-9) + 1), start, end)
        return cls(low - 0.05, max(high, low + 0.3) + 0.05, start, end)

    def at(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        steps = (1, 2, 5) if self.high - self.low <= _NARROW else (1,)
        powers = range(floor(self.low), ceil(self.high) + 1)
        values = [step * 10.0**power for power in powers for step in steps]
        return [value for value in values if self.low - 1e-9 <= log10(value) <= self.high + 1e-9]


def chart(title: str, panels: Sequence[Panel], across: str, columns: int = 2) -> str:
    """A whole SVG document; `across` says what all horizontal axes count. Raises ValueError for a panel without points.

    The n-th line of every panel has the n-th colour; there are five.
    """
    rows = -(-len(panels) // columns)
    parts = [_STYLE]
    for i, panel in enumerate(panels):
        x, y = _WIDTH * (i % columns), _HEIGHT * (i // columns)
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, across)}</g>')
    return picture(_WIDTH * columns, _HEIGHT * rows, title, parts)


def _panel(panel: Panel, across: str) -> str:
    points = [point for line in panel.lines for point in line.points]
    if not points or any(value <= 0 for point in points for value in point):
        raise ValueError(f"{panel.title}: every axis counts in powers of ten; points must be there and more than 0")
    x = _Axis.over([point[0] for point in points], _LEFT, _WIDTH - _RIGHT)
    y = _Axis.over([point[1] for point in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [_text(20, 26, panel.title, "ink bold")]
    for tick in x.ticks:
        at = x.at(tick)
        parts += [_grid(at, _TOP, at, _HEIGHT - _BOTTOM), _text(at, _HEIGHT - 26, _short(tick), "faint small middle")]
    for tick in y.ticks:
        at = y.at(tick)
        parts += [_grid(_LEFT, at, _WIDTH - _RIGHT, at), _text(_LEFT - 7, at + 4, _short(tick), "faint small end")]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 9, across, "faint small middle"))
    ends = _spaced([y.at(line.points[-1][1]) for line in panel.lines])
    for i, (line, end) in enumerate(zip(panel.lines, ends, strict=True)):
        path = " ".join(f"{x.at(a)} {y.at(b)}" for a, b in line.points)
        dash = " dash" if line.dashed else ""
        parts.append(f'<path class="curve c{i}{dash}" d="M{path}"/>')
        parts += [f'<circle class="t{i}" cx="{x.at(a)}" cy="{y.at(b)}" r="{_DOT}"/>' for a, b in line.points]
        parts.append(_text(_WIDTH - _RIGHT + 10, end + 4, line.words, f"t{i} small"))
    return "\n".join(parts)


def _spaced(heights: Sequence[float]) -> list[float]:
    """The heights, moved so that words there do not overlap; in the order in which they were given."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = dict.fromkeys(order, 0.0)
    last = float("-inf")
    for i in order:
        last = placed[i] = max(heights[i], last + _APART)
    excess = max(0.0, last - (_HEIGHT - _BOTTOM))
    return [placed[i] - excess for i in range(len(heights))]


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
