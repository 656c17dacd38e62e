"""The second question: has the topology the levels that the workload names."""

from typing import Final

from explain.case import Case, asked
from explain.lost import lost_levels, mentions
from explain.step import Step, failed, passed, unknown

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


def look(case: Case) -> Step:
    """Every level that is named is one of the topology's; near misses are offered."""
    lost = lost_levels(case)
    findings = [each for each in case.findings(*RULES) if not any(mentions(each.message, domain) for domain in lost)]
    if findings:
        first, others = findings[0], findings[1:]
        name = case.topologies[0] if case.topologies else ""
        return failed(
            NAME,
            f"{first.field}: {first.message}",
            first.fix,
            *(f"{each.field}: {each.message}; {each.fix}" for each in others),
            commands=(f"toposcope levels {name}".rstrip(),),
        )
    named = [level.domain for level in asked(group for workload in case.workloads for group in workload.groups)]
    if named:
        return passed(NAME, f"it asks for {', '.join(dict.fromkeys(named))}, which is there")
    unread = [workload for workload in case.workloads if not workload.placeable and workload.notes]
    if unread:
        return unknown(NAME, unread[0].notes[0])
    return passed(NAME, "it asks for no level")
