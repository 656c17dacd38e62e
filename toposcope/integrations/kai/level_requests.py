"""KAI: its PodGroup, and the annotations from which its grouper makes one. Levels are label keys, or aliases (v0.17).

The grouper reads the annotations of the workload that owns the pods, and those of its pod templates for kinds whose
replicas differ; segments stand on the pod template and use the workload's topology when they name none.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Source, need
from toposcope.kube.reflector import Raw

GROUP: Final = "scheduling.run.ai"
_TOPOLOGY: Final = "kai.scheduler/topology"
_PLACEMENTS: Final = (
    ("kai.scheduler/topology-required-placement", True),
    ("kai.scheduler/topology-preferred-placement", False),
    ("kai.scheduler/segment-topology-required-placement", True),
    ("kai.scheduler/segment-topology-preferred-placement", False),
)


class _Constraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology: str | None = None
    required_topology_level: str | None = None
    preferred_topology_level: str | None = None


class _SubGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_constraint: _Constraint | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_constraint: _Constraint | None = None
    sub_groups: list[_SubGroup] | None = None


class _PodGroup(msgspec.Struct, frozen=True, gc=False):
    spec: _Spec | None = None


_POD_GROUP: Final = msgspec.json.Decoder(_PodGroup)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a PodGroup asks for: as a whole and for each of its sub-groups."""
    spec = _POD_GROUP.decode(raw).spec or _Spec()
    top = spec.topology_constraint or _Constraint()
    for constraint in (top, *(group.topology_constraint for group in spec.sub_groups or ())):
        if constraint is None:
            continue
        topology = constraint.topology or top.topology
        for level, required in (
            (constraint.required_topology_level, True),
            (constraint.preferred_topology_level, False),
        ):
            if level:
                yield need(level, required=required, topology=topology)


def annotated(workload: Mapping[str, str], templates: Iterable[Mapping[str, str]] = ()) -> Iterator[LevelRequest]:
    """What the annotations of a workload and of its pod templates ask for."""
    for annotations in (workload, *templates):
        topology = annotations.get(_TOPOLOGY) or workload.get(_TOPOLOGY)
        for key, required in _PLACEMENTS:
            if level := annotations.get(key):
                yield need(level, required=required, topology=topology)


SOURCE: Final = Source("PodGroup", GROUP, ("v2alpha2",), "podgroups", needs, repeats=frozenset({"PodGang"}))
"""A PodGang is Grove's: its PodCliqueSet is followed itself."""
