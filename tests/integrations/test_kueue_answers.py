"""What Kueue 0.19.2 did with random workloads on random clusters, recorded; `check` says the same of every one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.placement.test_sentences import contradiction
from tests.support.paths import FIXTURES
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer
from toposcope.snapshot.files import load_files

RECORDED: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "answers" / "kueue.json.gz").read_bytes()))
AGREES = {"admitted": {"fits"}, "pending": {"full", "never", "error"}, "refused": {"error"}}


@pytest.mark.parametrize("state", RECORDED["states"], ids=lambda state: f"seed-{state['seed']}")
def test_check_says_what_kueue_did(state: dict[str, Any], tmp_path: Path) -> None:
    saved = tmp_path / "cluster.json"
    items = [*RECORDED["cluster"], *state["nodes"], *state["pods"]]
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    snapshot = load_files([str(saved)])
    wrong = []
    for case in state["cases"]:
        workload = case["workload"]
        (checked,) = Checker(snapshot, [*RECORDED["cluster"], workload]).check(workload)
        verdict = "error" if checked.errors else checked.verdict.kind if checked.verdict else ""
        if verdict not in AGREES[case["answer"]]:
            wrong.append(
                f"{workload['metadata']['name']}: {verdict}, Kueue: {case['answer']}: {case.get('message', '')}"
            )
        if verdict in {"full", "never"} and checked.verdict and contradiction(answer(checked.verdict)):
            wrong.append(f"{workload['metadata']['name']}: {answer(checked.verdict)}")
    assert wrong == []


def test_the_record_holds_every_answer() -> None:
    cases = [case["answer"] for state in RECORDED["states"] for case in state["cases"]]
    assert {answer: cases.count(answer) for answer in AGREES} == {"admitted": 80, "pending": 156, "refused": 2}
