"""Answers questions about the cluster from the worker's copy of it, without any I/O."""

import traceback
from typing import Final, assert_never

import msgspec

from toposcope.planning.plan import Plan
from toposcope.ui.checking import checked
from toposcope.ui.known import WorkerCopy
from toposcope.ui.planning import drained, overview, place, plan_of
from toposcope.ui.planning_metrics import counted
from toposcope.ui.questions import (
    CheckRequest,
    Drain,
    GangAt,
    Metrics,
    NoPlanError,
    Overview,
    Question,
    QuestionOutcome,
    WorkerAnswer,
)

_MOST_PLANS: Final = 3
"""Plans kept in memory, one per view: each is larger than the snapshot."""
_MOST_CHARACTERS: Final = 8000
"""Length of a logged traceback; its end is kept, because that names the error."""


class Answers:
    """Answers questions, one at a time."""

    def __init__(self, copy: WorkerCopy) -> None:
        self._copy = copy
        self._plans: dict[str, Plan] = {}
        self._version = copy.version
        """The version of the cluster for which the plans were computed."""

    def answer(self, question: Question) -> WorkerAnswer:
        """The answer; whatever goes wrong is an answer too."""
        try:
            body = msgspec.json.encode(self._answered(question))
            return WorkerAnswer(QuestionOutcome.ANSWERED, msgspec.Raw(body))
        except NoPlanError as error:
            return WorkerAnswer(QuestionOutcome.NO_PLAN, error=str(error))
        except MemoryError:
            return WorkerAnswer(QuestionOutcome.OUT_OF_MEMORY)
        except Exception:  # noqa: BLE001 - a defect of ours, which must not end the worker
            return WorkerAnswer(
                QuestionOutcome.FAILED, error=traceback.format_exc()[-_MOST_CHARACTERS:]
            )

    def _answered(self, question: Question) -> msgspec.Struct:
        """Raises NoPlanError."""
        match question:
            case CheckRequest(text, views):
                return checked(text, self._copy.with_published, views, self._copy.served.warnings)
            case Overview(view):
                return overview(self._plan(view))
            case GangAt(view, kind, name):
                return place(self._plan(view), kind, name)
            case Drain(view, path, node):
                return drained(self._plan(view), path, node)
            case Metrics(worst, now, since):
                return counted(self._copy.snapshot, self._copy.required, worst, now, since)

        assert_never(question)

    def _plan(self, view: str) -> Plan:
        """The plan of a view, kept until the cluster has changed: a large one takes a second."""
        if self._version != self._copy.version:
            self._plans.clear()
            self._version = self._copy.version

        if view not in self._plans:
            while len(self._plans) >= _MOST_PLANS:
                oldest = next(iter(self._plans))
                del self._plans[oldest]
            topology = view or None
            self._plans[view] = plan_of(self._copy.snapshot, topology, self._copy.required)
        return self._plans[view]
