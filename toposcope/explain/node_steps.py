"""The checks on nodes: they carry the levels' labels, those that do take pods, and some domain has room."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import LEAF, LEAF_GROUP, PREFIX
from toposcope.api.levels import Level
from toposcope.explain.assigned_nodes import check_assignment
from toposcope.explain.context import Context
from toposcope.explain.stranded import check_stranded, without_own
from toposcope.explain.topology_steps import (
    blocked_by_levels,
    blocked_by_topology,
    level_complaints,
    levels_command,
    lost_levels,
    mentions,
    tree_command,
)
from toposcope.hardware.rails import reported
from toposcope.hierarchy.coverage import Coverage, cover, some_names
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.integrations.framework.features import Step, failed, passed, unknown
from toposcope.integrations.framework.verdict import Shortage, Verdict
from toposcope.placement.check import Checker
from toposcope.placement.sentences import advice, answer, left_out, offered
from toposcope.placement.shortage import Offer
from toposcope.snapshot.scope import table_of
from toposcope.text import Command, plural, shell

_AGENTS: Final = shell("kubectl get pods -A -o wide -l app.kubernetes.io/component=agent")
_NO_NODES: Final = "no nodes are visible"
_MAX_OFFERS: Final = 8


def _coverage(context: Context, workload: Workload) -> Sequence[Coverage]:
    levels = context.levels(workload)
    return cover(
        levels, table_of(context.nodes(workload), frozenset(level.key for level in levels))
    )


def check_labels(context: Context) -> Step:
    """Nodes that lack the label of a level that others carry.

    It matters only where room is short.
    """
    if why := blocked_by_topology(context):
        return unknown(why)
    if not context.snapshot.nodes:
        return unknown(_NO_NODES)
    gaps = [
        (workload, coverage)
        for workload in context.workloads
        for coverage in _coverage(context, workload)
        if coverage.missing and coverage.nodes
    ]
    if not gaps:
        any_level = any(context.levels(workload) for workload in context.workloads)
        return passed(
            "no node lacks a level that others carry" if any_level else "it asks for no level"
        )
    sentences = [_gap(coverage, len(context.nodes(workload))) for workload, coverage in gaps]
    short = any(
        checked.verdict and checked.verdict.kind in {"full", "never"} for checked in context.checked
    )
    if context.all_placed or context.finished or not short:
        return passed(
            "some nodes lack a level, but there is room without them", *dict.fromkeys(sentences)
        )
    workload, first = gaps[0]
    ours = first.level.key.startswith(PREFIX)
    commands = [
        shell("toposcope nodes {} --state left-out", workload.topology)
        if workload.topology
        else shell("toposcope nodes --state left-out"),
        shell("kubectl get nodes -L {}", first.level.key),
    ]
    fix = "label it, or find out why its agent does not" if ours else "label it like its neighbours"
    return failed(
        f"there is too little room, and {sentences[0]}",
        *dict.fromkeys(sentences[1:]),
        f"a node that lacks one level is left out of the whole topology; {fix}",
        commands=(*commands, _AGENTS) if ours else tuple(commands),
    )


def _gap(coverage: Coverage, nodes: int) -> str:
    names = some_names(coverage.missing_nodes, coverage.missing)
    lack, level = plural(coverage.missing, "lacks", "lack"), coverage.level
    return f"{coverage.missing} of {nodes} {plural(nodes, 'node')} {lack} level {level.domain} ({level.key}): {names}"


def check_availability(context: Context) -> Step:
    """The levels that it asks for, and the nodes that Kueue assigned, are still there and take pods."""
    wanted = context.asked_levels
    if lost := _lost(context, wanted) or check_assignment(context):
        return lost
    if why := blocked_by_levels(context):
        return unknown(why)
    if not wanted:
        return passed("it asks for no level")
    if not context.snapshot.nodes:
        return unknown(_NO_NODES)
    names = ", ".join(dict.fromkeys(level.domain for level in wanted))
    return _unusable(context, wanted) or passed(f"Ready, uncordoned nodes carry {names}")


def _lost(context: Context, wanted: Collection[Level]) -> Step | None:
    """A level that it asks for and that the ClusterTopology reports as lost."""
    complaints = [finding.message for finding in level_complaints(context)]
    for domain, message in lost_levels(context).items():
        named = any(level.domain == domain for level in wanted)
        if named or any(mentions(context, text, domain) for text in complaints):
            topology = (
                context.topologies[0] if context.topologies else message.split()[1].rstrip(":")
            )
            gone = "no node carries its label any more; restore the label, or ask for another level"
            commands = levels_command(topology), shell("kubectl describe gtopo {}", topology)
            return failed(message, gone, *complaints[:1], commands=commands)
    return None


def _unusable(context: Context, wanted: Collection[Level]) -> Step | None:
    """A level that it asks for and that no node carries that takes pods."""
    for workload in context.workloads:
        for coverage in _coverage(context, workload):
            level = coverage.level
            if level not in wanted or coverage.usable:
                continue
            nodes = shell("kubectl get nodes -L {}", level.key)
            if coverage.nodes:
                which = (
                    f"{coverage.nodes} {plural(coverage.nodes, 'node')} with level {level.domain}"
                )
                return failed(
                    f"none of {which} takes pods: each is cordoned or not Ready", commands=(nodes,)
                )
            return failed(
                f"no node carries {level.key}, the label of level {level.domain}",
                "label the nodes, or ask for another level",
                commands=(nodes, levels_command(workload.topology)),
            )
    return None


def check_room(context: Context) -> Step:
    """The verdict of `toposcope check`, with its own pods left aside, and the domains that were considered."""
    if context.finished:
        return passed("it has finished")
    if context.all_placed:
        count = len(context.ownership.pods)
        return passed(
            "its only pod has a node" if count == 1 else f"all its {count} pods have a node"
        )
    if not context.snapshot.nodes:
        return unknown(_NO_NODES)
    if why := blocked_by_levels(context):
        return unknown(why)
    if stranded := check_stranded(context):
        return stranded
    verdicts = list(_remaining_verdicts(context))
    short = next(
        (remaining for remaining in verdicts if remaining.verdict.kind in {"full", "never"}), None
    )
    return _no_room(context, short) if short else _room(context, verdicts)


@dataclass(frozen=True, slots=True)
class _RemainingVerdict:
    """A verdict on a workload, or on its waiting pods.

    `whole`: pods that run count as still to be placed.
    """

    workload: Workload
    verdict: Verdict
    checker: Checker
    whole: bool


def _remaining_verdicts(context: Context) -> Iterator[_RemainingVerdict]:
    """The verdict for each system that asks for something placeable, where possible on the waiting pods alone."""
    for checked in context.checked:
        workload, verdict = checked.reading.workload, checked.verdict
        if workload is None or verdict is None:
            continue
        waiting = _waiting_demand(workload, len(context.placed))
        checker = Checker(without_own(context)) if waiting else context.checker
        remaining = checker.verdict(waiting)
        if waiting and remaining:
            yield _RemainingVerdict(waiting, remaining, checker, whole=False)
        else:
            yield _RemainingVerdict(workload, verdict, context.checker, whole=bool(context.placed))


def _waiting_demand(workload: Workload, placed: int) -> Workload | None:
    """The pods that are left when `placed` of them run; None where all belong together, or it is unknown which run."""
    groups = simplified(workload.groups)
    if not placed or not all(group.unconstrained for group in groups):
        return None
    pod_kinds = [pods for top in groups for group, _ in top.everything() for pods in group.pods]
    count = sum(group.total().get("pods", 0) * group.copies for group in groups) - placed
    if len(pod_kinds) != 1 or count <= 0:
        return None
    return replace(workload, groups=(Group(groups[0].name, (replace(pod_kinds[0], count=count),)),))


def _room(context: Context, verdicts: Sequence[_RemainingVerdict]) -> Step:
    """The step where nothing is known to be short."""
    notes = [note for workload in context.workloads for note in workload.notes]
    if not verdicts:
        return unknown(notes[0]) if notes else passed("it asks for no pods")
    if context.snapshot.pods is None:
        return unknown("pods are not visible, so free resources are unknown")
    unclear = next(
        (remaining.verdict for remaining in verdicts if remaining.verdict.kind == "unclear"), None
    )
    if unclear:
        return unknown(answer(unclear), *left_out(unclear))
    return passed(answer(verdicts[0].verdict), *notes, *_counted(context, verdicts[0]))


def _no_room(context: Context, remaining: _RemainingVerdict) -> Step:
    """The step where there is too little room for one system's demands."""
    verdict = remaining.verdict
    offers = (
        remaining.checker.offers(remaining.workload, verdict.shortage) if verdict.shortage else ()
    )
    return failed(
        answer(verdict),
        *advice(verdict),
        *(_considered(verdict.shortage, offers) if verdict.shortage else ()),
        *left_out(verdict),
        *_set_apart(context, remaining),
        *_counted(context, remaining),
        commands=tuple(_commands(context, remaining.workload, verdict)),
    )


def _set_apart(context: Context, remaining: _RemainingVerdict) -> Iterator[str]:
    """The wrong cables that may make domains of the level that is short smaller."""
    shortage, scope = remaining.verdict.shortage, context.scope(remaining.workload)
    if (
        shortage
        and shortage.level
        and shortage.level.key in (LEAF, LEAF_GROUP)
        and scope
        and scope.topology
    ):
        for rail in reported(scope.topology.status):
            yield f"a wrong cable may set {rail.node} apart: {rail.sentence}"


def _counted(context: Context, remaining: _RemainingVerdict) -> Iterator[str]:
    """Which of its pods the verdict is about, where some of them run."""
    count = len(context.placed)
    if remaining.whole:
        have = (
            "1 pod already has a node and counts"
            if count == 1
            else f"{count} pods already have nodes and count"
        )
        yield f"{have} as still to be placed, because all of them belong together"
    elif count:
        yield "for the waiting pods only; the others keep their nodes"


def _considered(shortage: Shortage, offers: Sequence[Offer]) -> Iterator[str]:
    """The domains with what is free, the best one first."""
    if not offers or shortage.level is None:
        return
    yield f"{len(offers)} {plural(len(offers), shortage.level.domain)} considered:"
    for offer in offers[:_MAX_OFFERS]:
        yield f"  {offered(offer, shortage)}"
    if len(offers) > _MAX_OFFERS:
        yield f"  and {len(offers) - _MAX_OFFERS} with less"


def _commands(context: Context, workload: Workload, verdict: Verdict) -> Iterator[Command]:
    level = verdict.shortage.level if verdict.shortage else None
    known = context.scope(workload) is not None
    yield (
        tree_command(workload.topology, level.domain if level else "")
        if known
        else tree_command(None)
    )
    for remedy in verdict.remedies:
        node = remedy.nodes[0]
        pods = shell("kubectl get pods -A --field-selector spec.nodeName={}", node)
        yield (
            shell("kubectl describe node {}", node) if remedy.act in ("open", "tolerate") else pods
        )
