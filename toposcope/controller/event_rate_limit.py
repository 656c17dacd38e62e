"""How many Events may be recorded: a level that flaps under a thousand workloads must not flood the API server."""

from typing import Final

BURST: Final = 200.0
"""Events at once: one transition tells so many workloads."""
PER_SECOND: Final = 1.0


class Budget:
    """A bucket that is full at first and fills again with time.

    What it remembers is gone after a restart, which is no way around it: a controller that starts has nothing to say
    that the status does not hold already.
    """

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = burst
        self._at: float | None = None

    def spend(self, now: float) -> bool:
        """Whether one more may be recorded at `now` (monotonic seconds), which takes it from the bucket."""
        if self._at is not None:
            self._left = min(self._burst, self._left + max(now - self._at, 0.0) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
