"""All checks in their order, the answer (the first that failed), and what schedulers reported."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from toposcope.explain import topology_steps
from toposcope.explain.context import Context
from toposcope.explain.drift import check_drift
from toposcope.explain.meanings import meaning
from toposcope.explain.node_steps import check_availability, check_labels, check_room
from toposcope.explain.observed_placement import ObservedPlacement, observed_placements
from toposcope.explain.pins import check_pinned
from toposcope.explain.pod_steps import (
    check_gates,
    check_owner,
    check_scheduler,
    check_suspended,
    refusals,
)
from toposcope.integrations.framework import features
from toposcope.integrations.framework.features import CheckOutcome
from toposcope.integrations.registry import waiting

SCHEDULER: Final = "scheduler"
"""The step that quotes the scheduler's refusal."""


def scheduler_messages(context: Context) -> Iterator[features.SchedulerMessage]:
    """The reports of schedulers about the workload, without repetitions.

    Conditions of the objects that schedulers created for it come first, then messages about pods.
    """
    messages: list[features.SchedulerMessage] = []
    for system in waiting():
        messages += system.messages(context)
    messages += refusals(context)

    reported = set()
    for message in messages:
        if (message.about, message.text) in reported:
            continue
        reported.add((message.about, message.text))
        words = message.meaning or meaning(message.text)
        yield replace(message, meaning=words)


def check_features(context: Context) -> features.CheckStep:
    """Every feature that keeps the pods together is enabled."""
    for finding in context.findings(topology_steps.FEATURE_RULES, severity="warning"):
        if not topology_steps.is_settled(context, finding):
            return features.failed(topology_steps.objection(finding), finding.fix)

    failed = []
    unknown = []
    passed = []
    for system in waiting():
        for step in system.check(context):
            if step.outcome is CheckOutcome.FAILED:
                failed.append(step)
            elif step.outcome is CheckOutcome.UNKNOWN:
                unknown.append(step)
            else:
                passed.append(step.message)

    if failed:
        return failed[0]
    if unknown:
        return unknown[0]
    enabled = "; ".join(passed)
    return features.passed(enabled or "nothing has to be enabled for it")


CHECKS: Final[dict[str, Callable[[Context], features.CheckStep]]] = {
    "gates": check_gates,
    "pinned": check_pinned,
    "suspended": check_suspended,
    "owner": check_owner,
    SCHEDULER: check_scheduler,
    "topology": topology_steps.check_topology,
    "levels": topology_steps.check_levels,
    "hierarchy": topology_steps.check_hierarchy,
    "rules": topology_steps.check_rules,
    "labels": check_labels,
    "availability": check_availability,
    "room": check_room,
    "drift": check_drift,
    "features": check_features,
}


@dataclass(frozen=True)
class Diagnosis:
    """The answers to all questions about one workload, each computed when it is asked for.

    No answer raises an exception.
    """

    context: Context

    @cached_property
    def steps(self) -> tuple[features.CheckStep, ...]:
        """All checks in their order."""
        steps = []
        for name, check in CHECKS.items():
            step = check(self.context)
            steps.append(replace(step, name=name))
        return tuple(steps)

    @cached_property
    def placements(self) -> tuple[ObservedPlacement, ...]:
        """The placement of its pods, for each group that is to be kept together."""
        return tuple(observed_placements(self.context))

    @cached_property
    def messages(self) -> tuple[features.SchedulerMessage, ...]:
        """The reports of schedulers and operators."""
        return tuple(scheduler_messages(self.context))

    @property
    def messages_besides_answer(self) -> tuple[features.SchedulerMessage, ...]:
        """The messages without the one that is the answer."""
        if self.answer is None or self.answer.name != SCHEDULER:
            return self.messages
        quoted = refusals(self.context)[0]
        others = []
        for message in self.messages:
            if (message.about, message.text) != (quoted.about, quoted.text):
                others.append(message)
        return tuple(others)

    @property
    def failed(self) -> tuple[features.CheckStep, ...]:
        """The checks that failed, in their order."""
        return tuple(step for step in self.steps if step.outcome is CheckOutcome.FAILED)

    @property
    def answer(self) -> features.CheckStep | None:
        """The first check that failed, or one that says the same with more detail; None: none."""
        failed = self.failed
        if not failed:
            return None
        first, *others = failed
        for step in others:
            if step.name in first.explained_by:
                return step
        return first

    @property
    def has_no_problems(self) -> bool:
        """Whether nothing failed, and what runs is placed as it asks."""
        if self.answer is not None:
            return False
        return all(placement.is_kept is not False for placement in self.placements)
