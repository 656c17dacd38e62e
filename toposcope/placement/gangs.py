"""What becomes of a verdict where KAI places the pods: it does not try every placement, and a Job is no gang to it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.verdict import Kind, Placed, Verdict
from toposcope.integrations.kai.allocation import VERSION, Allocator, Leaf, TooLargeError, Unplaced
from toposcope.integrations.kai.queues import excess
from toposcope.placement.room import Node
from toposcope.text import plural

_GPU: Final = ALLOCATABLE_GPUS


def by_kai(
    verdict: Verdict, workload: Workload, levels: Sequence[Level], nodes: Iterable[Node]
) -> Verdict:
    """The verdict that KAI's own allocation leads to.

    `nodes` are all of the cluster: KAI knows nothing of a ClusterTopology's selector, and takes a
    placeholder for a value like any other. The verdict stays as it is where the allocation is too
    large to follow.
    """
    nodes = list(nodes)
    place = _as_gang if workload.gang else _one_by_one
    try:
        return place(verdict, workload.pod_groups or workload.groups, levels, nodes)
    except TooLargeError:
        return verdict


def in_queue(
    verdict: Verdict, workload: Workload, cluster: ClusterFacts, own: Mapping[str, int]
) -> Verdict:
    """The verdict where a limit or a quota of its queue, or of one above, keeps it waiting; `own` it has already."""
    wanted = Counter[str]()
    for group in workload.pod_groups or workload.groups:
        wanted.update({name: amount * group.copies for name, amount in group.total().items()})
    over = excess(cluster, workload.queue, wanted, own, preemptible=workload.preemptible)
    if over is None or verdict.kind == "never":
        return verdict
    most, used, asked = (
        amount(over.resource, count) for count in (over.most, over.used, over.wanted)
    )
    text = f"KAI's queue {over.queue} has a {over.what} of {most}, {used} of it allocated, and this asks for {asked}"
    if over.what == "quota":
        text += "; preemptible workloads may go beyond it"
    return _limited(verdict, "never" if over.wanted > over.most else "full", text)


def leaf_of(node: Node, levels: Sequence[Level], *, emptied: bool) -> Leaf:
    """A node as KAI sees it; `emptied`: as if no pod ran on it, Ready and not cordoned."""

    def usable(pods: Pods) -> bool:
        closed = node.obstacle and not emptied
        return not closed and not pods.node_filter.rejection(node.name, node.labels, node.taints)

    path = (
        tuple(node.labels[level.key] for level in levels)
        if all(level.key in node.labels for level in levels)
        else None
    )
    return Leaf(path, node.total if emptied else node.free, not node.total.get(_GPU), usable)


def _as_gang(
    verdict: Verdict, groups: Sequence[Group], levels: Sequence[Level], nodes: Sequence[Node]
) -> Verdict:
    allocator = Allocator(levels, [leaf_of(node, levels, emptied=False) for node in nodes])
    failure = allocator.place(groups)
    if failure is None:
        return verdict if verdict.kind == "fits" else _fits(verdict, allocator, nodes)
    empty = Allocator(levels, [leaf_of(node, levels, emptied=True) for node in nodes])
    kind: Kind = "never" if empty.place(groups) else "full"
    if verdict.kind == kind:
        return verdict  # there is no room for it, whoever places it
    return _limited(verdict, kind, _limitation(failure, levels))


def _fits(verdict: Verdict, allocator: Allocator, nodes: Sequence[Node]) -> Verdict:
    return Verdict(
        "fits", _placed(allocator, nodes), steps=verdict.steps, excluded=verdict.excluded
    )


def _limited(verdict: Verdict, kind: Kind, limitation: str) -> Verdict:
    return Verdict(kind, steps=verdict.steps, excluded=verdict.excluded, limitation=limitation)


def _placed(allocator: Allocator, nodes: Sequence[Node]) -> tuple[Placed, ...]:
    where: dict[int, tuple[Group, Counter[str]]] = {}
    for group, _, leaf, count in allocator.assignments:
        where.setdefault(id(group), (group, Counter()))[1][nodes[leaf].name] += count
    return tuple(Placed(group, (), tuple(counts.items())) for group, counts in where.values())


def _limitation(failure: Unplaced, levels: Sequence[Level]) -> str:
    group, required = failure.group, failure.group.required
    if failure.why == "narrower" and required:
        narrow = levels[len(failure.domain) - 1].domain
        return (
            f"{VERSION} finds no {required.domain} for {group.name}: all nodes that it looks at are in one {narrow} "
            f"({failure.domain[-1]}), and without a preferred level it looks no higher; prefer {required.key}, too"
        )
    if failure.why == "largest":
        where = f"the best {required.domain}" if required else "the whole topology"
        return (
            f"{VERSION} counts every pod of {group.name} as its largest: by this count {where} takes {failure.fits} of "
            f"{failure.wanted} pods; request the same for every pod"
        )
    return (
        f"{VERSION} takes sub-groups by their names and pods by their age, and moves none to make room: {group.name} "
        f"finds room for {failure.fits} of {failure.wanted} pods"
    )


def _one_by_one(
    verdict: Verdict, groups: Sequence[Group], levels: Sequence[Level], nodes: Sequence[Node]
) -> Verdict:
    (group,) = groups
    leaves = [leaf_of(node, levels, emptied=False) for node in nodes]
    allocator = Allocator(levels, leaves)
    domain, count = allocator.place_one_by_one(group)
    wanted = sum(pods.count for pods in group.pods)
    if count == wanted:
        return verdict if verdict.kind == "fits" else _fits(verdict, allocator, nodes)
    if not count and verdict.kind in {"fits", "unclear"}:
        return _as_gang(verdict, groups, levels, nodes)
    if not count or (verdict.kind in {"full", "never"} and domain is None):
        return verdict
    where = (
        f"in {group.required.domain} {domain[-1]}, where the first one goes"
        if group.required and domain
        else "now"
    )
    left = wanted - count
    text = (
        f"{VERSION} starts the pods of {group.name} one by one: it binds {count} of {wanted} {where}, and the other "
        f"{left} {plural(left, 'waits', 'wait')}"
    )
    if Allocator(levels, leaves).place(groups) is None:
        text += "; as a gang all of them fit now"
    return _limited(verdict, "never" if verdict.kind == "never" else "full", text)
