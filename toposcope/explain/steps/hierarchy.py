"""The third question: is every part kept together at least as narrowly as the whole."""

from typing import Final

from toposcope.api.conditions import HIERARCHY_CONSISTENT
from toposcope.explain.context import Case
from toposcope.explain.object_store import condition
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps.levels import in_the_dark

NAME: Final = "hierarchy"
RULES: Final = ("hierarchy", "slice-level")


def look(case: Case) -> Step:
    """No part asks for a broader level than the whole; what does not nest on the nodes is told besides."""
    if dark := in_the_dark(case):
        return unknown(NAME, dark)
    orders = [f"{topology}: {' > '.join(_order(case, topology))}" for topology in case.topologies]
    for finding in case.findings(*RULES):
        name = case.topologies[0] if case.topologies else ""
        return failed(
            NAME,
            f"{finding.field}: {finding.message}",
            finding.fix,
            *(f"the levels of {order}" for order in orders),
            commands=(f"toposcope levels {name}".rstrip(),),
        )
    tangles = []
    for topology in case.snapshot.topologies:
        said = condition({"status": topology.status}, HIERARCHY_CONSISTENT)
        if topology.name in case.topologies and said and said.status == "False":
            tangles.append(f"ClusterTopology {topology.name}: {said.message}")
    return passed(NAME, "no part asks for a broader level than the whole", *tangles)


def _order(case: Case, name: str) -> list[str]:
    workload = next(each for each in case.workloads if each.topology == name)
    return [level.domain for level in case.levels(workload)]
