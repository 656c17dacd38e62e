"""Are the levels that the workload asks for still on nodes that take pods? Else they are gone."""

from collections.abc import Collection
from typing import Final

from toposcope.explain.context import Context, asked
from toposcope.explain.lost import lost_levels, mentions
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps.levels import RULES, in_the_dark
from toposcope.snapshot.scope import table_of
from toposcope.topology.hierarchy import cover
from toposcope.topology.levels import Level
from toposcope.topology.text import plural

NAME: Final = "availability"


def look(context: Context) -> Step:
    """The ClusterTopology's condition, and the nodes as they are now."""
    wanted = tuple(asked(group for workload in context.workloads for group in workload.groups))
    gone = _lost(context, wanted)
    if gone:
        return gone
    if dark := in_the_dark(context):
        return unknown(NAME, dark)
    if not wanted:
        return passed(NAME, "it asks for no level")
    if not context.snapshot.nodes:
        return unknown(NAME, "no node can be seen")
    names = ", ".join(dict.fromkeys(level.domain for level in wanted))
    return _out_of_reach(context, wanted) or passed(NAME, f"nodes that take pods carry {names}")


def _lost(context: Context, wanted: Collection[Level]) -> Step | None:
    """A level that the ClusterTopology says it has lost, and that is asked for."""
    complaints = [finding.message for finding in context.findings(*RULES)]
    for domain, message in lost_levels(context).items():
        named = any(level.domain == domain for level in wanted)
        if named or any(mentions(context, text, domain) for text in complaints):
            topology = context.topologies[0] if context.topologies else message.split()[1].rstrip(":")
            return failed(
                NAME,
                message,
                "no node carries its label any more; bring the label back, or ask for another level",
                *complaints[:1],
                commands=(_levels(topology), f"kubectl describe gtopo {topology}"),
            )
    return None


def _out_of_reach(context: Context, wanted: Collection[Level]) -> Step | None:
    """A level that is asked for and that no node carries that takes pods."""
    for workload in context.workloads:
        levels = context.levels(workload)
        table = table_of(context.nodes(workload), frozenset(level.key for level in levels))
        for coverage in cover(levels, table):
            level = coverage.level
            if level not in wanted or coverage.usable:
                continue
            if coverage.nodes:
                return failed(
                    NAME,
                    f"none of {coverage.nodes} {plural(coverage.nodes, 'node')} with level {level.domain} takes pods: "
                    "each is cordoned or not Ready",
                    commands=(f"kubectl get nodes -L {level.key}",),
                )
            return failed(
                NAME,
                f"no node carries {level.key}, the label of level {level.domain}",
                "label the nodes, or ask for another level",
                commands=(f"kubectl get nodes -L {level.key}", _levels(workload.topology)),
            )
    return None


def _levels(topology: str | None) -> str:
    return f"toposcope levels {topology or ''}".rstrip()
