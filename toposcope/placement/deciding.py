"""What decides a verdict, in the order of `DECIDERS`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import (
    Group,
    Workload,
    count_of_pods,
    pods_in,
)
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.verdict import Remedy, Verdict
from toposcope.integrations.readings import resource_read_for
from toposcope.integrations.registry import PLUGINS, placements
from toposcope.placement.cluster import Question
from toposcope.placement.creation import creation
from toposcope.placement.devices import by_devices
from toposcope.placement.exclusive import by_holders, by_leaders
from toposcope.placement.pod_rules import by_pod_rules, with_barred
from toposcope.placement.preemption import preemption
from toposcope.placement.tolerating import tolerate
from toposcope.placement.verdict import judge
from toposcope.text import listing, plural

Decider = Callable[[Question, Verdict], Verdict]
"""Takes the verdict so far, and returns it or another one."""


def decide(question: Question, *, with_remedies: bool = True) -> Verdict | None:
    """Whether the workload fits; None if it requests nothing placeable.

    The verdict is unclear if a field that may decide was not read, whatever the deciders say.
    Without remedies it takes a fraction of the time.
    """
    verdict = _decided(question, DECIDERS if with_remedies else _DECIDERS_OF_THE_KIND)
    if verdict is None:
        return None
    return _as_far_as_read(question.workload, verdict)


def _as_far_as_read(workload: Workload, verdict: Verdict) -> Verdict:
    unread = workload.unread
    if not unread:
        return verdict
    if verdict.kind == "unclear":
        return replace(verdict, unread=unread)
    return Verdict("unclear", unread=unread, without_unread=verdict)


def _decided(question: Question, deciders: Sequence[Decider]) -> Verdict | None:
    workload = question.workload
    if workload.unknown:
        return Verdict("unclear", limitation=workload.unknown)
    if not workload.is_placeable or not _has_pods(workload.groups):
        return None
    lost = _lost_levels(question)
    if lost:
        return Verdict("never", limitation=lost)
    question = with_barred(question)
    verdict = _search(question, question.workload.groups)
    for decider in deciders:
        verdict = decider(question, verdict)
    return verdict


def _has_pods(groups: Sequence[Group]) -> bool:
    for group in groups:
        if group.copies and group.total().get(PODS):
            return True
    return False


def _lost_levels(question: Question) -> str:
    """The levels of the scheduler's own topology that no node carries, in words; empty if none."""
    workload, cluster = question.workload, question.on
    topology = cluster.topology(workload)
    if topology is None or topology.places:
        return ""
    lost = [level.key for level in topology.levels if cluster.facts.lacks_label(level.key)]
    if not lost:
        return ""
    keys = listing(lost, len(lost))
    levels = plural(len(lost), "a level", "levels")
    return (
        f"no node carries {keys}, {levels} of {topology.source} {topology.name}, "
        f"and {_scheduler(workload)} leaves out every node that lacks a level"
    )


def _scheduler(workload: Workload) -> str:
    """The name of the scheduler that places the pods, for people."""
    resource = resource_read_for(workload)
    for plugin in PLUGINS:
        if plugin.name == resource:
            return plugin.scheduler or plugin.title
    return workload.system


def _search(question: Question, groups: Sequence[Group]) -> Verdict:
    """Whether a placement of these groups exists, whichever scheduler looks for it."""
    return judge(groups, question.levels, question.nodes, can_lack_levels=question.can_lack_levels)


def certainty(question: Question, verdict: Verdict) -> Verdict:
    """Whether the scheduler surely finds the placement that exists."""
    workload = question.workload
    if not workload.doubt or not verdict.fits:
        return verdict
    for groups in (workload.certain, workload.certain_too):
        if not groups:
            continue
        certain = _search(question, groups)
        if certain.fits:
            return certain
    return Verdict("unclear", limitation=workload.doubt)


def parts(question: Question, verdict: Verdict) -> Verdict:
    """Whether the units that the scheduler places fit one by one, where all at once do not."""
    if not question.workload.pod_groups or verdict.fits:
        return verdict
    return _search(question, question.workload.pod_groups)


def own_procedure(question: Question, verdict: Verdict) -> Verdict:
    """What the scheduler itself does, where it is modelled: order, allocation, queue, quota."""
    for placement in placements():
        verdict = placement.decide(verdict, question)
    return verdict


def minimum(question: Question, verdict: Verdict) -> Verdict:
    """Whether the minimum that has to start fits, where the whole workload does not."""
    workload = question.workload
    if not workload.least or not verdict.refuses:
        return verdict
    least = replace(workload, groups=workload.least, pod_groups=(), least=())
    starting = _decided(question.about(least), (certainty, own_procedure, by_pod_rules))
    if starting is None:
        return verdict
    if not starting.fits:
        return starting
    waiting_pods = count_of_pods(workload.groups) - count_of_pods(workload.least)
    return replace(starting, waiting_pods=waiting_pods)


def evictions(question: Question, verdict: Verdict) -> Verdict:
    """The verdict with the pods to evict from the nodes that have to be drained."""
    remedies = []
    for remedy in verdict.remedies:
        remedies.append(_with_pods(question, remedy))
    return replace(verdict, remedies=tuple(remedies))


def _with_pods(question: Question, remedy: Remedy) -> Remedy:
    """The remedy with the pods that hold what is short on its nodes."""
    holding = []
    for node in remedy.nodes:
        for pod in question.on.pods_on.get(node, ()):
            if any(pod.requests.get(resource) for resource in remedy.short):
                holding.append(f"{pod.namespace}/{pod.name}")
    return replace(remedy, pods=tuple(holding))


def devices(question: Question, verdict: Verdict) -> Verdict:
    """Whether the pods get the devices that they claim, where their requests fit."""
    workload, cluster = question.workload, question.on
    if not verdict.fits or not any(pods.claims for pods in pods_in(workload.groups)):
        return verdict
    if workload.admission or workload.gang is not None or workload.doubt:
        return Verdict(
            "unclear",
            limitation="it is unknown which devices the resource claims of its pods get",
        )
    return by_devices(
        workload.groups,
        question.levels,
        question.nodes,
        cluster.snapshot.inventory,
        cluster.claims,
        can_lack_levels=question.can_lack_levels,
    )


def tolerations(question: Question, verdict: Verdict) -> Verdict:
    """Whether the workload would fit if its pods tolerated some taints."""
    if not verdict.refuses:
        return verdict

    def without_tolerations(workload: Workload) -> Verdict | None:
        return _decided(question.about(workload), _DECIDERS_OF_THE_KIND)

    remedy = tolerate(question.workload, verdict, question.nodes, without_tolerations)
    if remedy is None:
        return verdict
    return replace(verdict, remedies=(remedy, *verdict.remedies))


DECIDERS: Final[tuple[Decider, ...]] = (
    by_holders,  # domains that other groups hold exclusively
    by_leaders,  # pods that choose the domain for others before those exist
    certainty,  # a placement that the scheduler may miss
    parts,  # gangs that it places one after the other
    own_procedure,  # its order, allocation, queue and quota
    by_pod_rules,  # what its pods forbid each other
    minimum,  # what starts, though not all of it does
    evictions,  # which pods to drain if it does not fit now
    preemption,  # which pods kube-scheduler evicts if it does not fit now
    devices,  # what its resource claims get
    creation,  # what keeps its pods from being created or scheduled
    tolerations,  # taints that keep it out; asks the deciders above again
)
"""What changes the verdict of the search for a placement, first to last."""
_DECIDERS_OF_THE_KIND: Final = DECIDERS[:-1]
"""All but the last, which adds a remedy and leaves the verdict's kind as it is."""
