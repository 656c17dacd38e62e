"""How a cost grows with the number of nodes: samples by size, the exponent of the curve, and curves as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from tools.bench.report import Rows, Sample, number


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
        rows.append((("  " if curve.limit else "") + name, *cells, _shown(curve.exponent), _shown(curve.tail)))
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
