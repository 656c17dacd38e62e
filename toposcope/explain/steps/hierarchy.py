"""The third question: is every part kept together at least as narrowly as the whole."""

from typing import Final

from toposcope.api.conditions import HIERARCHY_CONSISTENT
from toposcope.explain.context import Context
from toposcope.explain.object_store import condition
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps.levels import in_the_dark

NAME: Final = "hierarchy"
RULES: Final = ("hierarchy", "slice-level")


def look(context: Context) -> Step:
    """No part asks for a broader level than the whole; what does not nest on the nodes is told besides."""
    if dark := in_the_dark(context):
        return unknown(NAME, dark)
    orders = [f"{topology}: {' > '.join(_order(context, topology))}" for topology in context.topologies]
    for finding in context.findings(*RULES):
        name = context.topologies[0] if context.topologies else ""
        return failed(
            NAME,
            f"{finding.field}: {finding.message}",
            finding.fix,
            *(f"the levels of {order}" for order in orders),
            commands=(f"toposcope levels {name}".rstrip(),),
        )
    tangles = []
    for topology in context.snapshot.topologies:
        said = condition({"status": topology.status}, HIERARCHY_CONSISTENT)
        if topology.name in context.topologies and said and said.status == "False":
            tangles.append(f"ClusterTopology {topology.name}: {said.message}")
    return passed(NAME, "no part asks for a broader level than the whole", *tangles)


def _order(context: Context, name: str) -> list[str]:
    workload = next(each for each in context.workloads if each.topology == name)
    return [level.domain for level in context.levels(workload)]
