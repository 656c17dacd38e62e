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
    """The tables of a run, each with its head first.

    One that would have nothing else is left out.
    """
    violations: Counter[str] = Counter()
    for outcome in outcomes:
        violations.update(violation.invariant for violation in outcome.violations)
    invariants = [["invariant", "checks", "violations"]]
    for name, sentence in INVARIANTS.items():
        invariants.append([sentence, f"{checks[name]:,}", str(violations[name])])
    named = {
        "invariants": invariants,
        "faults": _faults(outcomes),
        "processes": _processes(trends, speeds, seconds),
    }
    return {name: rows for name, rows in named.items() if len(rows) > 1}


def _faults(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """One row a fault: how often, how long until all was well again, and what was violated."""
    rows = [["fault", "what happens", "times", "settled after, median (longest)", "violations"]]
    for name, fault in FAULTS.items():
        rounds = [outcome for outcome in outcomes if _has_fault(outcome, name)]
        if not rounds:
            continue
        times = [outcome.settled for outcome in rounds]
        violated = sum(bool(outcome.violations) for outcome in rounds)
        settled = f"{median(times):.0f} s ({max(times):.0f} s)"
        rows.append([f"`{name}`", fault.what, str(len(rounds)), settled, str(violated)])
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
    most = max((len(trend.values) for trend in trends), default=0)
    for memory, *others in zip(*[iter(trends)] * 4, strict=True):
        rests = len(memory.values)
        hours = rests / most * seconds * speeds[memory.program] / 3600
        rows.append([memory.program, f"{hours:.1f}", str(rests), *map(str, (memory, *others))])
    return rows
