"""When the agent repairs what others changed on its Node.

Within seconds, and ever later if that goes on.
"""

import random
from typing import Final

from toposcope.kube.backoff import Schedule
from toposcope.kube.runtime import Runtime

_MOST_DELAY_SECONDS: Final = 600.0
_SCHEDULE: Final = Schedule(
    first_seconds=4.0, longest_seconds=_MOST_DELAY_SECONDS, jitter=(0.1, 1.0)
)
"""The jitter keeps thousands of agents whose labels are removed together from writing together."""
_QUICK_REPAIRS: Final = 3
"""So many come at once; another writer may want something else for ever, and each further one
waits longer."""
_CALM_SECONDS: Final = 1200.0
"""After this many seconds without a repair the next one is quick again."""


class Repairs:
    """The repair that is due, and how many there were before it."""

    def __init__(self, runtime: Runtime, rng: random.Random) -> None:
        self._runtime = runtime
        self._rng = rng
        self.due_at: float | None = None
        """When to repair, in monotonic seconds; None while there is nothing to repair."""
        self._last_at = -_CALM_SECONDS
        self._count = 0

    def request(self) -> None:
        """Others changed keys of ours."""
        if self.due_at is not None:
            return
        now = self._runtime.monotonic()
        if now - self._last_at > _CALM_SECONDS:
            self._count = 0
        too_many = max(0, self._count - _QUICK_REPAIRS)
        self.due_at = now + _SCHEDULE.pause(too_many, self._rng)

    def begin(self, before: float) -> bool:
        """Whether a repair is due before that moment; then it is begun."""
        if self.due_at is None or before < self.due_at:
            return False
        self.due_at = None
        return True

    def note_repair(self) -> None:
        """The Node is repaired."""
        self._last_at = self._runtime.monotonic()
        self._count += 1
