"""The verdict of a soak: what grows from look to look, of all that may not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tools.bench.growth import Slack, Trend, growing, trend
from tools.bench.report import Figure, Sample, Target

MIB: Final = 1 << 20
WARM: Final = 1
"""Looks that are not judged: what is loaded and filled once."""
MEMORY: Final = Slack(1.0, 0.03)
"""MiB."""
ENTRIES: Final = Slack(16, 0.02)
REQUESTS: Final = Slack(8, 0.05)
FEW: Final = Slack(1, 0.05)
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
    looks, asked = looks[WARM:], asked[WARM:]
    memory = [look["rss"] / MIB for look in looks]
    line = trend(memory)
    yield Figure(f"{what}, resident memory", Sample(tuple(memory), "MiB"))
    yield Figure("  its slope", Sample((1024 * line.slope,), f"KiB an hour (standard error {1024 * line.error:.1f})"))
    yield from _grown("  memory that grows", growing([{"rss": each} for each in memory], MEMORY))
    few = [{name: look[name] for name in ("files", "threads")} for look in looks]
    yield from _grown("  open files and threads that grow", growing(few, FEW))
    places = {place for look in looks for place in look["sizes"]}
    if places:
        grown = growing([look["sizes"] for look in looks], ENTRIES)
        yield from _grown(f"  containers that grow, of {len(places):,}", grown)
    yield Figure("  API requests in an hour", Sample(tuple(sum(each.values()) for each in asked), ""))
    yield from _grown("  kinds of requests that grow", growing(asked, REQUESTS))


def _grown(what: str, grown: Mapping[str, Trend]) -> Iterator[Figure]:
    yield Figure(what, Sample((len(grown),), ""), Target(0))
    for name, line in grown.items():
        yield Figure(f"    {name}, an hour", Sample((line.slope,), ""))
