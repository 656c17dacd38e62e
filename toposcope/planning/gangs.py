"""The gangs of a cluster: pods that are scheduled and do their work together, whatever system started them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.kubernetes.gangs import group_of
from toposcope.integrations.registry import GANG_MARKS
from toposcope.kube.pod_resources import gpu_count
from toposcope.snapshot.model import PodView, Snapshot

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
    members: dict[tuple[str, str, str], list[PodView]] = {}
    for pod in snapshot.in_whole_gpus.pods or ():
        if gpu_count(pod.requests):
            kind, name = _mark(pod)
            members.setdefault((pod.namespace, name, kind), []).append(pod)
    return tuple(
        _gang(namespace, name, kind, pods, required.get((kind, namespace, name), ""))
        for (namespace, name, kind), pods in sorted(members.items())
    )


def _gang(namespace: str, name: str, kind: str, pods: Iterable[PodView], required: str) -> Gang:
    """Named after the one owner of its pods where that says more: a Job rather than Kueue's Workload for it."""
    members = tuple(pods)
    owners = {pod.owner for pod in members}
    owner = owners.pop() if len(owners) == 1 else None
    if owner and kind in ("Workload", "PodGroup") and owner.kind not in _NO_GANG:
        kind, name = owner.kind, owner.name
    return Gang(kind, namespace, name, members, required)


def _mark(pod: PodView) -> tuple[str, str]:
    """Kind and name of what the pod belongs to."""
    if name := group_of(Field(pod.wants)):
        return "PodGroup", name
    for mark in GANG_MARKS:
        texts = pod.annotations if mark.annotation else pod.labels
        values = [texts[key] for key in mark.keys if key in texts]
        if len(values) == len(mark.keys) and not values[0].startswith(mark.single):
            return mark.kind, "-".join(values)
    if pod.owner and pod.owner.kind not in _NO_GANG:
        return pod.owner.kind, pod.owner.name
    return "Pod", pod.name


def named(gangs: Iterable[Gang], wanted: str) -> tuple[Gang, ...]:
    """The gangs that are called `NAME` or `NAMESPACE/NAME`."""
    namespace, _, name = wanted.rpartition("/")
    return tuple(gang for gang in gangs if gang.name == name and namespace in ("", gang.namespace))
