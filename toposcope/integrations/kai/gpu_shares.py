"""How many pods with a fraction of a GPU fit on each node.

Source: KAI (main of March 2026: scheduler/api/{pod_info,node_info}, binder/plugins/gpusharing). A
pod of KAI's own on the node requests each GPU that is shared, so that no device plugin hands it
out; pods that share one have its group in a label. KAI fills GPUs that are shared before it takes
another one, the fullest first. A GPU has the memory that GPU Feature Discovery labels the node
with, rounded down to hundreds of MiB, and 100 without that label.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import GpuShare, Group, OfferedNode, Pods
from toposcope.integrations.framework.placement import OfferedShares, ViewedPod
from toposcope.integrations.kai.api import GPU_GROUP
from toposcope.integrations.kai.pod_shares import share_of, whole_number_of

_MEMORY: Final = "nvidia.com/gpu.memory"
_MIG_WORKER: Final = "node-role.kubernetes.io/mig-enabled"
_MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
_MIG_RESOURCE: Final = "nvidia.com/mig-"
_MIG_TRUE: Final = re.compile(r"1|t|T|TRUE|true|True", re.ASCII)
_UNLABELLED_MIB: Final = 100
_ROUNDED_TO_MIB: Final = 100
_LEAST_BYTES: Final = 1 << 20
"""A label with a larger value is in bytes, because of an old bug of GPU Feature Discovery."""
_BYTES_PER_MIB: Final = 1 << 20
_MOST_PODS: Final = 512
"""More pods than fit on any node."""


def in_whole_gpus(groups: Iterable[Group]) -> list[Group]:
    """The groups as if no pod shared a GPU with another one."""
    return [group.with_pods(_in_whole_gpus) for group in groups]


def _in_whole_gpus(pods: Pods) -> Pods:
    if pods.share is None:
        return pods
    return pods.instead_of_share(ALLOCATABLE_GPUS, pods.share.devices)


def offered_shares(node: OfferedNode, share: GpuShare, pods: Sequence[ViewedPod]) -> OfferedShares:
    """How many pods with the share fit on the node, with its `pods` and without them."""
    if not _takes_shares(node):
        return OfferedShares(0, 0)
    memory = _memory_of(node)
    need = _mib_of(share, memory)
    if not _is_possible(share, memory):
        return OfferedShares(0, 0)

    groups = _groups_on(node, pods)
    idle = node.free.get(ALLOCATABLE_GPUS, 0) + _reserved(pods) - len(groups)
    rooms = [max(memory - used, 0) // need for used in groups.values()]
    pods_on_empty_gpu = max(memory // need, 1)
    rooms += [pods_on_empty_gpu] * max(idle, 0)
    empty = [pods_on_empty_gpu] * node.total.get(ALLOCATABLE_GPUS, 0)
    return OfferedShares(_taken(rooms, share.devices), _taken(empty, share.devices))


def gpus_of_share(share: GpuShare, nodes: Iterable[OfferedNode]) -> float:
    """The fewest GPUs that a share counts for in a queue: on the node with the largest GPUs."""
    if share.fraction:
        return share.fraction * share.devices
    largest = max((_memory_of(node) for node in nodes), default=_UNLABELLED_MIB)
    portion = math.ceil(share.memory_mib / largest * 100) / 100
    return portion * share.devices


def _takes_shares(node: OfferedNode) -> bool:
    """Whether KAI uses the node: not if its GPUs are partitioned by a MIG strategy."""
    worker = node.labels.get(_MIG_WORKER)
    if worker is not None:
        has_mig = _MIG_TRUE.fullmatch(worker) is not None
    else:
        has_mig = any(resource.startswith(_MIG_RESOURCE) for resource in node.total)
    return not has_mig or node.labels.get(_MIG_STRATEGY) not in ("single", "mixed")


def _memory_of(node: OfferedNode) -> int:
    """The memory that KAI assumes for each GPU of a node, in MiB."""
    labelled = whole_number_of(node.labels.get(_MEMORY, ""))
    if not labelled:
        return _UNLABELLED_MIB
    if labelled >= _LEAST_BYTES:
        labelled //= _BYTES_PER_MIB
    return labelled - labelled % _ROUNDED_TO_MIB or _UNLABELLED_MIB


def _mib_of(share: GpuShare, memory: int) -> int:
    """The memory that a share takes of each of its GPUs, in MiB."""
    return share.memory_mib or max(int(share.fraction * memory), 1)


def _is_possible(share: GpuShare, memory: int) -> bool:
    """Whether KAI accepts it as a fraction of a GPU: at most one, or a whole number."""
    if not share.memory_mib:
        return True
    portion = math.ceil(share.memory_mib / memory * 100) / 100
    return portion <= 1 or portion == int(portion)


def _groups_on(node: OfferedNode, pods: Sequence[ViewedPod]) -> dict[str, int]:
    """By group: how much memory of its GPU is taken, in MiB.

    Pods that share and that have no group yet have their GPUs to themselves.
    """
    memory = _memory_of(node)
    memory_by_group: dict[str, int] = {}
    for pod in pods:
        share = share_of(pod.annotations)
        if share is None:
            continue
        groups = _groups_of(pod)
        if not groups:
            groups = [f"{pod.namespace}/{pod.name} {number}" for number in range(share.devices)]
        for group in groups:
            memory_by_group[group] = memory_by_group.get(group, 0) + _mib_of(share, memory)
    return memory_by_group


def _groups_of(pod: ViewedPod) -> list[str]:
    """The GPUs that a pod shares, by KAI's names for them."""
    prefix = f"{GPU_GROUP}/"
    groups = []
    for label, value in pod.labels.items():
        if label == GPU_GROUP:
            groups.append(value)
        elif label.startswith(prefix):
            groups.append(label.removeprefix(prefix))
    return groups


def _reserved(pods: Sequence[ViewedPod]) -> int:
    """The GPUs that KAI's reservation pods request because others share them."""
    reserved = 0
    for pod in pods:
        if GPU_GROUP in pod.labels and share_of(pod.annotations) is None:
            reserved += pod.requests.get(ALLOCATABLE_GPUS, 0)
    return reserved


def _taken(rooms: Sequence[int], devices: int) -> int:
    """How many pods find GPUs, each the fullest ones with room."""
    left = sorted(room for room in rooms if room)
    if devices == 1:
        return min(sum(left), _MOST_PODS)
    count = 0
    while len(left) >= devices and count < _MOST_PODS:
        for place in range(devices):
            left[place] -= 1
        left = sorted(room for room in left if room)
        count += 1
    return count
