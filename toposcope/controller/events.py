"""Which Events are due. Pure.

One on the ClusterTopology when a condition turns, and one on every workload that asks for a level
that went or came.

What was reported before is in the stored status, so a restarted controller repeats nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, Topology
from toposcope.api.conditions import (
    AGENTS_REPORTING,
    FABRIC_HEALTHY,
    HIERARCHY_CONSISTENT,
    LEVELS_AVAILABLE,
    LEVELS_COVERED,
    RAILS_CONSISTENT,
    previous,
    unavailable_levels,
    unavailable_message,
)
from toposcope.api.levels import Level
from toposcope.controller.assess.availability import reported_missed
from toposcope.controller.assess.rails import MISCABLED, MOST_FINDINGS, Rails
from toposcope.controller.assess.rebuilds import Rebuild
from toposcope.controller.requirements import Resolved, WorkloadsByLevel
from toposcope.hardware.rails import reported
from toposcope.integrations.framework.level_requests import WorkloadRef

FABRIC_REBUILT: Final = "FabricRebuilt"
LEVEL_DROPPED: Final = "LevelDropped"
BURST_EVENTS: Final = 200.0
"""Events at once: the workloads on which one transition is reported."""
EVENTS_PER_SECOND: Final = 1.0


class EventRateLimit:
    """A token bucket.

    A level that flaps under a thousand workloads must not flood the API server.
    """

    def __init__(self, burst: float = BURST_EVENTS, per_second: float = EVENTS_PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at: float | None = None

    def allow(self, now: float) -> bool:
        """Take one token at `now` (monotonic seconds); whether there was one."""
        if self._at is not None:
            earned = max(now - self._at, 0.0) * self._per_second
            self._tokens = min(self._burst, self._tokens + earned)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class LevelEvent:
    """One Event; `regarding` is an object reference, `warning` decides its type."""

    regarding: Mapping[str, str]
    is_warning: bool
    reason: str
    note: str


def level_events(
    topology: Topology, status: Mapping[str, Any], demand: Resolved
) -> list[LevelEvent]:
    """The Events due between the topology's last status and `status`: the topology's own first."""
    verdict = previous(status, LEVELS_AVAILABLE)
    if verdict is None:
        return []
    events = _turned(topology, status, LEVELS_AVAILABLE)
    before = unavailable_levels(topology.status)
    gone = unavailable_levels(status)
    back = before - gone
    if verdict["status"] != "True" and not gone:
        back = frozenset()  # while the verdict is Unknown, no level is known to be back
    requiring = {**demand.missing, **demand.required}
    events += _on_workloads(requiring, gone=gone - before, back=back)
    before = reported_missed(topology.status)
    gone = reported_missed(status)
    events += _on_workloads(demand.preferred, gone=gone - before, back=before - gone)
    return events


def dropped_events(topology: Topology, status: Mapping[str, Any]) -> list[LevelEvent]:
    """A warning about each level that the topology has lost since its last status.

    An admin who takes a level out of `spec.levels` knows it.
    """
    if topology.levels is not None:
        return []
    remaining = [entry["domain"] for entry in status.get("levels") or ()]
    events = []
    for level in topology.last_levels:
        if level.domain not in remaining:
            note = _dropped(topology, level, remaining)
            events.append(LevelEvent(_itself(topology), True, LEVEL_DROPPED, note))
    return events


def _dropped(topology: Topology, level: Level, remaining: Sequence[str]) -> str:
    grace = topology.spec.get("gracePeriod") or "10m"
    levels = " > ".join(remaining) or "none"
    return (
        f"Level '{level.domain}' ({level.key}) is dropped: for gracePeriod ({grace}) no node has "
        f"carried the label, or the configuration has not named it; remaining levels: {levels}"
    )


def condition_events(topology: Topology, status: Mapping[str, Any]) -> list[LevelEvent]:
    """The Events due for the other conditions about nodes that turned.

    Conditions about writes and about other topologies get none. That nodes carry every level is
    no good news where it is true only because a level was dropped.
    """
    kinds = (
        LEVELS_COVERED,
        AGENTS_REPORTING,
        HIERARCHY_CONSISTENT,
        FABRIC_HEALTHY,
        RAILS_CONSISTENT,
    )
    events = []
    dropped = dropped_events(topology, status)
    for kind in kinds:
        turned = _turned(topology, status, kind)
        if kind == LEVELS_COVERED and dropped:
            turned = [event for event in turned if event.is_warning]
        events += turned
    return dropped + events


def rail_events(topology: Topology, rails: Rails) -> list[LevelEvent]:
    """An Event on the Node of each miscabled rail that the status names first now."""
    before = {rail.key for rail in reported(topology.status)}
    events = []
    for rail in rails.miscabled[:MOST_FINDINGS]:
        if rail.key in before:
            continue
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": rail.node,
            "uid": rail.uid,
        }
        events.append(LevelEvent(node, True, MISCABLED, rail.sentence))
    return events


def rebuild_events(topology: Topology, fresh: Iterable[Rebuild]) -> list[LevelEvent]:
    """An Event on the ClusterTopology for each fabric that was rebuilt, once."""
    regarding = _itself(topology)
    return [LevelEvent(regarding, False, FABRIC_REBUILT, rebuild.sentence) for rebuild in fresh]


def _itself(topology: Topology) -> dict[str, str]:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid}


def _turned(topology: Topology, status: Mapping[str, Any], kind: str) -> list[LevelEvent]:
    """The Event about a condition that turned False, or True from False.

    A condition that was always True, or is Unknown, is not reported.
    """
    after = previous(status, kind)
    if after is None:
        return []
    before = previous(topology.status, kind)
    was = before.get("status") if before else None
    now = after.get("status")
    failed = now == "False" and was != "False"
    recovered = now == "True" and was == "False"
    if not failed and not recovered:
        return []
    return [LevelEvent(_itself(topology), failed, after["reason"], after["message"])]


def _on_workloads(
    askers: WorkloadsByLevel, *, gone: frozenset[str], back: frozenset[str]
) -> list[LevelEvent]:
    """One Event for each workload that asks for a level that went or came back."""
    events = []
    for domain in sorted(gone):
        note = unavailable_message(domain)
        for workload in askers.get(domain, ()):
            regarding = _reference(workload)
            events.append(LevelEvent(regarding, True, "TopologyLevelsUnavailable", note))
    for domain in sorted(back):
        note = f"Topology level '{domain}' is available again in the cluster topology"
        for workload in askers.get(domain, ()):
            regarding = _reference(workload)
            events.append(LevelEvent(regarding, False, "TopologyLevelsAvailable", note))
    return events


def _reference(workload: WorkloadRef) -> dict[str, str]:
    reference = {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.name,
        "uid": workload.uid,
    }
    if workload.namespace:
        reference["namespace"] = workload.namespace
    return reference
