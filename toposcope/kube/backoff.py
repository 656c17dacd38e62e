"""How long to wait after a failure before the next attempt: one schedule for every program.

It uses neither msgspec nor dataclasses, because agents import it.
"""

import random
from typing import Final, NamedTuple

from toposcope.kube.errors import ApiError, KubeError

_MOST_DOUBLINGS: Final = 16
"""By then a pause of a second is as long as 18 hours: every schedule has reached its longest."""


class Schedule(NamedTuple):
    """Pauses that double from `first_seconds` to `longest_seconds`, with jitter.

    The jitter keeps clients that failed together from coming back together.
    """

    first_seconds: float
    longest_seconds: float
    jitter: tuple[float, float] = (0.5, 1.0)
    """Jitter: the bounds of the factor by which a pause is multiplied."""
    shortest_seconds: float = 0.0
    """The shortest pause in seconds, whatever the jitter."""
    longest_denied_seconds: float | None = None
    """The longest pause after a 401 or 403 in seconds, if it differs."""

    def pause(self, failures: int, rng: random.Random, error: KubeError | None = None) -> float:
        """Seconds to wait after a failure that so many came before; never less than Retry-After."""
        doubled = self.first_seconds * 2.0 ** min(failures, _MOST_DOUBLINGS)
        length = min(doubled, self._longest_after(error))
        lowest_share, highest_share = self.jitter
        shortest = max(self.shortest_seconds, lowest_share * length)
        longest = highest_share * length
        pause = rng.uniform(shortest, longest)
        return max(pause, _retry_after(error))

    def _longest_after(self, error: KubeError | None) -> float:
        if self.longest_denied_seconds is None or not isinstance(error, ApiError):
            return self.longest_seconds
        return self.longest_denied_seconds if error.is_denied else self.longest_seconds


class Backoff:
    """Counts failures in a row; each waits for longer, until a success."""

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.schedule = schedule
        self._rng = rng
        self.failures = 0
        """Failures since the last success."""
        self.pause = 0.0
        """Seconds to wait after the last failure; 0 when there was none since the last success."""

    def failed(self, error: KubeError | None = None) -> float:
        """Seconds to wait after this failure."""
        self.pause = self.schedule.pause(self.failures, self._rng, error)
        self.failures += 1
        return self.pause

    def reset(self) -> None:
        """Record a success: the next failure starts with the first pause again."""
        self.failures = 0
        self.pause = 0.0


def _retry_after(error: KubeError | None) -> float:
    """Seconds that the server asks to wait."""
    if isinstance(error, ApiError) and error.retry_after is not None:
        return error.retry_after
    return 0.0
