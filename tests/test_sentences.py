"""Sentences are no interface: where each sentence of the product is a code, every decision is the same.

tools/docgen/sentences.py says what a sentence is, and tests/support/sentences.py what stays as it is written.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT
from tests.support.recorded import asking_tests, record_questions
from tests.support.sentences import blanked, coded, differences

DECIDE = "from tests.support.decisions import decide; decide(sys.argv[1], sys.argv[2])"
INSTALL = "from tests.support.sentences import install; install()"


def decisions(file: Path, questions: Path, *before: str) -> dict[str, dict[str, Any]]:
    script = "\n".join(["import sys", *before, DECIDE])
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, str(file), str(questions)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_no_decision_depends_on_a_sentence(tmp_path: Path) -> None:
    questions = tmp_path / "questions"
    record_questions(questions, asking_tests())
    plain = decisions(tmp_path / "plain", questions)
    other = decisions(tmp_path / "coded", questions, INSTALL)
    assert [name for name, cases in plain.items() if "ended by" in cases] == []
    assert sum(map(len, plain.values())) > 2500
    found = list(differences(plain, other))
    assert found == [], f"{len(found)} decisions go by a sentence"


def decided(source: str) -> tuple[Any, Any]:
    """What a module decides as it is, and with codes for its sentences."""
    answers = []
    for code in (compile(source, "m", "exec"), coded(source, "toposcope.m", "m")):
        names: dict[str, Any] = {}
        try:
            exec(code, names)  # noqa: S102 - the sources below
        except IndexError:
            names["decided"] = "failed"
        answers.append(blanked(names["decided"]))
    return answers[0], answers[1]


@pytest.mark.parametrize(
    "source",
    [
        "ENDS = '; is it running there?'\ndecided = f'{3} nodes are silent{ENDS}'.endswith(ENDS)",
        "BETTER = 'write one of the catalogue'\ndecided = (BETTER + ': rack').startswith(BETTER)",
        "reason = f'has taint {1}'\ndecided = reason.startswith('has taint')",
        "message = f'topology {7}: lost'\ndecided = message.split()[1]",
        "import re\nLOST = re.compile(\"level '(.*)' is lost\")\ndecided = LOST.findall(f\"level '{1}' is lost\")",
        "def why(): return 'nothing is there'\ndecided = why() == 'nothing is there'",
        "class F: message = 'it is lost'\ndecided = F.message == 'it is lost'",
        "import re\ntext = 'no room for it'\ndecided = bool(re.search('no room', text))",
    ],
)
def test_what_goes_by_a_sentence_is_found(source: str) -> None:
    plain, other = decided(source)
    assert plain != other


@pytest.mark.parametrize(
    "source",
    [
        "ROOM = 'insufficient quota for'\ndecided = ROOM in ''.join(['insufficient', ' quota', ' for x'])",
        (
            "TEXTS = ('node is full', 'no quota')\nheard = 'the' + ' node' + ' is' + ' full'\n"
            "decided = [text in heard for text in TEXTS]"
        ),
        "FIRST = 'its levels come first'\nnote = FIRST\ndecided = note == FIRST",
        "texts = ['no room there', 'no node fits']\nfor text in texts: decided = text in texts",
        "from enum import StrEnum\nclass S(StrEnum):\n    A = 'not ready'\ndecided = S('not' + ' ready').name",
        "decided = 'zone block rack'.split()",
        "MEANS = {'no node fits': 'it is full'}\ndecided = 'no node' + ' fits' in MEANS",
        "decided = '{} nodes lack {!r}'.format(3, 'rack')",
        "decided = {'reason': 'Full', 'message': f'no room on {3} nodes'}",
    ],
)
def test_what_others_say_and_what_is_only_said_is_none(source: str) -> None:
    plain, other = decided(source)
    assert plain == other
