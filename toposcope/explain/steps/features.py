"""The last question: is everything switched on, in Dynamo, Grove, KAI and Kueue, that keeps the pods together."""

from collections.abc import Callable, Iterator
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.features import dynamo, grove, kai, kueue
from toposcope.explain.step import Outcome, Step, failed, passed

NAME: Final = "features"
RULES: Final = ("grove-pathway", "scheduler-name", "queue-name", "wrong-place")
_PARTS: Final[tuple[Callable[[Context], Iterator[Step]], ...]] = (dynamo.look, grove.look, kai.look, kueue.look)


def look(context: Context) -> Step:
    """The first part that is off; else the first of which that is not known."""
    for finding in context.findings(*RULES, severity="warning"):
        if finding.rule == "kueue/queue-name" and kueue.is_managed(context):
            continue
        return failed(NAME, f"{finding.field}: {finding.message}", finding.fix)
    steps = [step for part in _PARTS for step in part(context)]
    for outcome in (Outcome.FAILED, Outcome.UNKNOWN):
        for step in steps:
            if step.outcome is outcome:
                return step
    told = "; ".join(step.message for step in steps)
    return passed(NAME, told or "it needs nothing to be switched on")
