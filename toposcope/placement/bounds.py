"""How much could fit at the very most: what this rules out is ruled out for good.

Every part of a group is looked at as if it were alone, so the true number may be smaller, never larger. For a group of
equal pods without smaller groups in it the bound is the truth.
"""

from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.placement.room import Path, Room

PLENTY: Final = 1 << 60
"""For what asks for nothing."""


def most_copies(room: Room, group: Group, inside: Path = ()) -> int:
    """At most so many copies of `group` fit into the domain `inside`."""
    found = 0
    need = group.total()
    for domain in room.domains(inside, group.required):
        fit = most_within(room, group, domain, need)
        found += min(fit, 1) if group.apart else fit
    return min(found, PLENTY)


def most_within(room: Room, group: Group, domain: Path, need: dict[str, int] | None = None) -> int:
    """At most so many copies fit when all of them stay in this one domain."""
    need = group.total() if need is None else need
    limits = [room.free_in(domain, resource) // amount for resource, amount in need.items() if amount]
    limits += [room.room_for(domain, room.shapes[pods]) // pods.count for pods in group.pods if pods.count]
    best = min(limits, default=PLENTY)
    for below in group.groups:
        if best <= 0:
            return 0
        if below.copies:
            best = min(best, most_copies(room, below, domain) // below.copies)
    return best


def is_exact(group: Group) -> bool:
    """Whether the bounds of this group are the truth: pods that are all alike, and nothing kept together inside."""
    return not group.groups and len({(pods.requests, pods.choice) for pods in group.pods}) <= 1
