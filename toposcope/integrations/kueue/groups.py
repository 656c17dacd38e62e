"""Kueue's pod set groups: a leader and its workers in one domain.

Rules and messages: Kueue 0.19 (`ValidatePodSetGroupingTopology`).
"""

from collections.abc import Iterable
from typing import Final

from toposcope.integrations.framework.document import Part
from toposcope.integrations.kueue.request import GROUP_NAME, PREFERRED, REQUIRED, Request

_PAIR: Final = 2


def check_groups(requests: Iterable[Request]) -> None:
    """Note what is wrong with the groups that the pod sets form."""
    groups: dict[str, list[Request]] = {}
    for request in requests:
        if request.group:
            groups.setdefault(request.group, []).append(request)
    for name, members in groups.items():
        if len(members) != _PAIR:
            for member in members:
                _name_of(member).error(
                    "kueue/group-pair",
                    f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)",
                    f"let two pod sets have the group name {name!r}",
                )
            continue
        _check_pair(name, *members)


def _check_pair(name: str, one: Request, other: Request) -> None:
    counts = one.pod_set.count, other.pod_set.count
    for each in (one, other):
        if 1 not in counts:
            _name_of(each).error(
                "kueue/group-leader",
                "can only define groups where at least one pod set has only 1 replica, "
                f"got: {counts[0]} replica(s) and {counts[1]} replica(s) in the group",
                "one of the two is the leader, a single pod",
            )
    if _levels(one) != _levels(other):
        for each, beside in ((one, other), (other, one)):
            each.where.error(
                "kueue/group-levels",
                f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with '{beside.where.path}' "
                f"in group '{name}'",
                "write the same annotation on both",
            )


def _levels(request: Request) -> tuple[str | None, str | None]:
    required, preferred = request.required, request.preferred
    return required.key if required else None, preferred.key if preferred else None


def _name_of(request: Request) -> Part:
    return request.where / GROUP_NAME or request.where / "podSetGroupName"
