"""A few cases of every subject; `make fuzz` tries many more."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
import tools.fuzz.__main__ as program
import tools.fuzz.sizes
from tools.fuzz.run import Result, in_child
from tools.fuzz.run import fuzz as run
from tools.fuzz.sizes import Size, SizeRun, size_rows
from tools.fuzz.subjects import SUBJECTS


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_few_cases_of_a_subject_find_nothing(name: str) -> None:
    result = run(SUBJECTS[name], 60.0, 20261121, 1, batch=10)
    assert not result.finding
    assert result.cases


def test_child_that_dies_is_a_finding_with_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        with open(command[-1], "w") as note:  # noqa: PTH123 - a path as the child gets it
            note.write("7\n'the case'")
        return subprocess.CompletedProcess(command, -signal.SIGSEGV, "", "Fatal Python error")

    monkeypatch.setattr("tools.fuzz.run.subprocess.run", killed)
    result = in_child("labels", 1.0, 1, None)
    assert result.finding.startswith("ended with -11\ncase: 'the case'\nFatal")
    assert result.seed == 7


def test_table_says_what_broke_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str, *_: object) -> Result:
        return Result(name, seed=77, finding="case: 1")

    monkeypatch.setattr(program, "in_child", broken)
    assert program.main(["labels", "--no-guided", "--seed", "5"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("seed 5\n")
    assert "BROKEN" in out
    assert out.endswith('labels: case: 1\nagain: make fuzz ARGS="labels --seed 77 --batches 1"\n')


def test_large_input_that_eats_memory_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(
        [
            SizeRun(result="taken", seconds=1.0, peak_mib=50.0),
            SizeRun(result="taken", seconds=1.0, peak_mib=500.0),
            SizeRun(broken="x"),
        ]
    )
    monkeypatch.setattr(tools.fuzz.sizes, "_in_child", lambda _: next(runs))
    sizes = (
        Size("small", str, 100),
        Size("large", str, 100),
        Size("crashing", str, 100),
    )
    rows, findings = size_rows(sizes)
    assert findings == ["large: BROKEN: 500 MiB", "crashing: BROKEN: x"]
    outcomes = [row[-1] for row in rows[1:]]
    assert outcomes == ["taken", "BROKEN: 500 MiB", "BROKEN: x"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("an annotation of 1 MiB", id="annotation"),
        pytest.param("YAML nested 100,000 times", id="nested-yaml"),
        pytest.param("YAML aliases worth a billion values", id="yaml-aliases"),
    ],
)
def test_large_input_is_answered_in_bounded_memory(name: str) -> None:
    names = [size.name for size in tools.fuzz.sizes.SIZES]
    index = names.index(name)
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz.sizes", str(index)],
        capture_output=True,
        check=True,
    )
    outcome, _, peak = json.loads(done.stdout)
    assert outcome
    assert peak <= tools.fuzz.sizes.SIZES[index].peak
