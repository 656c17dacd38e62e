"""Whether a workload would fit, with the evidence.

The evidence is the domains with room, or what is missing where and what would help.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, nested, simplified
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import (
    Best,
    LevelStep,
    Placed,
    Remedy,
    UnusableNodes,
    Verdict,
)
from toposcope.placement.exhaustive import Exhaustive, ExhaustiveResult
from toposcope.placement.room import Room, RoomNode, domains_with_room, is_exact, most_within
from toposcope.placement.search import Search
from toposcope.placement.shortage import scarce, shortage_of

_MAX_TRIED: Final = 64
"""Domains in which a tree of groups is tried, to count those with room for it."""


@dataclass(frozen=True, slots=True)
class _Question:
    """Simplified groups, and the nodes onto which they have to fit."""

    groups: tuple[Group, ...]
    levels: Sequence[Level]
    nodes: Sequence[RoomNode]
    can_lack_levels: bool

    def room(self, *, emptied: bool = False, opened: bool = False) -> Room:
        """The nodes as they are, or as they could be."""
        return Room(
            self.levels,
            self.nodes,
            self.groups,
            emptied=emptied,
            opened=opened,
            can_lack_levels=self.can_lack_levels,
        )

    def seems_to_fit(self, room: Room) -> bool:
        """Whether no upper bound rules it out."""
        everything = Group("workload", groups=self.groups)
        return most_within(room, everything, ()) > 0


def judge(
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Iterable[RoomNode],
    *,
    can_lack_levels: bool = False,
) -> Verdict:
    """Whether `groups` fit together onto `nodes`, within the domains of `levels`.

    `can_lack_levels` as in `Room`.
    """
    question = _Question(simplified(groups), levels, list(nodes), can_lack_levels)
    now = question.room()
    verdict = _placed(question, now)
    if verdict is None:
        verdict = _refused(question, now)
    return replace(
        verdict,
        steps=tuple(_steps(now, question.groups)),
        excluded=tuple(_left_out(now)),
    )


def _placed(question: _Question, now: Room) -> Verdict | None:
    """The verdict if a placement exists or may exist; None if none exists."""
    if not question.seems_to_fit(now):
        return None
    outcome = _try(question.groups, now)
    if outcome.is_impossible:
        return None
    if outcome.placed is None:
        return Verdict("unclear")

    verdict = Verdict("fits", placed=outcome.placed)
    roomy, exact = _roomy(now, question.groups)
    if roomy:
        verdict = replace(
            verdict,
            roomy=roomy,
            best=_best(now, question.groups[0], outcome.placed),
        )
    return _with_names(replace(verdict, is_roomy_exact=exact), now)


def _try(groups: Sequence[Group], room: Room) -> ExhaustiveResult:
    placed = Search(room).place(groups)
    if placed is not None:
        return ExhaustiveResult(placed, is_exact=True)
    return Exhaustive(room).place(groups)


def _refused(question: _Question, now: Room) -> Verdict:
    """The verdict if no placement exists now; the empty cluster may have one."""
    groups = question.groups
    empty = question.room(emptied=True, opened=True)
    possible = question.seems_to_fit(empty)
    if possible and not Exhaustive(empty).place(groups).is_impossible:
        verdict = Verdict(
            "full",
            shortage=shortage_of(now, groups),
            remedies=tuple(_remedies(question, now)),
        )
    else:
        verdict = Verdict("never", shortage=shortage_of(empty, groups))
    return _with_names(verdict, empty)


def _with_names(verdict: Verdict, room: Room) -> Verdict:
    """The verdict with the names of its domains."""
    domains = [placed.domain for placed in verdict.placed]
    for remedy in verdict.remedies:
        domains.append(remedy.domain)
    if verdict.best:
        domains.append(verdict.best.domain)
    if verdict.shortage:
        domains.append(verdict.shortage.best)

    names = {}
    for domain in domains:
        names[domain] = room.name_of(domain)
    return replace(verdict, names=names)


def _left_out(room: Room) -> Iterator[UnusableNodes]:
    for exclusion, names in sorted(room.excluded.items()):
        yield UnusableNodes(exclusion, tuple(names))


def _remedies(question: _Question, now: Room) -> Iterator[Remedy]:
    """What would make room for one copy of one group of equal pods.

    Other workloads would need a plan and not a list of nodes.
    """
    if len(question.groups) != 1:
        return
    group = question.groups[0]
    if group.copies != 1 or not is_exact(group):
        return

    opened = question.room(opened=True)
    fewest = _fewest_nodes(group, now, opened)
    if fewest:
        yield Remedy(
            "open",
            fewest.nodes,
            domain=fewest.domain,
            short=_short(group, now, opened, fewest.nodes),
        )
    emptied = question.room(emptied=True)
    fewest = _fewest_nodes(group, now, emptied)
    if fewest:
        yield Remedy(
            "drain",
            fewest.nodes,
            domain=fewest.domain,
            short=_short(group, now, emptied, fewest.nodes),
        )


def _short(group: Group, now: Room, after: Room, names: Collection[str]) -> tuple[str, ...]:
    """The resources of which too little is free on these nodes.

    Each node needs enough for the pods that it takes in `after`.
    """
    shape = after.shapes[group.pods[0]]
    places = _slots_by_name(after, shape.number)
    short: dict[str, None] = {}
    for name, free in zip(now.names, now.free, strict=True):
        if name not in names:
            continue
        pods = places.get(name, 0)
        for resource, available, amount in zip(now.resources, free, shape.amounts, strict=True):
            if available < amount * pods:
                short[resource] = None
    return tuple(short)


def _slots_by_name(room: Room, shape: int) -> dict[str, int]:
    """How many pods of a shape fit, by node."""
    by_name = {}
    for name, slots in zip(room.names, room.slots, strict=True):
        by_name[name] = slots[shape]
    return by_name


class _Fewest(NamedTuple):
    """Nodes of one domain that have to change for the group to fit there."""

    domain: Path
    nodes: tuple[str, ...]


def _fewest_nodes(group: Group, now: Room, after: Room) -> _Fewest | None:
    """The domain in which the fewest nodes have to change to `after` for the group to fit."""
    shape = after.shapes[group.pods[0]].number
    slots_now = _slots_by_name(now, shape)
    needed = sum(pods.count for pods in group.pods)
    best: _Fewest | None = None
    for domain in domains_with_room(after, group):
        names = _nodes_to_change(after, domain, shape, slots_now, needed)
        if names and (best is None or len(names) < len(best.nodes)):
            best = _Fewest(domain, names)
    return best


def _nodes_to_change(
    after: Room, domain: Path, shape: int, slots_now: Mapping[str, int], needed: int
) -> tuple[str, ...]:
    """The nodes of a domain that gain the most slots, as many as are needed.

    Empty if the domain has too few slots, or already enough.
    """
    slots = 0
    losses: list[tuple[int, str]] = []
    for number in after.members[domain]:
        name = after.names[number]
        slots_here = slots_now.get(name, 0)
        slots_then = after.slots[number][shape]
        slots += slots_here
        losses.append((slots_here - slots_then, name))

    chosen = []
    for loss, name in sorted(losses):
        if slots >= needed:
            break
        slots -= loss
        chosen.append(name)
    return tuple(chosen) if slots >= needed else ()


def _roomy(room: Room, groups: Sequence[Group]) -> tuple[int, bool]:
    """How many domains of the required level could take the workload, and whether that is exact.

    It is 0 for a workload of several groups, which needs no single domain.
    """
    if len(groups) != 1:
        return 0, True
    group = groups[0]
    if group.required is None or group.copies != 1:
        return 0, True
    domains = domains_with_room(room, group)
    if is_exact(group):
        return len(domains), True
    taking = _that_take(room, group, domains[:_MAX_TRIED])
    return len(taking), len(domains) <= _MAX_TRIED


def _that_take(room: Room, group: Group, domains: Iterable[Path]) -> list[Path]:
    """The domains in which the search places all copies of the group."""
    taking = []
    for domain in domains:
        if Search(room).place((group,), domain) is not None:
            taking.append(domain)
    return taking


def _best(room: Room, group: Group, placed: Sequence[Placed]) -> Best | None:
    """Where the one group with a required level was placed."""
    if group.required is None:
        return None
    depth = room.depth[group.required]
    domain = _domain_of(group, placed)[:depth]
    resource = scarce(group.total())
    return Best(
        level=group.required,
        domain=domain,
        nodes=len(room.members[domain]),
        resource=resource,
        free=room.free_in(domain, resource),
    )


def _domain_of(group: Group, placed: Iterable[Placed]) -> Path:
    """Where the first copy of a group was placed."""
    for copy in placed:
        if copy.group is group:
            return copy.domain
    return ()


def _steps(room: Room, groups: Sequence[Group]) -> Iterator[LevelStep]:
    """For each level of a group: how many domains have room for one copy alone."""
    for group in nested(groups):
        for level in dict.fromkeys((group.required, group.preferred)):
            if level is None:
                continue
            domains = room.domains((), level)
            roomy = 0
            for domain in domains:
                if most_within(room, group, domain) > 0:
                    roomy += 1
            yield LevelStep(group, level, len(domains), roomy)


@dataclass(frozen=True, slots=True)
class Fitting:
    """A domain with room for one copy of a group.

    `free` is what is free there of the resource that is scarce.
    """

    domain: Path
    nodes: int
    free: int


@dataclass(frozen=True, slots=True)
class Fittings:
    """The domains that could take a workload's outermost group that has to stay together."""

    group: Group
    level: Level
    domains: tuple[Fitting, ...]
    """The fullest first."""
    is_exact: bool
    """False: these have enough room in total, but it was not tried whether every pod fits."""


def fittings(
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Iterable[RoomNode],
    *,
    can_lack_levels: bool = False,
) -> Fittings | None:
    """Where one copy of the first group with a required level fits now; None if none has one."""
    simple = simplified(groups)
    group = _first_that_requires(simple)
    if group is None or group.required is None:
        return None

    room = Room(levels, nodes, simple, can_lack_levels=can_lack_levels)
    resource = scarce(group.total())
    domains = domains_with_room(room, group)
    exact = is_exact(group)
    if not exact and len(domains) <= _MAX_TRIED:
        one_copy = replace(group, copies=1)
        domains = _that_take(room, one_copy, domains)
        exact = True

    fitting_domains = []
    for domain in domains:
        fitting = Fitting(
            domain=domain,
            nodes=len(room.members[domain]),
            free=room.free_in(domain, resource),
        )
        fitting_domains.append(fitting)
    fitting_domains.sort(key=lambda fitting: (fitting.free, fitting.domain))
    return Fittings(
        group=group,
        level=group.required,
        domains=tuple(fitting_domains),
        is_exact=exact,
    )


def _first_that_requires(groups: Iterable[Group]) -> Group | None:
    for group in nested(groups):
        if group.required:
            return group
    return None
