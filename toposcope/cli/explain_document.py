"""What `toposcope explain -o json` and `-o yaml` print; docs/cli.md describes it."""

from typing import Any

from toposcope.explain.diagnosis import Diagnosis
from toposcope.explain.object_store import Ref
from toposcope.explain.observed_placement import Sitting
from toposcope.explain.step import Step


def document_of(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as one document."""
    case = found.case
    return {
        "subject": _ref(case.family.subject),
        "explained": _ref(case.demand),
        "owners": [_ref(ref) for ref in case.family.chain[1:]],
        "systems": list(dict.fromkeys(workload.system for workload in case.workloads)),
        "topologies": list(case.topologies),
        "well": found.well,
        "finished": case.finished,
        "pods": None
        if case.snapshot.pods is None
        else {"expected": case.expected or None, "placed": len(case.placed), "waiting": len(case.waiting)},
        "answer": found.answer and _step(found.answer),
        "steps": [_step(step) for step in found.steps],
        "sitting": [_sitting(sitting) for sitting in found.sittings],
        "said": [
            {"about": saying.about, "text": saying.text, "meaning": saying.meaning or None} for saying in found.sayings
        ],
    }


def _ref(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.name,
        "outcome": step.outcome.value,
        "message": step.message,
        "details": [line.strip() for line in step.details],
        "next": list(step.commands),
    }


def _sitting(each: Sitting) -> dict[str, Any]:
    return {
        "group": each.group,
        "copy": each.copy or None,
        "level": each.level.domain,
        "key": each.level.key,
        "required": each.required,
        "domains": dict(each.domains),
        "kept": each.honoured,
        "note": each.note or None,
    }
