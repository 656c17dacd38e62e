"""What KAI 0.17.0 did with random gangs on random clusters, recorded; `check` says the same of every one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import FIXTURES
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

RECORDED: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "answers" / "kai.json.gz").read_bytes()))
AGREES = {"placed": {"fits"}, "partial": {"full", "never"}, "pending": {"full", "never", "error"}}


def pods_of(case: dict[str, Any]) -> list[Any]:
    """The pods of a PodGroup, which KAI has no template of."""
    return [
        {**alike["pod"], "metadata": {**alike["pod"]["metadata"], "name": name}}
        for alike in case.get("pods", ())
        for name in alike["names"]
    ]


@pytest.mark.parametrize("state", RECORDED["states"], ids=lambda state: f"seed-{state['seed']}")
def test_check_says_what_kai_did(state: dict[str, Any], tmp_path: Path) -> None:
    wrong = []
    for case in state["cases"]:
        saved, workload = tmp_path / "cluster.json", case["workload"]
        items = [*RECORDED["cluster"], *state["nodes"], *state["pods"], *pods_of(case)]
        saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        (checked,) = Checker(load_files([str(saved)]), [workload]).check(workload)
        verdict = "error" if checked.errors else checked.verdict.kind if checked.verdict else ""
        if verdict not in AGREES[case["answer"]]:
            wrong.append(f"{workload['metadata']['name']}: {verdict}, KAI: {case['answer']}: {case.get('message', '')}")
    assert wrong == []


def test_the_record_holds_every_answer() -> None:
    cases = [case["answer"] for state in RECORDED["states"] for case in state["cases"]]
    assert {answer: cases.count(answer) for answer in AGREES} == {"placed": 28, "partial": 5, "pending": 38}
