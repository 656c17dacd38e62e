"""How many workloads ask for each level of one topology, as its status tells it: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from toposcope.controller.requirements.resolve import Askers, Resolved

_MOST: Final = 64
"""As in the CRD."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Workloads by level: those that require it, and those that only prefer it. Such a level is used, not required."""

    required: Mapping[str, int] = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)


def demand_of(asked: Resolved, status: Mapping[str, Any], *, listed: bool) -> Demand:
    """What is asked of a topology with this status; levels that it lacks are included.

    While not all workloads are `listed`, what was asked before is asked still: one that is not listed yet has not
    stopped asking.
    """
    required = _counts(asked.required, asked.missing)
    preferred = _counts(asked.preferred)
    if not listed:
        required = _before(status.get("requiredBy")) | required
        preferred = _before(status.get("preferredBy")) | preferred
    return Demand(_bounded(required), _bounded(preferred))


def _counts(*askers: Askers) -> dict[str, int]:
    return {level: len(workloads) for asker in askers for level, workloads in asker.items()}


def _before(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    return {entry["domain"]: entry["workloads"] for entry in entries or ()}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items())[:_MOST])
