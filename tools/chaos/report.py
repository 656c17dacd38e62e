"""The table of a run."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tools.chaos.faults import FAULTS
from tools.chaos.violations import INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.chaos.leaks import Trend
    from tools.chaos.rounds import Outcome


def machine() -> str:
    """When and on what this run was made."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} CPUs ({model}), {system}"


def command(arguments: Sequence[str] = sys.argv[1:]) -> str:
    """How to make this run again."""
    return f'make chaos ARGS="{" ".join(arguments)}"' if arguments else "make chaos"


def faults_table(outcomes: Sequence[Outcome]) -> str:
    """One row a fault: how often, how long until all was well again, and whether anything was violated."""
    rows = ["| fault | what happens | times | settled after, median (longest) | violations |", "|---|---|---|---|---|"]
    for name, fault in FAULTS.items():
        rounds = [outcome for outcome in outcomes if any(step.fault == name for step in outcome.injected)]
        if not rounds:
            continue
        times = [outcome.settled for outcome in rounds]
        bad = sum(bool(outcome.violations) for outcome in rounds)
        settled = f"{median(times):.0f} s ({max(times):.0f} s)"
        rows.append(f"| `{name}` | {fault.what} | {len(rounds)} | {settled} | {bad} |")
    return "\n".join(rows)


def invariants_table(outcomes: Sequence[Outcome], checks: Mapping[str, int]) -> str:
    """One row an invariant: how often it was looked at, and how often it did not hold."""
    rows = ["| invariant | looked at | violations |", "|---|---|---|"]
    for name, sentence in INVARIANTS.items():
        bad = sum(violation.invariant == name for outcome in outcomes for violation in outcome.violations)
        rows.append(f"| {sentence} | {checks[name]:,} | {bad} |")
    return "\n".join(rows)


def sizes_table(trends: Sequence[Trend], speeds: Mapping[str, float], seconds: float) -> str:
    """One row a process that lived long enough: what it held at first and in the end."""
    units = ("memory", "descriptors", "threads", "maps")
    rows = [
        "| process | hours on its clock | rests | memory, MiB | descriptors | threads | maps |",
        "|---|---|---|---|---|---|---|",
    ]
    for at in range(0, len(trends), len(units)):
        group = {trend.what: trend for trend in trends[at : at + len(units)]}
        first = next(iter(group.values()))
        hours = first.rests / max(trend.rests for trend in trends) * seconds * speeds[first.program] / 3600
        cells = " | ".join(f"{group[unit].first:.0f} → {group[unit].last:.0f}" for unit in units)
        rows.append(f"| {first.program} | {hours:.1f} | {first.rests} | {cells} |")
    return "\n".join(rows)
