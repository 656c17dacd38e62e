"""Groups that hold a domain exclusively: who holds the taken domains, and where leaders go.

The leader of a group is placed alone, and the rest of the group has to follow it. kube-scheduler
knows nothing of the rest: it may choose a domain that has no room for the whole group, where the
group waits until room is freed. Seen on kube-scheduler 1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import Group, nested, simplified
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import Verdict
from toposcope.placement.cluster import Question
from toposcope.placement.room import Room
from toposcope.placement.search import Search
from toposcope.placement.verdict import judge
from toposcope.text import listing, plural

_MOST_NAMES: Final = 5
_MOST_TRIED: Final = 256
"""Domains that are tried for one group; whether more have room stays unknown."""


def by_holders(question: Question, verdict: Verdict) -> Verdict:
    """The verdict where a workload does not fit only because others hold the domains."""
    workload = question.workload
    if not verdict.refuses or not workload.once_left:
        return verdict
    after_leaving = judge(
        workload.once_left,
        question.levels,
        question.nodes,
        can_lack_levels=question.can_lack_levels,
    )
    if after_leaving.kind == "never":
        return after_leaving
    return Verdict("full", steps=verdict.steps, limitation=_held(question))


def _held(question: Question) -> str:
    """Who holds the domains, in words."""
    workload = question.workload
    parts = []
    for level in dict.fromkeys(holder.level for holder in workload.holders):
        domains = set()
        for node in question.nodes:
            value = node.labels.get(level.key)
            if value is not None:
                domains.add(value)
        held = []
        for holder in workload.holders:
            if holder.level == level:
                held.append(f"{holder.domain} by {holder.name}")
        names = listing(held, _MOST_NAMES)
        are = plural(len(held), "is", "are")
        of_all = f"{len(held)} of {len(domains)} {plural(len(domains), level.domain)} {are}"
        no_other = ""
        if len(held) < len(domains):
            no_other = ", and the others have too little room"
        parts.append(f"{of_all} held by other groups{no_other}: {names}")
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class _Led:
    """Where the leader of one group may go."""

    group: Group
    domains: tuple[Path, ...]
    too_small: tuple[Path, ...]


def by_leaders(question: Question, verdict: Verdict) -> Verdict:
    """The verdict where leaders choose domains: each that one may take needs room for its group."""
    groups = simplified(question.workload.groups)
    led = _led(groups)
    if not verdict.fits or not led:
        return verdict
    leaders = []
    for group in led:
        if group.leader:
            leaders.append(Group("leader", (group.leader,)))
    room = Room(
        question.levels,
        question.nodes,
        (*groups, *leaders),
        can_lack_levels=question.can_lack_levels,
    )
    choices = [_choices(room, group) for group in led]
    for choice in choices:
        if choice.too_small:
            return _unclear(room, choice)
    if _may_compete(choices):
        text = "its groups differ, and one may take the only domain that has room for another"
        return Verdict("unclear", steps=verdict.steps, limitation=text)
    return verdict


def _led(groups: Sequence[Group]) -> list[Group]:
    """The groups whose first pod decides where the others go."""
    led = []
    for group in nested(groups):
        if group.leader and group.required:
            led.append(group)
    return led


def _choices(room: Room, group: Group) -> _Led:
    """The domains that the leader may take, and those of them that are too small."""
    one_copy = replace(group, copies=1)
    shape = room.shapes[group.leader] if group.leader else None
    domains = []
    too_small = []
    for domain in room.domains((), group.required):
        if shape is None or not room.room_for(domain, shape):
            continue
        domains.append(domain)
        is_tried = len(domains) <= _MOST_TRIED
        if not is_tried or Search(room).place((one_copy,), domain) is None:
            too_small.append(domain)
    return _Led(group, tuple(domains), tuple(too_small))


def _unclear(room: Room, choice: _Led) -> Verdict:
    """The verdict where the leader may take a domain that is too small."""
    group = choice.group
    level = group.required
    names = listing([room.name_of(domain) for domain in choice.too_small], _MOST_NAMES)
    kind = level.domain if level else "domain"
    count = 0
    for pods in group.all_pods():
        count += pods.count
    pods_of_one = count // max(group.copies, 1)
    text = (
        f"the first pod of {group.name} goes to any {kind} that has room for it, and the other "
        f"{pods_of_one - 1} have to follow: not all of them would fit in {names}"
    )
    return Verdict("unclear", limitation=text)


def _may_compete(choices: Sequence[_Led]) -> bool:
    """Whether different groups may take each other's domains."""
    return len({choice.domains for choice in choices if choice.group.anti_affinity}) > 1
