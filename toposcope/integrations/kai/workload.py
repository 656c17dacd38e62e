"""KAI: annotations from which its grouper makes a PodGroup. PodGroups themselves: `kai_podgroup.py`.

Rules and messages: KAI 0.17 (scheduler, pod grouper). The grouper reads topology and levels on the workload itself;
for a JobSet also on each Job template (one constraint per Job), for Ray on each pod template. Segments stand on the
pod template and are known for PyTorchJob workers and LeaderWorkerSets only; others' are ignored.
"""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.document import Field, handle_of
from toposcope.integrations.framework.pods import (
    LEADER_WORKER_SET,
    PodSet,
    Structure,
    chunks,
    kind_of,
    structure_of,
    subgroups,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.integrations.kai.constraints import Constraint, Constraints, WrittenConstraint

PREFIX: Final = "kai.scheduler/"
TOPOLOGY: Final = PREFIX + "topology"
REQUIRED: Final = PREFIX + "topology-required-placement"
PREFERRED: Final = PREFIX + "topology-preferred-placement"
SEGMENT_SIZE: Final = PREFIX + "segment-size"
SEGMENT_REQUIRED: Final = PREFIX + "segment-topology-required-placement"
SEGMENT_PREFERRED: Final = PREFIX + "segment-topology-preferred-placement"

_PLACEMENTS: Final = (REQUIRED, PREFERRED)
_SEGMENTS: Final = (SEGMENT_SIZE, SEGMENT_REQUIRED, SEGMENT_PREFERRED)
_PYTORCH: Final = ("kubeflow.org", "PyTorchJob")
_RAY: Final = "ray.io"
_NOT_KAI: Final = (None, "default-scheduler")


class Kai:
    """Reads the annotations of workloads."""

    name = "KAI"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Every workload with one of the annotations on itself or on a template in it."""
        root = Field(document)
        structure = structure_of(root)
        return structure is not None and any(
            place / key for place in _places(root, structure) for key in (TOPOLOGY, *_PLACEMENTS, *_SEGMENTS)
        )

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The workload's demands; see System."""
        del before  # KAI takes any change
        root = Field(document)
        structure = structure_of(root) or Structure(())
        constraints = Constraints(known)
        group = _Tree(root, structure, constraints).group()
        workload = Workload(
            self.name,
            handle_of(root),
            (group,),
            constraints.topology,
            placeable=constraints.placeable,
            notes=constraints.notes,
        )
        return Reading(workload, merged(root.findings))


def _places(root: Field, structure: Structure) -> list[Field]:
    """The annotations of the workload, of Job templates and of pod templates."""
    jobs = [set_.job / "metadata" / "annotations" for set_ in structure.sets if set_.job]
    pods = [set_.annotations for set_ in structure.sets if set_.template.path]
    return [root / "metadata" / "annotations", *jobs, *pods]


class _Tree:
    """Builds the tree of one workload."""

    def __init__(self, root: Field, structure: Structure, constraints: Constraints) -> None:
        self._root = root
        self._structure = structure
        self._constraints = constraints
        self._own = root / "metadata" / "annotations"
        self._kind = kind_of(root.value)

    def group(self) -> Group:
        """The whole workload; each copy of it is a PodGroup of its own."""
        self._check_places()
        self._check_scheduler()
        above = self._constraints.of(
            WrittenConstraint("workload", self._own / TOPOLOGY, self._own / REQUIRED, self._own / PREFERRED),
            topology_alone=self._has_segments(),
        )
        structure = self._structure
        if structure.separate:
            return self._separate(above)
        if self._kind == LEADER_WORKER_SET:
            pods, below = self._leader_worker_set(above)
        else:
            below = tuple(self._set(set_, above) for set_ in structure.sets)
            pods = ()
        name = (self._root / "metadata" / "name").text() or self._kind[1]
        return Group(name, pods, below, above.required, above.preferred, structure.copies)

    def _separate(self, above: Constraint) -> Group:
        each = self._structure.sets[0]
        if above.required or above.preferred:
            placement = self._own / (REQUIRED if above.required else PREFERRED)
            placement.warn(
                "kai/each-pod-alone",
                f"KAI makes a PodGroup of each pod of a {self._kind[1]}, so this keeps no two of them together",
                "use a StatefulSet, Job or LeaderWorkerSet for pods that belong together",
            )
        return Group("pod", (each.some(1),), (), above.required, above.preferred, each.count)

    def _set(self, each: PodSet, above: Constraint) -> Group:
        if each.job:
            notes = each.job / "metadata" / "annotations"
            own = self._constraints.of(_asked(f"sub-group {each.name}", notes), above)
            return Group(f"job of {each.name}", (each.pods,), (), own.required, own.preferred, each.jobs)
        if self._kind[0] == _RAY:
            return self._ray(each, above)
        if self._kind == _PYTORCH and each.name == "Worker":
            size = self._segment_size(each.annotations / SEGMENT_SIZE, each.count)
            segment = self._segment(each.annotations, size)
            if size and segment:
                own = self._constraints.of(segment, above)
                alike = chunks(each.count, size)
                return Group(each.name, groups=tuple(_segments(own, ((each.some(n),), times)) for n, times in alike))
        return Group(each.name, (each.pods,))

    def _ray(self, each: PodSet, above: Constraint) -> Group:
        notes = each.annotations
        placement = next((notes / key for key in _PLACEMENTS if (notes / key).text()), None)
        if placement and not (notes / TOPOLOGY).text():
            group = "headGroupSpec" if each.name == "head" else f"workerGroupSpecs.{each.name}"
            placement.error(
                "kai/topology-name",
                f"topology annotation ({TOPOLOGY}) is required for {group} when topology placement annotations are set",
                f"set {TOPOLOGY} beside it",
            )
            return Group(each.name, (each.pods,))
        own = self._constraints.of(_asked(f"sub-group {each.name}", notes), above)
        return Group(each.name, (each.pods,), (), own.required, own.preferred)

    def _leader_worker_set(self, above: Constraint) -> tuple[tuple[Pods, ...], tuple[Group, ...]]:
        """The pods of one group that are in no segment, and the segments."""
        structure = self._structure
        template = self._root / "spec" / "leaderWorkerTemplate"
        policy = template / "subGroupPolicy"
        notes = structure.sets[-1].annotations
        total = sum(set_.count for set_ in structure.sets)
        size = (policy / "subGroupSize").number(0)
        if not size:
            part = next((at / SEGMENT_SIZE for at in (self._own, notes) if at / SEGMENT_SIZE), notes / SEGMENT_SIZE)
            size = self._segment_size(part, total)
        segment = self._segment(notes, size)
        if not (size and segment):
            return structure.whole, ()
        leader_apart = (policy / "subGroupPolicyType").text() == "LeaderExcluded"
        if leader_apart and (total - 1) % size:
            (notes / SEGMENT_SIZE or policy).error(
                "kai/segment-size",
                f"LeaderExcluded needs size - 1 ({total - 1}) to be a multiple of the segment size {size}",
                "change the size, or use subGroupPolicyType LeaderWorker",
            )
            return structure.whole, ()
        own = self._constraints.of(segment, above)
        alike = subgroups(structure, size, leader_apart=leader_apart)
        return (structure.sets[0].some(1),) if leader_apart else (), tuple(_segments(own, each) for each in alike)

    def _segment_size(self, part: Field, total: int) -> int:
        """How many pods a segment has; 0 where there are none, or where KAI refuses the number."""
        text = part.text()
        if text is None:
            return 0
        fix = f"write a whole number from 2 to {total}, in quotes"
        try:
            size = int(text)
        except ValueError:
            part.error("kai/segment-size", f"invalid segment size {text}", fix)
            return 0
        if size <= 1:
            part.error("kai/segment-size", f"segmentSize {size} is not valid. It must be greater than 1", fix)
        elif size > total:
            part.error("kai/segment-size", f"segmentSize {size} is greater than replicasSize {total}", fix)
        else:
            return size
        return 0

    def _segment(self, notes: Field, size: int) -> WrittenConstraint | None:
        """What each segment asks for; its topology is the template's, else the workload's."""
        topology = notes / TOPOLOGY if (notes / TOPOLOGY).text() else self._own / TOPOLOGY
        levels = [notes / key for key in (SEGMENT_REQUIRED, SEGMENT_PREFERRED) if (notes / key).text()]
        if size and not levels and (notes / SEGMENT_SIZE or self._own / SEGMENT_SIZE):
            (notes / SEGMENT_SIZE or self._own / SEGMENT_SIZE).warn(
                "kai/segment-level",
                "segments without a level are placed anywhere",
                f"set {SEGMENT_REQUIRED} or {SEGMENT_PREFERRED} on the pod template",
            )
        if levels and not size and not (notes / SEGMENT_SIZE):
            levels[0].warn(
                "kai/segment-size-missing", "has no effect without a segment size", f"set {SEGMENT_SIZE} beside it"
            )
        if not levels:
            return None
        return WrittenConstraint("sub-group segment", topology, notes / SEGMENT_REQUIRED, notes / SEGMENT_PREFERRED)

    def _has_segments(self) -> bool:
        return any(set_.annotations / key for set_ in self._structure.sets for key in _SEGMENTS)

    def _check_places(self) -> None:
        """Annotations where KAI does not look for them."""
        segmented = {"Worker"} if self._kind == _PYTORCH else set()
        if self._kind == LEADER_WORKER_SET:
            segmented = {self._structure.sets[-1].name}
        for set_ in self._structure.sets:
            if not set_.template.path:
                continue  # a Pod is its own workload
            for key in (TOPOLOGY, *_PLACEMENTS):
                wanted = key == TOPOLOGY and set_.name in segmented
                if self._kind[0] != _RAY and not wanted and set_.annotations / key:
                    where = "the Job template" if set_.job else f"the {self._kind[1]} itself"
                    (set_.annotations / key).warn(
                        "kai/wrong-place",
                        f"KAI does not read this on a pod template of a {self._kind[1]}",
                        f"move it to the annotations of {where}",
                    )
            if set_.name not in segmented:
                self._check_no_segments(set_.annotations)
        if not segmented:
            self._check_no_segments(self._own)

    def _check_no_segments(self, annotations: Field) -> None:
        for key in _SEGMENTS:
            if annotations / key:
                (annotations / key).warn(
                    "kai/segments-ignored",
                    "KAI makes segments of PyTorchJob workers and of LeaderWorkerSets only; this has no effect here",
                    "write a PodGroup with sub-groups, or set it on the worker template of one of these",
                )

    def _check_scheduler(self) -> None:
        for set_ in self._structure.sets:
            part = set_.template / "spec" / "schedulerName"
            if part.text() in _NOT_KAI:
                part.warn(
                    "kai/scheduler-name",
                    "KAI does not schedule these pods, so its annotations have no effect",
                    "set schedulerName: kai-scheduler (or the name that KAI was installed with)",
                )


def _asked(who: str, annotations: Field) -> WrittenConstraint:
    return WrittenConstraint(who, annotations / TOPOLOGY, annotations / REQUIRED, annotations / PREFERRED)


def _segments(own: Constraint, alike: tuple[tuple[Pods, ...], int]) -> Group:
    pods, times = alike
    return Group("segment", pods, (), own.required, own.preferred, times)
