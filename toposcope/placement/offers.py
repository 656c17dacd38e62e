"""What each domain of a level has to offer to a group: for people who want to see which ones were considered."""

from dataclasses import dataclass

from toposcope.integrations.framework.constraints import Group
from toposcope.placement.room import Room
from toposcope.placement.verdict import usable
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Offer:
    """One domain: `free` is what is free of the resource, `usable` what pods of the group's size could get of it."""

    name: str
    nodes: int
    free: int
    usable: int


def offers(room: Room, group: Group, level: Level, resource: str) -> tuple[Offer, ...]:
    """The domains of `level` in a room for `group` and others, as they are now, the best one first.

    `group` is one of the room's groups as `judge` tells of it, that is simplified.
    """
    found = [
        Offer(
            room.name_of(domain),
            len(room.members[domain]),
            room.free_in(domain, resource),
            usable(room, group, domain, resource),
        )
        for domain in room.domains((), level)
    ]
    return tuple(sorted(found, key=lambda offer: (-offer.usable, -offer.free, offer.name)))
