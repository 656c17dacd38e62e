"""What is worth an Event on the Node: not what it is, but that it changed. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from toposcope.api import label_keys
from toposcope.topology.hardware import State

_MOVED: Final = (
    (label_keys.NVLINK_DOMAIN, "NVLinkDomainChanged", "NVLink domain"),
    (label_keys.CHASSIS, "ChassisChanged", "chassis"),
)


class News(NamedTuple):
    """One Event: `kind` is `Normal` or `Warning`."""

    kind: str
    reason: str
    note: str


def news(before: Mapping[str, str], after: Mapping[str, str], because: Sequence[str]) -> list[News]:
    """The Events between two sets of our labels on a Node; `because` says why the state is what it is now.

    A node that is labelled for the first time is no news, unless it begins degraded.
    """
    told = []
    was, now = before.get(label_keys.STATE), after.get(label_keys.STATE)
    why = "; ".join(because) or "no reason is known"
    if was != now:
        if now == State.DEGRADED:
            told.append(News("Warning", "NodeDegraded", why))
        elif now == State.UNKNOWN and was is not None:
            told.append(News("Warning", "TopologyUnknown", f"the labels are from before: {why}"))
        elif now == State.OK and was is not None:
            told.append(News("Normal", "NodeHealthy", "all GPUs and links that this node has shown before are there"))
    for key, reason, what in _MOVED:
        if key in before and key in after and before[key] != after[key]:
            told.append(News("Normal", reason, f"{what} changed from {before[key]} to {after[key]}"))
    return told
