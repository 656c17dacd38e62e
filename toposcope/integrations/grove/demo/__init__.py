"""Grove in the demo: its kinds, a PodCliqueSet that waits, and what its operator does there."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.grove import backend
from toposcope.integrations.grove.api import BINDINGS, POD_CLIQUE_SETS

OPERATOR: Final = "grove-operator"
TITLE: Final = "grove sees "
SERVED: Final = ("grove/binding", f"{backend.TOPOLOGIES.option}/topology")
"""Kinds that are served from the beginning."""
KEPT: Final = "grove/podcliqueset"
"""The kind that is served only once the cluster is kept."""
PUBLISH: Final = {backend.TOPOLOGIES.option: "Never"}
"""The operator makes the backend's Topology from the binding."""
PENDING_PATH: Final = f"/apis/{POD_CLIQUE_SETS.api_version()}/namespaces/demo/podcliquesets"
PENDING: Final[Mapping[str, Any]] = {
    "apiVersion": POD_CLIQUE_SETS.api_version(),
    "kind": POD_CLIQUE_SETS.kind,
    "metadata": {"name": "llm", "namespace": "demo", "labels": {backend.QUEUE: "research"}},
    "spec": {
        "replicas": 1,
        "template": {
            "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}},
            "cliques": [
                {
                    "name": "decode",
                    "spec": {
                        "roleName": "decode",
                        "replicas": 6,
                        "podSpec": {
                            "schedulerName": backend.SCHEDULER,
                            "containers": [
                                {
                                    "name": "decode",
                                    "image": "registry.example.com/decode:1",
                                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                                }
                            ],
                        },
                    },
                }
            ],
        },
    },
}
"""No rack has room for six workers of eight GPUs."""


def binding_path(name: str) -> str:
    """Where the binding of this name is."""
    return BINDINGS.target(name).path


def topologies_path() -> str:
    """Where the backend's Topologies are."""
    return backend.TOPOLOGIES.target("").collection


def node_labels(binding: Mapping[str, Any]) -> list[dict[str, str]]:
    """The levels of a binding as its Topology has them."""
    return [{"nodeLabel": level["key"]} for level in binding["spec"]["levels"]]


def topology_of(binding: Mapping[str, Any]) -> dict[str, Any]:
    """The backend's Topology that the binding owns."""
    name = binding["metadata"]["name"]
    owner = {
        "apiVersion": binding["apiVersion"],
        "kind": binding["kind"],
        "name": name,
        "controller": True,
        "uid": binding["metadata"]["uid"],
    }
    return {
        "apiVersion": backend.TOPOLOGIES.api_version(),
        "kind": backend.TOPOLOGIES.kind,
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"levels": node_labels(binding)},
    }
