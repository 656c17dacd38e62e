"""Each cause from saved files: the page that an admin reads, word for word, and the answer for scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.explain.causes import CAUSES, Cause
from tests.support.saved import saved
from toposcope.cli.main import main

PAGES = Path(__file__).parent / "pages"
each_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)


def explain(cause: Cause, folder: Path, *flags: str) -> int:
    file = folder / "cluster.json"
    file.write_text(saved(cause.objects()), encoding="utf-8")
    return main(["explain", cause.subject, "--from", str(file), *flags])


@each_cause
def test_the_page(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(cause, tmp_path) == cause.code
    printed = capsys.readouterr()
    assert printed.out == (PAGES / f"{cause.name}.txt").read_text(encoding="utf-8")
    assert printed.err == ""


@each_cause
def test_the_answer_for_scripts(cause: Cause, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(cause, tmp_path, "-o", "json") == cause.code
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"] or {"step": ""})["step"] == cause.step
    assert document["well"] == (cause.code == 0)
    assert [step["step"] for step in document["steps"]] == [
        "topology",
        "levels",
        "hierarchy",
        "rules",
        "labels",
        "availability",
        "room",
        "drift",
        "features",
    ]
    if document["answer"]:
        assert document["answer"]["next"]


def test_every_page_belongs_to_a_cause() -> None:
    assert {page.stem for page in PAGES.iterdir()} == {cause.name for cause in CAUSES}


def test_the_page_in_the_docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    cause = next(each for each in CAUSES if each.name == "no-room")
    explain(replace(cause, subject="pod/llm-0-worker-2"), tmp_path)
    assert f"explain pod/llm-0-worker-2 -n ml\n{capsys.readouterr().out}```" in text
