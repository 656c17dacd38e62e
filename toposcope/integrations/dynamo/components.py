"""The components of a DynamoGraphDeployment, in both versions of its API.

v1alpha1 has a map of `services` with resources in Dynamo's own form and the rest of the pod in `extraPodSpec`; v1beta1
has a list of `components` with a whole pod template.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.pod_templates import amounts_of, pods_of, requests_of

_GPU: Final = "gpu"
_GPU_TYPE: Final = "gpuType"
_CUSTOM: Final = "custom"
"""Other resources by their names."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component: its replicas are `nodes` pods each."""

    name: str
    part: Part
    replicas: int
    nodes: int
    pods: Pods
    """The pods of one replica."""

    @property
    def constraint(self) -> Part:
        """What it says about its own placement."""
        return self.part / "topologyConstraint"

    @property
    def multinode(self) -> bool:
        """Whether a replica is several pods, on a node each."""
        return self.nodes > 1

    def of(self, replicas: int) -> Pods:
        """The pods of so many replicas."""
        return replace(self.pods, count=self.nodes * replicas)


def components_of(spec: Part) -> Iterator[Component]:
    """The components, in the order of the document."""
    for name, part in (spec / "services").members():
        yield _component(name, part, part / "extraPodSpec", *_main_container(part))
    for part in (spec / "components").items():
        yield _component((part / "name").text() or part.path, part, part / "podTemplate" / "spec")


def _component(name: str, part: Part, pod: Part, *beside: dict[str, int]) -> Component:
    nodes = (part / "multinode" / "nodeCount").number(1, least=1)
    return Component(name, part, (part / "replicas").number(1), nodes, pods_of(name, nodes, pod, *beside))


def _main_container(service: Part) -> Iterator[dict[str, int]]:
    """What the container asks for that Dynamo adds; `extraPodSpec.mainContainer` has the last word on it."""
    resources = service / "resources"
    own = requests_of(service / "extraPodSpec" / "mainContainer" / "resources")
    yield _amounts(resources / "limits") | _amounts(resources / "requests") | own


def _amounts(resources: Part) -> dict[str, int]:
    """Dynamo's `gpu` is a number of what `gpuType` names."""
    plain = {name: part.value for name, part in resources.members() if name not in (_GPU_TYPE, _CUSTOM)}
    found = amounts_of(Part(plain, resources.path, resources.findings))
    if _GPU in found:
        found[(resources / _GPU_TYPE).text() or ALLOCATABLE_GPUS] = found.pop(_GPU)
    return found | amounts_of(resources / _CUSTOM)
