"""What the controller remembers of a topology from one pass to the next, beside its status.

It lasts for one term of leadership. Losing it only delays a verdict.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toposcope.controller.assess.rebuilds import RebuildProgress
from toposcope.hierarchy.effective_levels import LevelTimers
from toposcope.hierarchy.segments import Path
from toposcope.hierarchy.timers import Timers


@dataclass(frozen=True, slots=True)
class Memory:
    """The timers of one topology, each for its grace period, and what Events have told."""

    is_single_look: bool = False
    """No other look follows, so that a required level which is gone now counts as gone."""
    levels: LevelTimers = field(default_factory=LevelTimers)
    unavailable: Timers[str] = field(default_factory=Timers)
    """Required and preferred domains that no node carries."""
    new_segments: Timers[Path] = field(default_factory=Timers)
    """Segments that are not established yet, by their levels."""
    lost_segments: Timers[str] = field(default_factory=Timers)
    """Segments whose nodes carry other levels now, by name."""
    unclaimed_children: Timers[str] = field(default_factory=Timers)
    """ClusterTopologies that no segment claims, by name."""
    rebuilds: Timers[RebuildProgress] = field(default_factory=Timers)
    """Rebuilds that are not complete, since the last node moved."""
    miscabled_rails: Timers[str] = field(default_factory=Timers)
    shared_switch_names: Timers[str] = field(default_factory=Timers)
    told_rebuilds: set[tuple[str, str]] = field(default_factory=set)
    """Rebuilds that an Event has told, by their cluster UUIDs before and after."""

    def forget_nodes(self) -> None:
        """Forget what the nodes showed: others may come, and lack their labels for a while.

        What workloads need and what children there are is no matter of nodes.
        """
        kept = (self.levels.unneeded, self.unclaimed_children)
        for timers in self._all():
            if timers not in kept:
                timers.clear()

    def next_deadline(self, grace: float, now: float) -> float | None:
        """Seconds until the next timer is overdue; None when none will be."""
        waits = []
        for timers in self._all():
            wait = timers.next_deadline(grace, now)
            if wait is not None:
                waits.append(wait)
        return min(waits, default=None)

    def _all(self) -> Iterator[Timers[Any]]:
        yield self.levels.gone
        yield self.levels.unneeded
        yield self.levels.turned
        yield self.levels.idle
        yield self.unavailable
        yield self.new_segments
        yield self.lost_segments
        yield self.unclaimed_children
        yield self.rebuilds
        yield self.miscabled_rails
        yield self.shared_switch_names
