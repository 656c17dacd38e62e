"""All questions in their order, and the answer: the first one that failed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from toposcope.explain.context import Case
from toposcope.explain.observed_placement import Sitting, sittings
from toposcope.explain.scheduler_messages import Saying, sayings
from toposcope.explain.step import Outcome, Step
from toposcope.explain.steps import availability, drift, features, hierarchy, labels, levels, room, rules, topology

STEPS: Final[tuple[Callable[[Case], Step], ...]] = (
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

    case: Case
    steps: tuple[Step, ...]
    sittings: tuple[Sitting, ...]
    """Where its pods run, for each group that is to be kept together."""
    sayings: tuple[Saying, ...]
    """What schedulers and operators said."""

    @property
    def answer(self) -> Step | None:
        """The first question that failed; None where none did."""
        return next((step for step in self.steps if step.outcome is Outcome.FAILED), None)

    @property
    def well(self) -> bool:
        """Whether nothing failed, and what runs sits as it was asked."""
        return self.answer is None and all(sitting.honoured is not False for sitting in self.sittings)


def diagnose(case: Case) -> Diagnosis:
    """Ask everything. Never raises."""
    steps = tuple(look(case) for look in STEPS)
    return Diagnosis(case, steps, tuple(sittings(case)), tuple(sayings(case)))
