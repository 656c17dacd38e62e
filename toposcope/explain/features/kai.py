"""KAI: the Topology by which it places Grove's workloads exists. For its own workloads the first step has asked."""

from collections.abc import Iterator

from toposcope.explain.context import Context, published_as
from toposcope.explain.features import NAME
from toposcope.explain.kinds import KAI_TOPOLOGY
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps.drift import kai_name, named_kai
from toposcope.snapshot.model import Published


def look(context: Context) -> Iterator[Step]:
    """Whether KAI has a Topology for each binding that the workload uses."""
    for workload in context.workloads:
        if workload.topology is None or workload.system not in ("Dynamo", "Grove"):
            continue
        binding = context.resource(workload)
        if binding is None:
            continue
        name = kai_name(binding)
        if published_as(context.snapshot, name, (KAI_TOPOLOGY,)):
            yield passed(NAME, f"KAI has the Topology {name}")
        elif hidden := context.store.hidden(KAI_TOPOLOGY):
            yield unknown(NAME, f"whether KAI has the Topology {name} is not known: {hidden}")
        else:
            yield failed(
                NAME,
                f"KAI has no Topology {name}, so it cannot keep Grove's pods together",
                _who_makes(binding),
                commands=(
                    f"kubectl get {KAI_TOPOLOGY.name}",
                    f"kubectl describe clustertopologybinding {binding.name}",
                ),
            )


def _who_makes(binding: Published) -> str:
    named = named_kai(binding)
    if not named:
        return "Grove makes it from the binding while its operator runs and KAI v0.12 or later is installed"
    who = "Toposcope does, unless spec.publish.kai is Never" if named == binding.name else "whoever wrote that has to"
    return f"{binding.handle} names it in spec.schedulerTopologyBindings, so Grove does not make it: {who}"
