"""Anything else that a system would refuse, or take differently from how it was meant."""

from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.step import Step, failed, passed
from toposcope.explain.steps import features, hierarchy, levels, topology

NAME: Final = "rules"
_ELSEWHERE: Final = frozenset((*topology.RULES, *levels.RULES, *hierarchy.RULES, *features.RULES))


def look(context: Context) -> Step:
    """The rest of what `toposcope check` would say."""
    findings = [
        finding
        for checked in context.checked
        for finding in checked.reading.findings
        if finding.rule.partition("/")[2] not in _ELSEWHERE
    ]
    errors = [finding for finding in findings if finding.severity == "error"]
    told = [
        ": ".join(filter(None, (finding.field, finding.message)))
        for finding in findings
        if finding.severity == "warning"
    ]
    if errors:
        first = errors[0]
        more = [f"{error.field}: {error.message}; {error.fix}" for error in errors[1:]]
        kind = f"{context.demand.kind.lower()}/{context.demand.name}"
        where = f" -n {context.demand.namespace}" if context.demand.namespace else ""
        return failed(
            NAME,
            f"{first.field}: {first.message}",
            first.fix,
            *more,
            *told,
            commands=(f"kubectl get {kind}{where} -o yaml | toposcope check -f -",),
        )
    return passed(NAME, "nothing else in it is against the rules", *told)
