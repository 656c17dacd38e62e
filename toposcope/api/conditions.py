"""Conditions as `metav1.Condition`: the transition time changes if and only if the status does."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

LEVELS_AVAILABLE: Final = "TopologyLevelsAvailable"
LEVELS_COVERED: Final = "LevelsCovered"
AGENTS_REPORTING: Final = "AgentsReporting"
AGENTS_NOT_READY: Final = "AgentsNotReady"
"""Its reason where pods of agents are not Ready and all nodes have labels: these are stale at
worst, so that `Ready` leaves it out. In a large cluster some node is always down."""
HIERARCHY_CONSISTENT: Final = "HierarchyConsistent"
NAMES_MIXED: Final = "NamesMixed"
"""Its reason where names are reused and a workload groups by the label alone."""
SEGMENTS_PUBLISHED: Final = "SegmentsPublished"
UNIQUE_VALUES_WRITTEN: Final = "UniqueValuesWritten"
SLINKY_ANNOTATED: Final = "SlinkyAnnotated"
PUBLISHED: Final = "Published"
FABRIC_HEALTHY: Final = "FabricHealthy"
RAILS_CONSISTENT: Final = "RailsConsistent"
NO_RAILS: Final = "NoRails"
"""Its reason where no node knows its switches. That is no problem, so commands don't show it."""
SELECTORS_DISJOINT: Final = "SelectorsDisjoint"
READY: Final = "Ready"
STATUS_REFUSED: Final = "StatusRefused"
"""The reason of `Ready` where only the conditions of a status are current."""

IN_SYNC: Final = "InSync"
"""The reason of `Published` where all that should be published is."""

ADVISORY: Final = frozenset({FABRIC_HEALTHY, RAILS_CONSISTENT, SELECTORS_DISJOINT})
"""Conditions about the hardware and about other topologies: `Ready` leaves them out. In a large
cluster some node is always degraded, and shared nodes may be intended."""

UNAVAILABLE_LEVELS: Final = "unavailableLevels"
"""The field of the status beside `TopologyLevelsAvailable`."""
_MOST_MESSAGE_CHARACTERS: Final = 32768
_UNAVAILABLE_IN_MESSAGE: Final = re.compile(r"Topology level '([^']+)' is no longer available")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `status` is `True`, `False` or `Unknown`."""

    type: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}={self.status} ({self.reason}): {self.message}"


def previous(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of that type in a stored status."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            stored: Mapping[str, Any] = condition
            return stored
    return None


def utc(moment: datetime) -> str:
    """A time in UTC as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def stamped(
    conditions: Iterable[Condition], before: Mapping[str, Any], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The conditions as they are written, given the status before."""
    stamps = []
    for condition in conditions:
        stamp = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message[:_MOST_MESSAGE_CHARACTERS],
            "observedGeneration": generation,
            "lastTransitionTime": _transition_time(condition, before) or utc(now),
        }
        stamps.append(stamp)
    return stamps


def _transition_time(condition: Condition, before: Mapping[str, Any]) -> str:
    """Since when the condition has had its status; empty if it turns now."""
    stored = previous(before, condition.type)
    if stored is None:
        return ""
    if stored.get("status") != condition.status:
        return ""
    return stored.get("lastTransitionTime") or ""


def ready(conditions: Iterable[Condition]) -> Condition:
    """The summary: ready if all conditions that are not advisory hold.

    If not, it has the messages of those that do not hold. Where there is nothing to publish, or
    publishing is off or a dry run, it is ready for that reason.
    """
    unpublished = None
    failing = []
    texts = []
    for condition in conditions:
        if condition.type == PUBLISHED and condition.reason != IN_SYNC:
            unpublished = condition
        if condition.status != "True" and not _is_advisory(condition):
            failing.append(condition)
            texts.append(f"{condition.type}: {condition.message}")
    if failing:
        worst = _worst(failing)
        return Condition(READY, worst.status, worst.reason, "; ".join(texts))
    if unpublished:
        text = f"Levels are found and available. {unpublished.message}"
        return Condition(READY, "True", unpublished.reason, text)
    text = "Levels are found, available and published"
    return Condition(READY, "True", "AllConditionsHold", text)


def _is_advisory(condition: Condition) -> bool:
    return condition.type in ADVISORY or condition.reason == AGENTS_NOT_READY


def _worst(failing: Sequence[Condition]) -> Condition:
    """The first that is False, else the first."""
    for condition in failing:
        if condition.status == "False":
            return condition
    return failing[0]


def unavailable_message(domain: str) -> str:
    """What the condition and the Events say of a level that is gone."""
    return f"Topology level '{domain}' is no longer available in the cluster topology"


def unavailable_levels(status: Mapping[str, Any]) -> frozenset[str]:
    """The domains that a stored status reports as unavailable: required levels that are gone."""
    condition = previous(status, LEVELS_AVAILABLE)
    if condition is None or condition.get("status") != "False":
        return frozenset()
    entries = status.get(UNAVAILABLE_LEVELS)
    if entries is None:
        # A version without the field wrote the status, or the CRD in the cluster lacks it.
        message = str(condition.get("message"))
        return frozenset(_UNAVAILABLE_IN_MESSAGE.findall(message))
    return frozenset(entry["domain"] for entry in entries)
