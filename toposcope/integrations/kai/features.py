"""KAI: whether it has the Topology that a workload is scheduled by, and its messages."""

from collections.abc import Iterator

from toposcope.integrations.framework import features
from toposcope.integrations.kai.api import POD_GROUPS, TOPOLOGIES
from toposcope.text import Command, shell


def check_topology(
    workload: features.WorkloadObjects, name: str, creator: str, commands: tuple[Command, ...]
) -> features.Step:
    """Whether KAI has the Topology of this name.

    `creator` says, in a sentence, who is expected to create it.
    """
    if workload.published(name, TOPOLOGIES):
        return features.passed(f"KAI has the Topology {name}")
    if why := workload.store.why_unknown(TOPOLOGIES):
        return features.unknown(f"cannot tell whether KAI has the Topology {name}: {why}")
    message = f"KAI has no Topology {name}, so it cannot keep Grove's pods together"
    return features.failed(
        message, creator, commands=(shell("kubectl get {}", TOPOLOGIES.name), *commands)
    )


def messages(workload: features.WorkloadObjects) -> Iterator[features.SchedulerMessage]:
    """The conditions of its PodGroups, unless they are False."""
    for ref, document in workload.members(POD_GROUPS):
        for condition in (
            *features.conditions(document, "schedulingConditions"),
            *features.conditions(document),
        ):
            if condition.message and condition.status != "False":
                yield features.SchedulerMessage(ref.handle, condition.message)
