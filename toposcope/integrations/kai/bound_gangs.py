"""Pods that can go to one domain only, because KAI bound the first pods of their gang there.

Source: KAI 0.17.0, pkg/scheduler/plugins/topology/job_filtering.go: once pods of a group have
nodes, the others may go to the domains of the required level that hold these, and nowhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.features import CheckStep, failed, passed
from toposcope.integrations.framework.waiting import WaitingWorkload, tree_command
from toposcope.integrations.kai.api import BATCH_MIN_MEMBER
from toposcope.integrations.kai.gang_size import JOB
from toposcope.text import plural

_SYSTEM: Final = "KAI"
_Path = tuple[str, ...]


def check_bound(explained: WaitingWorkload) -> CheckStep | None:
    """Whether the waiting pods have room in the domain of the others; None without one."""
    for workload in explained.workloads:
        gang = _bound_gang(explained, workload)
        if gang:
            return _step(explained, gang)

    return None


@dataclass(frozen=True, slots=True)
class _BoundGang:
    """A group of equal pods that KAI keeps in the domain of its first pods."""

    workload: Workload
    group: Group
    upper: tuple[Level, ...]
    """The levels down to the one that it requires."""
    domain: _Path
    """The domain of its first pods."""


def _bound_gang(explained: WaitingWorkload, workload: Workload) -> _BoundGang | None:
    group = _group_of_equal_pods(workload)
    if group is None or group.required is None:
        return None

    upper = _upper(explained, workload, group.required)
    domains = {_domain(explained, pod.node, upper) for pod in explained.placed}
    if len(domains) != 1:
        return None

    domain = domains.pop()
    if not domain or len(domain) != len(upper):
        return None
    return _BoundGang(workload, group, upper, domain)


def _group_of_equal_pods(workload: Workload) -> Group | None:
    """The group of a KAI workload that consists of one group of identical pods."""
    if workload.system != _SYSTEM or not workload.is_placeable:
        return None
    if len(workload.groups) != 1:
        return None
    group = workload.groups[0]
    if group.groups or group.copies != 1 or len(group.pods) != 1:
        return None
    return group


def _upper(explained: WaitingWorkload, workload: Workload, level: Level) -> tuple[Level, ...]:
    levels = tuple(explained.levels(workload))
    if level not in levels:
        return ()
    return levels[: levels.index(level) + 1]


def _domain(explained: WaitingWorkload, name: str, upper: tuple[Level, ...]) -> _Path:
    node = explained.cluster_nodes.get(name)
    if node is None:
        return ()

    path: list[str] = []
    for level in upper:
        value = node.label(level.key)
        if value is not None:
            path.append(value)
    return tuple(path)


def _step(explained: WaitingWorkload, gang: _BoundGang) -> CheckStep:
    placed = len(explained.placed)
    pending = len(explained.waiting)
    total = placed + pending
    inside = []
    for name in explained.cluster_nodes:
        if _domain(explained, name, gang.upper) == gang.domain:
            inside.append(name)

    waiting = replace(_of_size(gang.group, pending), preferred=None)
    others = replace(gang.workload, groups=(waiting,), gang=None)
    verdict = explained.verdict_within(others, inside)
    level = gang.upper[-1].domain
    where = f"{level} {gang.domain[-1]}"
    if verdict is None or verdict.kind == "fits":
        return passed(
            f"{where}, which holds {placed} of its {total} pods, has room for the other {pending}"
        )

    are = plural(placed, "is", "are")
    return failed(
        f"{placed} of its {total} pods {are} in {where}; KAI places the other {pending} only "
        "there, and there is no room",
        explained.answer(verdict),
        *explained.advice(verdict),
        *_one_by_one(explained, gang.workload),
        *_way_out(explained, gang.workload, total),
        commands=(tree_command(gang.workload.topology, level),),
    )


def _of_size(group: Group, count: int) -> Group:
    """The group with `count` of its pods."""
    pods = replace(group.pods[0], count=count)
    return replace(group, pods=(pods,))


def _one_by_one(explained: WaitingWorkload, workload: Workload) -> Iterator[str]:
    """Why some of its pods could start without the others; empty for a gang."""
    if not workload.gang:
        kind = explained.explained.kind
        yield (
            f"KAI 0.17 does not treat this {kind} as a gang: the first pod to start chose the "
            "domain"
        )


def _way_out(explained: WaitingWorkload, workload: Workload, total: int) -> Iterator[str]:
    """How to make all of its pods start together, if they would fit."""
    full_gang = _of_size(workload.groups[0], total)
    anew = replace(workload, groups=(full_gang,), gang=True)
    verdict = explained.verdict(anew)
    if verdict is None or verdict.kind != "fits":
        return

    answer = explained.answer(verdict)
    ref = explained.explained
    if workload.gang:
        yield f"delete its pods, so that KAI places all of them again: {answer}"
    elif (ref.group, ref.kind) == JOB:
        minimum = f'{BATCH_MIN_MEMBER}: "{total}"'
        yield f"or recreate the Job with {minimum}, so that its pods start together: {answer}"
    else:
        yield (
            f"or create a PodGroup for its pods with minMember: {total}, so that they start "
            f"together: {answer}"
        )
