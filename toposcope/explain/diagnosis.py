"""All checks in their order, the answer (the first that failed), and what schedulers reported."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from toposcope.explain import topology_steps
from toposcope.explain.context import Context
from toposcope.explain.drift import check_drift
from toposcope.explain.node_steps import check_availability, check_labels, check_room
from toposcope.explain.observed_placement import ObservedPlacement, observed_placements
from toposcope.integrations.framework import features
from toposcope.integrations.framework.features import Outcome
from toposcope.integrations.registry import waiting
from toposcope.snapshot.model import PodView

_MAX_MESSAGES: Final = 8


def meaning(text: str) -> str:
    """The meaning of a message, whoever sent it; empty: unknown."""
    general = features.meaning_of(text)
    if general:
        return general

    for system in waiting():
        meaning_to_system = system.meaning(text)
        if meaning_to_system:
            return meaning_to_system
    return ""


def scheduler_messages(context: Context) -> Iterator[features.SchedulerMessage]:
    """The reports of schedulers about the workload, without repetitions.

    Conditions of the objects that schedulers created for it come first, then messages about pods.
    """
    messages: list[features.SchedulerMessage] = []
    for system in waiting():
        messages += system.messages(context)
    messages += _pod_messages(context)

    for message in dict.fromkeys(messages):
        if message.meaning:
            yield message
        else:
            yield replace(message, meaning=meaning(message.text))


def _pod_messages(context: Context) -> Iterator[features.SchedulerMessage]:
    """The reasons why its pods wait, the most frequent one first."""
    pods_by_text: dict[str, list[PodView]] = {}
    for pod in context.waiting:
        if not pod.waiting:
            continue
        pods = pods_by_text.setdefault(pod.waiting, [])
        pods.append(pod)

    most_pods_first = sorted(pods_by_text.values(), key=len, reverse=True)
    for pods in most_pods_first[:_MAX_MESSAGES]:
        first, *others = pods
        scheduler = first.scheduler or "the scheduler"
        about = f"{scheduler} on pod/{first.name}"
        if others:
            about += f" and {len(others)} more"
        yield features.SchedulerMessage(about, first.waiting)


def check_features(context: Context) -> features.Step:
    """Every feature that keeps the pods together is enabled."""
    for finding in context.findings(topology_steps.FEATURE_RULES, severity="warning"):
        if not topology_steps.is_settled(context, finding):
            return features.failed(topology_steps.objection(finding), finding.fix)

    failed = []
    unknown = []
    passed = []
    for system in waiting():
        for step in system.check(context):
            if step.outcome is Outcome.FAILED:
                failed.append(step)
            elif step.outcome is Outcome.UNKNOWN:
                unknown.append(step)
            else:
                passed.append(step.message)

    if failed:
        return failed[0]
    if unknown:
        return unknown[0]
    enabled = "; ".join(passed)
    return features.passed(enabled or "nothing has to be enabled for it")


CHECKS: Final[dict[str, Callable[[Context], features.Step]]] = {
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
    def steps(self) -> tuple[features.Step, ...]:
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
    def answer(self) -> features.Step | None:
        """The first check that failed; None where none did."""
        for step in self.steps:
            if step.outcome is Outcome.FAILED:
                return step
        return None

    @property
    def well(self) -> bool:
        """Whether nothing failed, and what runs is placed as it asks."""
        if self.answer is not None:
            return False
        return all(placement.kept is not False for placement in self.placements)
