"""A cluster and a workload to check on it, of documents that a test changes step by step.

cluster = CheckedCluster("placement/clusters/two-nodes", "placement/kai-job")
cluster.taint("n1", "team=x:NoSchedule")
assert cluster.check().verdict == "..."
"""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from tests.support.checking import CheckedWorkload, check
from tests.support.documents import edited
from tests.support.paths import DOCUMENTS

GPU = "nvidia.com/gpu"
NOT_CHECKED = "unclear: too little is known to check for room"
Object = dict[str, Any]


class CheckedCluster:
    """The objects of a cluster, the workload to check, and what stands in the same file as the workload.

    Objects go by `kind/name`; those without a kind, as OSMO's, by their name.
    """

    def __init__(
        self, cluster: str, workload: str, *, beside: str = "", served: Mapping[str, bool] | None = None
    ) -> None:
        self.objects = _by_name(_text_of(cluster))
        (self.workload,) = _documents(_text_of(workload))
        self.beside = _by_name(_text_of(beside)) if beside else {}
        self._served = served

    def check(self, *, served: Mapping[str, bool] | None = None) -> CheckedWorkload:
        """What `toposcope check` says; `served`: whether the cluster serves each kind."""
        return check(
            self.workload,
            self.objects.values(),
            served=self._served if served is None else served,
            beside=self.beside.values(),
        )

    def apply(self, text: str) -> None:
        """Create these objects in the cluster, or replace them."""
        self.objects |= _by_name(text)

    def add(self, *objects: Object) -> None:
        """Create these objects in the cluster, or replace them."""
        for item in objects:
            self.objects[_name_of(item)] = item

    def delete(self, *names: str) -> None:
        """Remove objects from the cluster."""
        for name in names:
            del self.objects[name]

    def submit(self, text: str) -> None:
        """Check this workload instead."""
        (self.workload,) = _documents(text)

    def put_beside(self, text: str) -> None:
        """Have these objects in the same file as the workload."""
        self.beside |= _by_name(text)

    def edit(self, name: str, path: str, value: Any) -> None:
        """Give an object of the cluster or the file another value in some place; None leaves nothing there."""
        for objects in (self.objects, self.beside):
            if name in objects:
                objects[name] = edited(objects[name], {path: value})
                return
        names = ", ".join([*self.objects, *self.beside])
        raise KeyError(f"there is no {name}; there are {names}")

    def edit_workload(self, path: str, value: Any) -> None:
        """Give the workload another value in some place; None leaves nothing there."""
        self.workload = edited(self.workload, {path: value})

    def pods(self, count: int) -> None:
        """Let the Job run so many pods, all at once."""
        self.edit_workload("spec.parallelism", count)
        self.edit_workload("spec.completions", count)

    def gpus_per_pod(self, count: int) -> None:
        """Let each pod of the Job request so many GPUs."""
        self.edit_workload(f"spec.template.spec.containers[0].resources.limits[{GPU}]", str(count))

    def annotate(self, key: str, value: str | None) -> None:
        """Annotate the workload; None takes the annotation away."""
        self.edit_workload(f"metadata.annotations[{key}]", value)

    def annotate_pods(self, key: str, value: str | None) -> None:
        """Annotate the pod template of the Job; None takes the annotation away."""
        self.edit_workload(f"spec.template.metadata.annotations[{key}]", value)

    def label_node(self, node: str, key: str, value: str | None) -> None:
        """Label a node; None takes the label away."""
        self.edit(f"Node/{node}", f"metadata.labels[{key}]", value)

    def taint(self, node: str, *taints: str) -> None:
        """Taint a node, as kubectl does: `team=x:NoSchedule`."""
        spec = [_taint(text) for text in taints]
        self.edit(f"Node/{node}", "spec.taints", spec)

    def cordon(self, node: str) -> None:
        """Mark a node unschedulable."""
        self.edit(f"Node/{node}", "spec.unschedulable", True)

    def run(self, pod: str, *, on: str, requests: Mapping[str, str] | None = None) -> None:
        """Have a pod `namespace/name` of somebody else run on a node."""
        namespace, _, name = pod.partition("/")
        container = {"name": "c", "resources": {"requests": dict(requests or {})}}
        self.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"nodeName": on, "containers": [container]},
                "status": {"phase": "Running"},
            }
        )


def _text_of(name: str) -> str:
    return Path(DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")


def _documents(text: str) -> list[Object]:
    return list(yaml.load_all(dedent(text), yaml.CSafeLoader))


def _by_name(text: str) -> dict[str, Object]:
    return {_name_of(item): item for item in _documents(text)}


def _name_of(item: Object) -> str:
    if "kind" not in item:
        return str(item["name"])
    return f"{item['kind']}/{item['metadata']['name']}"


def _taint(text: str) -> Object:
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    taint = {"key": key, "effect": effect}
    if value:
        taint["value"] = value
    return taint
