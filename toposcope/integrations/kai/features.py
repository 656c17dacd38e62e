"""KAI: the kinds it works with, and whether it has the Topology that a workload is scheduled by."""

from typing import Final

from toposcope.integrations.framework.features import Kind, Step, WorkloadObjects, failed, passed, unknown

POD_GROUP: Final = Kind("scheduling.run.ai", "PodGroup", "podgroups", ("v2alpha2",), ("pg",))
TOPOLOGY: Final = Kind("kai.scheduler", "Topology", "topologies", ("v1alpha1",), namespaced=False)


def check_topology(workload: WorkloadObjects, name: str, creator: str, commands: tuple[str, ...]) -> Step:
    """Whether KAI has the Topology of this name. `creator` says, in a sentence, who is expected to create it."""
    if workload.published(name, TOPOLOGY):
        return passed(f"KAI has the Topology {name}")
    if why := workload.store.why_unknown(TOPOLOGY):
        return unknown(f"cannot tell whether KAI has the Topology {name}: {why}")
    message = f"KAI has no Topology {name}, so it cannot keep Grove's pods together"
    return failed(message, creator, commands=(f"kubectl get {TOPOLOGY.name}", *commands))
