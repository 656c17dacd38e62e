"""Whether pods with resource claims get their devices, besides what they request of nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.dra.allocation import (
    MAX_PODS,
    Claim,
    Claims,
    Copies,
    DeviceRequest,
    copies,
)
from toposcope.integrations.dra.channels import unkept_channels
from toposcope.integrations.dra.devices import DeviceId, Inventory, NodeDevices
from toposcope.integrations.framework.constraints import ClaimRef, Group, Pods
from toposcope.integrations.framework.verdict import Verdict
from toposcope.placement.room import RoomNode
from toposcope.placement.verdict import judge

__all__ = ["by_devices", "unkept_channels", "with_extended"]
NONE_TAKEN: Final = frozenset[DeviceId]()

ClaimSet = tuple[ClaimRef, ...]
"""All claims of one pod."""


@dataclass(frozen=True, slots=True)
class _Sets:
    """How many pods get devices for one set of claims, by node."""

    now: Mapping[str, Copies]
    empty: Mapping[str, Copies]


def by_devices(
    groups: Sequence[Group],
    levels: Sequence[Level],
    nodes: Sequence[RoomNode],
    offered: Inventory,
    claims: Claims,
    *,
    can_lack_levels: bool,
) -> Verdict:
    """The verdict on groups whose requests fit; `can_lack_levels` as in `Room`.

    A pod's claims become one more resource. A node has as many of it as pods surely get devices
    there (lower bound), or may get devices (upper bound). A workload that fits by the lower bound
    fits; one that does not fit by the upper bound does not.
    """
    counts = _pods_with(groups)
    claims_by_set = _read(claims, counts)
    unclear = _first_unclear(claims_by_set)
    if unclear:
        return Verdict(
            "unclear",
            limitation=f"it is unknown which devices its pods get: {unclear}",
        )

    sets = {}
    for refs, wanted in claims_by_set.items():
        sets[_name_of(refs)] = _Sets(
            now=_copies_by_node(wanted, nodes, offered, offered.allocated_ids),
            empty=_copies_by_node(wanted, nodes, offered, NONE_TAKEN),
        )
    asking = [_asking(group) for group in groups]

    if len(sets) == 1 and not _has_errors(sets):
        least = [_offering(node, sets, least=True) for node in nodes]
        surely = judge(asking, levels, least, can_lack_levels=can_lack_levels)
        if surely.fits:
            return surely

    most = [_offering(node, sets, least=False) for node in nodes]
    perhaps = judge(asking, levels, most, can_lack_levels=can_lack_levels)
    if not perhaps.fits:
        return perhaps
    return Verdict(
        "unclear",
        limitation=(
            "whether its pods get their devices depends on which ones the scheduler takes for each"
        ),
    )


def _pods_with(groups: Iterable[Group]) -> dict[ClaimSet, int]:
    """How many pods have each set of claims."""
    counts: dict[ClaimSet, int] = {}
    for top in groups:
        for group, times in top.everything():
            for pods in group.pods:
                if pods.claims:
                    count = top.copies * times * pods.count
                    counts[pods.claims] = counts.get(pods.claims, 0) + count
    return counts


def _read(claims: Claims, counts: Mapping[ClaimSet, int]) -> dict[ClaimSet, list[Claim]]:
    """What each set of claims asks for."""
    alone = sum(counts.values()) == 1
    claims_by_set = {}
    for refs in counts:
        claims_by_set[refs] = [claims.read(ref, is_alone=alone) for ref in refs]
    return claims_by_set


def _first_unclear(claims_by_set: Mapping[ClaimSet, Sequence[Claim]]) -> str:
    """Why it is unknown what a claim asks for; empty if all are known."""
    for wanted in claims_by_set.values():
        for claim in wanted:
            if claim.unclear:
                return claim.unclear
    return ""


def _has_errors(sets: Mapping[str, _Sets]) -> bool:
    """Whether the devices of some node cannot be counted."""
    for counted in sets.values():
        for count in counted.now.values():
            if count.has_error:
                return True
    return False


def _name_of(refs: ClaimSet) -> str:
    """The name of the resource that represents a set of claims."""
    return f"x {' and '.join([ref.handle for ref in refs])}"


def _copies_by_node(
    claims: Sequence[Claim],
    nodes: Sequence[RoomNode],
    offered: Inventory,
    taken_devices: frozenset[DeviceId],
) -> dict[str, Copies]:
    """How many pods get devices for these claims, by node."""
    by_node = {}
    for node in nodes:
        devices = offered.nodes.get(node.name, NodeDevices())
        count = copies(claims, devices, taken_devices)
        if offered.has_shared_devices:
            count = count._replace(most=MAX_PODS)
        by_node[node.name] = count
    return by_node


def _asking(group: Group) -> Group:
    """The group whose pods request their sets of devices."""
    pods = []
    for kind in group.pods:
        pods.append(_asking_pods(kind))
    below = []
    for inner in group.groups:
        below.append(_asking(inner))
    return replace(group, pods=tuple(pods), groups=tuple(below))


def _asking_pods(pods: Pods) -> Pods:
    if not pods.claims:
        return pods
    requests = sorted([*pods.requests, (_name_of(pods.claims), 1)])
    return replace(pods, requests=tuple(requests))


def _offering(node: RoomNode, sets: Mapping[str, _Sets], *, least: bool) -> RoomNode:
    """The node with the sets of devices that it has at least or at most."""
    free = dict(node.free)
    total = dict(node.total)
    for name, counted in sets.items():
        now = counted.now[node.name]
        empty = counted.empty[node.name]
        if least:
            free[name] = now.least
            total[name] = empty.least
        else:
            free[name] = now.most
            total[name] = empty.most
    return replace(node, free=free, total=total)


def with_extended(
    nodes: Sequence[RoomNode], offered: Inventory, claims: Claims, names: Iterable[str]
) -> list[RoomNode]:
    """The nodes with the extended resources that DeviceClasses, and no device plugin, offer there.

    The scheduler makes a claim for each pod then, so claims that hold devices use them up.
    """
    wanted = {}
    for name in names:
        wanted[name] = Claim((DeviceRequest(name, claims.extended[name], 1),))
    if not wanted:
        return list(nodes)

    extended = []
    for node in nodes:
        devices = offered.nodes.get(node.name)
        if devices is None:
            extended.append(node)
        else:
            extended.append(_extended(node, wanted, devices, offered.allocated_ids))
    return extended


def _extended(
    node: RoomNode,
    wanted: Mapping[str, Claim],
    devices: NodeDevices,
    taken_devices: frozenset[DeviceId],
) -> RoomNode:
    free = dict(node.free)
    total = dict(node.total)
    for name, claim in wanted.items():
        if node.total.get(name):
            continue
        free_copies = copies([claim], devices, taken_devices)
        all_copies = copies([claim], devices, NONE_TAKEN)
        free[name] = free_copies.least
        total[name] = all_copies.least
    return replace(node, free=free, total=total)
