from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import cast

import pytest
from tools.chaos.faults import FAULTS
from tools.chaos.processes import Program, Size
from tools.chaos.report import tables
from tools.chaos.rounds import Outcome
from tools.chaos.schedule import Step
from tools.chaos.violations import INVARIANTS, Findings, Leaks, Violation, grows


def outcome(*faults: str, settled: float, violations: Sequence[Violation] = ()) -> Outcome:
    """What came of a round with these faults."""
    steps = [Step(fault, 1, 1) for fault in faults]
    return Outcome(
        tuple(steps),
        steps,
        list(violations),
        settled,
    )


def test_rounds_are_counted_by_fault_and_by_invariant() -> None:
    violation = Violation("writer", "two at a time")
    outcomes = [
        outcome("slow", settled=2),
        outcome("slow", "refused", settled=8, violations=[violation, violation]),
    ]
    written = tables(
        outcomes,
        Counter(writer=1234),
        [],
        {},
        0.0,
    )
    assert written["faults"][1:] == [
        ["`slow`", FAULTS["slow"].what, "2", "5 s (8 s)", "1"],
        ["`refused`", FAULTS["refused"].what, "1", "8 s (8 s)", "1"],
    ]
    rows = {}
    for sentence, *counts in written["invariants"][1:]:
        rows[sentence] = counts
    assert rows[INVARIANTS["writer"]] == ["1,234", "2"]
    assert rows.keys() == set(INVARIANTS.values())
    assert "processes" not in written


class Sized:
    """A program that grows by a step from rest to rest."""

    def __init__(self, name: str, step: Size) -> None:
        self.name = name
        self.pid = 7
        self._step = step
        self._rests = 0

    def size(self) -> Size:
        size = Size(
            memory=40.0 + self._rests * self._step.memory,
            descriptors=16 + self._rests * self._step.descriptors,
            threads=3 + self._rests * self._step.threads,
            maps=400 + self._rests * self._step.maps,
        )
        self._rests += 1
        return size


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(Size(0, 0, 0, 0), [], id="none"),
        pytest.param(Size(1.0, 0, 0, 0), ["agent-n1: memory 44 → 64 in 30 rests"], id="memory"),
        pytest.param(Size(0, 1, 0, 0), ["agent-n1: descriptors 20 → 40 in 30 rests"], id="descriptors"),
        pytest.param(
            Size(0, 0, 1, 4),
            ["agent-n1: threads 8 → 28 in 30 rests", "agent-n1: maps 418 → 498 in 30 rests"],
            id="threads-and-maps",
        ),
    ],
)
def test_growth_is_found_and_shown_with_the_hours_of_its_clock(step: Size, expected: list[str]) -> None:
    leaks = Leaks()
    findings = Findings()
    agent = Sized("agent-n1", step)
    controller = Sized("controller-0", Size(0, 0, 0, 0))
    for rest in range(30):
        leaks.take(cast("Program", agent))
        if rest % 2:
            leaks.take(cast("Program", controller))
    leaks.judge(findings)
    found = [violation.what for violation in findings.take()]
    assert found == expected

    speeds = {"agent-n1": 12.0, "controller-0": 4.0}
    written = tables(
        [],
        Counter(),
        leaks.trends(),
        speeds,
        1800,
    )
    _, agents_row, controllers_row = written["processes"]
    assert agents_row[:3] == ["agent-n1", "6.0", "30"]
    assert controllers_row == [
        "controller-0",
        "1.0",
        "15",
        "40 → 40",
        "16 → 16",
        "3 → 3",
        "400 → 400",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_growth_and_a_leak_is_seen_through_it(seed: int) -> None:
    rng = Random(seed)
    noise = []
    leak = []
    for hour in range(24):
        value = 2000 + rng.uniform(-50, 50)
        noise.append(value)
        leak.append(value + 20 * hour)
    assert not grows(noise, 40.0)
    assert grows(leak, 40.0)


@pytest.mark.parametrize(
    "series",
    [
        pytest.param([100.0] * 24, id="flat"),
        pytest.param([100.0, 500.0, 900.0, 1300.0, 1700.0, 2100.0] * 4, id="saw"),
        pytest.param([100.0, 400.0, 700.0] + [1000.0] * 21, id="fills-up"),
        pytest.param([1000.0 - 10 * hour for hour in range(24)], id="shrinks"),
        pytest.param([0.0] * 23 + [5000.0], id="one-peak-at-the-end"),
        pytest.param([2000.0 + hour for hour in range(24)], id="less-than-the-slack"),
        pytest.param([1.0, 200.0, 900.0], id="few"),
    ],
)
def test_size_that_comes_back_or_stays_is_no_growth(series: list[float]) -> None:
    assert not grows(series, 40.0)
