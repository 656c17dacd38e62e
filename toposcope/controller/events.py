"""Events: on the ClusterTopology when a condition turns, and on every workload that asks for a level that went or came.

Pure.

What was reported before is in the stored status, so a restarted controller repeats nothing.
"""

from collections.abc import Iterable, Mapping
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
from toposcope.controller.assess.availability import reported_missed
from toposcope.controller.assess.rails import MISCABLED, MOST_FINDINGS, Rails
from toposcope.controller.assess.rebuilds import Rebuild
from toposcope.controller.requirements import Resolved, WorkloadsByLevel
from toposcope.hardware.rails import reported
from toposcope.integrations.framework.level_requests import WorkloadRef

FABRIC_REBUILT: Final = "FabricRebuilt"
BURST: Final = 200.0
"""Events at once: one transition is reported on so many workloads."""
PER_SECOND: Final = 1.0


class EventRateLimit:
    """A token bucket: a level that flaps under a thousand workloads must not flood the API server."""

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = burst
        self._at: float | None = None

    def allow(self, now: float) -> bool:
        """Take one token at `now` (monotonic seconds); whether there was one."""
        if self._at is not None:
            self._left = min(self._burst, self._left + max(now - self._at, 0.0) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class LevelEvent:
    """One Event; `regarding` is an object reference, `warning` decides its type."""

    regarding: Mapping[str, str]
    warning: bool
    reason: str
    note: str


def level_events(
    topology: Topology, status: Mapping[str, Any], demand: Resolved
) -> list[LevelEvent]:
    """The Events due between the topology's last status and `status`: the topology's own first."""
    before, after = previous(topology.status, LEVELS_AVAILABLE), previous(status, LEVELS_AVAILABLE)
    if after is None:
        return []
    events = _turned(topology, status, LEVELS_AVAILABLE)
    gone_before, gone = unavailable_levels(before), unavailable_levels(after)
    # While the verdict is Unknown, no level is known to be back.
    back = gone_before - gone if after["status"] == "True" or gone else frozenset[str]()
    events += _on_workloads({**demand.missing, **demand.required}, gone - gone_before, back)
    missed_before, missed = reported_missed(topology.status), reported_missed(status)
    events += _on_workloads(demand.preferred, missed - missed_before, missed_before - missed)
    return events


def condition_events(topology: Topology, status: Mapping[str, Any]) -> list[LevelEvent]:
    """The Events due for the other conditions about nodes that turned; those about writes and about others are left."""
    kinds = (
        LEVELS_COVERED,
        AGENTS_REPORTING,
        HIERARCHY_CONSISTENT,
        FABRIC_HEALTHY,
        RAILS_CONSISTENT,
    )
    return [due for kind in kinds for due in _turned(topology, status, kind)]


def rail_events(topology: Topology, found: Rails) -> list[LevelEvent]:
    """An Event on the Node of each miscabled rail that the status names first now."""
    before = {rail.key for rail in reported(topology.status)}
    return [
        LevelEvent(
            {"apiVersion": "v1", "kind": "Node", "name": rail.node, "uid": rail.uid},
            True,
            MISCABLED,
            rail.sentence,
        )
        for rail in found.miscabled[:MOST_FINDINGS]
        if rail.key not in before
    ]


def rebuild_events(topology: Topology, fresh: Iterable[Rebuild]) -> list[LevelEvent]:
    """An Event on the ClusterTopology for each fabric that was rebuilt, and has not been reported yet."""
    return [
        LevelEvent(_itself(topology), False, FABRIC_REBUILT, rebuild.sentence) for rebuild in fresh
    ]


def _itself(topology: Topology) -> dict[str, str]:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid}


def _turned(topology: Topology, status: Mapping[str, Any], kind: str) -> list[LevelEvent]:
    """The Event about a condition that turned False, or True from False: to be always well, or Unknown, is no news."""
    before, after = previous(topology.status, kind), previous(status, kind)
    was, now = ((condition or {}).get("status") for condition in (before, after))
    if after is None or not (
        (now == "False" and was != "False") or (now == "True" and was == "False")
    ):
        return []
    return [LevelEvent(_itself(topology), now == "False", after["reason"], after["message"])]


def _on_workloads(
    askers: WorkloadsByLevel, gone: frozenset[str], back: frozenset[str]
) -> list[LevelEvent]:
    """One Event for each workload that asks for a level that went or came back."""
    events = []
    for domain in sorted(gone):
        note = unavailable_message(domain)
        events += [
            LevelEvent(_reference(w), True, "TopologyLevelsUnavailable", note)
            for w in askers.get(domain, ())
        ]
    for domain in sorted(back):
        note = f"Topology level '{domain}' is available again in the cluster topology"
        events += [
            LevelEvent(_reference(w), False, "TopologyLevelsAvailable", note)
            for w in askers.get(domain, ())
        ]
    return events


def _reference(workload: WorkloadRef) -> dict[str, str]:
    reference = {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.name,
        "uid": workload.uid,
    }
    return reference | ({"namespace": workload.namespace} if workload.namespace else {})
