"""Who hears of a required level that went or came back: the ClusterTopology and every workload that asks for it. Pure.

What was said before stands in the status that the API server holds, so a restarted controller says nothing twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, Topology
from toposcope.api.conditions import LEVELS_AVAILABLE, previous, unavailable_levels, unavailable_message
from toposcope.controller.assess.availability import said_missed
from toposcope.controller.requirements.resolve import Askers, Resolved
from toposcope.integrations.framework.level_requests import WorkloadRef

BURST: Final = 200.0
"""Events at once: one transition tells so many workloads."""
PER_SECOND: Final = 1.0


class Budget:
    """A bucket that is full at first and fills again with time.

    What it remembers is gone after a restart, which is no way around it: a controller that starts has nothing to say
    that the status does not hold already.
    """

    def __init__(self, burst: float = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = burst
        self._at: float | None = None

    def spend(self, now: float) -> bool:
        """Whether one more may be recorded at `now` (monotonic seconds), which takes it from the bucket."""
        if self._at is not None:
            self._left = min(self._burst, self._left + max(now - self._at, 0.0) * self._per_second)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class Announcement:
    """One Event; `regarding` is an object reference, `warning` tells its type."""

    regarding: Mapping[str, str]
    warning: bool
    reason: str
    note: str


def announcements(topology: Topology, status: Mapping[str, Any], asked: Resolved) -> list[Announcement]:
    """The Events between the topology's last status and `status`: the topology's own first."""
    before, after = previous(topology.status, LEVELS_AVAILABLE), previous(status, LEVELS_AVAILABLE)
    if after is None:
        return []
    found = []
    was, now = (before or {}).get("status"), after["status"]
    # Available from the start is no news, and not knowing is none either.
    if (now == "False" and was != "False") or (now == "True" and was == "False"):
        about = {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid}
        found.append(Announcement(about, now == "False", after["reason"], after["message"]))
    gone_before, gone = unavailable_levels(before), unavailable_levels(after)
    # Whether a level is back cannot be told while nothing is known of it.
    back = gone_before - gone if now == "True" or gone else frozenset[str]()
    found += _told({**asked.missing, **asked.required}, gone - gone_before, back)
    missed_before, missed = said_missed(topology.status), said_missed(status)
    found += _told(asked.preferred, missed - missed_before, missed_before - missed)
    return found


def _told(askers: Askers, gone: frozenset[str], back: frozenset[str]) -> list[Announcement]:
    """One for each workload that asks for a level that went or came back."""
    found = []
    for domain in sorted(gone):
        note = unavailable_message(domain)
        found += [Announcement(_about(who), True, "TopologyLevelsUnavailable", note) for who in askers.get(domain, ())]
    for domain in sorted(back):
        note = f"Topology level '{domain}' is available again in the cluster topology"
        found += [Announcement(_about(who), False, "TopologyLevelsAvailable", note) for who in askers.get(domain, ())]
    return found


def _about(workload: WorkloadRef) -> dict[str, str]:
    about = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name, "uid": workload.uid}
    return about | ({"namespace": workload.namespace} if workload.namespace else {})
