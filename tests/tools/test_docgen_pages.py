"""The generated parts of docs/: as the code has it today, and complete."""

from pathlib import Path

import pytest

from tools.docgen import __main__ as pages
from tools.docgen import metrics, tables
from tools.docgen.__main__ import main, outdated
from toposcope.agent.labels import ALL
from toposcope.api.label_keys import LEAF, LEAF_GROUP, NVLINK_DOMAIN


def test_no_page_differs_from_the_code() -> None:
    assert outdated().keys() == set(), "run `make reference`"


def test_a_changed_page_is_found_and_put_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in pages.PARTS:
        text = (pages.DOCS / name).read_text(encoding="utf-8")
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text.replace("| `spec.required` |", "| `spec.wanted` |"), encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", docs)
    assert main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/fields.md is not what the code says: make reference\n"
    assert main([]) == 0
    assert capsys.readouterr().out == "docs/fields.md\n"
    assert main(["--check"]) == 0
    assert main(["--chek"]) == 2


def test_the_examples_show_every_label() -> None:
    assert tables.meanings().keys() == {*ALL, *tables.ANNOTATIONS}
    seen: set[str] = set()
    for profile in tables.EXAMPLES.values():
        seen |= tables.described(profile).labels.known.keys()
    assert seen == ALL - {LEAF, LEAF_GROUP}  # which need switches
    assert tables.described("gb200-nvl72-tray").labels.known[NVLINK_DOMAIN].endswith(".32766")


def test_a_note_about_no_metric_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notes = tmp_path / "metrics.toml"
    notes.write_text('[toposcope_leadr]\nseries = "1"\n')
    monkeypatch.setattr(metrics, "NOTES", notes)
    with pytest.raises(metrics.ForgottenNoteError, match="no such metric: toposcope_leadr"):
        metrics.table("agent")
    notes.write_text("")
    with pytest.raises(metrics.ForgottenNoteError, match="how many series does toposcope_topology_nodes have"):
        metrics.table("topologies")
