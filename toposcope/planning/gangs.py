"""The gangs of a cluster: pods that are scheduled and do their work together, whatever system started them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.plugin import GangMark
from toposcope.integrations.kubernetes.gangs import group_of
from toposcope.integrations.registry import GANG_MARKS
from toposcope.kube.pod_resources import gpu_count
from toposcope.snapshot.model import PodView, Snapshot

_MADE_FOR_OWNERS: Final = ("Workload", "PodGroup")
"""Kinds of gangs that systems make for other objects."""
_NO_GANG: Final = ("ReplicaSet", "ReplicationController", "DaemonSet", "Node")
"""Owners whose pods are independent of each other."""


@dataclass(frozen=True)
class Gang:
    """Pods that belong together; those without GPUs are left out."""

    kind: str
    namespace: str
    name: str
    pods: tuple[PodView, ...]
    required: str = ""
    """The label key of the level that all of it has to stay within, where an object for the gang says so."""

    @property
    def handle(self) -> str:
        """`ml/train`, as tables and flags name it."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def placed(self) -> tuple[PodView, ...]:
        """The pods that have a node."""
        return tuple(pod for pod in self.pods if pod.node)

    @cached_property
    def gpus(self) -> int:
        """GPUs that its placed pods hold."""
        return sum(gpu_count(pod.requests) for pod in self.placed)

    @property
    def scheduler(self) -> str:
        """Who places it: the name in `schedulerName`."""
        return self.pods[0].scheduler or "default-scheduler"

    @property
    def ends(self) -> bool:
        """Whether it ends by itself: Jobs of any kind and pods that nobody owns."""
        return all(not pod.owner or pod.owner.kind.endswith("Job") for pod in self.pods)


def gangs_of(
    snapshot: Snapshot, required: Mapping[tuple[str, str, str], str] = MappingProxyType({})
) -> tuple[Gang, ...]:
    """All gangs with GPUs, by namespace and name; a pod that belongs to none is one of its own.

    Shares are no GPUs.

    `required`: as of `RequiredLevels.keys`.
    """
    members: dict[_Mark, list[PodView]] = {}
    for pod in snapshot.in_whole_gpus.pods or ():
        if gpu_count(pod.requests):
            members.setdefault(_mark_of(pod), []).append(pod)
    gangs = []
    for mark, pods in sorted(members.items()):
        gangs.append(_gang(mark, pods, required.get((mark.kind, mark.namespace, mark.name), "")))
    return tuple(gangs)


class _Mark(NamedTuple):
    """What a pod belongs to; in the order in which gangs are listed."""

    namespace: str
    name: str
    kind: str


def _gang(mark: _Mark, pods: Sequence[PodView], required: str) -> Gang:
    """Named after the one owner of its pods where that says more: a Job rather than an object made for it."""
    owners = {pod.owner for pod in pods}
    owner = owners.pop() if len(owners) == 1 else None
    kind, name = mark.kind, mark.name
    if owner and kind in _MADE_FOR_OWNERS and owner.kind not in _NO_GANG:
        kind, name = owner.kind, owner.name
    return Gang(kind, mark.namespace, name, tuple(pods), required)


def _mark_of(pod: PodView) -> _Mark:
    """What the pod belongs to."""
    pod_group = group_of(Field(pod.wants))
    if pod_group:
        return _Mark(pod.namespace, pod_group, "PodGroup")
    for mark in GANG_MARKS:
        name = _name_by(mark, pod)
        if name is not None:
            return _Mark(pod.namespace, name, mark.kind)
    if pod.owner and pod.owner.kind not in _NO_GANG:
        return _Mark(pod.namespace, pod.owner.name, pod.owner.kind)
    return _Mark(pod.namespace, pod.name, "Pod")


def _name_by(mark: GangMark, pod: PodView) -> str | None:
    """The name of the gang by this mark; None where the pod does not have it."""
    texts = pod.annotations if mark.annotation else pod.labels
    if not all(key in texts for key in mark.keys):
        return None
    values = [texts[key] for key in mark.keys]
    return None if values[0].startswith(mark.single) else "-".join(values)


def named(gangs: Iterable[Gang], wanted: str) -> tuple[Gang, ...]:
    """The gangs that are called `NAME` or `NAMESPACE/NAME`."""
    namespace, _, name = wanted.rpartition("/")
    found = []
    for gang in gangs:
        if gang.name == name and namespace in ("", gang.namespace):
            found.append(gang)
    return tuple(found)
