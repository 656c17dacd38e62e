import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools.bench.report import Sample, aligned
from tools.bench.scale import Curve, curve_rows, draw, exponent

SVG = "{http://www.w3.org/2000/svg}"


def curve(name: str, values: dict[int, float], unit: str = "s", *, limit: bool = False) -> Curve:
    return Curve(name, unit, {size: Sample((value,), unit) for size, value in values.items()}, limit)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_exponent_of_a_power_is_that_power(power: float) -> None:
    assert exponent([(size, 3 * size**power) for size in (1e3, 3e3, 1e4, 1e5)]) == pytest.approx(power)


def test_larger_half_leaves_out_what_every_start_costs() -> None:
    start = curve("sync", {size: 1.0 + size / 10_000 for size in (1_000, 3_000, 10_000, 30_000, 100_000)})
    assert start.exponent is not None
    assert start.tail is not None
    assert start.exponent < start.tail < 1


def test_table_has_a_column_a_size() -> None:
    rows = curve_rows([curve("sync", {1_000: 1, 10_000: 10}), curve("read", {1_000: 1, 10_000: 0}, limit=True)])
    assert aligned(rows).splitlines() == [
        "nodes           1,000  10,000  exponent  larger half",
        "sync, s         1      10      1.00",
        "limit: read, s  1      0",
    ]


def test_picture_shows_each_curve_with_its_exponent(tmp_path: Path) -> None:
    sizes = (1_000, 10_000, 100_000)
    limit = curve("read <only>", dict.fromkeys(sizes, 2.0), limit=True)
    ours = curve("sync", dict(zip(sizes, (1.0, 10.0, 100.0), strict=True)))
    panels = {title: {"sync": "controller", "read": "<bytes>"} for title in ("CPU", "memory", "change", "commands")}
    pictures = tmp_path / "a.svg", tmp_path / "b.svg"
    for picture in pictures:
        draw(curve_rows([ours, limit]), panels, picture)
    text = pictures[0].read_text(encoding="utf-8")
    words = {"".join(element.itertext()) for element in ET.fromstring(text).iter(f"{SVG}text")}  # noqa: S314 - we wrote it
    assert {"controller, n^1.00", "<bytes>, n^0.00", "nodes", *panels} <= words
    assert text == pictures[1].read_text(encoding="utf-8")
