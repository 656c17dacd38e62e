"""Conditions as `metav1.Condition`: the transition time changes if and only if the status does."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

LEVELS_AVAILABLE: Final = "TopologyLevelsAvailable"
LEVELS_COVERED: Final = "LevelsCovered"
AGENTS_REPORTING: Final = "AgentsReporting"
HIERARCHY_CONSISTENT: Final = "HierarchyConsistent"
NAMES_MIXED: Final = "NamesMixed"
"""Its reason where names are reused and somebody goes by the name alone."""
SEGMENTS_PUBLISHED: Final = "SegmentsPublished"
UNIQUE_VALUES_WRITTEN: Final = "UniqueValuesWritten"
SLINKY_ANNOTATED: Final = "SlinkyAnnotated"
PUBLISHED: Final = "Published"
FABRIC_HEALTHY: Final = "FabricHealthy"
RAILS_CONSISTENT: Final = "RailsConsistent"
NO_RAILS: Final = "NoRails"
"""Its reason where no node knows its switches: what nobody looks for is no trouble, and commands don't show it."""
SELECTORS_DISJOINT: Final = "SelectorsDisjoint"
READY: Final = "Ready"

IN_SYNC: Final = "InSync"
"""The reason of `Published` where all that should be published is."""

ADVISORY: Final = frozenset({FABRIC_HEALTHY, RAILS_CONSISTENT, SELECTORS_DISJOINT})
"""Conditions about the hardware and about other topologies: `Ready` leaves them out. In a large
cluster some node is always degraded, and shared nodes may be intended."""

_LONGEST_MESSAGE: Final = 32768
_UNAVAILABLE: Final = re.compile(r"Topology level '([^']+)' is no longer available")


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
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), None)


def utc(moment: datetime) -> str:
    """A time in UTC as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def stamped(
    conditions: Iterable[Condition], before: Mapping[str, Any], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The conditions as they are written, given the status before."""
    stamps = []
    for condition in conditions:
        old = previous(before, condition.type)
        kept = old and old.get("status") == condition.status and old.get("lastTransitionTime")
        stamps.append(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message[:_LONGEST_MESSAGE],
                "observedGeneration": generation,
                "lastTransitionTime": kept or utc(now),
            }
        )
    return stamps


def ready(conditions: Iterable[Condition]) -> Condition:
    """The summary: ready if all conditions that are not advisory hold; else the messages of those that do not.

    Where there is nothing to publish, or publishing is off or a dry run, it is ready for that reason.
    """
    conditions = tuple(conditions)
    bad = [c for c in conditions if c.status != "True" and c.type not in ADVISORY]
    if not bad:
        unpublished = next(
            (c for c in conditions if c.type == PUBLISHED and c.reason != IN_SYNC), None
        )
        if unpublished:
            message = f"Levels are found and available. {unpublished.message}"
            return Condition(READY, "True", unpublished.reason, message)
        return Condition(
            READY, "True", "AllConditionsHold", "Levels are found, available and published"
        )
    worst = next((c for c in bad if c.status == "False"), bad[0])
    return Condition(
        READY, worst.status, worst.reason, "; ".join(f"{c.type}: {c.message}" for c in bad)
    )


def unavailable_message(domain: str) -> str:
    """What the condition and the Events say of a level that is gone; `unavailable_levels` reads it back."""
    return f"Topology level '{domain}' is no longer available in the cluster topology"


def unavailable_levels(condition: Mapping[str, Any] | None) -> frozenset[str]:
    """The domains that a stored `TopologyLevelsAvailable` condition reports as unavailable."""
    if condition is None or condition.get("status") != "False":
        return frozenset()
    return frozenset(_UNAVAILABLE.findall(str(condition.get("message"))))
