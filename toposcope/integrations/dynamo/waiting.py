"""Dynamo: whether it created the PodCliqueSet with a deployment's constraints, and its messages."""

from collections.abc import Iterator
from typing import Final

from toposcope.api.conditions import Condition
from toposcope.integrations.dynamo.api import DEPLOYMENTS
from toposcope.integrations.dynamo.provider import (
    LEVELS_UNAVAILABLE,
    PATHWAY_RULE,
    POD_CLIQUE_SETS,
    TITLE,
    TOPOLOGIES,
)
from toposcope.integrations.framework import features
from toposcope.integrations.framework.waiting import Waiting
from toposcope.text import shell


def _check(workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
    """Whether the PodCliqueSet of a constrained deployment exists."""
    graph = next(workload.members(DEPLOYMENTS), None)
    if graph is None:
        return
    if not any(demand.topology for demand in workload.workloads):
        return
    if any(workload.members(POD_CLIQUE_SETS)):
        yield features.passed("Dynamo has created the PodCliqueSet")
        return

    why_unknown = workload.store.why_unknown(POD_CLIQUE_SETS)
    if why_unknown:
        yield features.unknown(why_unknown)
        return
    ref, _ = graph
    command = shell("kubectl describe dgd {} -n {}", ref.name, ref.namespace)
    yield features.unknown("Dynamo has not created its PodCliqueSet yet", commands=(command,))


def _messages(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """Its condition if it is not True, or is True only because Dynamo treats Unknown as True."""
    unsure = _unsure_of_levels(workload)
    for ref, document in workload.members(DEPLOYMENTS):
        ready = features.condition(document, "Ready")
        if ready and ready.status == "False" and ready.message:
            yield features.SchedulerMessage(ref.handle, str(ready), ref=ref)
        own = features.condition(document, "TopologyLevelsAvailable")
        if own is None:
            continue
        if own.status != "True":
            yield features.SchedulerMessage(ref.handle, str(own))
        elif unsure:
            words = (
                f"unreliable: {TITLE} reports Unknown ({unsure.reason}), "
                "which Dynamo treats as True"
            )
            yield features.SchedulerMessage(ref.handle, str(own), words)


def _unsure_of_levels(workload: features.WorkloadObjects) -> Condition | None:
    """The first condition by which the provider does not know the levels of a PodCliqueSet."""
    for _, document in workload.members(POD_CLIQUE_SETS):
        reported = features.condition(document, LEVELS_UNAVAILABLE)
        if reported and reported.status == "Unknown":
            return reported
    return None


class _Dynamo(Waiting):
    subjects = (DEPLOYMENTS,)
    readers = ("Dynamo",)
    topology_kinds = TOPOLOGIES
    topology_rules = (
        "dynamo/topology-exists",
        "dynamo/topology-name",
        "dynamo/topology-constraint",
    )
    level_rules = (
        "dynamo/domain-exists",
        "dynamo/domain-pattern",
        "dynamo/component-domain",
        "dynamo/some-domain",
    )
    hierarchy_rules = ("dynamo/hierarchy",)
    feature_rules = (PATHWAY_RULE,)

    def check(self, workload: features.WorkloadObjects) -> Iterator[features.CheckStep]:
        return _check(workload)

    def messages(self, workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
        return _messages(workload)


WAITING: Final = _Dynamo()
