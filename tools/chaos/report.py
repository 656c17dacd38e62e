"""The tables of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from tools.chaos.faults import FAULTS
from tools.chaos.rounds import Outcome
from tools.chaos.violations import INVARIANTS, Trend


def tables(
    outcomes: Sequence[Outcome],
    checks: Mapping[str, int],
    trends: Sequence[Trend],
    speeds: Mapping[str, float],
    seconds: float,
) -> dict[str, list[list[str]]]:
    """The tables of a run, each with its head first; empty ones are left out."""
    every = {
        "invariants": _invariants(outcomes, checks),
        "faults": _faults(outcomes),
        "processes": _processes(trends, speeds, seconds),
    }
    filled = {}
    for name, rows in every.items():
        if len(rows) > 1:
            filled[name] = rows
    return filled


def _invariants(outcomes: Sequence[Outcome], checks: Mapping[str, int]) -> list[list[str]]:
    """One row an invariant: how often it was checked, and violated."""
    violations: Counter[str] = Counter()
    for outcome in outcomes:
        for violation in outcome.violations:
            violations[violation.invariant] += 1

    rows = [["invariant", "checks", "violations"]]
    for name, sentence in INVARIANTS.items():
        count = checks[name]
        violated = violations[name]
        rows.append([sentence, f"{count:,}", str(violated)])
    return rows


def _faults(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """One row a fault: how often, how long until all was well again, and what was violated."""
    rows = [["fault", "what happens", "times", "settled after, median (longest)", "violations"]]
    for name, fault in FAULTS.items():
        seconds = []
        violated = 0
        for outcome in outcomes:
            if not _has_fault(outcome, name):
                continue
            seconds.append(outcome.settled_seconds)
            if outcome.violations:
                violated += 1
        if not seconds:
            continue

        middle = median(seconds)
        longest = max(seconds)
        rows.append(
            [
                f"`{name}`",
                fault.what,
                str(len(seconds)),
                f"{middle:.0f} s ({longest:.0f} s)",
                str(violated),
            ]
        )
    return rows


def _has_fault(outcome: Outcome, name: str) -> bool:
    return any(step.fault == name for step in outcome.injected)


def _processes(
    trends: Sequence[Trend], speeds: Mapping[str, float], seconds: float
) -> list[list[str]]:
    """One row a process that lived long enough: what it held at first and in the end."""
    rows = [
        ["process", "hours on its clock", "rests", "memory, MiB", "descriptors", "threads", "maps"]
    ]
    most = 0
    for trend in trends:
        most = max(most, len(trend.values))

    groups = [iter(trends)] * 4
    for of_program in zip(*groups, strict=True):
        program = of_program[0].program
        rests = len(of_program[0].values)
        lived = rests / most * seconds
        hours = lived * speeds[program] / 3600
        row = [program, f"{hours:.1f}", str(rests)]
        for trend in of_program:
            row.append(str(trend))
        rows.append(row)
    return rows
