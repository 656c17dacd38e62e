"""What `toposcope check -o json` and `-o yaml` print; docs/check.md describes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toposcope.api.yaml_text import locate
from toposcope.integrations.framework.verdict import Best, Placed, Remedy, Shortage, Verdict
from toposcope.placement.check import Checked
from toposcope.placement.sentences import answer, why
from toposcope.placement.tolerating import toleration
from toposcope.snapshot.documents import Document
from toposcope.snapshot.problems import Problem


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """One document and the result of each system that handles it."""

    document: Document
    checked: tuple[Checked, ...]


def line_of(document: Document, field: str) -> int:
    """The line of a field in its file; 0 where unknown."""
    if not document.place.line or not document.text:  # a template: its lines are not the file's
        return 0
    _, line = locate(bytes(document.text), f"$.{field}", document.inside)
    return document.place.line + line - 1


def document_of(answers: Sequence[DocumentAnswer], problems: Sequence[Problem]) -> dict[str, Any]:
    """The answers as one document."""
    workloads = []
    passed_over = []
    for answered in answers:
        if not answered.checked:
            passed_over.append(str(answered.document.place))
        for checked in answered.checked:
            workloads.append(_checked(answered.document, checked))
    return {
        "workloads": workloads,
        "passedOver": passed_over,
        "problems": [str(problem) for problem in problems],
    }


def findings_of(document: Document, checked: Checked) -> list[dict[str, Any]]:
    """The findings of a system, with the line of each field."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "field": finding.field,
            "line": line_of(document, finding.field) or None,
            "message": finding.message,
            "fix": finding.fix or None,
        }
        for finding in checked.reading.findings
    ]


def unread_of(document: Document, checked: Checked) -> list[dict[str, Any]]:
    """The fields that keep the verdict unclear, with their lines."""
    return [
        {
            "field": unread.field,
            "line": line_of(document, unread.field) or None,
            "why": unread.why,
        }
        for unread in checked.unread
    ]


def _checked(document: Document, checked: Checked) -> dict[str, Any]:
    workload = checked.reading.workload
    return {
        "place": str(document.place),
        "workload": workload.handle if workload else None,
        "system": (workload.system or None) if workload else None,
        "topology": workload.topology if workload else None,
        "well": checked.is_ok,
        "findings": findings_of(document, checked),
        "notes": list(workload.notes) if workload else [],
        "verdict": _verdict(checked.verdict) if checked.verdict else None,
        "unread": unread_of(document, checked),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    domains, best, shortage = None, None, None
    if verdict.best:
        domains = {"withRoom": verdict.roomy, "exact": verdict.is_roomy_exact}
        best = _best(verdict, verdict.best)
    if verdict.shortage:
        shortage = _shortage(verdict, verdict.shortage)
    return {
        "kind": verdict.kind,
        "answer": answer(verdict),
        "domains": domains,
        "best": best,
        "shortage": shortage,
        "remedies": [_remedy(verdict, remedy) for remedy in verdict.remedies],
        "placement": [_placed(placed) for placed in verdict.placed],
        "leftOut": {why(unusable.exclusion): len(unusable.nodes) for unusable in verdict.excluded},
    }


def _best(verdict: Verdict, best: Best) -> dict[str, Any]:
    return {
        "level": best.level.domain,
        "domain": verdict.name(best.domain),
        "nodes": best.nodes,
    }


def _shortage(verdict: Verdict, shortage: Shortage) -> dict[str, Any]:
    return {
        "group": shortage.group.name,
        "level": shortage.level.domain if shortage.level else None,
        "counted": shortage.counted,
        "resource": shortage.resource,
        "needs": shortage.needs,
        "largest": shortage.largest,
        "domain": verdict.name(shortage.best),
        "copies": shortage.copies,
        "roomFor": shortage.room_for,
    }


def _remedy(verdict: Verdict, remedy: Remedy) -> dict[str, Any]:
    return {
        "act": remedy.act,
        "domain": verdict.name(remedy.domain),
        "nodes": list(remedy.nodes),
        "pods": list(remedy.pods),
        "tolerations": [dict(toleration(taint)) for taint in remedy.taints],
    }


def _placed(placed: Placed) -> dict[str, Any]:
    return {
        "group": placed.group.name,
        "domain": list(placed.domain),
        "nodes": dict(placed.nodes),
    }
