"""Messages of Kueue 0.19."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import WorkloadObjects, conditions
from toposcope.integrations.framework.messages import Meanings, SchedulerMessage
from toposcope.integrations.kueue.features import WORKLOAD

MEANINGS: Final[Meanings] = {
    r'there is no Topology "([^"]*)" for TAS flavor "([^"]*)"': (
        "ResourceFlavor {1} names Topology {0}, which does not exist; the ClusterQueue admits nothing until it does"
    ),
    r"no requested topology level: (\S+)": "the flavor's topology has no level {0}",
    r'Flavor "?([^" ]+)"? does not contain the requested level': (
        "the topology of ResourceFlavor {0} lacks the requested level"
    ),
    r"no topology domains at level: (\S+)": (
        "no Ready, schedulable node carries all labels of the topology down to {0}"
    ),
    r'topology "([^"]*)" doesn\'t allow to fit any of (\d+) pod': (
        "no domain of topology {0} has room for any of the {1} pods"
    ),
    r'topology "([^"]*)" allows to fit only (\d+) out of (\d+) pod': (
        "the best domain of topology {0} has room for {1} of the {2} pods, and they have to stay together"
    ),
    r"insufficient unused quota for (\S+) in flavor ([^,\s]+), (\S+) more needed": (
        "the queue's quota of {0} in flavor {1} is used up ({2} more needed), however much is free on the nodes"
    ),
}
_WAITING: Final = {("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True"), ("Preempted", "True")}
"""Type and status of the conditions that say why a Workload does not run."""


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """Why its Kueue Workloads are not admitted, or no longer."""
    for ref, document in workload.members(WORKLOAD):
        for condition in conditions(document):
            if condition.message and (condition.type, condition.status) in _WAITING:
                yield SchedulerMessage(ref.handle, str(condition))
