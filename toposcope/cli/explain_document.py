"""What `toposcope explain -o json` and `-o yaml` print; docs/cli.md describes it."""

from typing import Any

from toposcope.explain.diagnosis import Diagnosis
from toposcope.explain.observed_placement import ObservedPlacement
from toposcope.integrations.framework.features import Ref, Step


def document_of(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as one document."""
    context = found.context
    return {
        "subject": _ref(context.ownership.subject),
        "explained": _ref(context.explained),
        "owners": [_ref(ref) for ref in context.ownership.chain[1:]],
        "systems": list(dict.fromkeys(workload.system for workload in context.workloads)),
        "topologies": list(context.topologies),
        "well": found.well,
        "finished": context.finished,
        "pods": None
        if context.snapshot.pods is None
        else {"expected": context.expected or None, "placed": len(context.placed), "waiting": len(context.waiting)},
        "answer": found.answer and _step(found.answer),
        "steps": [_step(step) for step in found.steps],
        "placements": [_placement(placement) for placement in found.placements],
        "messages": [
            {"about": message.about, "text": message.text, "meaning": message.meaning or None}
            for message in found.messages
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


def _placement(placement: ObservedPlacement) -> dict[str, Any]:
    return {
        "group": placement.group,
        "copy": placement.copy or None,
        "level": placement.level.domain,
        "key": placement.level.key,
        "required": placement.required,
        "domains": dict(placement.domains),
        "kept": placement.kept,
        "note": placement.note or None,
    }
