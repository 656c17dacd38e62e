"""Pods that wait for a node, and the Bindings that give them one."""

from typing import Any

NAMESPACE_SWITCH = {"gpu.topology/binding-labels": "enabled"}
"""The label of namespaces whose pods get the path of their node."""


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
