"""Do the nodes carry the labels of the levels? Schedulers leave a node out that lacks one."""

from typing import Final

from toposcope.api.label_keys import PREFIX
from toposcope.explain.context import Context
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps import topology
from toposcope.integrations.framework.constraints import Workload
from toposcope.snapshot.scope import table_of
from toposcope.topology.hierarchy import Coverage, cover
from toposcope.topology.text import plural

NAME: Final = "labels"
_AGENTS: Final = "kubectl get pods -A -o wide -l app.kubernetes.io/component=agent"


def look(context: Context) -> Step:
    """Nodes that lack a label of some level that others carry. They count against it only where room is short."""
    if dark := topology.in_the_dark(context):
        return unknown(NAME, dark)
    if not context.snapshot.nodes:
        return unknown(NAME, "no node can be seen")
    gaps = [(workload, each) for workload in context.workloads for each in partly_covered(context, workload)]
    if not gaps:
        anything = any(context.levels(workload) for workload in context.workloads)
        return passed(NAME, "no level is on some nodes only" if anything else "it asks for no level")
    told = [_sentence(coverage, len(context.nodes(workload))) for workload, coverage in gaps]
    short = any(each.verdict and each.verdict.kind in {"full", "never"} for each in context.checked)
    if context.settled or context.finished or not short:
        return passed(NAME, "some nodes lack a level, but there is room without them", *dict.fromkeys(told))
    workload, first = gaps[0]
    name = workload.topology or ""
    commands = [
        f"toposcope nodes {name} --state left-out".replace("  ", " "),
        f"kubectl get nodes -L {first.level.key}",
    ]
    if first.level.key.startswith(PREFIX):
        commands.append(_AGENTS)
    return failed(
        NAME,
        f"there is too little room, and {told[0]}",
        *dict.fromkeys(told[1:]),
        "a node that lacks one level is left out of the whole topology; label it, or see why its agent does not"
        if first.level.key.startswith(PREFIX)
        else "a node that lacks one level is left out of the whole topology; label it as its neighbours are",
        commands=tuple(commands),
    )


def partly_covered(context: Context, workload: Workload) -> list[Coverage]:
    """The levels that some nodes carry and others lack."""
    levels, nodes = context.levels(workload), context.nodes(workload)
    table = table_of(nodes, frozenset(level.key for level in levels))
    return [each for each in cover(levels, table) if each.missing and each.nodes]


def _sentence(coverage: Coverage, nodes: int) -> str:
    names = ", ".join(coverage.missing_nodes)
    more = coverage.missing - len(coverage.missing_nodes)
    lack = "lacks" if coverage.missing == 1 else "lack"
    level = coverage.level
    return (
        f"{coverage.missing} of {nodes} {plural(nodes, 'node')} {lack} level {level.domain} ({level.key}): {names}"
        + (f" and {more} more" if more else "")
    )
