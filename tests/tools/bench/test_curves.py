import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from tools.bench.chart import Line, Panel, chart
from tools.bench.curves import Curve, curve_rows, exponent
from tools.bench.report import Sample, aligned


def curve(name: str, values: dict[int, float], unit: str = "s", *, limit: bool = False) -> Curve:
    return Curve(name, unit, {size: Sample((value,), unit) for size, value in values.items()}, limit)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_exponent_of_a_power_is_that_power(power: float) -> None:
    assert exponent([(size, 3 * size**power) for size in (1e3, 3e3, 1e4, 1e5)]) == pytest.approx(power)


def test_one_point_has_no_exponent() -> None:
    assert exponent([(10, 1)]) is None
    assert exponent([(10, 1), (10, 2)]) is None


def test_larger_half_leaves_out_what_every_start_costs() -> None:
    start = curve("sync", {size: 1.0 + size / 10_000 for size in (1_000, 3_000, 10_000, 30_000, 100_000)})
    assert start.exponent is not None
    assert start.tail is not None
    assert start.exponent < start.tail < 1


def test_value_of_nothing_is_no_point_of_a_curve() -> None:
    assert curve("writes", {1_000: 0, 10_000: 0}).exponent is None


def test_table_has_a_column_a_size() -> None:
    rows = curve_rows([curve("sync", {1_000: 1, 10_000: 10}), curve("limit", {1_000: 1}, limit=True)])
    assert aligned(rows).splitlines() == [
        "nodes       1,000  10,000  exponent  larger half",
        "sync, s     1      10      1.00",
        "  limit, s  1",
    ]


def test_chart_is_well_formed_and_says_what_it_shows() -> None:
    lines = [Line("ours", [(1e3, 0.4), (1e5, 9.6)]), Line("<limit>", [(1e3, 0.1), (1e5, 4.9)], dashed=True)]
    text = chart("costs", [Panel("CPU", lines), Panel("memory", lines[:1])], "nodes")
    root = ET.fromstring(text)  # noqa: S314 - we wrote it
    words = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"CPU", "memory", "ours", "<limit>", "1k", "100k", "0.1", "10"} <= set(words)
    assert "prefers-color-scheme:dark" in text


def test_equal_distances_are_equal_ratios() -> None:
    text = chart("c", [Panel("p", [Line("l", [(1e3, 1.0), (1e4, 10.0), (1e5, 100.0)])])], "nodes")
    path = next(each for each in ET.fromstring(text).iter() if "curve" in each.get("class", ""))  # noqa: S314 - we wrote it
    numbers = [float(each) for each in path.get("d", "")[1:].split()]
    xs, ys = tuple(numbers[::2]), tuple(numbers[1::2])
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)


def test_names_at_the_ends_do_not_overlap() -> None:
    lines = [Line(f"line {i}", [(1e3, 1.0), (1e5, 50.0 + i / 10)]) for i in range(5)]
    root = ET.fromstring(chart("c", [Panel("p", lines)], "nodes"))  # noqa: S314 - we wrote it
    heights = sorted(float(each.get("y", "")) for each in root.iter() if (each.text or "").startswith("line "))
    assert all(after - before >= 15 for before, after in pairwise(heights))


def test_nothing_cannot_stand_on_an_axis_of_powers() -> None:
    with pytest.raises(ValueError, match="p: every axis counts in powers of ten"):
        chart("c", [Panel("p", [Line("l", [(1e3, 0.0)])])], "nodes")
