"""Workloads that wait in a cluster of two racks with four nodes of eight GPUs each, and everything around them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import yaml
from tests.support.documents import read_manifests
from tests.support.saved import demo_nodes, saved

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
RACK = "cloud.google.com/gce-topology-subblock"
HOST = "kubernetes.io/hostname"
LEVELS = {"zone": ZONE, "rack": RACK, "host": HOST}
GPU = "nvidia.com/gpu"
NODES = [f"h200-{number}" for number in range(1, 9)]
"""Those of rack-3 first, then the four of rack-4."""
NOW = "2026-01-01T00:00:00Z"
NOT_ENOUGH = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
NO_UID = "00000000-0000-0000-0000-000000000000"


class WaitingCluster:
    """The demo's H200 nodes, and objects that a test adds, edits and removes by `Kind/name`."""

    def __init__(self, *objects: Object) -> None:
        self._nodes = nodes()
        self._objects = list(objects)

    @property
    def objects(self) -> list[Object]:
        """All of them, nodes first."""
        return [*self._nodes, *self._objects]

    def __getitem__(self, name: str) -> Object:
        """The first object of this `Kind/name`, to be edited in place."""
        for found in self._objects:
            if _name_of(found) == name:
                return found
        raise LookupError(f"there is no {name}; there are: {', '.join(map(_name_of, self._objects))}")

    def add(self, *objects: Object) -> None:
        """Add what is not there yet."""
        self._objects += objects

    def apply(self, manifests: str) -> None:
        """Add the objects of an indented text of YAML documents."""
        self.add(*yaml.load_all(textwrap.dedent(manifests), yaml.CSafeLoader))

    def remove(self, *names: str) -> None:
        """Remove the first object of each `Kind/name`."""
        for name in names:
            self._objects.remove(self[name])

    def run(self, pod_name: str, *, on: str) -> None:
        """Have a waiting pod run on a node."""
        waiting = self[f"Pod/{pod_name}"]
        waiting["spec"]["nodeName"] = on
        waiting["status"] = {"phase": "Running"}

    def occupy(self, *node_names: str, gpus: int = 8) -> None:
        """Have a pod of somebody else take this many GPUs of each node."""
        for name in node_names:
            self.add(running_pod(f"busy-{name}", name, gpus=gpus))

    def remove_rack_label(self, *node_names: str) -> None:
        """Take the rack's label from these nodes."""
        for name in node_names:
            del self._node(name)["metadata"]["labels"][RACK]

    def label(self, node_name: str, key: str, value: str) -> None:
        """Set a label of a node."""
        self._node(node_name)["metadata"]["labels"][key] = value

    def cordon(self, *node_names: str) -> None:
        """Cordon these nodes."""
        for name in node_names:
            self._node(name)["spec"]["unschedulable"] = True

    def taint(self, *node_names: str) -> None:
        """Taint these nodes for a team."""
        for name in node_names:
            self._node(name)["spec"]["taints"] = [TAINT]

    def lose(self, node_name: str) -> None:
        """Have a node's kubelet fall silent."""
        self._node(node_name)["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]

    def save(self, folder: Path) -> Path:
        """A file with all objects, as kubectl would have saved them."""
        file = folder / "cluster.json"
        file.write_text(saved(self.objects), encoding="utf-8")
        return file

    def _node(self, name: str) -> Object:
        return self._nodes[NODES.index(name)]


def _name_of(document: Object) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def nodes() -> list[Object]:
    """The demo's H200 nodes: rack-3 holds h200-1 to h200-4, rack-4 the others."""
    found = []
    for node in demo_nodes(of=NODES):
        copied = dict(node)
        copied["metadata"] = dict(node["metadata"])
        copied["metadata"]["labels"] = dict(node["metadata"]["labels"])
        copied["spec"] = dict(node["spec"])
        copied["status"] = dict(node["status"])
        found.append(copied)
    return found


def cluster_with(name: str) -> WaitingCluster:
    """A cluster with a ClusterTopology that publishes nothing, and a file of tests/documents/explain/."""
    return WaitingCluster(cluster_topology(levels=levels_of(LEVELS)), *read_manifests(f"explain/{name}.yaml"))


def cluster_without_workload() -> WaitingCluster:
    """A cluster in which Grove and KAI have a topology."""
    return WaitingCluster(
        cluster_topology(levels=levels_of(LEVELS)),
        binding(*LEVELS.items()),
        kai_topology(*LEVELS.values(), name="cluster"),
    )


def grove_set(*, message: str = NOT_ENOUGH) -> WaitingCluster:
    """Four pods of Grove's PodCliqueSet `llm` wait, and must share a rack."""
    cluster = cluster_without_workload()
    cluster.add(*read_manifests("explain/grove.yaml"))
    labels = {
        "grove.io/podclique": "llm-0-worker",
        "grove.io/podgang": "llm-0",
        "grove.io/podcliqueset-replica-index": "0",
    }
    for number in range(4):
        waiting = pod(f"llm-0-worker-{number}", message=message)
        waiting["metadata"]["labels"] = dict(labels)
        cluster.add(owned(waiting, cluster["PodClique/llm-0-worker"]))
    return cluster


def untried_grove_set() -> WaitingCluster:
    """The same, and no scheduler has reported on the pods."""
    return grove_set(message="")


def kueue_job(*, topology: str | None = "cluster") -> WaitingCluster:
    """Kueue cannot admit the Job `train`, whose four pods must share a rack; `topology` is that of its flavor."""
    cluster = cluster_with("kueue")
    if topology:
        cluster["ResourceFlavor/h200"]["spec"]["topologyName"] = topology
    return cluster


def assigned_pod_set(cluster: WaitingCluster) -> Object:
    """What Kueue assigned to the pods of the Job `train`, to be edited in place."""
    pod_set: Object = cluster["Workload/job-train"]["status"]["admission"]["podSetAssignments"][0]
    return pod_set


def kai_job(*, message: str = NOT_ENOUGH) -> WaitingCluster:
    """Two of the Job's four pods run in rack-3, the other two wait for room there."""
    cluster = WaitingCluster(kai_topology(*LEVELS.values(), name="cluster"))
    annotations = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": RACK}
    job = train_job(annotations)
    cluster.add(job)
    cluster.add(owned(running_pod("train-0", "h200-1"), job))
    cluster.add(owned(running_pod("train-1", "h200-2"), job))
    cluster.add(owned(pod("train-2", message=message), job))
    cluster.add(owned(pod("train-3", message=message), job))
    cluster.occupy("h200-3", "h200-4")
    return cluster


def train_job(annotations: dict[str, str]) -> Object:
    """A Job of four pods for KAI."""
    template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
    spec = {"parallelism": 4, "completions": 4, "template": template}
    return named("batch/v1", "Job", "train", spec, annotations=annotations)


def kai_pod_group() -> WaitingCluster:
    """Four pods of KAI's PodGroup `pg` must share a rack, and each rack has only three free nodes."""
    cluster = cluster_without_workload()
    constraint = {"topology": "cluster", "requiredTopologyLevel": RACK}
    spec = {"queue": "q", "minMember": 4, "topologyConstraint": constraint}
    cluster.add(named("scheduling.run.ai/v2alpha2", "PodGroup", "pg", spec))
    for number in range(4):
        member = pod(f"p{number}")
        member["metadata"]["annotations"] = {"pod-group-name": "pg"}
        cluster.add(member)
    cluster.occupy("h200-1", "h200-5")
    return cluster


def kube_scheduler_gang() -> WaitingCluster:
    """Four pods of kube-scheduler's PodGroup `train` wait, which names a label of no node."""
    cluster = cluster_with("kube-scheduler")
    for number in range(4):
        member = pod(f"p{number}", message="waiting for minCount pods from a gang to be scheduled")
        member["spec"] |= {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "train"}}
        cluster.add(member)
    return cluster


def volcano_job() -> WaitingCluster:
    """Six pods of Volcano's Job `train` must share a rack, which has four nodes."""
    cluster = cluster_with("volcano")
    cluster["ClusterTopology/cluster"]["spec"]["publish"] = {"volcano": "Auto"}
    worker = pod("train-worker-0", message="pod group is not ready")
    worker["spec"]["schedulerName"] = "volcano"
    cluster.add(owned(worker, cluster["Job/train"]))
    return cluster


def levels_of(keys: dict[str, str]) -> list[Object]:
    """Levels as a ClusterTopology and Grove's binding have them."""
    return [{"domain": domain, "key": key} for domain, key in keys.items()]


def cluster_topology(**spec: Any) -> Object:
    """A ClusterTopology that publishes nothing."""
    publish = {"grove": "Never", "kai": "Never", "kueue": "Never"}
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "cluster"},
        "spec": {"publish": publish, **spec},
        "status": {"conditions": []},
    }


def binding(*levels: tuple[str, str], name: str = "cluster") -> Object:
    """A ClusterTopologyBinding of Grove, in sync with KAI."""
    in_sync = condition("SchedulerTopologyDrift", "False", "InSync", "All in sync")
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": levels_of(dict(levels))},
        "status": {"conditions": [in_sync]},
    }


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """A condition of any object's status."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW,
    }


def kai_topology(*keys: str, name: str) -> Object:
    """A Topology of KAI."""
    levels = [{"nodeLabel": key} for key in keys]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def owned(document: Object, owner: Object) -> Object:
    """The object with a controller."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", NO_UID),
        "controller": True,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


def named(version: str, kind: str, name: str, spec: Any = None, **metadata: Any) -> Object:
    """An object of the namespace `ml`."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", **metadata},
        "spec": {} if spec is None else spec,
    }


def pod_spec(gpus: int = 8) -> Object:
    """What a pod of KAI asks for."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: str(gpus)}}}
    return {"containers": [container], "schedulerName": "kai-scheduler"}


def pod(name: str, *, message: str = NOT_ENOUGH) -> Object:
    """A pod of `ml` that its scheduler has not placed, and why; without a message it has not been tried."""
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    waiting = named("v1", "Pod", name, pod_spec())
    waiting["status"] = {"phase": "Pending", "conditions": [unplaced] if message else []}
    return waiting


def running_pod(name: str, node: str, *, gpus: int = 8) -> Object:
    """A pod of `ml` that runs on a node."""
    running = named("v1", "Pod", name, pod_spec(gpus))
    running["spec"]["nodeName"] = node
    running["status"] = {"phase": "Running"}
    return running
