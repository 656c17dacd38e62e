"""Whether programs grow from one rest to the next."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Final

from tools.chaos.processes import Size

if TYPE_CHECKING:
    from tools.chaos.processes import Program
    from tools.chaos.violations import Findings

_ALLOWED: Final = {"memory": 12.0, "descriptors": 6, "threads": 4, "maps": 60}
"""Growth from the first third of the rests to the last that is no leak: caches that fill, a watch more or less."""
_FEWEST: Final = 6


@dataclass(frozen=True, slots=True)
class Trend:
    """What one process held at its first rests and at its last ones."""

    program: str
    what: str
    first: float
    last: float
    rests: int


class Leaks:
    """Sizes of programs, taken whenever the cluster is at rest. A program that was started anew begins anew."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, int], list[Size]] = {}

    def take(self, program: Program) -> None:
        """Look at a program that has nothing to do."""
        size = program.size()
        if size:
            self._sizes.setdefault((program.name, program.pid), []).append(size)

    def trends(self) -> list[Trend]:
        """How sizes developed, of every process that was seen often enough."""
        trends = []
        for (name, _), sizes in self._sizes.items():
            part = len(sizes) // 3
            if len(sizes) >= _FEWEST:
                for field in fields(Size):
                    values = [getattr(size, field.name) for size in sizes]
                    trends.append(Trend(name, field.name, median(values[:part]), median(values[-part:]), len(values)))
        return trends

    def judge(self, findings: Findings) -> None:
        """Take down what grew."""
        for trend in self.trends():
            findings.checked("leaks")
            if trend.last - trend.first > _ALLOWED[trend.what]:
                text = f"{trend.program}: {trend.what} from {trend.first:.0f} to {trend.last:.0f}"
                findings.add("leaks", f"{text} in {trend.rests} rests")
