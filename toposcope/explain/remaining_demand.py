"""What of a workload still needs room: all of it where its pods belong together, else only the pods that wait."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from toposcope.explain.context import Context
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.kube.pod_resources import Requests
from toposcope.placement.check import Checker
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot


@dataclass(frozen=True, slots=True)
class RemainingVerdict:
    """A verdict on a workload, or on what is left of it. `whole`: its pods that run count as still to be placed."""

    workload: Workload
    verdict: Verdict
    checker: Checker
    whole: bool


def remaining_verdicts(context: Context) -> Iterator[RemainingVerdict]:
    """The verdict for each system that asks for anything that can be placed."""
    for checked in context.checked:
        workload, verdict = checked.reading.workload, checked.verdict
        if workload is None or verdict is None:
            continue
        rest = _rest(workload, len(context.placed))
        if rest:
            checker = Checker(_beside_own(context))
            again = checker.verdict(rest)
            if again:
                yield RemainingVerdict(rest, again, checker, whole=False)
                continue
        yield RemainingVerdict(workload, verdict, context.checker, whole=bool(context.placed))


def _beside_own(context: Context) -> Snapshot:
    """The cluster as if what its own pods hold were not there at all: no drain of others brings that back."""
    own = replace(context.snapshot, pods=context.placed).requested
    gone = {(pod.namespace, pod.name) for pod in context.placed}
    return replace(
        context.snapshot,
        nodes=tuple(_less(node, own.get(node.name, NOTHING)) for node in context.snapshot.nodes),
        pods=tuple(pod for pod in context.snapshot.pods or () if (pod.namespace, pod.name) not in gone),
    )


def _less(node: NodeView, taken: Requests) -> NodeView:
    if not taken:
        return node
    left = {name: amount - taken.get(name, 0) for name, amount in node.allocatable.items()}
    return msgspec.structs.replace(node, allocatable=left)


def _rest(workload: Workload, placed: int) -> Workload | None:
    """The pods that are left when `placed` of them run; None where they belong together, or it is not known which."""
    groups = simplified(workload.groups)
    if not placed or not all(group.loose for group in groups):
        return None
    kinds = [pods for top in groups for group, _ in top.everything() for pods in group.pods]
    if len(kinds) != 1:
        return None
    count = sum(group.total().get("pods", 0) * group.copies for group in groups) - placed
    if count <= 0:
        return None
    return replace(workload, groups=(Group(groups[0].name, (replace(kinds[0], count=count),)),))
