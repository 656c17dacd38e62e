"""Whether a workload would fit.

With its evidence: the domains with room, or what is missing where, and what would help.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, simplified
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.placement.exhaustive import Exhaustive
from toposcope.placement.room import Node, Path, Room, is_exact, most_within
from toposcope.placement.search import Placed, Search
from toposcope.placement.shortage import Shortage, scarce, shortage_of

_MAX_TRIED: Final = 64
"""Domains in which a tree of groups is tried, to count those with room for it."""

Kind = Literal["fits", "full", "never", "unclear"]
"""It fits now; not now, but in the empty cluster; not even there; no placement was found, though there may be one."""


@dataclass(frozen=True, slots=True)
class Best:
    """The domain that the search chose, before anything is put into it."""

    level: Level
    domain: Path
    nodes: int
    resource: str
    free: int
    whole: bool = True
    """False: some of what is free are shares of GPUs that a device plugin offers as GPUs."""


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

    act: Literal["open", "drain", "tolerate"]
    """Bring nodes back (make them Ready, uncordon them); move away what runs on them; or tolerate their taints."""
    nodes: tuple[str, ...]
    domain: Path = ()
    short: tuple[str, ...] = ()
    """Resources of which too little is free on these nodes."""
    pods: tuple[str, ...] = ()
    """What has to go, as `namespace/name`, where that is known: the pods on the nodes that hold what is short."""
    taints: tuple[Taint, ...] = ()
    """What its pods have to tolerate."""


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
    on_shares: bool = False
    """Whether it fits only where the GPUs that it asks for are shares of GPUs."""
    names: Mapping[Path, str] = field(default_factory=dict)
    """The names of the domains in this verdict."""

    def name(self, domain: Path) -> str:
        """The name of a domain."""
        return self.names.get(domain) or "/".join(domain) or "the cluster"


def judge(
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Iterable[Node],
    *,
    partial: bool = False,
) -> Verdict:
    """Whether `groups` fit together onto `nodes`, within the domains of `levels`; `partial` as in `Room`."""
    verdict, room = _judge(simplified(groups), levels, list(nodes), partial=partial)
    named = {placed.domain for placed in verdict.placed} | {
        remedy.domain for remedy in verdict.remedies
    }
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
        placed, proven = Search(room).place(groups), False
        if placed is None:
            placed, proven = Exhaustive(room).place(groups)
        if placed is not None:
            roomy, exact = _roomy(room, groups)
            best = _best(room, groups[0], placed) if roomy else None
            return Verdict("fits", placed, roomy, exact, best, steps=steps, excluded=excluded), room
        if not proven:
            return Verdict("unclear", steps=steps, excluded=excluded), room
    shortage = shortage_of(room, groups)
    empty = Room(levels, nodes, groups, emptied=True, opened=True, partial=partial)
    if not most_within(empty, whole, ()) or Exhaustive(empty).place(groups) == (None, True):
        return Verdict(
            "never", shortage=shortage_of(empty, groups), steps=steps, excluded=excluded
        ), empty
    ways = remedies(levels, nodes, groups, room, partial=partial)
    return Verdict("full", shortage=shortage, remedies=ways, steps=steps, excluded=excluded), empty


def remedies(
    levels: Sequence[Level],
    nodes: Sequence[Node],
    groups: Sequence[Group],
    now: Room,
    *,
    partial: bool,
) -> tuple[Remedy, ...]:
    """For one copy of one group of equal pods; nothing for anything else, which would need a plan and not a list."""
    if len(groups) != 1 or groups[0].copies != 1 or not is_exact(groups[0]):
        return ()
    ways = []
    for opened in (True, False):
        after = Room(levels, nodes, groups, opened=opened, emptied=not opened, partial=partial)
        if best := _fewest(groups[0], now, after):
            domain, names = best
            ways.append(
                Remedy(
                    "open" if opened else "drain",
                    names,
                    domain,
                    _taken(groups[0], now, after, names),
                )
            )
    return tuple(ways)


def _taken(group: Group, now: Room, after: Room, names: Container[str]) -> tuple[str, ...]:
    """The resources of which too little is free on these nodes for as many pods as they take when they are empty."""
    shape = after.shapes[group.pods[0]]
    places = {
        name: slots[shape.number]
        for name, slots in zip(after.names, after.slots, strict=True)
        if name in names
    }
    short = {
        resource: None
        for name, free in zip(now.names, now.free, strict=True)
        for resource, there, amount in zip(now.resources, free, shape.amounts, strict=True)
        if there < amount * places.get(name, 0)
    }
    return tuple(short)


def _fewest(group: Group, now: Room, after: Room) -> tuple[Path, tuple[str, ...]] | None:
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
            gains.append((today.get(name, 0) - after.slots[number][shape], name))
        chosen = []
        for loss, name in sorted(gains):
            if have >= needed:
                break
            have -= loss
            chosen.append(name)
        if have >= needed and chosen and (best is None or len(chosen) < len(best[1])):
            best = domain, tuple(chosen)
    return best


def _roomy(room: Room, groups: Sequence[Group]) -> tuple[int, bool]:
    """How many domains of the required level could take the workload, when it is one group; whether that is exact."""
    if len(groups) != 1 or groups[0].required is None or groups[0].copies != 1:
        return 0, True
    group = groups[0]
    domains = [
        domain for domain in room.domains((), group.required) if most_within(room, group, domain)
    ]
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
    return Best(
        group.required, domain, len(room.members[domain]), resource, room.free_in(domain, resource)
    )


def _steps(room: Room, groups: Sequence[Group]) -> Iterable[Step]:
    for top in groups:
        for group, _ in top.everything():
            for level in dict.fromkeys((group.required, group.preferred)):
                if level is not None:
                    domains = room.domains((), level)
                    roomy = sum(most_within(room, group, domain) > 0 for domain in domains)
                    yield Step(group, level, len(domains), roomy)


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
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Iterable[Node],
    *,
    partial: bool = False,
) -> Fittings | None:
    """Where one copy of the first group with a required level would fit now; None where no group has one."""
    simple = simplified(groups)
    group = next(
        (nested for top in simple for nested, _ in top.everything() if nested.required), None
    )
    if group is None or group.required is None:
        return None
    room = Room(levels, nodes, simple, partial=partial)
    resource = scarce(group.total())
    roomy = [
        domain for domain in room.domains((), group.required) if most_within(room, group, domain)
    ]
    exact = is_exact(group)
    if not exact and len(roomy) <= _MAX_TRIED:
        one = replace(group, copies=1)
        roomy = [domain for domain in roomy if Search(room).place((one,), domain) is not None]
        exact = True
    with_room = [
        Fitting(domain, len(room.members[domain]), room.free_in(domain, resource))
        for domain in roomy
    ]
    return Fittings(
        group,
        group.required,
        tuple(sorted(with_room, key=lambda fitting: (fitting.free, fitting.domain))),
        exact,
    )
