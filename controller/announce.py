"""Who hears of a required level that went or came back: the ClusterTopology and every workload that asks for it. Pure.

What was said before stands in the status that the API server holds, so a restarted controller says nothing twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.availability import said_unavailable
from controller.conditions import LEVELS_AVAILABLE, previous
from controller.requirements.model import WorkloadRef
from controller.requirements.resolve import Askers
from controller.spec import API_VERSION, KIND, Topology

MOST: Final = 200
"""Events of one transition: the condition tells the rest, and an API server has other things to do."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One Event; `regarding` is an object reference, `warning` tells its type."""

    regarding: Mapping[str, str]
    warning: bool
    reason: str
    note: str


def announcements(topology: Topology, status: Mapping[str, Any], askers: Askers) -> list[Announcement]:
    """The Events between the topology's last status and `status`: the topology's own first, at most `MOST`."""
    before, after = previous(topology.status, LEVELS_AVAILABLE), previous(status, LEVELS_AVAILABLE)
    if after is None:
        return []
    found = []
    was, now = (before or {}).get("status"), after["status"]
    # Available from the start is no news, and not knowing is none either.
    if (now == "False" and was != "False") or (now == "True" and was == "False"):
        about = {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid}
        found.append(Announcement(about, now == "False", after["reason"], after["message"]))
    gone_before, gone = said_unavailable(before), said_unavailable(after)
    for domain in sorted(gone - gone_before):
        note = f"Topology level '{domain}' is no longer available in the cluster topology"
        found += [Announcement(_about(who), True, "TopologyLevelsUnavailable", note) for who in askers.get(domain, ())]
    for domain in sorted(gone_before - gone) if now == "True" or gone else ():
        note = f"Topology level '{domain}' is available again in the cluster topology"
        found += [Announcement(_about(who), False, "TopologyLevelsAvailable", note) for who in askers.get(domain, ())]
    return found[:MOST]


def _about(workload: WorkloadRef) -> dict[str, str]:
    about = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name, "uid": workload.uid}
    return about | ({"namespace": workload.namespace} if workload.namespace else {})
