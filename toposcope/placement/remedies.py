"""What would make it fit, where that is cheap to know: nodes to open again, or the fewest nodes to drain."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

from toposcope.integrations.framework.constraints import Group
from toposcope.placement.bounds import is_exact, most_within
from toposcope.placement.room import Node, Path, Room
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do in one domain, after which the workload fits there."""

    act: Literal["open", "drain"]
    """Bring nodes back (make them Ready, uncordon them); or move away what runs on them."""
    domain: Path
    nodes: tuple[str, ...]
    pods: tuple[str, ...] = ()
    """What has to go, as `namespace/name`, where that is known: the pods on the nodes that hold what is short."""


def remedies(
    levels: Sequence[Level], nodes: Sequence[Node], groups: Sequence[Group], now: Room, *, partial: bool = False
) -> tuple[Remedy, ...]:
    """For one copy of one group of equal pods; nothing for anything else, which would need a plan and not a list."""
    if len(groups) != 1 or groups[0].copies != 1 or not is_exact(groups[0]) or not groups[0].pods:
        return ()
    closed = {node.name for node in nodes if node.obstacle}
    running = {node.name for node in nodes if not node.obstacle}
    found = []
    for act, after, may_change in (
        ("open", Room(levels, nodes, groups, opened=True, partial=partial), closed),
        ("drain", Room(levels, nodes, groups, emptied=True, partial=partial), running),
    ):
        best = _fewest(groups[0], now, after, may_change)
        if best:
            found.append(Remedy("open" if act == "open" else "drain", *best))
    return tuple(found)


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
