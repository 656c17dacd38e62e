"""The second question: has the topology the levels that the workload names."""

from typing import Final

from toposcope.explain.context import Context, asked
from toposcope.explain.lost import lost_levels, mentions
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps import topology
from toposcope.integrations.framework.system import Finding

NAME: Final = "levels"
RULES: Final = (
    "domain-exists",
    "level-exists",
    "label-exists",
    "domain-pattern",
    "component-domain",
    "some-domain",
    "nodes-labelled",
    "pack",
    "pack-domain",
)


def wrong_levels(context: Context) -> list[Finding]:
    """What is said against the levels that are named, but for those that the topology has lost."""
    lost = lost_levels(context)
    return [
        finding
        for finding in context.findings(*RULES)
        if not any(mentions(context, finding.message, domain) for domain in lost)
    ]


def in_the_dark(context: Context) -> str:
    """Why nothing can be said about the levels that are asked for: topology or levels are wrong. Empty otherwise."""
    return topology.in_the_dark(context) or (
        "not to be told before the levels are right" if wrong_levels(context) else ""
    )


def look(context: Context) -> Step:
    """Every level that is named is one of the topology's; near misses are offered."""
    if dark := topology.in_the_dark(context):
        return unknown(NAME, dark)
    findings = wrong_levels(context)
    if findings:
        first, others = findings[0], findings[1:]
        name = context.topologies[0] if context.topologies else ""
        return failed(
            NAME,
            f"{first.field}: {first.message}",
            first.fix,
            *(f"{other.field}: {other.message}; {other.fix}" for other in others),
            commands=(f"toposcope levels {name}".rstrip(),),
        )
    named = [level.domain for level in asked(group for workload in context.workloads for group in workload.groups)]
    if named:
        return passed(NAME, f"the topology has what it asks for: {', '.join(dict.fromkeys(named))}")
    if any(context.findings(*RULES)):
        return passed(NAME, "what it asks for was a level of the topology")
    unread = [workload for workload in context.workloads if not workload.placeable and workload.notes]
    if unread:
        return unknown(NAME, unread[0].notes[0])
    return passed(NAME, "it asks for no level")
