"""A run finds what is wrong, makes it small, and repeats itself from its seed."""

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tests.support.paths import ROOT
from tools.fuzz.run import fuzz
from tools.fuzz.subject import BrokenInvariantError, Outcome, Subject, refusal


def subject(attempt: Callable[[int], Outcome]) -> Subject:
    return Subject(
        "numbers",
        "small ones are taken",
        st.integers(0, 10**6),
        attempt,
    )


def below_a_thousand(case: int) -> Outcome:
    assert case < 1000, "too large"
    return "taken"


def test_smallest_case_that_fails_is_named_with_its_seed() -> None:
    result = fuzz(subject(below_a_thousand), 60.0, 5, 1)
    assert result.finding.startswith("case: 1000\n")
    assert "too large" in result.finding
    assert result.seed == 5


def test_batches_go_on_from_seed_to_seed_until_time_is_over() -> None:
    ticks = count()
    result = fuzz(
        subject(lambda _: "taken"),
        500.0,
        3,
        clock=lambda: float(next(ticks)),
        batch=10,
    )
    assert result.seed > 3
    assert result.cases == 10 * (result.seed - 3 + 1)
    assert not result.finding


HANG = """
import pathlib, sys, time
from hypothesis import strategies as st
from tools.fuzz.run import fuzz, noted
from tools.fuzz.subject import Subject
hanging = Subject("x", "", st.just("it"), lambda _: time.sleep(600))
fuzz(hanging, 60.0, 5, 1, note=noted(pathlib.Path(sys.argv[1]), 0.05))
"""


def test_attempt_that_hangs_ends_its_process_and_leaves_seed_and_case(tmp_path: Path) -> None:
    note = tmp_path / "case"
    command = [sys.executable, "-c", HANG, str(note)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout")
    assert note.read_text() == "5\n'it'"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param("", "without a word", id="empty"),
        pytest.param("no", "no sentence", id="one-word"),
        pytest.param("field: KeyError: 'name'", "words of Python", id="exception"),
        pytest.param("it is 'NoneType' object has no attribute 'get'", "words of Python", id="type"),
        pytest.param("row \x1b[31m is not a cell of a matrix", "control character", id="escape"),
        pytest.param("word " * 1000, "characters", id="too-long"),
    ],
)
def test_refusal_that_helps_nobody_is_broken(message: str, reason: str) -> None:
    with pytest.raises(BrokenInvariantError, match=reason):
        refusal(message)


def test_refusal_that_says_what_to_write_is_one() -> None:
    assert refusal("spec.levels[0].key: 'x y' is not a label key; write PREFIX/NAME") == "refused"
