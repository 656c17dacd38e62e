"""All questions in their order, and the answer: the first one that failed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.observed_placement import ObservedPlacement, placements
from toposcope.explain.scheduler_messages import SchedulerMessage, messages
from toposcope.explain.step import Outcome, Step
from toposcope.explain.steps import availability, drift, features, hierarchy, labels, levels, room, rules, topology

STEPS: Final[tuple[Callable[[Context], Step], ...]] = (
    topology.look,
    levels.look,
    hierarchy.look,
    rules.look,
    labels.look,
    availability.look,
    room.look,
    drift.look,
    features.look,
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found."""

    context: Context
    steps: tuple[Step, ...]
    placements: tuple[ObservedPlacement, ...]
    """Where its pods run, for each group that is to be kept together."""
    messages: tuple[SchedulerMessage, ...]
    """What schedulers and operators said."""

    @property
    def answer(self) -> Step | None:
        """The first question that failed; None where none did."""
        return next((step for step in self.steps if step.outcome is Outcome.FAILED), None)

    @property
    def well(self) -> bool:
        """Whether nothing failed, and what runs sits as it was asked."""
        return self.answer is None and all(placement.respected is not False for placement in self.placements)


def diagnose(context: Context) -> Diagnosis:
    """Ask everything. Never raises."""
    steps = tuple(look(context) for look in STEPS)
    return Diagnosis(context, steps, tuple(placements(context)), tuple(messages(context)))
