"""One cluster with all that planning counts of it, each computed on first use."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toposcope.integrations.framework.node_affinity import Toleration
from toposcope.kube.pod_resources import is_gpu_part
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.planning.kept_gangs import KeptGang, kept_gangs
from toposcope.planning.repelling import Repelling, repelling_taints
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import Score, scores
from toposcope.planning.slots import Slots, gpus_per_pod, sizes_of, slots
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.reach import (
    TAKES_NO_PODS,
    BlockedGpus,
    PodShape,
    Reach,
    typical_shape,
)
from toposcope.snapshot.scope import Scope


@dataclass(frozen=True)
class Plan:
    """A cluster with its gangs; its pods are known."""

    snapshot: Snapshot
    scope: Scope
    required: RequiredLevels = field(default_factory=RequiredLevels)
    tolerations: tuple[Toleration, ...] = ()
    """What all pods tolerate, beside what most pods with GPUs do and what a gang says itself."""

    @cached_property
    def gangs(self) -> tuple[Gang, ...]:
        """All gangs with GPUs."""
        return gangs_of(self.counted, self.required.keys)

    @cached_property
    def counted(self) -> Snapshot:
        """The cluster in whole GPUs, by which everything here is counted."""
        return self.snapshot.in_whole_gpus

    @property
    def shared(self) -> tuple[str, ...]:
        """Nodes of which the figures do not count some GPUs, because they are offered in shares."""
        shares = self.snapshot.shares
        if not shares:
            return ()
        names = []
        for node in self.scope.nodes:
            if node.name in shares:
                names.append(node.name)
        return tuple(names)

    @cached_property
    def parts(self) -> int:
        """Pods that hold parts of GPUs (MIG devices, shared GPUs): no figure is about them."""
        count = 0
        for pod in self.counted.pods or ():
            if any(is_gpu_part(resource) for resource in pod.requests):
                count += 1
        return count

    @cached_property
    def capacity(self) -> Capacity:
        """What its domains could take."""
        return Capacity(
            self.snapshot,
            self.scope,
            self.gangs,
            tolerations=self.tolerations,
        )

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """The running gangs of more than one pod, the worst first."""
        return scores(self.capacity, self.gangs)

    @cached_property
    def kept(self) -> tuple[KeptGang, ...]:
        """The running gangs that require a level, and whether they share a domain of it."""
        objects = self.required.objects(self.snapshot)
        return kept_gangs(self.snapshot, self.scope.levels, self.gangs, objects)

    @cached_property
    def per_pod(self) -> int:
        """GPUs of a pod."""
        return gpus_per_pod(self.capacity)

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Sizes of gangs worth showing."""
        return sizes_of(self.capacity, self.per_pod, self.typical)

    @cached_property
    def slots(self) -> tuple[Slots, ...]:
        """The slots of each of these sizes at every level."""
        return tuple(slots(self.capacity, self.sizes, self.per_pod, self.typical))

    @cached_property
    def typical(self) -> PodShape:
        """What pods of gangs request beside GPUs."""
        return typical_shape(self.snapshot, self.tolerations)

    @cached_property
    def repelling(self) -> tuple[Repelling, ...]:
        """The taints that keep such a pod from nodes with GPUs, the most GPUs first."""
        return repelling_taints(self.capacity, self.typical)

    @cached_property
    def free_gpus(self) -> int:
        """Whole GPUs that no pod holds, on nodes of the scope that take pods."""
        free = 0
        for node in self.scope.nodes:
            free += self.snapshot.free_gpus(node) or 0
        return free

    @property
    def reachable_gpus(self) -> int:
        """The free GPUs that a pod of typical shape can get."""
        blocked = 0
        for block in self.blocks:
            if block.why not in TAKES_NO_PODS:
                blocked += block.gpus
        return self.free_gpus - blocked

    @cached_property
    def blocks(self) -> tuple[BlockedGpus, ...]:
        """What keeps such pods from idle GPUs, the most GPUs first."""
        reach = Reach(self.snapshot, self.scope, self.typical)
        return tuple(reach.blocks())
