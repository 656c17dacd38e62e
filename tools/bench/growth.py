"""The verdict of a soak: whether something grows, in looks at equal distances under a load that repeats itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, Final

from tools.bench.report import Figure, Sample, Target

_CERTAIN: Final = 3.0
"""A slope counts from so many times its own standard error on."""
_FEWEST: Final = 4


@dataclass(frozen=True, slots=True)
class Slack:
    """By how much a series may rise from its first value to its last before anybody minds."""

    absolute: float
    share: float
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
    """Raises ValueError for a series too short to have one."""
    count = len(series)
    if count < _FEWEST:
        raise ValueError(f"{count} looks are too few to tell a trend: at least {_FEWEST} are needed")
    middle, mean = (count - 1) / 2, sum(series) / count
    spread = sum((i - middle) ** 2 for i in range(count))
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(series)) / spread
    rest = sum((value - mean - slope * (i - middle)) ** 2 for i, value in enumerate(series))
    return Trend(slope, sqrt(rest / (count - 2) / spread), slope * (count - 1))


def grows(series: Sequence[float], slack: Slack) -> bool:
    """Whether it rises by more than `slack`, more than chance explains, and without ever coming back.

    The last: the least of its last third is more than the most of its first. What rises once and stays, as a cache
    that fills up, rises in a third at most.
    """
    line = trend(series)
    third = len(series) // 3
    apart = min(series[-third:]) > max(series[:third])
    late = sum(after > before for before, after in pairwise(series[third:])) > 1
    return line.rise > slack.allowed(series) and line.slope > _CERTAIN * line.error and apart and late


def growing(looks: Sequence[Mapping[str, float]], slack: Slack) -> dict[str, Trend]:
    """Every name whose number grows from look to look; where a look lacks it, it is 0."""
    names = sorted({name for look in looks for name in look})
    series = {name: [look.get(name, 0.0) for look in looks] for name in names}
    return {name: trend(values) for name, values in series.items() if grows(values, slack)}


_MIB: Final = 1 << 20
_WARM: Final = 1
"""Looks that are not judged: what is loaded and filled once."""
_MEMORY: Final = Slack(1.0, 0.03)
"""MiB."""
_ENTRIES: Final = Slack(16, 0.02)
_REQUESTS: Final = Slack(8, 0.05)
_FEW: Final = Slack(1, 0.05)
"""For files and threads."""


def hourly(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[str, float]:
    """Requests between two counts, by verb and kind."""
    asked: Counter[str] = Counter()
    for (method, path), count in (after - before).items():
        asked[f"{method} {kind(path)}"] += count
    return {name: float(count) for name, count in asked.items()}


def kind(path: str) -> str:
    """A request's path without the names in it: `/api/v1/nodes/a/status` is `nodes/status`."""
    parts = [part for part in path.split("/") if part]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:  # noqa: PLR2004 - something within one
        parts = parts[2:]
    return "/".join(parts[:1] + parts[2:]) or "discovery"


def verdict(what: str, looks: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, float]]) -> Iterator[Figure]:
    """How many things grow; each that does has a line of its own."""
    looks, asked = looks[_WARM:], asked[_WARM:]
    memory = [look["rss"] / _MIB for look in looks]
    line = trend(memory)
    yield Figure(f"{what}, resident memory", Sample(tuple(memory), "MiB"))
    yield Figure("  its slope", Sample((1024 * line.slope,), f"KiB an hour (standard error {1024 * line.error:.1f})"))
    yield from _grown("  memory that grows", growing([{"rss": value} for value in memory], _MEMORY))
    few = [{name: look[name] for name in ("files", "threads")} for look in looks]
    yield from _grown("  open files and threads that grow", growing(few, _FEW))
    places = {place for look in looks for place in look["sizes"]}
    if places:
        grown = growing([look["sizes"] for look in looks], _ENTRIES)
        yield from _grown(f"  containers that grow, of {len(places):,}", grown)
    yield Figure("  API requests in an hour", Sample(tuple(sum(hour.values()) for hour in asked), ""))
    yield from _grown("  kinds of requests that grow", growing(asked, _REQUESTS))


def _grown(what: str, grown: Mapping[str, Trend]) -> Iterator[Figure]:
    yield Figure(what, Sample((len(grown),), ""), Target(0))
    for name, line in grown.items():
        yield Figure(f"    {name}, an hour", Sample((line.slope,), ""))
