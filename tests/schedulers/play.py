"""One cluster after the other on a real scheduler: what it does with a workload, and what `check` says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tests.schedulers.clusters import GPU_NODES, LEVELS, Cluster, Object
from tests.support.api import ApiUnderTest
from tools.apiserver.client import MERGE, wait_until
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Answer = Literal["placed", "pending", "refused"]
Ask = Callable[[ApiUnderTest, Object], tuple[Answer, str]]
_NOW: Final = "?gracePeriodSeconds=0&propagationPolicy=Background"
_PATIENCE: Final = 30.0
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "Workload": f"/apis/{_KUEUE}/namespaces/default/workloads",
    "LocalQueue": f"/apis/{_KUEUE}/namespaces/default/localqueues",
    "Topology": f"/apis/{_KUEUE}/topologies",
    "ResourceFlavor": f"/apis/{_KUEUE}/resourceflavors",
    "ClusterQueue": f"/apis/{_KUEUE}/clusterqueues",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a scheduler did, beside what `check` had said."""

    seed: int
    workload: Object
    answer: Answer
    message: str
    verdict: str
    """`fits`, `unclear`, `full` or `never` (the cluster as it is), or `error`."""
    emptied: bool
    """Whether the scheduler was asked after all other pods had gone; the verdict is of before."""

    @property
    def contradiction(self) -> str:
        """What is wrong with the verdict; empty where it holds."""
        if self.verdict == "unclear":
            return ""
        if not self.emptied:
            if self.verdict == "fits" and self.answer != "placed":
                return "false fits"
            if self.verdict != "fits" and self.answer == "placed":
                return "false refusal" if self.verdict == "error" else "false cannot fit"
            return ""
        return "false cannot fit" if self.verdict == "never" and self.answer == "placed" else ""

    def __str__(self) -> str:
        where = "emptied" if self.emptied else "as it is"
        text = f"seed {self.seed}, cluster {where}: {self.contradiction}: check says {self.verdict}, {self.answer}: "
        return f"{text}{self.message}\n{json.dumps(self.workload)}"


def kueue_objects(queue: str) -> list[Object]:
    """A topology, a flavor of all GPU nodes, and a queue with more quota than any cluster has."""
    quotas = [{"name": name, "nominalQuota": "1000000"} for name in ("cpu", "memory", "nvidia.com/gpu")]
    group = {"coveredResources": [quota["name"] for quota in quotas], "flavors": [{"name": "gpu", "resources": quotas}]}
    specs: dict[str, tuple[str, Object]] = {
        "Topology": ("cluster", {"levels": [{"nodeLabel": key} for key in LEVELS]}),
        "ResourceFlavor": ("gpu", {"nodeLabels": {GPU_NODES: "true"}, "topologyName": "cluster"}),
        "ClusterQueue": (queue, {"namespaceSelector": {}, "resourceGroups": [group]}),
        "LocalQueue": (queue, {"clusterQueue": queue}),
    }
    return [
        {"apiVersion": _KUEUE, "kind": kind, "metadata": _metadata(kind, name), "spec": spec}
        for kind, (name, spec) in specs.items()
    ]


def _metadata(kind: str, name: str) -> Object:
    return {"name": name, "namespace": "default"} if kind == "LocalQueue" else {"name": name}


def create(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Create objects, and give those a status that have one."""
    for obj in objects:
        path = _PATHS[obj["kind"]]
        api.create(path, obj)
        if obj["kind"] == "Node":  # admission has added a taint that only a node controller would remove
            _patch(api, f"{path}/{obj['metadata']['name']}", {"spec": {"taints": obj["spec"]["taints"]}})
        if "status" in obj:
            _patch(api, f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})


def _patch(api: ApiUnderTest, path: str, change: Object) -> None:
    code, answer = api.request("PATCH", path, change, content_type=MERGE)
    assert code == 200, answer


def remove(api: ApiUnderTest, objects: Iterable[Object]) -> None:
    """Delete objects and wait until they are gone."""
    paths = [f"{_PATHS[obj['kind']]}/{obj['metadata']['name']}" for obj in objects]
    for path in paths:
        api.request("DELETE", path + _NOW)
    for path in paths:
        wait_until(lambda path=path: api.request("GET", path)[0] == 404, f"{path} is gone", _PATIENCE)  # type: ignore[misc]


def verdict(folder: Path, cluster: Cluster, others: list[Object], workload: Object) -> str:
    """The worst that `check` says of a workload."""
    saved = folder / "cluster.json"
    items = [*cluster.nodes, *cluster.pods, *others]
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    checked = Checker(load_files([str(saved)]), [*others, workload]).check(workload)
    if any(answer.errors for answer in checked):
        return "error"
    kinds = {answer.verdict.kind for answer in checked if answer.verdict}
    return next(kind for kind in ("never", "full", "unclear", "fits") if kind in kinds)


def on_kueue(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What Kueue does with a workload, which is gone afterwards."""
    path, name = _PATHS[workload["kind"]], workload["metadata"]["name"]
    code, answer = api.request("POST", path, workload)
    if code != 201:
        return "refused", answer["message"]
    found: list[tuple[Answer, str]] = []

    def decided() -> bool:
        for item in api.get(_PATHS["Workload"])["items"]:
            if any(owner["name"] == name for owner in item["metadata"].get("ownerReferences") or ()):
                conditions = {entry["type"]: entry for entry in item.get("status", {}).get("conditions") or ()}
                reserved = conditions.get("QuotaReserved", {"status": "Unknown"})
                if reserved["status"] == "True":
                    found.append(("placed", ""))
                elif reserved["status"] == "False":
                    found.append(("pending", reserved["message"]))
        return bool(found)

    wait_until(decided, f"Kueue's answer to {name}", _PATIENCE)
    _remove_owned(api, workload)
    return found[0]


def _remove_owned(api: ApiUnderTest, workload: Object) -> None:
    """Without a garbage collector nothing removes the Workload of a Job."""
    name = workload["metadata"]["name"]
    remove(api, [workload])
    for item in api.get(_PATHS["Workload"])["items"]:
        if any(owner["name"] == name for owner in item["metadata"].get("ownerReferences") or ()):
            path = f"{_PATHS['Workload']}/{item['metadata']['name']}"
            api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
            api.request("DELETE", path + _NOW)
            wait_until(lambda path=path: api.request("GET", path)[0] == 404, f"{path} is gone", _PATIENCE)  # type: ignore[misc]


def on_kube_scheduler(api: ApiUnderTest, workload: Object) -> tuple[Answer, str]:
    """What kube-scheduler does with the pods of a Job, which are gone afterwards."""
    name, spec = workload["metadata"]["name"], workload["spec"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{index}", "namespace": "default", "labels": {"job": name}},
            "spec": spec["template"]["spec"],
        }
        for index in range(spec["parallelism"])
    ]
    create(api, pods)
    waiting: list[str] = []

    def decided() -> bool:
        waiting.clear()
        for pod in api.get(f"{_PATHS['Pod']}?labelSelector=job%3D{name}")["items"]:
            if pod["spec"].get("nodeName"):
                continue
            conditions = {entry["type"]: entry for entry in pod["status"].get("conditions") or ()}
            if conditions.get("PodScheduled", {}).get("reason") != "Unschedulable":
                return False
            waiting.append(conditions["PodScheduled"]["message"])
        return True

    wait_until(decided, f"kube-scheduler's answer to {name}", _PATIENCE)
    message = waiting[0] if waiting else ""
    remove(api, pods)
    return ("pending", message) if waiting else ("placed", "")


def play(
    api: ApiUnderTest, cluster: Cluster, seed: int, workloads: Iterable[Object], ask: Ask, said: Callable[[Object], str]
) -> Iterator[Comparison]:
    """Every workload alone: in the cluster as it is, then where all its pods have gone."""
    create(api, [*cluster.nodes, *cluster.pods])
    asked = [(workload, said(workload)) for workload in workloads]
    for emptied in (False, True):
        if emptied:
            remove(api, cluster.pods)
        for workload, verdict in asked:
            answer, message = ask(api, workload)
            yield Comparison(seed, workload, answer, message, verdict, emptied)
    remove(api, cluster.nodes)
