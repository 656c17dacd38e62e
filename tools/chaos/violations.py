"""Violations, reported from any thread; and whether programs grow from one rest to the next."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import sqrt
from statistics import linear_regression, median
from typing import Final

from tools.chaos.processes import Program, Size


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach: `invariant` is one of `INVARIANTS`."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


INVARIANTS = {
    "labels": "no owned label disappears or changes without evidence",
    "foreign": "no foreign key, taint or object changes",
    "writer": "one controller writes at a time",
    "levels": "no level is taken from a scheduler, or called unavailable, without evidence",
    "converged": "published equals desired in the end",
    "programs": "no program exits, stays unhealthy or logs a traceback",
    "leaks": "memory, descriptors, threads and maps do not grow",
}
"""What must always hold."""


class Findings:
    """Violations, each once, and how much was looked at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._violations: list[Violation] = []
        self._checks = dict.fromkeys(INVARIANTS, 0)

    def add(self, invariant: str, what: str) -> None:
        """Record a violation."""
        violation = Violation(invariant, what)
        with self._lock:
            if violation not in self._violations:
                self._violations.append(violation)

    def checked(self, invariant: str, count: int = 1) -> None:
        """Count a check."""
        with self._lock:
            self._checks[invariant] += count

    def take(self) -> list[Violation]:
        """Violations since the last call."""
        with self._lock:
            new, self._violations = self._violations, []
        return new

    @property
    def checks(self) -> dict[str, int]:
        """How often each invariant was checked."""
        with self._lock:
            return dict(self._checks)


_ALLOWED: Final = {"memory": 12.0, "descriptors": 6, "threads": 4, "maps": 60}
"""Growth over all rests that is no leak: caches that fill, a watch more or less."""
_LEAST_RESTS: Final = 6
"""Rests that tell a trend."""
_CERTAIN_ERRORS: Final = 3.0
"""The slope of a series (least squares) counts from so many times its own standard error on."""


@dataclass(frozen=True, slots=True)
class Trend:
    """What one process held at each of its rests."""

    program: str
    what: str
    values: tuple[float, ...]

    def __str__(self) -> str:
        """From the first third of the rests to the last."""
        third = len(self.values) // 3
        first = median(self.values[:third])
        last = median(self.values[-third:])
        return f"{first:.0f} → {last:.0f}"


class Leaks:
    """Sizes of programs, taken whenever the cluster is at rest.

    A program that was restarted begins anew.
    """

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, int], list[Size]] = {}

    def take(self, program: Program) -> None:
        """Sample a program that is idle."""
        size = program.size()
        if size:
            self._sizes.setdefault((program.name, program.pid), []).append(size)

    def trends(self) -> list[Trend]:
        """How sizes developed, of every process that was seen often enough."""
        trends = []
        for (name, _), sizes in self._sizes.items():
            if len(sizes) < _LEAST_RESTS:
                continue
            for field in fields(Size):
                values = tuple(getattr(size, field.name) for size in sizes)
                trends.append(Trend(name, field.name, values))
        return trends

    def judge(self, findings: Findings) -> None:
        """Record the processes that grew."""
        for trend in self.trends():
            findings.checked("leaks")
            allowed = _ALLOWED[trend.what]
            if not grows(trend.values, allowed):
                continue
            rests = len(trend.values)
            finding = f"{trend.program}: {trend.what} {trend} in {rests} rests"
            findings.add("leaks", finding)


def grows(series: Sequence[float], slack: float) -> bool:
    """Whether it rises by more than `slack` and than chance explains, without ever coming back.

    The last: the least of its last third is more than the most of its first. What rises once and
    stays, as a cache that fills up, rises in a third at most.
    """
    count = len(series)
    slope, start = linear_regression(range(count), series)
    rise = slope * (count - 1)
    if rise <= slack:
        return False
    error = _standard_error(series, slope, start)
    if slope <= _CERTAIN_ERRORS * error:
        return False

    third = count // 3
    first = series[:third]
    later = series[third:]
    last = series[-third:]
    if min(last) <= max(first):
        return False

    rises = 0
    for before, after in pairwise(later):
        if after > before:
            rises += 1
    return rises > 1


def _standard_error(series: Sequence[float], slope: float, start: float) -> float:
    """The standard error of the slope of the line through a series."""
    count = len(series)
    middle = (count - 1) / 2
    residual = 0.0
    spread = 0.0
    for index, value in enumerate(series):
        off_line = value - start - slope * index
        off_middle = index - middle
        residual += off_line**2
        spread += off_middle**2

    freedom = max(1, count - 2)
    return sqrt(residual / freedom / spread)
