"""Answers the page's questions about planning; it changes nothing in the cluster."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from toposcope.integrations.framework.amounts import amounts
from toposcope.planning.capacity import FreeBasis
from toposcope.planning.gangs import named
from toposcope.planning.kept import KeptResult
from toposcope.planning.kept_gangs import WORST_FIRST
from toposcope.planning.kept_words import kept_advice, kept_lines
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import Score, better_place, scores
from toposcope.planning.slots import Slots, slots, without_repeats
from toposcope.planning.whatif import Changes, WhatIf, whatif
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.reach import Blocker
from toposcope.snapshot.scope import TopologyNotFoundError, select_scope
from toposcope.ui import protocol
from toposcope.ui.questions import NoPlanError

_MOST_GANGS: Final = 100


def plan_of(
    snapshot: Snapshot, topology: str | None, required: RequiredLevels | None = None
) -> Plan:
    """The plan of a cluster by a topology.

    Without `required` it is good for scores and slots only. Raises NoPlanError where there is no
    such topology, or pods are not known.
    """
    if snapshot.pods is None:
        raise NoPlanError("running pods and free GPUs are unknown: the pods cannot be read")

    try:
        return Plan(snapshot, select_scope(snapshot, topology), required or RequiredLevels())
    except TopologyNotFoundError as error:
        raise NoPlanError(
            f"plans are made for a whole ClusterTopology; choose one at the top ({error})"
        ) from None


def overview(plan: Plan) -> protocol.Planning:
    """Slots, and the gangs that are not as close together as they could be."""
    rows = [_slot_row(row) for row in without_repeats(plan.slots)]
    worst = islice(_imperfect(plan), _MOST_GANGS)
    gangs = [_gang_row(score) for score in worst]
    results = Counter(kept.result for kept in plan.kept)
    return protocol.Planning(
        per_pod=plan.per_pod,
        slots=rows,
        gangs=gangs,
        scored=len(plan.scores),
        kept=list(islice(_kept_rows(plan), _MOST_GANGS)),
        violations=results[KeptResult.VIOLATION],
        unobservable=results[KeptResult.UNOBSERVABLE],
        matches=results[KeptResult.MATCH],
        pod=amounts(plan.typical.requests(plan.per_pod)),
        reachable=plan.reachable_gpus,
        blocked=[block.sentence() for block in plan.blocks if block.why is not Blocker.TAINT],
        uncounted=[repelling.sentence for repelling in plan.repelling],
    )


def _imperfect(plan: Plan) -> Iterator[Score]:
    """The scores of gangs that could be closer together."""
    for score in plan.scores:
        if score.value < 1:
            yield score


def _kept_rows(plan: Plan) -> Iterator[protocol.KeptRow]:
    """The gangs of which something has to be said, violations first."""
    for kept in sorted(plan.kept, key=lambda kept: WORST_FIRST.index(kept.result)):
        lines = list(kept_lines(kept))
        if not lines:
            continue
        advice: dict[str, None] = {}
        for part in kept.parts:
            advice.update(dict.fromkeys(kept_advice(part.placement)))
        gang = kept.gang
        yield protocol.KeptRow(
            kind=gang.kind,
            name=gang.handle,
            gpus=gang.gpus,
            result=kept.result.value,
            lines=lines,
            advice=list(advice),
        )


def _slot_row(row: Slots) -> protocol.SlotRow:
    fitting = {view.value: count for view, count in row.fitting.items()}
    return protocol.SlotRow(
        gpus=row.gpus,
        domain=row.level.domain,
        **fitting,
        unusable=round(row.fragmented_share, 3),
    )


def _gang_row(score: Score) -> protocol.GangRow:
    gang = score.gang
    spans = []
    for spread in score.spreads:
        if spread.empty < spread.spans:
            domain = spread.level.domain
            spans.append(f"{domain} {spread.spans}, could be {spread.empty}")
    return protocol.GangRow(
        kind=gang.kind,
        name=gang.handle,
        gpus=gang.gpus,
        score=round(score.value, 2),
        better=score.can_improve,
        spans=", ".join(spans),
    )


def place(plan: Plan, kind: str, name: str) -> protocol.GangPlace:
    """Where a gang is and could be. Raises NoPlanError where there is no such gang."""
    gangs = [gang for gang in named(plan.gangs, name) if gang.kind == kind]
    if not gangs:
        raise NoPlanError(f"there is no gang with GPUs named {name!r}, or it has ended")

    nodes = {pod.node for pod in gangs[0].placed}
    place_now = protocol.GangPlace(sorted(nodes), "", [])
    score = next(iter(scores(plan.capacity, gangs)), None)
    if score is None:
        return place_now
    better = better_place(plan.capacity, score)
    if better is None:
        return place_now

    level, domains = better
    paths = [list(domain) for domain in domains]
    return protocol.GangPlace(place_now.nodes, level.domain, paths)


def drained(plan: Plan, path: tuple[str, ...], node: str) -> protocol.Drained:
    """What the drain of a domain or a node would do.

    `path` names the domain from the broadest level down. Raises NoPlanError where neither exists.
    """
    names = _to_drain(plan, path, node)
    if not names:
        raise NoPlanError("there is no such domain or node to drain; choose one of this view")

    topology = plan.scope.topology
    name = topology.name if topology else None
    changes = Changes(drain=names)
    result = whatif(plan.snapshot, name, plan.capacity, plan.gangs, changes)
    fates = []
    for gang in sorted(result.rehomed, key=lambda gang: not gang.is_worse):
        fates.append(protocol.Fate(gang.sentence, gang.is_worse))
    lost = _lost(plan, result)
    return protocol.Drained(len(names), fates, lost, plan.required.warnings)


def _to_drain(plan: Plan, path: tuple[str, ...], node: str) -> frozenset[str]:
    """The node, or the nodes of the domain."""
    if node in plan.snapshot.by_name:
        return frozenset([node])
    if not path:
        return frozenset()

    names = []
    depth = len(path)
    for name, number in plan.capacity.number.items():
        path_of_node = plan.capacity.paths[number]
        if path_of_node[:depth] == path:
            names.append(name)
    return frozenset(names)


def _lost(plan: Plan, result: WhatIf) -> list[protocol.SlotChange]:
    """The slots that are lost now, the largest first; of each size those of the narrowest level."""
    after = {}
    for row in slots(result.after, plan.sizes, plan.per_pod, plan.typical):
        after[row.gpus, row.level] = row.fitting[FreeBasis.NOW]

    lost: dict[int, protocol.SlotChange] = {}
    for row in plan.slots:  # the narrowest level of a size comes last
        count_before = row.fitting[FreeBasis.NOW]
        count_after = after.get((row.gpus, row.level), 0)
        if count_after != count_before:
            lost[row.gpus] = protocol.SlotChange(
                gpus=row.gpus,
                domain=row.level.domain,
                before=count_before,
                after=count_after,
            )
    return list(reversed(lost.values()))
