"""Would it fit? The answer with its evidence: the domains with room, or what is missing where, and what would help."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from toposcope.integrations.framework.constraints import Group, simplified
from toposcope.placement.room import Node, Path, Room, is_exact, most_copies, most_within
from toposcope.placement.search import Placed, Search, fill_exactly, wanted_by
from toposcope.topology.levels import Level

_MAX_TRIED: Final = 64
"""Domains in which a tree of groups is tried, to count those with room for it."""

Kind = Literal["fits", "full", "never", "unclear"]
"""It fits now; not now, but in the empty cluster; not even there; no placement was found, though there may be one."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Where a group fails: the level, and what the best domain of it offers."""

    group: Group
    level: Level | None
    """None: the whole cluster is too small."""
    resource: str
    needs: int
    """Of the resource, for one copy."""
    largest: int
    """What the best domain could give to pods like these."""
    best: Path
    copies: int
    """How many copies of the group there is room for, of `group.copies`."""


@dataclass(frozen=True, slots=True)
class Best:
    """The domain that the search chose, before anything is put into it."""

    level: Level
    domain: Path
    nodes: int
    resource: str
    free: int


@dataclass(frozen=True, slots=True)
class Step:
    """One level's part in the answer: how many domains there are and how many have room for a copy of the group."""

    group: Group
    level: Level
    domains: int
    roomy: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do in one domain, after which the workload fits there."""

    act: Literal["open", "drain"]
    """Bring nodes back (make them Ready, uncordon them); or move away what runs on them."""
    domain: Path
    nodes: tuple[str, ...]
    pods: tuple[str, ...] = ()
    """What has to go, as `namespace/name`, where that is known: the pods on the nodes that hold what is short."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for all groups of a workload together."""

    kind: Kind
    placed: tuple[Placed, ...] = ()
    roomy: int = 0
    """How many domains of the outermost required level could take it now; 0 where there is no such level."""
    roomy_exact: bool = True
    best: Best | None = None
    """The one that would be taken; None where there is no such level."""
    shortage: Shortage | None = None
    remedies: tuple[Remedy, ...] = ()
    steps: tuple[Step, ...] = ()
    excluded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Nodes that do not count, by the reason."""
    limitation: str = ""
    """Why the scheduler does not find a placement though there is one; empty where that is not so."""
    names: Mapping[Path, str] = field(default_factory=dict)
    """The names of the domains in this verdict."""

    def name(self, domain: Path) -> str:
        """The name of a domain."""
        return self.names.get(domain) or "/".join(domain) or "the cluster"


def judge(groups: Sequence[Group], levels: Sequence[Level], nodes: Iterable[Node], *, partial: bool = False) -> Verdict:
    """Whether `groups` fit together onto `nodes`, within the domains of `levels`; `partial` as in `Room`."""
    verdict, room = _judge(simplified(groups), levels, list(nodes), partial=partial)
    named = {placed.domain for placed in verdict.placed} | {remedy.domain for remedy in verdict.remedies}
    named |= {verdict.best.domain} if verdict.best else set()
    named |= {verdict.shortage.best} if verdict.shortage else set()
    return replace(verdict, names={domain: room.name_of(domain) for domain in named})


def _judge(
    groups: Sequence[Group], levels: Sequence[Level], nodes: Sequence[Node], *, partial: bool
) -> tuple[Verdict, Room]:
    """The answer, and a room that knows the names of its domains."""
    room = Room(levels, nodes, groups, partial=partial)
    steps = tuple(_steps(room, groups))
    excluded = tuple((reason, tuple(names)) for reason, names in sorted(room.excluded.items()))
    whole = Group("workload", groups=tuple(groups))
    if most_within(room, whole, ()):
        placed = Search(room).place(groups)
        if placed is not None:
            roomy, exact = _roomy(room, groups)
            best = _best(room, groups[0], placed) if roomy else None
            return Verdict("fits", placed, roomy, exact, best, steps=steps, excluded=excluded), room
        if not _impossible(room, groups):
            return Verdict("unclear", steps=steps, excluded=excluded), room
    shortage = _shortage(room, groups)
    empty = Room(levels, nodes, groups, emptied=True, opened=True, partial=partial)
    if not most_within(empty, whole, ()):
        shortage = _shortage(empty, groups) or shortage
        return Verdict("never", shortage=shortage, steps=steps, excluded=excluded), empty
    ways = remedies(levels, nodes, groups, room, partial=partial)
    return Verdict("full", shortage=shortage, remedies=ways, steps=steps, excluded=excluded), empty


def remedies(
    levels: Sequence[Level], nodes: Sequence[Node], groups: Sequence[Group], now: Room, *, partial: bool = False
) -> tuple[Remedy, ...]:
    """For one copy of one group of equal pods; nothing for anything else, which would need a plan and not a list."""
    if len(groups) != 1 or groups[0].copies != 1 or not is_exact(groups[0]) or not groups[0].pods:
        return ()
    closed = {node.name for node in nodes if node.obstacle}
    running = {node.name for node in nodes if not node.obstacle}
    ways = []
    for act, after, may_change in (
        ("open", Room(levels, nodes, groups, opened=True, partial=partial), closed),
        ("drain", Room(levels, nodes, groups, emptied=True, partial=partial), running),
    ):
        best = _fewest(groups[0], now, after, may_change)
        if best:
            ways.append(Remedy("open" if act == "open" else "drain", *best))
    return tuple(ways)


def _fewest(group: Group, now: Room, after: Room, may_change: Container[str]) -> tuple[Path, tuple[str, ...]] | None:
    """The domain in which the fewest nodes have to become as in `after` until the group fits, and those nodes."""
    needed = sum(pods.count for pods in group.pods)
    shape = after.shapes[group.pods[0]].number
    today = {name: slots[shape] for name, slots in zip(now.names, now.slots, strict=True)}
    best: tuple[Path, tuple[str, ...]] | None = None
    for domain in after.domains((), group.required):
        if not most_within(after, group, domain):
            continue
        have, gains = 0, []
        for number in after.members[domain]:
            name = after.names[number]
            have += today.get(name, 0)
            gain = after.slots[number][shape] - today.get(name, 0)
            if gain > 0 and name in may_change:
                gains.append((-gain, name))
        chosen = []
        for loss, name in sorted(gains):
            if have >= needed:
                break
            have -= loss
            chosen.append(name)
        if have >= needed and chosen and (best is None or len(chosen) < len(best[1])):
            best = domain, tuple(chosen)
    return best


def _impossible(room: Room, groups: Sequence[Group]) -> bool:
    """Whether a search without result tried everything: one group, nothing nested, few enough pods."""
    if len(groups) != 1 or groups[0].groups or groups[0].copies != 1:
        return False
    group = groups[0]
    for domain in room.domains((), group.required):
        if most_within(room, group, domain):
            packing = fill_exactly(room, wanted_by(room, group), room.members[domain])
            if packing.placed is not None or not packing.exact:
                return False
    return True


def _roomy(room: Room, groups: Sequence[Group]) -> tuple[int, bool]:
    """How many domains of the required level could take the workload, when it is one group; whether that is exact."""
    if len(groups) != 1 or groups[0].required is None or groups[0].copies != 1:
        return 0, True
    group = groups[0]
    domains = [domain for domain in room.domains((), group.required) if most_within(room, group, domain)]
    if is_exact(group):
        return len(domains), True
    count = sum(Search(room).place(groups, domain) is not None for domain in domains[:_MAX_TRIED])
    return count, len(domains) <= _MAX_TRIED


def _best(room: Room, group: Group, placed: Sequence[Placed]) -> Best | None:
    """Where the one group with a required level was placed."""
    if group.required is None:
        return None
    outer = next(copy for copy in placed if copy.group is group)
    domain, resource = outer.domain[: room.depth[group.required]], scarce(group.total())
    return Best(group.required, domain, len(room.members[domain]), resource, room.free_in(domain, resource))


def _steps(room: Room, groups: Sequence[Group]) -> Iterable[Step]:
    for top in groups:
        for group, _ in top.everything():
            for level in dict.fromkeys((group.required, group.preferred)):
                if level is not None:
                    domains = room.domains((), level)
                    roomy = sum(most_within(room, group, domain) > 0 for domain in domains)
                    yield Step(group, level, len(domains), roomy)


def _shortage(room: Room, groups: Sequence[Group]) -> Shortage | None:
    """The innermost group that finds no room even alone; None when only all of them together do not."""
    short = [
        group for top in groups for group, times in top.everything() if most_copies(room, group) < group.copies * times
    ]
    if not short:
        return None
    group = next((g for g in short if not any(below in short for below in g.groups)), short[0])
    need = group.total()
    resource = scarce(need)
    best: Path = ()
    largest = 0
    for domain in room.domains((), group.required):
        offered = usable(room, group, domain, resource)
        if offered > largest or not best:
            best, largest = domain, offered
    return Shortage(group, group.required, resource, need.get(resource, 0), largest, best, most_copies(room, group))


def scarce(need: dict[str, int]) -> str:
    """The resource that decides whether it fits: GPUs, else other accelerators, else pods."""
    others = sorted(resource for resource in need if "/" in resource)
    return next((r for r in others if r == "nvidia.com/gpu"), others[0] if others else "pods")


def usable(room: Room, group: Group, domain: Path, resource: str) -> int:
    """How much of a resource the pods of `group` could get in a domain; too little for one pod does not count."""
    most = 0
    for nested, _ in group.everything():
        for pods in nested.pods:
            amount = dict(pods.requests).get(resource, 0) if resource != "pods" else 1
            most = max(most, room.room_for(domain, room.shapes[pods]) * amount)
    return most


@dataclass(frozen=True, slots=True)
class Fitting:
    """A domain with room for one copy of a group: `free` is what is free there of the resource that is scarce."""

    domain: Path
    nodes: int
    free: int


@dataclass(frozen=True, slots=True)
class Fittings:
    """The domains of the level at which a workload's outermost group has to stay together."""

    group: Group
    level: Level
    found: tuple[Fitting, ...]
    """The fullest first."""
    exact: bool
    """False: these have room in all, and whether every pod finds its node was not tried."""


def fittings(
    groups: Sequence[Group], levels: Sequence[Level], nodes: Iterable[Node], *, partial: bool = False
) -> Fittings | None:
    """Where one copy of the first group with a required level would fit now; None where no group has one."""
    simple = simplified(groups)
    group = next((nested for top in simple for nested, _ in top.everything() if nested.required), None)
    if group is None or group.required is None:
        return None
    room = Room(levels, list(nodes), simple, partial=partial)
    resource = scarce(group.total())
    roomy = [domain for domain in room.domains((), group.required) if most_within(room, group, domain)]
    exact = is_exact(group)
    if not exact and len(roomy) <= _MAX_TRIED:
        one = replace(group, copies=1)
        roomy = [domain for domain in roomy if Search(room).place((one,), domain) is not None]
        exact = True
    with_room = [Fitting(domain, len(room.members[domain]), room.free_in(domain, resource)) for domain in roomy]
    return Fittings(
        group, group.required, tuple(sorted(with_room, key=lambda fitting: (fitting.free, fitting.domain))), exact
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """One domain: `free` is what is free of the resource, `usable` what pods of the group's size could get of it."""

    name: str
    nodes: int
    free: int
    usable: int


def offers(room: Room, group: Group, level: Level, resource: str) -> tuple[Offer, ...]:
    """What the domains of `level` offer now, the best first; `group` is one of the room's, so simplified."""
    domains = [
        Offer(
            room.name_of(domain),
            len(room.members[domain]),
            room.free_in(domain, resource),
            usable(room, group, domain, resource),
        )
        for domain in room.domains((), level)
    ]
    return tuple(sorted(domains, key=lambda offer: (-offer.usable, -offer.free, offer.name)))
