"""Whether something grows, in looks at equal distances under a load that repeats itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import linear_regression
from typing import Final

_CERTAIN: Final = 3.0
"""A slope counts from so many times its own standard error on."""
FEWEST: Final = 4
"""Looks that tell a trend."""


@dataclass(frozen=True, slots=True)
class Slack:
    """By how much a series may rise from its first value to its last before anybody minds."""

    absolute: float
    share: float = 0.0
    """Of the mean."""

    def allowed(self, series: Sequence[float]) -> float:
        """In the unit of the series."""
        return max(self.absolute, self.share * sum(series) / len(series))


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through a series, by least squares."""

    slope: float
    """From one look to the next."""
    error: float
    """Standard error of the slope."""
    rise: float
    """Over the whole series."""


def trend(series: Sequence[float]) -> Trend:
    """The line through two looks or more."""
    count = len(series)
    slope, start = linear_regression(range(count), series)
    rest = sum((value - start - slope * i) ** 2 for i, value in enumerate(series))
    spread = sum((i - (count - 1) / 2) ** 2 for i in range(count))
    return Trend(slope, sqrt(rest / max(1, count - 2) / spread), slope * (count - 1))


def grows(series: Sequence[float], slack: Slack) -> bool:
    """Whether it rises by more than `slack`, more than chance explains, and without ever coming back.

    The last: the least of its last third is more than the most of its first. What rises once and stays, as a cache
    that fills up, rises in a third at most. Fewer looks than `FEWEST` tell nothing.
    """
    if len(series) < FEWEST:
        return False
    line = trend(series)
    third = len(series) // 3
    apart = min(series[-third:]) > max(series[:third])
    late = sum(after > before for before, after in pairwise(series[third:])) > 1
    return line.rise > slack.allowed(series) and line.slope > _CERTAIN * line.error and apart and late
