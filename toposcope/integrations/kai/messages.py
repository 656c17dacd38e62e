"""Messages of KAI 0.17."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import WorkloadObjects, conditions
from toposcope.integrations.framework.messages import Meanings, SchedulerMessage
from toposcope.integrations.kai.features import POD_GROUP

MEANINGS: Final[Meanings] = {
    r"Requested topology (\S+) does not exist": (
        "KAI has no Topology {0}; kubectl get topologies.kai.scheduler lists those it has"
    ),
    r"topology constraint error: (.+?) specified '([^']*)' .*topology tree '([^']*)'": (
        "Topology {2} has no level {1}: KAI expects label keys, not names such as rack"
    ),
}


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """The conditions of its PodGroups, unless they are False."""
    for ref, document in workload.members(POD_GROUP):
        for condition in (*conditions(document, "schedulingConditions"), *conditions(document)):
            if condition.message and condition.status != "False":
                yield SchedulerMessage(ref.handle, condition.message)
