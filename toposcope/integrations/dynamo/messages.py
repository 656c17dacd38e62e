"""Messages of Dynamo 1.4."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.dynamo.features import DEPLOYMENT_GRAPH
from toposcope.integrations.framework.features import WorkloadObjects, condition
from toposcope.integrations.framework.messages import Meanings, SchedulerMessage
from toposcope.integrations.grove.features import CLIQUE_SET, CONDITION

MEANINGS: Final[Meanings] = {
    r'Node "([^"]*)" does not have required topology label "([^"]*)"': (
        "node {0} lacks the label {1}, so Dynamo cannot tell its pods where they run; label it"
    ),
}


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
