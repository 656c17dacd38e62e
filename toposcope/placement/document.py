"""What `toposcope check -o json` and `-o yaml` print; docs/cli.md describes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toposcope.api.yaml_text import locate
from toposcope.placement.check import Checked
from toposcope.placement.sentences import answer as in_words
from toposcope.placement.tolerating import toleration
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.documents import Document
from toposcope.snapshot.problems import Problem


@dataclass(frozen=True, slots=True)
class Answer:
    """One document and the result of each system that handles it."""

    document: Document
    checked: tuple[Checked, ...]


def line_of(document: Document, field: str) -> int:
    """The line of a field in its file; 0 where unknown."""
    if not document.place.line:
        return 0
    _, line = locate(bytes(document.text), f"$.{field}", document.inside)
    return document.place.line + line - 1


def document_of(answers: Sequence[Answer], problems: Sequence[Problem]) -> dict[str, Any]:
    """The answers as one document."""
    return {
        "workloads": [
            _checked(answer.document, checked) for answer in answers for checked in answer.checked
        ],
        "passedOver": [str(answer.document.place) for answer in answers if not answer.checked],
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


def _checked(document: Document, checked: Checked) -> dict[str, Any]:
    workload = checked.reading.workload
    return {
        "place": str(document.place),
        "workload": workload and workload.handle,
        "system": workload and workload.system,
        "topology": workload and workload.topology,
        "well": checked.well,
        "findings": findings_of(document, checked),
        "notes": list(workload.notes) if workload else [],
        "verdict": checked.verdict and _verdict_document(checked.verdict),
    }


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    best, shortage = verdict.best, verdict.shortage
    return {
        "kind": verdict.kind,
        "answer": in_words(verdict),
        "domains": {"withRoom": verdict.roomy, "exact": verdict.roomy_exact} if best else None,
        "best": best
        and {"level": best.level.domain, "domain": verdict.name(best.domain), "nodes": best.nodes},
        "shortage": shortage
        and {
            "group": shortage.group.name,
            "level": shortage.level and shortage.level.domain,
            "counted": shortage.counted,
            "resource": shortage.resource,
            "needs": shortage.needs,
            "largest": shortage.largest,
            "domain": verdict.name(shortage.best),
            "copies": shortage.copies,
            "roomFor": shortage.room_for,
        },
        "remedies": [
            {
                "act": remedy.act,
                "domain": verdict.name(remedy.domain),
                "nodes": list(remedy.nodes),
                "pods": list(remedy.pods),
                "tolerations": [dict(toleration(taint)) for taint in remedy.taints],
            }
            for remedy in verdict.remedies
        ],
        "placement": [
            {"group": placed.group.name, "domain": list(placed.domain), "nodes": dict(placed.nodes)}
            for placed in verdict.placed
        ],
        "leftOut": {reason: len(names) for reason, names in verdict.excluded},
    }
