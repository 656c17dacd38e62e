"""The tables of performance.md and reliability.md: what they select of the figures, and that they fit on a screen."""

import re

import pytest
from tests.support.paths import DOCS
from tools.docgen import measured
from tools.docgen.measured import Line, MissingFigureError, Selection

from tools import figures

MOST_ROWS = 20
"""What fits on a screen."""
TABLES = {
    "ui": figures.Table(
        "2026-11-26",
        "make bench",
        ["figure", "measured", "target"],
        [
            ["first view of 10 nodes", "1 s (1 to 2, n=3)", ""],
            ["", "2 s", ""],
            ["  memory", "5 MiB", "<= 4 missed"],
            ["first view of 20 nodes", "3 s", "<= 4"],
        ],
    )
}


@pytest.fixture
def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "read", lambda _: TABLES)


def shown(monkeypatch: pytest.MonkeyPatch, *lines: Line) -> str:
    selection = Selection("server", ("10 nodes", "20 nodes"), lines)
    monkeypatch.setattr(measured, "SELECTIONS", {"page": selection})
    return measured.performance("page")


@pytest.mark.usefixtures("few_figures")
def test_table_has_a_column_for_each_size_and_says_what_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Line("first view", "ui", "first view of {}")
    memory = Line("memory", "ui", "first view of {}", "memo*")
    assert shown(monkeypatch, first, memory).splitlines() == [
        "| server | 10 nodes | 20 nodes |",
        "|---|---|---|",
        "| first view | 1 s | 3 s |",
        "| memory | 5 MiB, misses its target | |",
        "",
        "<small>`make bench`, 2026-11-26</small>",
    ]


@pytest.mark.usefixtures("few_figures")
def test_figure_that_was_not_measured_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingFigureError, match="last view: no figure of ui is called"):
        shown(monkeypatch, Line("last view", "ui", "last view of {}"))


def test_fault_in_no_group_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ["fault", "what happens", "times", "settled after", "violations"]
    faults = figures.Table("2026-11-22", "make chaos", head, [["`flood`", "water", "1", "2 s (3 s)", "0"]])
    monkeypatch.setattr(figures, "read", lambda _: {"faults": faults})
    with pytest.raises(MissingFigureError, match="the fault flood is in no group"):
        measured.faults()


def test_every_fault_is_counted() -> None:
    rows = figures.read("reliability")["faults"].rows
    names = sorted(row[0] for row in rows)
    text = measured.faults()
    assert sorted(re.findall(r"`[a-z-]+`", text.partition("<small>")[0])) == names


@pytest.mark.parametrize("name", ["performance.md", "reliability.md"])
def test_tables_fit_on_a_screen(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    assert len(tables) >= 5
    for table in tables:
        assert len(table.splitlines()) <= MOST_ROWS, table
