import re

from tools.chaos.faults import FAULTS
from tools.chaos.leaks import Trend
from tools.chaos.report import command, faults_table, invariants_table, sizes_table
from tools.chaos.rounds import Outcome
from tools.chaos.schedule import Step
from tools.chaos.violations import INVARIANTS, Violation


def outcome(*faults: str, settled: float = 1.0, violations: tuple[Violation, ...] = ()) -> Outcome:
    steps = [Step(fault, 1, 1) for fault in faults]
    return Outcome(tuple(steps), steps, list(violations), settled)


def row(table: str, name: str) -> list[str]:
    (found,) = (line for line in table.splitlines() if name in line)
    return [cell.strip() for cell in found.strip("|").split(" | ")]


def test_a_fault_is_counted_in_every_round_that_it_was_in() -> None:
    bad = Violation("labels", "one is gone")
    table = faults_table([outcome("slow", settled=2), outcome("slow", "refused", settled=8, violations=(bad,))])
    assert row(table, "`slow`") == ["`slow`", FAULTS["slow"].what, "2", "5 s (8 s)", "1"]
    assert row(table, "`refused`")[2:] == ["1", "8 s (8 s)", "1"]
    assert "api-killed" not in table


def test_every_invariant_has_its_row() -> None:
    bad = Violation("writer", "two at a time")
    checks = {**dict.fromkeys(INVARIANTS, 0), "writer": 1234}
    table = invariants_table([outcome("slow", violations=(bad, bad))], checks)
    assert row(table, INVARIANTS["writer"])[1:] == ["1,234", "2"]
    assert len(table.splitlines()) == 2 + len(INVARIANTS)


def test_sizes_are_shown_by_process_with_the_hours_of_its_clock() -> None:
    trends = [
        Trend(name, what, first, first + 1, rests)
        for name, rests in (("agent-n1", 20), ("controller-0", 10))
        for what, first in (("memory", 40.0), ("descriptors", 16), ("threads", 3), ("maps", 400))
    ]
    table = sizes_table(trends, {"agent-n1": 12.0, "controller-0": 4.0}, seconds=1800)
    assert row(table, "agent-n1") == ["agent-n1", "6.0", "20", "40 → 41", "16 → 17", "3 → 4", "400 → 401"]
    assert row(table, "controller-0")[1] == "1.0"


def test_the_command_can_be_given_again() -> None:
    assert command([]) == "make chaos"
    assert command(["--seed", "7"]) == 'make chaos ARGS="--seed 7"'


def test_every_fault_says_what_happens_in_a_line() -> None:
    for fault in FAULTS.values():
        assert re.fullmatch(r"[a-z][a-z-]+", fault.name)
        assert 0 < len(fault.what) < 90
        assert "|" not in fault.what
