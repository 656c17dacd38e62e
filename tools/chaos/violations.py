"""Violations, reported from any thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass


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
"""What must hold, whatever happens."""


class Findings:
    """Violations, each once, and how much was looked at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Violation] = []
        self._checks = dict.fromkeys(INVARIANTS, 0)

    def add(self, invariant: str, what: str) -> None:
        """Take down a violation."""
        violation = Violation(invariant, what)
        with self._lock:
            if violation not in self._found:
                self._found.append(violation)

    def checked(self, invariant: str, count: int = 1) -> None:
        """Count what was looked at."""
        with self._lock:
            self._checks[invariant] += count

    def take(self) -> list[Violation]:
        """What was found since the last time."""
        with self._lock:
            found, self._found = self._found, []
        return found

    @property
    def checks(self) -> dict[str, int]:
        """How often each invariant was looked at."""
        with self._lock:
            return dict(self._checks)
