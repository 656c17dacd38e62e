"""Messages of Grove 0.1.0-alpha.12."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import WorkloadObjects, condition
from toposcope.integrations.framework.messages import Meanings, SchedulerMessage
from toposcope.integrations.grove.features import CLIQUE_SET, CONDITION

MEANINGS: Final[Meanings] = {
    r"Topology constraints are defined but Topology Aware Scheduling is disabled": (
        "Grove ignores the constraints: its topology-aware scheduling is disabled"
    ),
    r"topology constraints are not allowed when Topology Aware Scheduling is disabled": (
        "Grove's webhook rejects the PodCliqueSet: its topology-aware scheduling is disabled"
    ),
    r"KAI Topology levels differ from ClusterTopologyBinding levels": (
        "KAI's Topology has other levels than the binding; whoever created it has to recreate it"
    ),
    r"ClusterTopology(?:Binding)? resource not found": ("Grove cannot find the topology that the PodCliqueSet names"),
    r"Unavailable topology domains: \[([^\]]*)\]": (
        "the ClusterTopologyBinding has no level {0}, or no longer has it; Grove omits the constraint from new PodGangs"
    ),
}


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """What Grove reports about the levels of its PodCliqueSets, unless all is well."""
    for ref, document in workload.members(CLIQUE_SET):
        found = condition(document, CONDITION)
        if found and found.status != "False":
            yield SchedulerMessage(ref.handle, str(found))
