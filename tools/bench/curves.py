"""How a cost grows with the number of nodes: samples by size, growth exponents, curves as a table and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from tools.bench.report import Rows, Sample, number

_LIMIT: Final = "limit: "


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost in one unit at several sizes; `limit` when it is a peer and not ours."""

    name: str
    unit: str
    points: Mapping[int, Sample]
    limit: bool = False

    @property
    def line(self) -> list[tuple[float, float]]:
        """Sizes and values, for those that are more than nothing."""
        return [(float(size), sample.value) for size, sample in sorted(self.points.items()) if sample.value > 0]

    @property
    def exponent(self) -> float | None:
        """The k of cost ~ nodes ** k; None where there are not two points."""
        return exponent(self.line)

    @property
    def tail(self) -> float | None:
        """The same for the larger half of the sizes, in which what every start costs weighs little."""
        return exponent(self.line[len(self.line) // 2 :])


def exponent(line: Sequence[tuple[float, float]]) -> float | None:
    """The slope of log(cost) over log(size) by least squares; None where there are not two sizes."""
    if len({size for size, _ in line}) < 2:  # noqa: PLR2004 - two points make a line
        return None
    xs, ys = [log(size) for size, _ in line], [log(cost) for _, cost in line]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def curve_rows(curves: Sequence[Curve]) -> Rows:
    """A head, then a row a curve, a column a size, and the exponents over all sizes and over the larger half."""
    sizes = sorted({size for curve in curves for size in curve.points})
    rows: Rows = [("nodes", *(f"{size:,}" for size in sizes), "exponent", "larger half")]
    for curve in curves:
        cells = [number(curve.points[size].value) if size in curve.points else "" for size in sizes]
        name = f"{curve.name}, {curve.unit}" if curve.unit else curve.name
        rows.append((_LIMIT * curve.limit + name, *cells, _shown(curve.exponent), _shown(curve.tail)))
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def draw(table: Rows, panels: Mapping[str, Mapping[str, str]], path: Path) -> None:
    """Draw rows of a table of `curve_rows` as SVG, on axes that count in powers of ten, with each curve's exponent.

    `panels` has the title of each pair of axes and, for the start of a row's name, what the curve is called. Curves of
    limits are dashed. Rows that are missing, and values of 0, are left out.
    """
    (_, *columns), *rows = table
    sizes = [int(column.replace(",", "")) for column in columns[:-2]]
    # Words stay words, and equal figures make equal files.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "toposcope"}):
        canvas = Canvas(figsize=(10, 7), layout="constrained")
        for axes, (title, names) in zip(canvas.subplots(2, 2).flat, panels.items(), strict=True):
            for name, called in names.items():
                for row in (row for row in rows if row[0].removeprefix(_LIMIT).startswith(name)):
                    *cells, k, _ = row[1:]
                    costs = [float(cell.replace(",", "") or 0) for cell in cells]
                    points = [point for point in zip(sizes, costs, strict=True) if point[1]]
                    style = "o--" if row[0].startswith(_LIMIT) else "o-"
                    axes.loglog(*zip(*points, strict=True), style, label=f"{called}, n^{k}" if k else called)
            axes.set(title=title, xlabel="nodes")
            axes.grid(visible=True, alpha=0.4)
            axes.legend()
        canvas.savefig(path, format="svg", metadata={"Date": None})
