"""What a verdict does not say: that one `nvidia.com/gpu` of some nodes is a share of a GPU.

Schedulers cannot tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods, Workload
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.verdict import Verdict
from toposcope.kube.gpu_shares import Shares
from toposcope.placement.room import Node, path_of
from toposcope.text import listing, plural

_MOST_NAMES: Final = 3

NodeShares = Mapping[str, tuple[Shares, ...]]
"""By node: what it offers in shares of its GPUs."""


@dataclass(frozen=True, slots=True)
class SharedRoom:
    """Nodes that a workload may use, and on which what it takes for GPUs are shares."""

    nodes: tuple[str, ...]
    kinds: tuple[str, ...]
    """What they offer: `time slices`."""

    @property
    def named(self) -> str:
        """`sliced (time slices)`."""
        return f"{listing(self.nodes, _MOST_NAMES)} ({listing(self.kinds, _MOST_NAMES)})"


def shared_room(workload: Workload, nodes: Sequence[Node], shares: NodeShares) -> SharedRoom | None:
    """The nodes with shares that pods with GPUs of this workload may use; None where there are none."""
    pods = [kind for kind in _pods_of(workload) if dict(kind.requests).get(ALLOCATABLE_GPUS)]
    if not pods or not shares:
        return None
    names: list[str] = []
    kinds: dict[str, None] = {}
    for node in nodes:
        shared = next(
            (one for one in shares.get(node.name, ()) if one.resource == ALLOCATABLE_GPUS), None
        )
        if shared and any(_may_use(node, kind) for kind in pods):
            names.append(node.name)
            kinds[shared.described] = None
    return SharedRoom(tuple(names), tuple(kinds)) if names else None


def with_shares(
    verdict: Verdict, room: SharedRoom, nodes: Sequence[Node], levels: Sequence[Level]
) -> Verdict:
    """The verdict on a workload that fits on shares only: what is free in its best domain is not called GPUs."""
    verdict = replace(verdict, on_shares=True)
    best = verdict.best
    if best is None or best.resource != ALLOCATABLE_GPUS:
        return verdict
    shared = set(room.nodes)
    inside = (node for node in nodes if path_of(node, levels)[0][: len(best.domain)] == best.domain)
    if not any(node.name in shared for node in inside):
        return verdict
    return replace(verdict, best=replace(best, whole=False))


def told(room: SharedRoom, verdict: Verdict, whole: Verdict | None) -> Finding | str:
    """A warning where it fits on shares only, else a note; `whole` is the verdict on nodes with whole GPUs alone."""
    count = len(room.nodes)
    where = f"{ALLOCATABLE_GPUS} is a share of a GPU on {count} {plural(count, 'node')} that it may use: {room.named}"
    if verdict.kind != "fits":
        return f"{where}; these count here as they do for the scheduler"
    if whole and whole.kind == "fits":
        return f"{where}; it fits on whole GPUs too, but the scheduler does not tell them apart"
    fix = "if it needs whole GPUs, keep it off these nodes, such as by node affinity on nvidia.com/gpu.sharing-strategy"
    return Finding(RULE, "warning", "", f"it fits on shares of GPUs only: {where}", fix)


RULE: Final = "gpus/shares"


def _pods_of(workload: Workload) -> list[Pods]:
    nested = [group for top in workload.groups for group, _ in top.everything()]
    return [pods for group in nested for pods in group.pods]


def _may_use(node: Node, pods: Pods) -> bool:
    return not node.obstacle and not pods.node_filter.rejection(node.name, node.labels, node.taints)
