"""The checks on nodes: they carry the labels, those that do take pods, and some domain has room."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from toposcope.api.label_keys import LEAF, LEAF_GROUP, PREFIX
from toposcope.api.levels import Level
from toposcope.explain.context import Context, pod_count
from toposcope.explain.labelling import is_better_once_labelled
from toposcope.explain.pins import check_pinned
from toposcope.explain.topology_steps import (
    LostLevel,
    blocked_by_levels,
    blocked_by_topology,
    domain_names,
    level_complaints,
    lost_levels,
    names_level,
    why_unread,
)
from toposcope.hardware.rails import reported
from toposcope.hierarchy.coverage import Coverage, cover, some_names
from toposcope.integrations.framework.constraints import Pods, Workload, simplified
from toposcope.integrations.framework.features import (
    CheckOutcome,
    CheckStep,
    failed,
    passed,
    unknown,
)
from toposcope.integrations.framework.verdict import Shortage, Verdict
from toposcope.integrations.framework.waiting import levels_command, tree_command
from toposcope.integrations.registry import waiting
from toposcope.placement.check import Checker
from toposcope.placement.sentences import advice, answer, left_out, offered
from toposcope.placement.shortage import Offer
from toposcope.snapshot.scope import table_of
from toposcope.text import Command, plural, shell

_AGENTS: Final = shell("kubectl get pods -A -o wide -l app.kubernetes.io/component=agent")
_NO_NODES: Final = "no nodes are visible"
_NO_LEVEL: Final = "it asks for no level"
_MOST_OFFERS: Final = 8
_NO_ROOM: Final = frozenset({"full", "never"})
"""Verdicts that say that something is short."""


def _coverage(context: Context, workload: Workload) -> Sequence[Coverage]:
    """The coverage of the workload's levels over the nodes that it could use."""
    levels = context.levels(workload)
    keys = frozenset(level.key for level in levels)
    nodes = context.nodes(workload)
    table = table_of(nodes, keys)
    return cover(levels, table)


class _Gap(NamedTuple):
    """A level that some nodes of a workload lack, and others carry."""

    workload: Workload
    coverage: Coverage
    nodes: int
    """The number of nodes that the workload could use."""
    source: str
    """The kind of object that lists the nodes of each domain; empty if labels tell."""

    @property
    def sentence(self) -> str:
        missing = self.coverage.missing
        unit = plural(self.nodes, "node")
        who = f"{missing} of {self.nodes} {unit}"
        names = some_names(self.coverage.missing_nodes, missing)
        level = self.coverage.level
        if self.source:
            be = plural(missing, "is", "are")
            return f"{who} {be} in no {self.source} of level {level.domain}: {names}"
        lack = plural(missing, "lacks", "lack")
        return f"{who} {lack} level {level.domain} ({level.key}): {names}"


def check_labels(context: Context) -> CheckStep:
    """No node lacks a level that others carry, or that is not why there is too little room."""
    if why := blocked_by_topology(context):
        return unknown(why)
    if not context.snapshot.nodes:
        return unknown(_NO_NODES)

    gaps = list(_gaps(context))
    if not gaps:
        if any(map(context.levels, context.workloads)):
            return passed("no node lacks a level that others carry")
        return _no_level(context)

    if context.is_fully_placed or context.has_finished or not _is_short_of_labelled_nodes(context):
        sentences = _sentences(gaps)
        return passed("some nodes lack a level, but that is not why it waits", *sentences)

    return _short_and_unlabelled(gaps)


def _gaps(context: Context) -> Iterator[_Gap]:
    for workload in context.workloads:
        nodes = len(context.nodes(workload))
        source = context.listing_kind(workload)
        for coverage in _coverage(context, workload):
            if 0 < coverage.missing < nodes:
                yield _Gap(
                    workload=workload,
                    coverage=coverage,
                    nodes=nodes,
                    source=source,
                )


def _sentences(gaps: Sequence[_Gap]) -> list[str]:
    """One sentence for each gap, without repetitions."""
    sentences = [gap.sentence for gap in gaps]
    return list(dict.fromkeys(sentences))


def _is_short_of_labelled_nodes(context: Context) -> bool:
    """Whether some system finds too little room, and would find more with the missing labels."""
    for checked in context.checked:
        workload = checked.reading.workload
        verdict = checked.verdict
        if workload is None or verdict is None or verdict.kind not in _NO_ROOM:
            continue
        if is_better_once_labelled(context, workload, verdict):
            return True
    return False


def _short_and_unlabelled(gaps: Sequence[_Gap]) -> CheckStep:
    """The step where nodes that lack a level would be needed."""
    first, *others = gaps
    if first.source:
        return failed(
            f"there is too little room, and {first.sentence}",
            *_sentences(others),
            f"list them as members of a {first.source}",
            commands=(shell("kubectl get {}", first.source.lower()),),
        )

    topology = first.workload.topology
    key = first.coverage.level.key
    left_out_nodes = shell("toposcope nodes --state left-out")
    if topology:
        left_out_nodes = shell("toposcope nodes {} --state left-out", topology)

    commands = [left_out_nodes, shell("kubectl get nodes -L {}", key)]
    if key.startswith(PREFIX):
        fix = "label it, or find out why its agent does not"
        commands.append(_AGENTS)
    else:
        fix = "label it like its neighbours"

    return failed(
        f"there is too little room, and {first.sentence}",
        *_sentences(others),
        f"a node that lacks one level is left out of the whole topology; {fix}",
        commands=tuple(commands),
    )


def _no_level(context: Context) -> CheckStep:
    """The step where no level is known that it asks for."""
    why = why_unread(context)
    return unknown(why) if why else passed(_NO_LEVEL)


def check_availability(context: Context) -> CheckStep:
    """The levels that it asks for, and the nodes that were assigned, are there and take pods."""
    wanted = context.asked_levels
    lost = _lost(context, wanted) or _lost_nodes(context)
    if lost:
        return lost
    if why := blocked_by_levels(context):
        return unknown(why)
    if not wanted:
        return _no_level(context)
    if not context.snapshot.nodes:
        return unknown(_NO_NODES)

    unusable = _unusable(context, wanted)
    if unusable:
        return unusable

    return passed(f"Ready, uncordoned nodes carry {domain_names(wanted)}")


def _lost_nodes(context: Context) -> CheckStep | None:
    """The step where nodes that were chosen for its pods can no longer run them."""
    for system in waiting():
        step = system.check_nodes(context)
        if step:
            return step
    return None


def _lost(context: Context, wanted: Collection[Level]) -> CheckStep | None:
    """The step where the ClusterTopology reports a level that it asks for as lost."""
    complaints = level_complaints(context)
    wanted_domains = {level.domain for level in wanted}
    for lost in lost_levels(context):
        if lost.domain in wanted_domains:
            return _has_lost(context, lost)
        for complaint in complaints:
            if names_level(context, complaint, lost.domain):
                return _has_lost(context, lost)
    return None


def _has_lost(context: Context, lost: LostLevel) -> CheckStep:
    """The step where a level that it asks for is lost."""
    topology = lost.topology
    if context.topologies:
        topology = context.topologies[0]

    complaints = level_complaints(context)
    complaint = complaints[0].message if complaints else ""
    return failed(
        lost.message,
        "no node carries its label any more; restore the label, or ask for another level",
        complaint,
        commands=(
            levels_command(topology),
            shell("kubectl describe gtopo {}", topology),
        ),
    )


def _unusable(context: Context, wanted: Collection[Level]) -> CheckStep | None:
    """The step where no node that takes pods carries a level that it asks for."""
    for workload in context.workloads:
        for coverage in _coverage(context, workload):
            if coverage.level in wanted and not coverage.usable:
                source = context.listing_kind(workload)
                return _nobody_takes_pods(workload, coverage, source)
    return None


def _nobody_takes_pods(workload: Workload, coverage: Coverage, source: str) -> CheckStep:
    """`source` is the kind of object that lists the nodes of each domain, if labels do not tell."""
    level = coverage.level
    count = coverage.nodes
    nodes = shell("kubectl get nodes") if source else shell("kubectl get nodes -L {}", level.key)

    if count:
        unit = plural(count, "node")
        which = f"{count} {unit} with level {level.domain}"
        return failed(
            f"none of {which} takes pods: each is cordoned or not Ready",
            commands=(nodes,),
        )

    if source:
        return failed(
            f"no {source} of level {level.domain} lists a node with GPUs",
            "list the nodes as members of one, or ask for another level",
            commands=(shell("kubectl get {}", source.lower()),),
        )
    return failed(
        f"no node carries {level.key}, the label of level {level.domain}",
        "label the nodes, or ask for another level",
        commands=(nodes, levels_command(workload.topology)),
    )


def check_room(context: Context) -> CheckStep:
    """The verdict of `toposcope check`, its own pods left aside, and the domains considered."""
    if context.has_finished:
        return passed("it has finished")
    if context.is_fully_placed:
        count = len(context.ownership.pods)
        all_of_them = plural(count, "its only pod has", f"all its {count} pods have")
        return passed(f"{all_of_them} a node")

    if not context.snapshot.nodes:
        return unknown(_NO_NODES)
    if why := blocked_by_levels(context):
        return unknown(why)

    return _pinned(context) or _bound_to_domain(context) or _room_anywhere(context)


def _pinned(context: Context) -> CheckStep | None:
    """The step where there is no room on the nodes that waiting pods are pinned to."""
    pinned = check_pinned(context)
    if pinned.outcome is not CheckOutcome.FAILED:
        return None
    return failed("there is no room where its waiting pods have to go: see pinned")


def _bound_to_domain(context: Context) -> CheckStep | None:
    """The step where its running pods bind the waiting ones to a domain."""
    for system in waiting():
        step = system.check_room(context)
        if step:
            return step
    return None


def _room_anywhere(context: Context) -> CheckStep:
    verdicts = list(_remaining_verdicts(context))
    for remaining in verdicts:
        if remaining.verdict.kind in _NO_ROOM:
            return _no_room(context, remaining)

    return _room(context, verdicts)


@dataclass(frozen=True, slots=True)
class _RemainingVerdict:
    """A verdict on a workload, or on its waiting pods."""

    workload: Workload
    verdict: Verdict
    checker: Checker
    has_running_pods: bool
    """Whether running pods count as still to be placed."""


def _remaining_verdicts(context: Context) -> Iterator[_RemainingVerdict]:
    """The verdict of each system that has one, on the waiting pods alone where possible."""
    for checked in context.checked:
        workload = checked.reading.workload
        verdict = checked.verdict
        if workload is None or verdict is None or not workload.is_placeable:
            continue

        on_waiting_pods = _verdict_on_waiting_pods(context, workload)
        if on_waiting_pods:
            yield on_waiting_pods
            continue
        yield _RemainingVerdict(
            workload=workload,
            verdict=verdict,
            checker=context.checker,
            has_running_pods=bool(context.placed),
        )


def _verdict_on_waiting_pods(context: Context, workload: Workload) -> _RemainingVerdict | None:
    """The verdict on the waiting pods alone, where that is possible."""
    demand = _waiting_demand(workload, len(context.placed))
    if demand is None:
        return None

    checker = Checker(context.without_own)
    verdict = checker.verdict(demand)
    if not verdict:
        return None
    return _RemainingVerdict(
        workload=demand,
        verdict=verdict,
        checker=checker,
        has_running_pods=False,
    )


def _waiting_demand(workload: Workload, placed: int) -> Workload | None:
    """The demand of the pods that still wait when `placed` of them run.

    None where all of them have to be placed together, or where it is unknown which of them run.
    """
    groups = simplified(workload.groups)
    if not placed or not all(group.is_unconstrained for group in groups):
        return None

    pod_kinds: list[Pods] = []
    for top in groups:
        for group, _ in top.everything():
            pod_kinds += group.pods

    count = pod_count(groups) - placed
    if len(pod_kinds) != 1 or count <= 0:
        return None

    waiting_pods = replace(pod_kinds[0], count=count)
    group = groups[0].around((waiting_pods,))
    return replace(workload, groups=(group,))


def _room(context: Context, verdicts: Sequence[_RemainingVerdict]) -> CheckStep:
    """The step where nothing is known to be short."""
    if not verdicts:
        return _without_verdict(context)
    if context.snapshot.pods is None:
        return unknown("pods are not visible, so free resources are unknown")

    for remaining in verdicts:
        verdict = remaining.verdict
        if verdict.kind == "unclear":
            return unknown(answer(verdict), *left_out(verdict))

    notes: list[str] = []
    for workload in context.workloads:
        notes += workload.notes
    first = verdicts[0]
    counted = _counted(context, first)
    return passed(answer(first.verdict), *notes, *counted)


def _without_verdict(context: Context) -> CheckStep:
    """The step where no system has a verdict."""
    for workload in context.workloads:
        if workload.unknown:
            return unknown(workload.unknown)
    for workload in context.workloads:
        if workload.notes:
            return unknown(workload.notes[0])
    return passed("it asks for no pods")


def _no_room(context: Context, remaining: _RemainingVerdict) -> CheckStep:
    """The step where there is too little room for one system's demands."""
    verdict = remaining.verdict
    considered: list[str] = []
    if verdict.shortage:
        offers = remaining.checker.offers(remaining.workload, verdict.shortage)
        considered = list(_considered(verdict.shortage, offers))

    return failed(
        answer(verdict),
        *advice(verdict),
        *considered,
        *left_out(verdict),
        *_set_apart(context, remaining),
        *_counted(context, remaining),
        commands=tuple(_commands(context, remaining.workload, verdict)),
    )


def _set_apart(context: Context, remaining: _RemainingVerdict) -> Iterator[str]:
    """Wrong cables that may shrink domains of the level that is short."""
    shortage = remaining.verdict.shortage
    if not shortage or not shortage.level:
        return

    scope = context.scope(remaining.workload)
    is_of_leaves = shortage.level.key in (LEAF, LEAF_GROUP)
    if not is_of_leaves or not scope or not scope.topology:
        return
    wrong_cables = reported(scope.topology.status)
    for rail in wrong_cables:
        yield f"a wrong cable may set {rail.node} apart: {rail.sentence}"


def _counted(context: Context, remaining: _RemainingVerdict) -> Iterator[str]:
    """Says which of its pods the verdict is about, where some of them run."""
    count = len(context.placed)
    if remaining.has_running_pods:
        have = f"{count} pods already have nodes and count"
        if count == 1:
            have = "1 pod already has a node and counts"
        yield f"{have} as still to be placed, because all of them belong together"
    elif count:
        yield "for the waiting pods only; the others keep their nodes"


def _considered(shortage: Shortage, offers: Sequence[Offer]) -> Iterator[str]:
    """The domains that were considered and their free resources, the best one first."""
    if not offers or shortage.level is None:
        return

    count = len(offers)
    domains = plural(count, shortage.level.domain)
    yield f"{count} {domains} considered:"
    for offer in offers[:_MOST_OFFERS]:
        words = offered(offer, shortage)
        yield f"  {words}"

    more = count - _MOST_OFFERS
    if more > 0:
        yield f"  and {more} with less"


def _commands(context: Context, workload: Workload, verdict: Verdict) -> Iterator[Command]:
    if verdict.queue_command:
        yield verdict.queue_command
        return

    domain = ""
    if verdict.shortage and verdict.shortage.level:
        domain = verdict.shortage.level.domain

    if context.scope(workload) is None:
        yield tree_command(None)
    else:
        yield tree_command(workload.topology, domain)

    for remedy in verdict.remedies:
        node = remedy.nodes[0]
        if remedy.act in ("open", "tolerate"):
            yield shell("kubectl describe node {}", node)
        else:
            yield shell("kubectl get pods -A --field-selector spec.nodeName={}", node)
