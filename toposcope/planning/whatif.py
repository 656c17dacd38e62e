"""What a change would do: which gangs find other nodes, what still fits.

Everything happens in a snapshot.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.check import Checker
from toposcope.placement.pack import Bin, pack
from toposcope.placement.sentences import answer
from toposcope.planning.capacity import Capacity
from toposcope.planning.changes import added, drained, finished, occupied
from toposcope.planning.freeing import Freeing
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.rehoming import Rehomed, rehome
from toposcope.planning.slots import shape_of
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import select_scope


@dataclass(frozen=True)
class Changes:
    """What is to change; it happens in the order of the fields."""

    finish: tuple[Gang, ...] = ()
    add: tuple[int, NodeView, Mapping[str, str]] | None = None
    """How many nodes, like which one, and what their labels say instead."""
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
        return all(change.fits for change in self.admitted) and not any(
            change.worse for change in self.rehomed
        )


def whatif(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    changes: Changes,
) -> WhatIf:
    """The cluster with these changes; `before` and `gangs` are those of the snapshot."""
    ended = {(gang.kind, gang.namespace, gang.name) for gang in changes.finish}
    after = finished(snapshot, changes.finish) if changes.finish else snapshot
    if changes.add:
        count, like, domains = changes.add
        after = added(after, like, count, domains)
    rehomed: tuple[Rehomed, ...] = ()
    if changes.drain:
        left = [gang for gang in gangs if (gang.kind, gang.namespace, gang.name) not in ended]
        lost = [
            f"{pod.namespace}/{pod.name}"
            for gang in left
            for pod in gang.placed
            if pod.node in changes.drain
        ]
        rehomed, after = relocated(before, drained(after, changes.drain), topology, left, lost)
    admitted: list[Admitted] = []
    for document in changes.admit:
        found, after = _admit(after, document, changes.admit)
        admitted += found
    return WhatIf(
        before, _capacity(after, topology, gangs_of(after), before), after, rehomed, tuple(admitted)
    )


def relocated(
    before: Capacity,
    without: Snapshot,
    topology: str | None,
    gangs: Sequence[Gang],
    lost: Collection[str],
) -> tuple[tuple[Rehomed, ...], Snapshot]:
    """The gangs that lose pods (`NAMESPACE/NAME`), and the snapshot `without` them once they have found other nodes."""
    rehomed = tuple(
        rehome(before, _capacity(without, topology, (), before), gangs, frozenset(lost))
    )
    moved = [pod for gang in rehomed for pod in gang.placed]
    names = {(pod.namespace, pod.name) for pod in moved}
    kept = tuple(pod for pod in without.pods or () if (pod.namespace, pod.name) not in names)
    return rehomed, occupied(replace(without, pods=kept), moved)


def vacated(
    snapshot: Snapshot,
    topology: str | None,
    before: Capacity,
    gangs: Sequence[Gang],
    freeing: Freeing,
    gpus: int,
    per_pod: int,
) -> tuple[Rehomed, ...]:
    """What becomes of the gangs whose pods leave a domain that is kept for a gang of `gpus`."""
    leaving = {id(pod) for pod in freeing.pods}
    without = replace(
        snapshot, pods=tuple(pod for pod in snapshot.pods or () if id(pod) not in leaving)
    )
    shape, wanted = shape_of(gpus, per_pod)
    requests, kept = dict(shape.requests), list[PodView]()
    each = requests[ALLOCATABLE_GPUS]
    for number, path in enumerate(before.paths):
        if path[: len(freeing.domain)] == freeing.domain:
            node = without.by_name[before.nodes[number].name]
            count = min(without.free_gpus(node) or 0, each * (wanted - len(kept))) // each
            kept += [
                PodView("", "kept", node.name, "Running", requests, None, {}, {}, "", "")
            ] * count
    lost = [f"{pod.namespace}/{pod.name}" for pod in freeing.pods]
    rehomed, _ = relocated(before, occupied(without, kept), topology, gangs, lost)
    return rehomed


def _capacity(
    snapshot: Snapshot, topology: str | None, gangs: Iterable[Gang], before: Capacity
) -> Capacity:
    return Capacity(snapshot, select_scope(snapshot, topology), gangs, before)


def _admit(
    snapshot: Snapshot, document: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> tuple[list[Admitted], Snapshot]:
    """Check a workload; where it fits, it takes its room."""
    found, placed = [], tuple[Placed, ...]()
    for checked in Checker(snapshot, others).check(document):
        errors = [error.message for error in checked.errors]
        if checked.verdict is None and not errors:
            continue
        text = (
            f"rejected: {errors[0]}"
            if errors
            else answer(checked.verdict)
            if checked.verdict
            else ""
        )
        workload = checked.reading.workload
        found.append(
            Admitted(workload.handle if workload else checked.reading.subject, text, checked.well)
        )
        if checked.well and checked.verdict:
            placed = checked.verdict.placed
    return found, occupied(snapshot, _pods_of(snapshot, placed))


def _pods_of(snapshot: Snapshot, placed: Iterable[Placed]) -> Iterator[PodView]:
    """The placed pods.

    A placement does not say which of several kinds is where, so they are packed once more.
    """
    number = 0
    taken: dict[str, dict[str, int]] = {}
    for copy in placed:
        kinds = [kind for kind in copy.group.pods if kind.count]
        resources = list(
            dict.fromkeys([PODS, *(name for kind in kinds for name, _ in kind.requests)])
        )
        sizes = [
            tuple((dict(kind.requests) | {PODS: 1}).get(name, 0) for name in resources)
            for kind in kinds
        ]
        bins = []
        for place, (name, _) in enumerate(copy.nodes):
            node = snapshot.by_name[name]
            free, held = snapshot.free(node) or {}, taken.get(name, {})
            left = tuple(
                free.get(name, 110 if name == PODS else 0) - held.get(name, 0) for name in resources
            )
            bins.append(Bin(place, left, (True,) * len(kinds)))
        packing = pack(bins, sizes, tuple(kind.count for kind in kinds)).placed or {}
        for place, counts in packing.items():
            name = copy.nodes[place][0]
            for kind, count in zip(kinds, counts, strict=True):
                for _ in range(count):
                    number += 1
                    held = taken.setdefault(name, {})
                    for resource, amount in (*kind.requests, (PODS, 1)):
                        held[resource] = held.get(resource, 0) + amount
                    requests = dict(kind.requests)
                    yield PodView(
                        "", f"admitted-{number}", name, "Running", requests, None, {}, {}, "", ""
                    )
