"""Pods that wait for a node, the Bindings that give them one, and the object with the paths of nodes."""

from collections.abc import Mapping
from typing import Any

import yaml
from tests.support.api import ApiUnderTest
from tests.support.paths import MANIFESTS
from toposcope.integrations.binding_paths import node_paths, path_of_object

HOME = "toposcope-system"
PATHS = path_of_object(HOME)
"""Where the API server has the paths of all nodes."""
NAMESPACE_SWITCH = {"gpu.topology/binding-labels": "enabled"}
"""The label of namespaces whose pods get the path of their node."""


def share_node_paths(api: ApiUnderTest) -> None:
    """Have NodePaths served for all tests of the module."""
    crd = MANIFESTS / "components" / "binding-labels" / "crd.yaml"
    api.share_crd(yaml.load(crd.read_text(encoding="utf-8"), yaml.CSafeLoader))


def create_node_paths(api: ApiUnderTest, data: Mapping[str, str]) -> None:
    """Create the object with these entries."""
    folder, _, _ = PATHS.rpartition("/")
    api.create(folder, node_paths(HOME, data))


def waiting_pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod without a node; `metadata` has its labels and annotations."""
    container = {"name": "main", "image": "none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container]},
    }


def binding_to(node: str, pod: str, **metadata: Any) -> dict[str, Any]:
    """The Binding that a scheduler sends."""
    target = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
    }
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, **metadata},
        "target": target,
    }
