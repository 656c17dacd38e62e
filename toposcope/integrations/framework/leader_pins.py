"""Exclusive placement: a controller pins the pods of a group to the domain of their leader."""

from dataclasses import dataclass

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.waiting import Pin, WaitingWorkload


@dataclass(frozen=True, slots=True)
class LeaderPins:
    """How a controller pins pods to the domain of their leader, and what it is called."""

    who: str
    """The controller, by the name that people know."""
    annotations: tuple[str, ...]
    """Annotations of its objects: their values are the label keys of domains."""
    leader: str
    """The leader in words: `its leader`."""
    group: str
    """What a leader leads, in words: `its group`."""
    deleted_too: str = ""
    """What has to go with the leader before the group may go elsewhere; empty: nothing."""


def pin_to_leader(
    pins: LeaderPins, workload: WaitingWorkload, key: str, leader: ViewedPod | None
) -> Pin | None:
    """Why a pod of this leader has to go to nodes with this label; None: for another reason.

    `leader` is None where it has no node, or is not known.
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
    """The labels by whose values the annotations keep groups of pods apart."""
    keys = set()
    for _, document in workload.all_members:
        annotations = Field(document) / "metadata" / "annotations"
        for name in names:
            key = (annotations / name).text()
            if key:
                keys.add(key)
    return keys
