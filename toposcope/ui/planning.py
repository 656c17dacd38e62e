"""What planning says of the cluster when somebody asks on the page.

Nothing is done to the cluster.
"""

from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.planning.capacity import View
from toposcope.planning.gangs import named
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import Score, better_place, scores
from toposcope.planning.slots import slots, without_repeats
from toposcope.planning.whatif import Changes, whatif
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import TopologyNotFoundError, select_scope
from toposcope.ui import protocol

_GANGS: Final = 100


class NoPlanError(ToposcopeError):
    """The question has no answer; the message says why."""


def plan_of(
    snapshot: Snapshot, topology: str | None, required: RequiredLevels | None = None
) -> Plan:
    """The plan of a cluster by a topology.

    Raises NoPlanError where there is none, or pods are not known.

    Without what is `required` it is good for scores and slots only.
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
    rows = [
        protocol.SlotRow(
            row.gpus,
            row.level.domain,
            **{view.value: count for view, count in row.fitting.items()},
            unusable=round(row.fragmented, 3),
        )
        for row in without_repeats(plan.slots)
    ]
    gangs = [_row(score) for score in plan.scores if score.value < 1][:_GANGS]
    return protocol.Planning(plan.per_pod, rows, gangs, len(plan.scores))


def _row(score: Score) -> protocol.GangRow:
    gang = score.gang
    spans = ", ".join(
        f"{at.level.domain} {at.spans}, could be {at.empty}"
        for at in score.spreads
        if at.empty < at.spans
    )
    return protocol.GangRow(
        gang.kind, gang.handle, gang.gpus, round(score.value, 2), score.better_now, spans
    )


def place(plan: Plan, kind: str, name: str) -> protocol.GangPlace:
    """Where a gang is and could be. Raises NoPlanError where there is no such gang."""
    found = [gang for gang in named(plan.gangs, name) if gang.kind == kind]
    if not found:
        raise NoPlanError(f"no gang with GPUs is called {name!r}, or no longer")
    better = next(
        (better_place(plan.capacity, score) for score in scores(plan.capacity, found)), None
    )
    level, domains = (better[0].domain, better[1]) if better else ("", ())
    nodes = sorted({pod.node for pod in found[0].placed})
    return protocol.GangPlace(nodes, level, [list(domain) for domain in domains])


def drained(plan: Plan, path: tuple[str, ...], node: str) -> protocol.Drained:
    """What the drain of a domain, or of a node, would do.

    Raises NoPlanError where there is neither.

    `path` names the domain from the broadest level down.
    """
    capacity = plan.capacity
    inside = (
        name
        for name, number in capacity.number.items()
        if capacity.paths[number][: len(path)] == path
    )
    names = frozenset([node] if node in plan.snapshot.by_name else inside if path else ())
    if not names:
        raise NoPlanError(
            "nothing like that can be drained here; choose a domain or a node of this view"
        )
    topology = plan.scope.topology.name if plan.scope.topology else None
    result = whatif(plan.snapshot, topology, capacity, plan.gangs, Changes(drain=names))
    after = {(row.gpus, row.level): row for row in slots(result.after, plan.sizes, plan.per_pod)}
    lost: dict[int, protocol.SlotChange] = {}
    for row in plan.slots:  # the narrowest level of a size comes last
        now = row.fitting[View.NOW]
        then = after[row.gpus, row.level].fitting[View.NOW] if (row.gpus, row.level) in after else 0
        if then != now:
            lost[row.gpus] = protocol.SlotChange(row.gpus, row.level.domain, now, then)
    fates = [protocol.Fate(gang.sentence, gang.worse) for gang in result.rehomed]
    worst_first = sorted(fates, key=lambda fate: not fate.worse)
    return protocol.Drained(len(names), worst_first, [*lost.values()][::-1], plan.required.warnings)
