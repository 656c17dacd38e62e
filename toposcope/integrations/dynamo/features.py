"""Dynamo: it passes a deployment's constraints on to Grove in a PodCliqueSet; and its messages."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import (
    Kind,
    SchedulerMessage,
    Step,
    WorkloadObjects,
    condition,
    passed,
    unknown,
)
from toposcope.integrations.grove.features import CLIQUE_SET, CONDITION
from toposcope.topology.text import shell

DEPLOYMENT_GRAPH: Final = Kind(
    "nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", ("v1beta1", "v1alpha1"), ("dgd",)
)


def check(workload: WorkloadObjects) -> Iterator[Step]:
    """Whether the PodCliqueSet of a constrained deployment exists."""
    graph = next(workload.members(DEPLOYMENT_GRAPH), None)
    if graph is None or not any(demand.topology for demand in workload.workloads):
        return
    ref, _ = graph
    if any(workload.members(CLIQUE_SET)):
        yield passed("Dynamo has created the PodCliqueSet")
    elif why := workload.store.why_unknown(CLIQUE_SET):
        yield unknown(why)
    else:
        command = shell("kubectl describe dgd {} -n {}", ref.name, ref.namespace)
        yield unknown("Dynamo has not created its PodCliqueSet yet", commands=(command,))


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """Its condition where it is not True, or where it is True only because Dynamo treats Grove's Unknown as True."""
    reported = [condition(document, CONDITION) for _, document in workload.members(CLIQUE_SET)]
    unsure = next((grove for grove in reported if grove and grove.status == "Unknown"), None)
    for ref, document in workload.members(DEPLOYMENT_GRAPH):
        own = condition(document, "TopologyLevelsAvailable")
        if own and own.status != "True":
            yield SchedulerMessage(ref.handle, str(own))
        elif own and unsure:
            words = f"unreliable: Grove reports Unknown ({unsure.reason}), which Dynamo treats as True"
            yield SchedulerMessage(ref.handle, str(own), words)
