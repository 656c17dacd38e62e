"""Exclusive placement: a controller pins the pods of a group to the domain of their leader."""

from dataclasses import dataclass

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Pin, WaitingWorkload


@dataclass(frozen=True, slots=True)
class LeaderPins:
    """How a controller pins pods to the domain of their leader, and its words for them."""

    who: str
    """The controller's name for people."""
    annotations: tuple[str, ...]
    """Annotations of its objects: their values are the label keys of domains."""
    leader: str
    """The word for the leader: `its leader`."""
    group: str
    """The word for its group: `its group`."""
    deleted_too: str = ""
    """What must be deleted with the leader before the group can move; empty if nothing."""


def pin_to_leader(
    pins: LeaderPins, workload: WaitingWorkload, key: str, leader: ViewedPod | None
) -> Pin | None:
    """Why a pod of this leader must run on nodes with this label; None if it is not pinned.

    `leader` is None if it has no node or is unknown.
    """
    if key not in _exclusive_keys(workload, pins.annotations):
        return None
    if leader is None:
        return Pin(pins.who)

    deleted = f"pod/{leader.name}"
    if pins.deleted_too:
        deleted += f" and {pins.deleted_too}"
    way_out = (
        f"make room on those nodes, or delete {deleted}, so that {pins.group} may go elsewhere"
    )
    return Pin(
        who=pins.who,
        why=f"{pins.leader}, pod/{leader.name}, runs there",
        way_out=(way_out,),
    )


def _exclusive_keys(workload: WaitingWorkload, names: tuple[str, ...]) -> set[str]:
    """The labels by which the annotations keep groups of pods apart."""
    keys = set()
    for _, document in workload.all_members:
        annotations = Field(document) / "metadata" / "annotations"
        for name in names:
            key = (annotations / name).text()
            if key:
                keys.add(key)
    return keys
