"""A machine on which only tests move time."""

import random
import threading
from datetime import UTC, datetime

from toposcope.kube.runtime import Runtime


class ManualRuntime(Runtime):
    """Its clocks stand still until `seconds` is changed, and its randomness is that of a seed."""

    def __init__(self, seconds: float = 0.0, seed: int = 1) -> None:
        self.seconds = seconds
        self.wall_offset = 0.0
        """How far the clock on the wall is off."""
        self._seed = seed

    def monotonic(self) -> float:
        return self.seconds

    def cpu_seconds(self) -> float:
        return self.seconds

    def boot_time(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds + self.wall_offset, UTC)

    def rng(self) -> random.Random:
        return random.Random(self._seed)


class Pauses(threading.Event):
    """An event that never waits: it records the timeouts, and counts as set after a number of waits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._most = most

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return self.is_set() or len(self.seconds) > self._most


class WatchRuntime(ManualRuntime):
    """For one watch, which ends after a number of waits; each reading of the clock moves it on."""

    def __init__(self, most_pauses: int, passing: float = 0.0) -> None:
        super().__init__()
        self.pauses = Pauses(most_pauses)
        self._passing = passing

    def event(self) -> Pauses:
        return self.pauses

    def monotonic(self) -> float:
        self.seconds += self._passing
        return self.seconds
