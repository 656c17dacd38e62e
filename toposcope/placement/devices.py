"""Whether pods with resource claims find their devices, beside what they request of nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.dra.allocation import MANY, Claim, Claims, Copies, Request, copies
from toposcope.integrations.dra.devices import DeviceId, Inventory, NodeDevices
from toposcope.integrations.framework.constraints import ClaimRef, Group
from toposcope.integrations.framework.verdict import Verdict
from toposcope.placement.room import Node
from toposcope.placement.verdict import judge

Rooms = Mapping[str, Mapping[str, Copies]]
"""By what a set of claims is called and by node: how many pods find devices for it."""

NOBODY: Final = frozenset[DeviceId]()


def by_devices(
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Sequence[Node],
    offered: Inventory,
    claims: Claims,
    *,
    partial: bool,
) -> Verdict:
    """The verdict on groups whose requests fit; `partial` as in `Room`.

    A pod's claims become one more resource, of which a node has as many as pods surely find devices
    there, or as many as may find some: what fits by the first fits, and what does not by the second
    does not.
    """
    # A list: equal pods in two places are not the same ones.
    pods = [
        (pods, top.copies * times * pods.count)
        for top in groups
        for group, times in top.everything()
        for pods in group.pods
        if pods.claims
    ]
    names = {one.claims: f"x {' and '.join(ref.handle for ref in one.claims)}" for one, _ in pods}
    alone = sum(count for _, count in pods) == 1
    asked = {name: [claims.read(ref, alone=alone) for ref in refs] for refs, name in names.items()}
    if unclear := [claim.unclear for wanted in asked.values() for claim in wanted if claim.unclear]:
        return Verdict(
            "unclear", limitation=f"which devices its pods get is not known: {unclear[0]}"
        )
    now, empty = (_rooms(asked, nodes, offered, taken) for taken in (offered.taken, NOBODY))
    wanting = [_asking(group, names) for group in groups]

    def judged(bound: int) -> Verdict:
        return judge(
            wanting, levels, [_offering(node, now, empty, bound) for node in nodes], partial=partial
        )

    if len(asked) == 1 and not any(room.error for there in now.values() for room in there.values()):
        surely = judged(0)
        if surely.kind == "fits":
            return surely
    most = judged(1)
    if most.kind != "fits":
        return most
    why = "its pods may find their devices; that depends on which ones the scheduler takes for each"
    return Verdict("unclear", limitation=why)


def _rooms(
    asked: Mapping[str, Sequence[Claim]],
    nodes: Sequence[Node],
    offered: Inventory,
    taken: frozenset[DeviceId],
) -> Rooms:
    def room(claims: Sequence[Claim], node: str) -> Copies:
        found = copies(claims, offered.nodes.get(node, NodeDevices()), taken)
        return found._replace(most=MANY) if offered.elsewhere else found

    return {
        name: {node.name: room(claims, node.name) for node in nodes}
        for name, claims in asked.items()
    }


def _asking(group: Group, names: Mapping[tuple[ClaimRef, ...], str]) -> Group:
    """The group whose pods request their sets of devices."""
    pods = (
        replace(asked, requests=tuple(sorted((*asked.requests, (names[asked.claims], 1)))))
        if asked.claims
        else asked
        for asked in group.pods
    )
    return replace(
        group, pods=tuple(pods), groups=tuple(_asking(below, names) for below in group.groups)
    )


def _offering(node: Node, now: Rooms, empty: Rooms, bound: int) -> Node:
    """The node with the sets of devices that it has at least (0) or at most (1)."""
    free = {name: there[node.name][bound] for name, there in now.items()}
    total = {name: there[node.name][bound] for name, there in empty.items()}
    return replace(node, free={**node.free, **free}, total={**node.total, **total})


def with_extended(
    nodes: Sequence[Node], offered: Inventory, claims: Claims, asked: Iterable[str]
) -> list[Node]:
    """The nodes with those resources that DeviceClasses offer there, where no device plugin does.

    kube-scheduler makes a claim for each pod then, so requests are taken by what claims hold.
    """

    def counted(node: Node) -> Node:
        there = offered.nodes[node.name]
        found = {
            name: [
                copies([Claim((Request(name, selectors, 1),))], there, taken).least
                for taken in (offered.taken, NOBODY)
            ]
            for name, selectors in wanted.items()
            if not node.total.get(name)
        }
        free, total = ({name: counts[n] for name, counts in found.items()} for n in (0, 1))
        return replace(node, free={**node.free, **free}, total={**node.total, **total})

    wanted = {name: claims.extended[name] for name in asked}
    return [counted(node) if wanted and node.name in offered.nodes else node for node in nodes]
