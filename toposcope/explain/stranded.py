"""Pods that can go to one domain only, because KAI bound the first pods of their gang there.

Source: KAI 0.17.0, pkg/scheduler/plugins/topology/job_filtering.go: once pods of a group have
nodes, the others may go to the domains of the required level that hold these, and nowhere else.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from toposcope.api.levels import Level
from toposcope.explain.context import Context
from toposcope.explain.topology_steps import tree_command
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.features import Step, failed, passed
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.kai.api import BATCH_MIN_MEMBER
from toposcope.integrations.kai.gang_size import JOB
from toposcope.kube.pod_resources import Requests
from toposcope.placement.check import Checker
from toposcope.placement.sentences import advice, answer
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot

_SYSTEM: Final = "KAI"


def check_stranded(context: Context) -> Step | None:
    """Whether the waiting pods find room in the domain that holds the others; None where they are not bound to one."""
    for workload in context.workloads:
        group = _pinned(workload)
        if group is None or group.required is None:
            continue

        upper = _upper(context, workload, group.required)
        held = {_domain(context.snapshot, pod.node, upper) for pod in context.placed}
        if len(held) == 1 and (domain := held.pop()) and len(domain) == len(upper):
            return _step(context, workload, group, upper, domain)

    return None


def _pinned(workload: Workload) -> Group | None:
    """The one group of equal pods that KAI keeps in the domain of its first pods."""
    if workload.system != _SYSTEM or not workload.placeable or len(workload.groups) != 1:
        return None

    group = workload.groups[0]
    return (
        group
        if group.required and group.copies == 1 and len(group.pods) == 1 and not group.groups
        else None
    )


def _upper(context: Context, workload: Workload, level: Level) -> tuple[Level, ...]:
    levels = context.levels(workload)
    return levels[: levels.index(level) + 1] if level in levels else ()


def _domain(snapshot: Snapshot, node: str, upper: tuple[Level, ...]) -> Path:
    view = snapshot.by_name.get(node)
    values = (view.label(level.key) for level in upper) if view else ()
    return tuple(value for value in values if value is not None)


def _step(
    context: Context, workload: Workload, group: Group, upper: tuple[Level, ...], domain: Path
) -> Step:
    there, left = len(context.placed), len(context.waiting)
    snapshot = without_own(context)
    inside = tuple(node for node in snapshot.nodes if _domain(snapshot, node.name, upper) == domain)
    waiting = replace(group, pods=(replace(group.pods[0], count=left),), preferred=None)
    verdict = Checker(replace(snapshot, nodes=inside)).verdict(
        replace(workload, groups=(waiting,), gang=None)
    )
    where, total = f"{upper[-1].domain} {domain[-1]}", there + left
    if verdict is None or verdict.kind == "fits":
        return passed(
            f"{where}, which holds {there} of its {total} pods, has room for the other {left}"
        )

    return failed(
        f"{there} of its {total} pods are in {where}, KAI places the other {left} nowhere else, and there is no room",
        answer(verdict),
        *advice(verdict),
        *_way_out(context, workload, total),
        commands=(tree_command(workload.topology, upper[-1].domain),),
    )


def _way_out(context: Context, workload: Workload, total: int) -> Iterator[str]:
    """Where all of its pods would fit, were they to start anew and together."""
    group = replace(workload.groups[0], pods=(replace(workload.groups[0].pods[0], count=total),))
    verdict = context.checker.verdict(replace(workload, groups=(group,), gang=True))
    if verdict is None or verdict.kind != "fits":
        return

    if workload.gang:
        yield f"delete its pods, and KAI places all of them again: {answer(verdict)}"
    elif (context.explained.group, context.explained.kind) == JOB:
        minimum = f'{BATCH_MIN_MEMBER}: "{total}"'
        yield f"or recreate the Job with {minimum}, so that its pods start together: {answer(verdict)}"
    else:
        yield f"or make its pods a PodGroup with minMember: {total}, so that they start together: {answer(verdict)}"


def without_own(context: Context) -> Snapshot:
    """The cluster as if what its own pods hold did not exist: draining the pods of others does not free that."""
    own = replace(context.snapshot, pods=context.placed).requested
    placed = {(pod.namespace, pod.name) for pod in context.placed}

    return replace(
        context.snapshot,
        nodes=tuple(_less(node, own.get(node.name, NOTHING)) for node in context.snapshot.nodes),
        pods=tuple(
            pod for pod in context.snapshot.pods or () if (pod.namespace, pod.name) not in placed
        ),
    )


def _less(node: NodeView, taken: Requests) -> NodeView:
    if not taken:
        return node

    left = {name: amount - taken.get(name, 0) for name, amount in node.allocatable.items()}
    return msgspec.structs.replace(node, allocatable=left)
