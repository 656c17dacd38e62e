import re
from collections import Counter

from tools.chaos.faults import FAULTS
from tools.chaos.report import tables
from tools.chaos.rounds import Outcome
from tools.chaos.schedule import Step
from tools.chaos.violations import INVARIANTS, Trend, Violation


def outcome(*faults: str, settled: float = 1.0, violations: tuple[Violation, ...] = ()) -> Outcome:
    steps = [Step(fault, 1, 1) for fault in faults]
    return Outcome(tuple(steps), steps, list(violations), settled)


def test_a_fault_is_counted_in_every_round_that_it_was_in() -> None:
    bad = Violation("labels", "one is gone")
    outcomes = [outcome("slow", settled=2), outcome("slow", "refused", settled=8, violations=(bad,))]
    _, slow, refused = tables(outcomes, Counter(), [], {}, 0.0)["faults"]
    assert slow == ["`slow`", FAULTS["slow"].what, "2", "5 s (8 s)", "1"]
    assert refused == ["`refused`", FAULTS["refused"].what, "1", "8 s (8 s)", "1"]


def test_every_invariant_has_its_row() -> None:
    bad = Violation("writer", "two at a time")
    written = tables([outcome("slow", violations=(bad, bad))], Counter(writer=1234), [], {}, 0.0)
    rows = {sentence: counts for sentence, *counts in written["invariants"][1:]}
    assert rows[INVARIANTS["writer"]] == ["1,234", "2"]
    assert rows.keys() == set(INVARIANTS.values())
    assert "processes" not in written


def test_sizes_are_shown_by_process_with_the_hours_of_its_clock() -> None:
    trends = [
        Trend(name, what, first, first + 1, rests)
        for name, rests in (("agent-n1", 20), ("controller-0", 10))
        for what, first in (("memory", 40.0), ("descriptors", 16), ("threads", 3), ("maps", 400))
    ]
    _, *rows = tables([], Counter(), trends, {"agent-n1": 12.0, "controller-0": 4.0}, 1800)["processes"]
    assert rows[0] == ["agent-n1", "6.0", "20", "40 → 41", "16 → 17", "3 → 4", "400 → 401"]
    assert rows[1][:2] == ["controller-0", "1.0"]


def test_every_fault_says_what_happens_in_a_line() -> None:
    for fault in FAULTS.values():
        assert re.fullmatch(r"[a-z][a-z-]+", fault.name)
        assert 0 < len(fault.what) < 90
        assert "|" not in fault.what
