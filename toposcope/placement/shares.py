"""Remarks on verdicts that count shares of GPUs, which some nodes offer as `nvidia.com/gpu`.

Schedulers cannot tell shares from GPUs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods, Workload, pods_in
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.verdict import Best, Verdict
from toposcope.kube.gpu_shares import Shares
from toposcope.placement.room import RoomNode, path_of
from toposcope.text import listing, plural

RULE: Final = "gpus/shares"
_MOST_NAMES: Final = 3

NodeShares = Mapping[str, tuple[Shares, ...]]
"""By node: the shares of its GPUs that it offers."""


@dataclass(frozen=True, slots=True)
class SharedRoom:
    """Nodes that a workload may use and that offer shares as GPUs."""

    nodes: tuple[str, ...]
    kinds: tuple[str, ...]
    """What they offer: `time slices`."""

    @property
    def named(self) -> str:
        """`sliced (time slices)`."""
        nodes = listing(self.nodes, _MOST_NAMES)
        kinds = listing(self.kinds, _MOST_NAMES)
        return f"{nodes} ({kinds})"


def shared_room(
    workload: Workload, nodes: Sequence[RoomNode], shares: NodeShares
) -> SharedRoom | None:
    """The nodes with shares that the workload's GPU pods may use; None if there are none."""
    pods = _pods_with_gpus(workload)
    if not pods:
        return None

    names: list[str] = []
    kinds: dict[str, None] = {}
    for node in nodes:
        shared = _shares_called_gpus(shares.get(node.name, ()))
        if shared and _may_be_used(node, pods):
            names.append(node.name)
            kinds[shared.described] = None
    return SharedRoom(tuple(names), tuple(kinds)) if names else None


def _pods_with_gpus(workload: Workload) -> list[Pods]:
    with_gpus = []
    for pods in pods_in(workload.groups):
        if dict(pods.requests).get(ALLOCATABLE_GPUS):
            with_gpus.append(pods)
    return with_gpus


def _shares_called_gpus(shares: Sequence[Shares]) -> Shares | None:
    for offered in shares:
        if offered.resource == ALLOCATABLE_GPUS:
            return offered
    return None


def _may_be_used(node: RoomNode, kinds: Sequence[Pods]) -> bool:
    """Whether some of these pods may use the node."""
    if node.obstacle:
        return False
    for pods in kinds:
        if not pods.node_filter.rejection(node.name, node.labels, node.taints):
            return True
    return False


def with_shares(
    verdict: Verdict, room: SharedRoom, nodes: Sequence[RoomNode], levels: Sequence[Level]
) -> Verdict:
    """The verdict on a workload that fits only on shares.

    Its best domain does not count free GPUs in words, because they are shares.
    """
    verdict = replace(verdict, is_on_shares=True)
    best = verdict.best
    if best is None or best.resource != ALLOCATABLE_GPUS:
        return verdict
    if not _has_shares(best, set(room.nodes), nodes, levels):
        return verdict
    return replace(verdict, best=replace(best, has_whole_gpus=False))


def _has_shares(
    best: Best, shared: Collection[str], nodes: Sequence[RoomNode], levels: Sequence[Level]
) -> bool:
    """Whether some of these nodes are in the best domain."""
    depth = len(best.domain)
    for node in nodes:
        if node.name in shared:
            path, _ = path_of(node, levels)
            if path[:depth] == best.domain:
                return True
    return False


def share_remark(
    room: SharedRoom, verdict: Verdict, on_whole_gpus: Verdict | None
) -> Finding | str:
    """A warning if it fits only on shares, else a note.

    `on_whole_gpus` is the verdict on nodes with whole GPUs alone.
    """
    count = len(room.nodes)
    nodes = plural(count, "node")
    where = (
        f"{ALLOCATABLE_GPUS} is a share of a GPU on {count} {nodes} that it may use: {room.named}"
    )
    if not verdict.fits:
        return f"{where}; these count as GPUs here, as they do for the scheduler"
    if on_whole_gpus and on_whole_gpus.fits:
        return f"{where}; it fits on whole GPUs too, but the scheduler cannot tell them apart"
    return Finding(
        rule=RULE,
        severity="warning",
        field="",
        message=f"it fits only on shares of GPUs: {where}",
        fix=(
            "if it needs whole GPUs, keep it off these nodes, "
            "for example with node affinity on nvidia.com/gpu.sharing-strategy"
        ),
    )
