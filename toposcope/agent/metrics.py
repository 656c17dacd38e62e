"""What one agent counts; `agent.collector` exposes it to Prometheus.

Written by the agent's loop, read by scrapes.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from typing import Final, Literal, get_args

from toposcope.agent.describe import Description

Outcome = Literal["written", "unchanged", "failed", "forbidden", "conflict", "throttled"]
"""How an attempt to publish can end."""

REASONS: Final = ("nvml-unavailable", "hang", "crash", "garbage", "no-devices", "other")
"""Why a probe can fail."""

_BOUNDS: Final = (0.005, 0.02, 0.1, 0.5, 2, 10, 60, inf)


class Durations:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self.sum = 0.0
        self._counts = [0] * len(_BOUNDS)

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """The bounds, and how many durations were not above each; the last bound is infinite."""
        return zip(_BOUNDS, accumulate(self._counts), strict=True)


class AgentMetrics:
    """The numbers of an agent's probes, its writes and its node.

    Times are Unix time, 0 for never.
    """

    def __init__(self) -> None:
        self.last_probe = 0.0
        self.last_publish = 0.0
        self.durations = Durations()
        # A series that begins at 1 shows no increase: rate() would miss the first failure.
        self.failures = dict.fromkeys(REASONS, 0)
        self.publishes = dict.fromkeys(get_args(Outcome), 0)
        self.is_watching = False
        """Whether the API server tells of changes of the Node."""
        self.is_confined: bool | None = None
        """Whether the admission policies refuse what they must; None while that is not known."""
        self.description: Description | None = None
        """What the last probe found."""

    def probe_succeeded(self, seconds: float, now: float) -> None:
        """Count a probe that the hardware answered after `seconds`."""
        self.durations.observe(seconds)
        self.last_probe = now

    def probe_failed(self, reason: str, seconds: float) -> None:
        """Count a probe that failed after `seconds`.

        A reason that is not in `REASONS` counts as other.
        """
        self.durations.observe(seconds)
        self.failures[reason if reason in self.failures else "other"] += 1

    def published(self, outcome: Outcome, now: float) -> None:
        """Count an attempt to publish."""
        self.publishes[outcome] += 1
        if outcome in ("written", "unchanged"):
            self.last_publish = now
