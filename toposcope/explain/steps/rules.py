"""Anything else that a system would refuse, or take differently from how it was meant."""

from typing import Final

from toposcope.explain.context import Case
from toposcope.explain.step import Step, failed, passed
from toposcope.explain.steps import features, hierarchy, levels, topology

NAME: Final = "rules"
_ELSEWHERE: Final = frozenset((*topology.RULES, *levels.RULES, *hierarchy.RULES, *features.RULES))


def look(case: Case) -> Step:
    """The rest of what `toposcope check` would say."""
    findings = [
        each
        for checked in case.checked
        for each in checked.reading.findings
        if each.rule.partition("/")[2] not in _ELSEWHERE
    ]
    errors = [each for each in findings if each.severity == "error"]
    told = [": ".join(filter(None, (each.field, each.message))) for each in findings if each.severity == "warning"]
    if errors:
        first = errors[0]
        more = [f"{each.field}: {each.message}; {each.fix}" for each in errors[1:]]
        kind = f"{case.demand.kind.lower()}/{case.demand.name}"
        where = f" -n {case.demand.namespace}" if case.demand.namespace else ""
        return failed(
            NAME,
            f"{first.field}: {first.message}",
            first.fix,
            *more,
            *told,
            commands=(f"kubectl get {kind}{where} -o yaml | toposcope check -f -",),
        )
    return passed(NAME, "nothing else in it is against the rules", *told)
