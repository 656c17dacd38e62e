"""KAI: whether it has the Topology that a workload is scheduled by, and its messages."""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.features import (
    Kind,
    SchedulerMessage,
    Step,
    WorkloadObjects,
    conditions,
    failed,
    passed,
    unknown,
)
from toposcope.topology.text import Command, shell

POD_GROUP: Final = Kind("scheduling.run.ai", "PodGroup", "podgroups", ("v2alpha2",), ("pg",))
TOPOLOGY: Final = Kind("kai.scheduler", "Topology", "topologies", ("v1alpha1",), namespaced=False)


def check_topology(workload: WorkloadObjects, name: str, creator: str, commands: tuple[Command, ...]) -> Step:
    """Whether KAI has the Topology of this name. `creator` says, in a sentence, who is expected to create it."""
    if workload.published(name, TOPOLOGY):
        return passed(f"KAI has the Topology {name}")
    if why := workload.store.why_unknown(TOPOLOGY):
        return unknown(f"cannot tell whether KAI has the Topology {name}: {why}")
    message = f"KAI has no Topology {name}, so it cannot keep Grove's pods together"
    return failed(message, creator, commands=(shell("kubectl get {}", TOPOLOGY.name), *commands))


def messages(workload: WorkloadObjects) -> Iterator[SchedulerMessage]:
    """The conditions of its PodGroups, unless they are False."""
    for ref, document in workload.members(POD_GROUP):
        for condition in (*conditions(document, "schedulingConditions"), *conditions(document)):
            if condition.message and condition.status != "False":
                yield SchedulerMessage(ref.handle, condition.message)
