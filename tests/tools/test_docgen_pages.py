"""The generated parts of docs/: as the code has it today, and complete; and the tables of `make bench`."""

from pathlib import Path

import pytest
from tools.bench.report import HEAD, Figure, Peer, Sample, Target, aligned, rows_of
from tools.docgen import __main__ as pages
from tools.docgen import metrics, tables
from tools.docgen.__main__ import main, outdated
from toposcope.agent.labels import ALL
from toposcope.api.label_keys import LEAF, LEAF_GROUP, NVLINK_DOMAIN, UNIQUE


@pytest.mark.slow
def test_no_page_differs_from_the_code() -> None:
    assert outdated().keys() == set(), "run `make reference`"


@pytest.mark.slow
def test_changed_page_is_found_and_put_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in pages.PARTS:
        text = (pages.DOCS / name).read_text(encoding="utf-8")
        changed = text.replace("| `spec.required` |", "| `spec.wanted` |")
        copy = docs / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(changed, encoding="utf-8")
    for name in pages.FILES:
        file = pages.DOCS / name
        (docs / name).write_bytes(file.read_bytes())
    monkeypatch.setattr(pages, "DOCS", docs)

    assert main(["--check"]) == 1
    said = capsys.readouterr().err
    assert said == "docs/fields.md is not what the code says: make reference\n"

    assert main([]) == 0
    said = capsys.readouterr().out
    assert said == "docs/fields.md\n"

    assert main(["--check"]) == 0
    assert main(["--chek"]) == 2


def test_examples_show_every_label() -> None:
    expected = {*ALL, *tables.ANNOTATIONS, UNIQUE}
    assert tables.meanings().keys() == expected
    shown: set[str] = set()
    for profile in tables.EXAMPLES.values():
        description = tables.described(profile)
        shown |= description.labels.by_key.keys()
    assert shown == ALL - {LEAF, LEAF_GROUP}  # which need switches
    tray = tables.described("gb200-nvl72-tray")
    domain = tray.labels.by_key[NVLINK_DOMAIN]
    assert domain.endswith(".32766")


def test_note_about_no_metric_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notes = tmp_path / "metrics.toml"
    notes.write_text('[toposcope_leadr]\nseries = "1"\n')
    monkeypatch.setattr(metrics, "NOTES", notes)
    with pytest.raises(metrics.ForgottenNoteError, match="no such metric: toposcope_leadr"):
        metrics.table("agent")
    notes.write_text("")
    with pytest.raises(metrics.ForgottenNoteError, match="how many series does toposcope_topology_nodes have"):
        metrics.table("topologies")


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 1, id="least"),
        pytest.param(0.5, 2, id="median"),
        pytest.param(0.75, 3, id="third-quarter"),
        pytest.param(0.99, 4, id="nearly-all"),
        pytest.param(1.0, 4, id="most"),
    ],
)
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    sample = Sample((4, 1, 3, 2), "ms", share)
    assert sample.value == expected


def test_table_holds_each_figure_against_its_peers() -> None:
    calls = Peer("calls", Sample((3.0,), "ms"))
    files = Peer("files", Sample((1.5, 0.4, 38341.2), "ms"))
    probe = Figure(
        "probe",
        Sample((6.0,), "ms"),
        Target(5),
        (calls, files),
    )
    no_writes = Peer("none", Sample((0,), ""))
    writes = Figure(
        "writes",
        Sample((0,), ""),
        Target(0),
        (no_writes,),
    )
    table = aligned([HEAD, *rows_of(probe), *rows_of(writes)])
    assert table.splitlines() == [
        "figure  measured  target       limit or peer                         ratio",
        "probe   6 ms      <= 5 missed  calls: 3 ms                           2.00",
        "                               files: 1.50 ms (0.40 to 38,341, n=3)  4.00",
        "writes  0         <= 0         none: 0",
    ]


@pytest.mark.parametrize(
    ("target", "value", "peer", "met"),
    [
        pytest.param(Target(5), 5, None, True, id="at-most-just"),
        pytest.param(Target(5), 5.1, None, False, id="at-most-missed"),
        pytest.param(Target(5, is_at_most=False), 6, None, True, id="at-least"),
        pytest.param(Target(5, is_at_most=False), 4, None, False, id="at-least-missed"),
        pytest.param(Target(120, limit=40), 120, 10, True, id="number"),
        pytest.param(Target(120, limit=40), 180, 60, True, id="ratio"),
        pytest.param(Target(120, limit=40), 180, 59, False, id="neither"),
        pytest.param(Target(120, limit=40), 180, 0, False, id="peer-without-time"),
    ],
)
def test_target_is_reached_as_a_number_or_as_a_ratio(target: Target, value: float, peer: float, met: bool) -> None:
    assert target.is_met(value, peer) is met
