"""Events on the Node: one for each change of its labels that an admin wants to know about. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from toposcope.api import label_keys
from toposcope.topology.hardware import State

_MOVED: Final = (
    (label_keys.NVLINK_DOMAIN, "NVLinkDomainChanged", "NVLink domain"),
    (label_keys.CHASSIS, "ChassisChanged", "chassis"),
)


class NodeEvent(NamedTuple):
    """One Event: `kind` is `Normal` or `Warning`."""

    kind: str
    reason: str
    note: str


def node_events(before: Mapping[str, str], after: Mapping[str, str], reasons: Sequence[str]) -> list[NodeEvent]:
    """The Events between two sets of our labels on a Node; `reasons` explain the state after.

    The first labels of a node are no Event, unless it starts degraded.
    """
    events = []
    was, now = before.get(label_keys.STATE), after.get(label_keys.STATE)
    why = "; ".join(reasons) or "no reason is known"
    if was != now:
        if now == State.DEGRADED:
            events.append(NodeEvent("Warning", "NodeDegraded", why))
        elif now == State.UNKNOWN and was is not None:
            events.append(NodeEvent("Warning", "TopologyUnknown", f"the labels are from before: {why}"))
        elif now == State.OK and was is not None:
            note = "all GPUs and links that this node has shown before are there"
            events.append(NodeEvent("Normal", "NodeHealthy", note))
    for key, reason, what in _MOVED:
        if key in before and key in after and before[key] != after[key]:
            events.append(NodeEvent("Normal", reason, f"{what} changed from {before[key]} to {after[key]}"))
    return events
