"""The gangs of a cluster: pods that work together, whatever system started them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.plugin import GangMark
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.integrations.kubernetes.gangs import group_of
from toposcope.integrations.registry import GANG_MARKS
from toposcope.kube.pod_resources import gpu_count
from toposcope.snapshot.model import Owner, PodView, Snapshot

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
    """The label key of the level that all of it has to stay within, if an object for it says so."""

    @property
    def handle(self) -> str:
        """`ml/train`, as tables and flags name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name

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
        """The scheduler that places it: the name in `schedulerName`."""
        return self.pods[0].scheduler or DEFAULT_SCHEDULER

    @property
    def ends(self) -> bool:
        """Whether it ends by itself: Jobs of any kind and pods without an owner."""
        return all(ends(pod) for pod in self.pods)


def ends(pod: PodView) -> bool:
    """Whether a pod ends by itself: that of a Job of any kind, or one without an owner."""
    return pod.owner is None or pod.owner.kind.endswith("Job")


def gangs_of(
    snapshot: Snapshot, required: Mapping[tuple[str, str, str], str] = MappingProxyType({})
) -> tuple[Gang, ...]:
    """All gangs with GPUs, by namespace and name; a pod that belongs to none is a gang by itself.

    Shares of GPUs do not count. `required` is `RequiredLevels.keys`.
    """
    members: dict[_Mark, list[PodView]] = {}
    for pod in snapshot.in_whole_gpus.pods or ():
        if gpu_count(pod.requests):
            mark = _mark_of(pod)
            members.setdefault(mark, []).append(pod)

    gangs = []
    for mark in sorted(members):
        key = mark.kind, mark.namespace, mark.name
        level = required.get(key, "")
        gangs.append(_gang(mark, members[mark], level))
    return tuple(gangs)


class _Mark(NamedTuple):
    """What a pod belongs to; in the order in which gangs are listed."""

    namespace: str
    name: str
    kind: str


def _gang(mark: _Mark, pods: Sequence[PodView], required: str) -> Gang:
    """The gang, named after the owner of all its pods where a system made an object for that.

    A Job says more than the PodGroup made for it.
    """
    gang = Gang(
        kind=mark.kind,
        namespace=mark.namespace,
        name=mark.name,
        pods=tuple(pods),
        required=required,
    )
    owner = _common_owner(pods)
    if owner is None or owner.kind in _NO_GANG:
        return gang
    if mark.kind not in _MADE_FOR_OWNERS:
        return gang
    return replace(gang, kind=owner.kind, name=owner.name)


def _common_owner(pods: Sequence[PodView]) -> Owner | None:
    """The owner that all of them share."""
    first = pods[0].owner
    for pod in pods:
        if pod.owner != first:
            return None
    return first


def _mark_of(pod: PodView) -> _Mark:
    """What the pod belongs to."""
    pod_group = group_of(Field(pod.wants))
    if pod_group:
        return _Mark(pod.namespace, pod_group, "PodGroup")
    for mark in GANG_MARKS:
        name = _name_by(mark, pod)
        if name is not None:
            return _Mark(pod.namespace, name, mark.kind)
    owner = pod.owner
    if owner and owner.kind not in _NO_GANG:
        return _Mark(pod.namespace, owner.name, owner.kind)
    return _Mark(pod.namespace, pod.name, "Pod")


def _name_by(mark: GangMark, pod: PodView) -> str | None:
    """The name of the gang by this mark; None where the pod does not have it."""
    texts = pod.labels
    if mark.is_annotation:
        texts = pod.annotations
    values = []
    for key in mark.keys:
        if key not in texts:
            return None
        values.append(texts[key])
    if values[0].startswith(mark.single):
        return None
    return "-".join(values)


def named(gangs: Iterable[Gang], wanted: str) -> tuple[Gang, ...]:
    """The gangs that are called `NAME` or `NAMESPACE/NAME`."""
    namespace, _, name = wanted.rpartition("/")
    matching = []
    for gang in gangs:
        if gang.name == name and namespace in ("", gang.namespace):
            matching.append(gang)
    return tuple(matching)
