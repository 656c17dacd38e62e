"""What a change would do: which gangs find other nodes, what still fits.

Everything happens in a snapshot.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import PODS, add_pods, columns, resources_of
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.check import Checked, Checker
from toposcope.placement.nodes import MAX_PODS
from toposcope.placement.pack import Bin, pack
from toposcope.placement.sentences import answer
from toposcope.planning.capacity import Capacity
from toposcope.planning.changes import added, drained, finished, occupied, without
from toposcope.planning.freeing import Freeing
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.rehoming import Rehomed, rehome
from toposcope.planning.slots import shape_of
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
class Admitted:
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
    admitted: tuple[Admitted, ...] = field(default=())

    @property
    def well(self) -> bool:
        """Whether every gang is as close together as before, and everything fits."""
        if any(change.worse for change in self.rehomed):
            return False
        return all(change.fits for change in self.admitted)


def whatif(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    changes: Changes,
) -> WhatIf:
    """The cluster with these changes; `before` and `gangs` are those of the snapshot."""
    after = finished(snapshot, changes.finish) if changes.finish else snapshot
    if changes.add:
        new = changes.add
        after = added(after, new.like, new.count, new.domains)
    rehomed: tuple[Rehomed, ...] = ()
    if changes.drain:
        running = _without_ended(gangs, changes.finish)
        lost = [_name(pod) for pod in _pods_on(running, changes.drain)]
        rehomed, after = relocated(before, drained(after, changes.drain), topology, running, lost)
    admitted: list[Admitted] = []
    for document in changes.admit:
        admissions, after = _admit(after, document, changes.admit)
        admitted += admissions
    return WhatIf(
        before=before,
        after=_capacity(after, topology, gangs_of(after), before),
        snapshot=after,
        rehomed=rehomed,
        admitted=tuple(admitted),
    )


def _without_ended(gangs: Iterable[Gang], ended: Iterable[Gang]) -> list[Gang]:
    """Those that go on."""
    names = {(gang.kind, gang.namespace, gang.name) for gang in ended}
    running = []
    for gang in gangs:
        if (gang.kind, gang.namespace, gang.name) not in names:
            running.append(gang)
    return running


def _pods_on(gangs: Iterable[Gang], nodes: Collection[str]) -> Iterator[PodView]:
    """The pods that gangs have on these nodes."""
    for gang in gangs:
        for pod in gang.placed:
            if pod.node in nodes:
                yield pod


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def relocated(
    before: Capacity,
    without_lost: Snapshot,
    topology: str | None,
    gangs: Sequence[Gang],
    lost: Collection[str],
) -> tuple[tuple[Rehomed, ...], Snapshot]:
    """The gangs that lose pods (`NAMESPACE/NAME`), and the snapshot once they have found other nodes."""
    after = _capacity(without_lost, topology, (), before)
    rehomed = tuple(rehome(before, after, gangs, frozenset(lost)))
    moved: list[PodView] = []
    for gang in rehomed:
        moved += gang.placed
    names = {(pod.namespace, pod.name) for pod in moved}
    kept = []
    for pod in without_lost.pods or ():
        if (pod.namespace, pod.name) not in names:
            kept.append(pod)
    return rehomed, occupied(replace(without_lost, pods=tuple(kept)), moved)


def vacated(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    *,
    freeing: Freeing,
    gpus: int,
    per_pod: int,
) -> tuple[Rehomed, ...]:
    """What becomes of the gangs whose pods leave a domain that is kept for a gang of `gpus`."""
    left = without(snapshot, freeing.pods)
    kept = list(_kept_for(before, left, freeing, gpus, per_pod))
    lost = [_name(pod) for pod in freeing.pods]
    rehomed, _ = relocated(before, occupied(left, kept), topology, gangs, lost)
    return rehomed


def _kept_for(
    capacity: Capacity, snapshot: Snapshot, freeing: Freeing, gpus: int, per_pod: int
) -> Iterator[PodView]:
    """Pods of the gang for which the domain is kept."""
    shape, missing = shape_of(gpus, per_pod)
    requests = dict(shape.requests)
    gpus_each = requests[ALLOCATABLE_GPUS]
    for number, path in enumerate(capacity.paths):
        if path[: len(freeing.domain)] != freeing.domain:
            continue
        node = snapshot.by_name[capacity.nodes[number].name]
        count = min((snapshot.free_gpus(node) or 0) // gpus_each, missing)
        missing -= count
        for _ in range(count):
            yield PodView.running(name="kept", node=node.name, requests=requests)


def _capacity(
    snapshot: Snapshot, topology: str | None, gangs: Iterable[Gang], before: Capacity
) -> Capacity:
    return Capacity(snapshot, select_scope(snapshot, topology), gangs, before)


def _admit(
    snapshot: Snapshot, document: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> tuple[list[Admitted], Snapshot]:
    """Check a workload; where it fits, it takes its room."""
    admitted = []
    placed: tuple[Placed, ...] = ()
    for checked in Checker(snapshot, others).check(document):
        if checked.verdict is None and not checked.errors:
            continue
        workload = checked.reading.workload
        subject = workload.handle if workload else checked.reading.subject
        admitted.append(Admitted(subject, _answer(checked), checked.well))
        if checked.well and checked.verdict:
            placed = checked.verdict.placed
    return admitted, occupied(snapshot, _pods_of(snapshot, placed))


def _answer(checked: Checked) -> str:
    if checked.errors:
        return f"rejected: {checked.errors[0].message}"
    return answer(checked.verdict) if checked.verdict else ""


def _pods_of(snapshot: Snapshot, placed: Iterable[Placed]) -> Iterator[PodView]:
    """The placed pods.

    A placement does not say which of several kinds is where, so they are packed once more.
    """
    number = 0
    taken: dict[str, dict[str, int]] = {}
    for copy in placed:
        for packed in _packed(snapshot, copy, taken):
            held = taken.setdefault(packed.node, {})
            add_pods(held, packed.pods.requests, packed.count)
            for _ in range(packed.count):
                number += 1
                requests = dict(packed.pods.requests)
                name = f"admitted-{number}"
                yield PodView.running(name=name, node=packed.node, requests=requests)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Pods of one kind on one node."""

    pods: Pods
    node: str
    count: int


def _packed(
    snapshot: Snapshot, copy: Placed, taken: Mapping[str, Mapping[str, int]]
) -> list[_Packed]:
    """The pods of one copy of a group; `taken` is what others take of the nodes."""
    kinds = [kind for kind in copy.group.pods if kind.count]
    resources = resources_of([kind.requests for kind in kinds])
    bins = []
    for place, (name, _) in enumerate(copy.nodes):
        free = {PODS: MAX_PODS} | dict(snapshot.free(snapshot.by_name[name]) or {})
        held = taken.get(name, {})
        left = tuple([free.get(resource, 0) - held.get(resource, 0) for resource in resources])
        bins.append(Bin(place, left, (True,) * len(kinds)))
    sizes = [columns(kind.requests, resources) for kind in kinds]
    packing = pack(bins, sizes, tuple([kind.count for kind in kinds]))
    packed = []
    for place, counts in (packing.placed or {}).items():
        name, _ = copy.nodes[place]
        for kind, count in zip(kinds, counts, strict=True):
            packed.append(_Packed(kind, name, count))
    return packed
