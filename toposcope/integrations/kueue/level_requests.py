"""Kueue: its Workload, and the annotations of pod templates from which Kueue makes one. Levels are label keys.

Which topology it will be depends on the flavour that Kueue chooses, so no need names one. `unconstrained` asks for no
level. v1beta1, v1beta2 and v1 agree in the fields that are read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Source, need
from toposcope.kube.reflector import Raw

GROUP: Final = "kueue.x-k8s.io"
_PLACEMENTS: Final = (
    ("kueue.x-k8s.io/podset-required-topology", True),
    ("kueue.x-k8s.io/podset-preferred-topology", False),
    ("kueue.x-k8s.io/podset-slice-required-topology", True),
)
_LAYERS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"


class _Layer(msgspec.Struct, frozen=True, gc=False):
    topology: str


class _Request(msgspec.Struct, frozen=True, gc=False):
    required: str | None = None
    preferred: str | None = None
    slice: str | None = msgspec.field(default=None, name="podSetSliceRequiredTopology")
    layers: list[_Layer] | None = msgspec.field(default=None, name="podsetSliceRequiredTopologyConstraints")


class _PodSet(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_request: _Request | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_sets: list[_PodSet] | None = None


class _Workload(msgspec.Struct, frozen=True, gc=False):
    spec: _Spec | None = None


_WORKLOAD: Final = msgspec.json.Decoder(_Workload)
_LAYER_LIST: Final = msgspec.json.Decoder(list[_Layer])


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What a Workload asks for, for each of its pod sets."""
    for pod_set in (_WORKLOAD.decode(raw).spec or _Spec()).pod_sets or ():
        request = pod_set.topology_request or _Request()
        for level, required in ((request.required, True), (request.preferred, False), (request.slice, True)):
            if level:
                yield need(level, required=required)
        for layer in request.layers or ():
            yield need(layer.topology, required=True)


def annotated(templates: Iterable[Mapping[str, str]]) -> Iterator[LevelRequest]:
    """What the annotations of pod templates ask for."""
    for annotations in templates:
        for key, required in _PLACEMENTS:
            if level := annotations.get(key):
                yield need(level, required=required)
        for layer in _layers(annotations.get(_LAYERS)):
            yield need(layer.topology, required=True)


def _layers(text: str | None) -> list[_Layer]:
    try:
        return _LAYER_LIST.decode(text) if text else []
    except ValueError as error:
        raise ValueError(f"annotation {_LAYERS} is no JSON list of {{topology, size}}: {error}") from error


SOURCE: Final = Source(
    "Workload", GROUP, ("v1", "v1beta2", "v1beta1"), "workloads", needs, finished=frozenset({"Finished"})
)
