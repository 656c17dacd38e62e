"""What Grove's webhook (main of 2026-08-19) answered to PodCliqueSets, recorded; `check` says the same of every one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import FIXTURES
from toposcope.placement.check import Checked, Checker
from toposcope.snapshot.files import load_files

RECORDED: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "answers" / "grove.json.gz").read_bytes()))
LEVELS = [{"domain": domain, "key": f"example.com/{domain}"} for domain in RECORDED["levels"]]
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "cluster"},
    "spec": {"levels": LEVELS},
}


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    saved: Path = tmp_path_factory.mktemp("cluster") / "binding.json"
    saved.write_text(json.dumps(BINDING), encoding="utf-8")
    return Checker(load_files([str(saved)]))


def agree(checked: Checked, case: dict[str, Any]) -> None:
    """Both accept, or both refuse, and every message of ours is in Grove's answer."""
    answer = case["message"]
    ours = [finding for finding in checked.reading.findings if finding.severity == "error"]
    assert bool(ours) is not case["accepted"], (ours, answer)
    strange = [found.message for found in ours if found.message not in answer and not is_cut_off(answer, found.field)]
    redundant = [found.message for found in checked.reading.findings if "redundant" in found.message]
    assert strange == []
    assert ("redundant" in answer, *redundant) == (bool(redundant), *(text for text in redundant if text in answer))


def is_cut_off(answer: str, field: str) -> bool:
    """Whether a long answer ends in the middle of what it says about the field."""
    return any(answer.endswith(field[:length]) for length in range(len("spec.template."), len(field)))


@pytest.mark.parametrize("case", RECORDED["create"], ids=lambda case: str(case["name"]))
def test_check_says_what_grove_said_of_a_new_set(case: dict[str, Any], checker: Checker) -> None:
    (checked,) = checker.check(case["object"])
    agree(checked, case)


@pytest.mark.parametrize("case", RECORDED["update"], ids=lambda case: str(case["name"]))
def test_check_says_what_grove_said_of_a_change(case: dict[str, Any], checker: Checker) -> None:
    (checked,) = checker.check(case["new"], case["old"])
    agree(checked, case)


def test_the_record_holds_every_answer() -> None:
    counts = {kind: [case["accepted"] for case in RECORDED[kind]] for kind in ("create", "update")}
    assert {kind: (sum(answers), len(answers)) for kind, answers in counts.items()} == {
        "create": (7, 25),
        "update": (6, 13),
    }
