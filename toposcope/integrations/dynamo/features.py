"""Dynamo passes a deployment's constraints on to Grove, in a PodCliqueSet."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import Kind, Step, WorkloadObjects, passed, unknown
from toposcope.integrations.grove.features import CLIQUE_SET

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
        command = f"kubectl describe dgd {ref.name} -n {ref.namespace}"
        yield unknown("Dynamo has not created its PodCliqueSet yet", commands=(command,))
