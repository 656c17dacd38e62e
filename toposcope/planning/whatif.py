"""What a change would do: which gangs find other nodes, what still fits.

Everything happens in a snapshot.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import (
    PODS,
    Path,
    add_pods,
    columns,
    resources_of,
)
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.check import Checked, Checker
from toposcope.placement.nodes import MAX_PODS
from toposcope.placement.pack import Bin, pack
from toposcope.placement.sentences import answer
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.changes import added, drained, finished, occupied, without
from toposcope.planning.freeing import Freeing
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.rehoming import Rehomed, rehome
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import select_scope


@dataclass(frozen=True)
class NewNodes:
    """How many nodes, like which one, and what their labels say instead."""

    count: int
    like: NodeView
    domains: Mapping[str, str]


@dataclass(frozen=True)
class Changes:
    """What is to change; it happens in the order of the fields."""

    finish: tuple[Gang, ...] = ()
    add: NewNodes | None = None
    drain: frozenset[str] = frozenset()
    admit: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AdmittedWorkload:
    """A workload that is to be admitted after the other changes."""

    subject: str
    answer: str
    fits: bool


@dataclass(frozen=True)
class WhatIf:
    """A cluster before and after."""

    before: Capacity
    after: Capacity
    snapshot: Snapshot
    """After."""
    rehomed: tuple[Rehomed, ...] = ()
    admitted: tuple[AdmittedWorkload, ...] = field(default=())

    @property
    def is_harmless(self) -> bool:
        """Whether every gang is as close together as before, and everything fits."""
        for gang in self.rehomed:
            if gang.is_worse:
                return False
        return all(workload.fits for workload in self.admitted)


def whatif(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    changes: Changes,
) -> WhatIf:
    """The cluster with these changes; `before` and `gangs` are those of the snapshot."""
    after = snapshot
    if changes.finish:
        after = finished(snapshot, changes.finish)
    if changes.add:
        new = changes.add
        after = added(after, new.like, new.count, new.domains)

    rehomed: tuple[Rehomed, ...] = ()
    if changes.drain:
        running = _without_ended(gangs, changes.finish)
        lost = _pods_on(running, changes.drain)
        after = drained(after, changes.drain)
        rehomed, after = relocated(before, after, topology, running, lost)

    admitted: list[AdmittedWorkload] = []
    for document in changes.admit:
        admissions, after = _admit(after, document, changes.admit)
        admitted += admissions

    gangs_after = gangs_of(after)
    return WhatIf(
        before=before,
        after=_capacity(after, topology, gangs_after, before),
        snapshot=after,
        rehomed=rehomed,
        admitted=tuple(admitted),
    )


def _without_ended(gangs: Iterable[Gang], ended: Iterable[Gang]) -> list[Gang]:
    """The gangs that go on."""
    keys = {_key(gang) for gang in ended}
    running = []
    for gang in gangs:
        if _key(gang) not in keys:
            running.append(gang)
    return running


def _key(gang: Gang) -> tuple[str, str, str]:
    return gang.kind, gang.namespace, gang.name


def _pods_on(gangs: Iterable[Gang], nodes: Collection[str]) -> list[str]:
    """The pods that gangs have on these nodes."""
    names = []
    for gang in gangs:
        for pod in gang.placed:
            if pod.node in nodes:
                names.append(_name(pod))
    return names


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def relocated(
    before: Capacity,
    without_lost: Snapshot,
    topology: str | None,
    gangs: Sequence[Gang],
    lost: Collection[str],
) -> tuple[tuple[Rehomed, ...], Snapshot]:
    """The gangs that lose pods (`NAMESPACE/NAME`), and the snapshot once they have other nodes."""
    after = _capacity(without_lost, topology, (), before)
    rehomed = tuple(rehome(before, after, without_lost, gangs, frozenset(lost)))
    moved: list[PodView] = []
    for gang in rehomed:
        moved += gang.placed

    names = {(pod.namespace, pod.name) for pod in moved}
    kept = []
    for pod in without_lost.pods or ():
        name = pod.namespace, pod.name
        if name not in names:
            kept.append(pod)
    others = replace(without_lost, pods=tuple(kept))
    return rehomed, occupied(others, moved)


def vacated(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    *,
    freeing: Freeing,
    gang: tuple[Pods, int],
) -> tuple[Rehomed, ...]:
    """The outcome for gangs whose pods move out of a domain to free it for another gang.

    `gang` is what each of its pods requests, and how many there are.
    """
    freed = without(snapshot, freeing.pods)
    room = _inside(freed, before, freeing.domain)
    gang_pods = list(_kept_for(room, gang))
    occupied_by_gang = occupied(freed, gang_pods)
    lost = [_name(pod) for pod in freeing.pods]
    rehomed, _ = relocated(
        before,
        occupied_by_gang,
        topology,
        gangs,
        lost,
    )
    return rehomed


def _inside(freed: Snapshot, before: Capacity, domain: Path) -> Capacity:
    """What the nodes of one domain offer: it costs as little as the domain is small."""
    depth = len(domain)
    nodes = []
    for node, path in zip(before.nodes, before.paths, strict=True):
        if path[:depth] == domain:
            nodes.append(freed.by_name[node.name])
    names = {node.name for node in nodes}
    pods = []
    for pod in freed.pods or ():
        if pod.node in names:
            pods.append(pod)
    inside = replace(freed, nodes=tuple(nodes), pods=tuple(pods))
    return Capacity(inside, before.scope.within(nodes), (), before)


def _kept_for(room: Capacity, gang: tuple[Pods, int]) -> Iterator[PodView]:
    """Pods of the gang for which the domain is kept."""
    pods, missing = gang
    requests = dict(pods.requests)
    slots = room.slots(FreeBasis.NOW, pods)
    for node, room_for in zip(room.nodes, slots, strict=True):
        count = min(room_for, missing)
        missing -= count
        for _ in range(count):
            yield PodView.running(name="kept", node=node.name, requests=requests)


def _capacity(
    snapshot: Snapshot, topology: str | None, gangs: Iterable[Gang], before: Capacity
) -> Capacity:
    scope = select_scope(snapshot, topology)
    return Capacity(snapshot, scope, gangs, before)


def _admit(
    snapshot: Snapshot, document: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> tuple[list[AdmittedWorkload], Snapshot]:
    """Check a workload; where it fits, it takes its room."""
    admitted = []
    placed: tuple[Placed, ...] = ()
    for checked in Checker(snapshot, others).check(document):
        if checked.verdict is None and not checked.errors:
            continue
        reading = checked.reading
        subject = reading.subject
        if reading.workload:
            subject = reading.workload.handle
        answered = AdmittedWorkload(
            subject=subject,
            answer=_answer(checked),
            fits=checked.is_ok,
        )
        admitted.append(answered)
        if checked.is_ok and checked.verdict:
            placed = checked.verdict.placed
    pods = _pods_of(snapshot, placed)
    return admitted, occupied(snapshot, pods)


def _answer(checked: Checked) -> str:
    if checked.errors:
        first = checked.errors[0]
        return f"rejected: {first.message}"
    if checked.verdict is None:
        return ""
    return answer(checked.verdict)


def _pods_of(snapshot: Snapshot, placed: Iterable[Placed]) -> Iterator[PodView]:
    """The placed pods.

    A placement does not say which of several kinds is where, so they are packed once more.
    """
    number = 0
    held_by_node: dict[str, dict[str, int]] = {}
    for copy in placed:
        for packed in _packed(snapshot, copy, held_by_node):
            held = held_by_node.setdefault(packed.node, {})
            add_pods(held, packed.pods.requests, packed.count)
            for _ in range(packed.count):
                number += 1
                yield PodView.running(
                    name=f"admitted-{number}",
                    node=packed.node,
                    requests=dict(packed.pods.requests),
                    rules=packed.pods.rules,
                )


@dataclass(frozen=True, slots=True)
class _Packed:
    """Pods of one kind on one node."""

    pods: Pods
    node: str
    count: int


def _packed(
    snapshot: Snapshot, copy: Placed, held_by_node: Mapping[str, Mapping[str, int]]
) -> list[_Packed]:
    """The pods of one copy of a group; `held_by_node` is what others hold."""
    kinds = []
    for kind in copy.group.pods:
        if kind.count:
            kinds.append(kind)
    resources = resources_of(kind.requests for kind in kinds)
    bins = []
    for place, (name, _) in enumerate(copy.nodes):
        held = held_by_node.get(name, {})
        free = _left_on(snapshot, name, held, resources)
        bin_ = Bin(
            number=place,
            free=tuple(free),
            allowed=(True,) * len(kinds),
        )
        bins.append(bin_)

    sizes = [columns(kind.requests, resources) for kind in kinds]
    counts = tuple(kind.count for kind in kinds)
    packing = pack(bins, sizes, counts)
    packed: list[_Packed] = []
    if packing.placed is None:
        return packed
    for place, on_node in packing.placed.items():
        name, _ = copy.nodes[place]
        for kind, count in zip(kinds, on_node, strict=True):
            packed.append(_Packed(kind, name, count))
    return packed


def _left_on(
    snapshot: Snapshot, name: str, held: Mapping[str, int], resources: Iterable[str]
) -> Iterator[int]:
    """What is left of each resource on a node."""
    node = snapshot.by_name[name]
    free = snapshot.free(node) or {}
    for resource in resources:
        default = MAX_PODS if resource == PODS else 0
        amount = free.get(resource, default)
        yield amount - held.get(resource, 0)
