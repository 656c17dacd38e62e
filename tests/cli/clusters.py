"""Clusters that tests of commands have saved: the demo's 30 nodes, and what is different."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path

from tests.support.documents import read_manifests
from tests.support.saved import Object, cluster_topology, demo_nodes, pod, saved
from tests.support.slices import slices_of

RACK = "cloud.google.com/gce-topology-subblock"
GPUS = "gpu.topology/gpus"
HOST = "kubernetes.io/hostname"
GB200 = [f"gb200-{number:02}" for number in range(1, 19)]
L40S = [f"l40s-{number}" for number in range(1, 5)]
H200 = [f"h200-{number}" for number in range(1, 9)]


class SavedCluster:
    """The first nodes of the demo, and objects that a test adds; a link of each faulty node is down."""

    def __init__(self, *, most: int = 30, faulty: tuple[str, ...] = ()) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in demo_nodes(most=most, faulty=faulty)}
        self.others: list[Object] = []

    @property
    def objects(self) -> list[Object]:
        """All of them, nodes first."""
        return [*self.nodes.values(), *self.others]

    def save(self, file: Path) -> str:
        """The file with all of it, as kubectl would have saved them."""
        file.write_text(saved(self.objects))
        return str(file)

    def add_topology(self, status: Object | None = None, **spec: object) -> None:
        """Add the ClusterTopology `cluster`."""
        self.others.append(cluster_topology(status, **spec))

    def remove(self, names: Iterable[str]) -> None:
        """Remove nodes."""
        for name in names:
            del self.nodes[name]

    def add_node(self, name: str, labels: dict[str, str], *, provider_id: str = "", **allocatable: str) -> Object:
        """Add a Ready node with these labels, eight GPUs and these other resources; return it."""
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"providerID": provider_id} if provider_id else {},
            "status": {
                "allocatable": {"nvidia.com/gpu": "8", **allocatable},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.nodes[name] = node
        return node

    def copy(self, name: str, to: str) -> Object:
        """Add a node like another one, which no agent has annotated; return it."""
        copied = copy.deepcopy(self.nodes[name])
        copied["metadata"] |= {"name": to, "annotations": {}}
        copied["metadata"]["labels"][HOST] = to
        self.nodes[to] = copied
        return copied

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a node, to be edited in place."""
        labels: dict[str, str] = self.nodes[name]["metadata"]["labels"]
        return labels

    def remove_rack(self, names: Iterable[str]) -> None:
        """Take the rack's label from nodes."""
        for name in names:
            del self.labels(name)[RACK]

    def taint(self, name: str, **taint: str) -> None:
        """Give a node this taint, and nothing else in its spec."""
        self.nodes[name]["spec"] = {"taints": [taint]}

    def run(self, name: str, names: Iterable[str], *, gpus: int, phase: str = "Running", job: bool = False) -> None:
        """Run a pod with these GPUs on each of the nodes, as those of one Job or each for itself."""
        for number, node_name in enumerate(names):
            running = pod(f"{name}-{number}", node_name, gpus, phase=phase)
            if job:
                running["metadata"]["ownerReferences"] = [owner_of_job(name)]
            self.others.append(running)

    def offer_slices(self, names: Iterable[str]) -> dict[str, Object]:
        """Have DRA drivers alone offer the GPUs and NICs of nodes; attributes by device, such as `h200-1/gpu-3`."""
        attributes = {}
        for name in names:
            node = self.nodes[name]
            allocatable = {**node["status"]["allocatable"], "nvidia.com/gpu": "0"}
            node["status"] = {**node["status"], "allocatable": allocatable}
            for offer in copy.deepcopy(slices_of(name)):
                self.others.append(offer)
                for device in offer["spec"]["devices"]:
                    attributes[f"{name}/{device['name']}"] = device["attributes"]
        return attributes


def owner_of_job(name: str) -> Object:
    """How a pod names the Job that it belongs to."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "controller": True,
        "uid": "1",
        "name": name,
    }


def demo() -> SavedCluster:
    """A training on twelve trays, a pod that is done, a degraded node, and levels that workloads require."""
    cluster = SavedCluster(faulty=("h200-3",))
    cluster.run("train", GB200[:12], gpus=4)
    cluster.run("done", ["h200-1"], gpus=8, phase="Succeeded")
    required_by = [{"domain": "rack", "workloads": 3}, {"domain": "superpod", "workloads": 1}]
    cluster.add_topology({"requiredBy": required_by}, required=["rack"])
    return cluster


def busy_cpus() -> SavedCluster:
    """Two racks of two nodes; in each, a Job without GPUs holds 95 of 96 cores of one node (as marin#8249)."""
    cluster = SavedCluster(most=0)
    for number in range(4):
        labels = {HOST: f"n{number}", GPUS: "8", "gpu.topology/state": "ok", RACK: f"r{number // 2}"}
        cluster.add_node(f"n{number}", labels, cpu="96", memory="960Gi", pods="110")
    for number, node in enumerate(("n0", "n2")):
        job = pod(f"cpu-{number}", node, 0)
        job["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "95"}}}]
        job["metadata"]["ownerReferences"] = [owner_of_job("cpu")]
        cluster.others.append(job)
    return cluster


def dedicated() -> SavedCluster:
    """Two racks of two nodes, all of which carry a taint of the platform's own; no pod with GPUs runs."""
    cluster = SavedCluster(most=0)
    for number in range(4):
        name = f"n{number}"
        labels = {HOST: name, GPUS: "8", "gpu.topology/state": "ok", RACK: f"r{number // 2}"}
        cluster.add_node(name, labels, cpu="96", memory="960Gi", pods="110")
        cluster.taint(name, key="dedicated", value="ml", effect="NoSchedule")
    cluster.others.append(pod("web-0", "n0", 0))
    return cluster


def hgx() -> SavedCluster:
    """Two nodes whose NVLink ends at the node, without a zone."""
    cluster = SavedCluster(most=0)
    for name in ("h0", "h1"):
        cluster.add_node(name, {HOST: name, GPUS: "8", "gpu.topology/nvlink-domain": name})
    return cluster


def changed_demo() -> SavedCluster:
    """Racks and a state as they were some time before `demo` was saved."""
    cluster = SavedCluster()
    cluster.remove(L40S)
    for name in ("h200-1", "h200-2"):
        cluster.labels(name)[RACK] = "rack-9"
    cluster.add_topology(required=["rack"])
    return cluster


def plain() -> SavedCluster:
    """The demo's nodes and a ClusterTopology."""
    cluster = SavedCluster()
    cluster.add_topology()
    return cluster


def gaps() -> SavedCluster:
    """Two nodes lack their rack; an agent never labelled new-1, and old-1 has lost the label of its GPUs."""
    cluster = SavedCluster()
    labels = cluster.copy("h200-7", "new-1")["metadata"]["labels"]
    for key in list(labels):
        if key.startswith("gpu.topology/"):
            del labels[key]
    del cluster.copy("h200-8", "old-1")["metadata"]["labels"][GPUS]
    cluster.remove_rack(["h200-1", "h200-4"])
    cluster.add_topology(minCoveragePercent=90)
    return cluster


def holes() -> SavedCluster:
    """Two nodes lack their rack, so that it is no level."""
    cluster = plain()
    cluster.remove_rack(["gb200-01", "gb200-02"])
    return cluster


def counted() -> SavedCluster:
    """No nodes are saved, but a ClusterTopology with the controller's counts of 100,000."""
    cluster = SavedCluster(most=0)
    cluster.others += read_manifests("cli/counted-topology.yaml")
    return cluster


def uncounted() -> SavedCluster:
    """No nodes are saved, and no controller has counted any."""
    cluster = SavedCluster(most=0)
    cluster.add_topology()
    return cluster


def empty() -> SavedCluster:
    """Nothing is saved."""
    return SavedCluster(most=0)


def jobs() -> SavedCluster:
    """Three Jobs run: `apart` in two racks, `close` in one, and `left` on one node."""
    cluster = SavedCluster()
    cluster.run("apart", ["h200-1", "h200-8"], gpus=8, job=True)
    cluster.run("close", GB200[:3], gpus=4, job=True)
    cluster.run("left", ["h200-2"], gpus=2, job=True)
    return cluster


def crowded() -> SavedCluster:
    """A pod with one GPU runs on each node."""
    cluster = SavedCluster()
    cluster.run("one", cluster.nodes, gpus=1)
    return cluster


def parts() -> SavedCluster:
    """A pod holds parts of GPUs beside a Job."""
    cluster = SavedCluster()
    cluster.run("apart", ["h200-1", "h200-8"], gpus=8, job=True)
    cluster.run("part", ["h200-1"], gpus=1)
    container = cluster.others[-1]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/mig-1g.18gb": "2"}}
    return cluster


def nodes_only() -> SavedCluster:
    """Three nodes are saved, and nothing else."""
    return SavedCluster(most=3)


def single() -> SavedCluster:
    """One pod runs."""
    cluster = SavedCluster(most=3)
    cluster.run("one", ["gb200-01"], gpus=4, job=True)
    return cluster


def lacking() -> SavedCluster:
    """One node lacks its rack, which the ClusterTopology names."""
    cluster = SavedCluster()
    cluster.remove_rack(["h200-1"])
    cluster.add_topology(levels=[{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOST}])
    return cluster


def two_kinds() -> SavedCluster:
    """Two kinds of hardware, of which one has no racks."""
    cluster = SavedCluster()
    cluster.remove_rack(L40S)
    return cluster


def two_kinds_with_topology() -> SavedCluster:
    """Two kinds of hardware and a ClusterTopology."""
    cluster = two_kinds()
    cluster.add_topology()
    return cluster


def few_of_a_kind() -> SavedCluster:
    """One node has a label of another provider in place of its rack."""
    cluster = SavedCluster()
    cluster.remove_rack(["l40s-1"])
    cluster.labels("l40s-1")["crusoe.ai/pod.id"] = "p"
    for number in range(40):
        cluster.copy("gb200-01", f"m{number}")
    return cluster


def one_of_many() -> SavedCluster:
    """One of 41 nodes has no rack."""
    cluster = SavedCluster(most=1)
    for number in range(40):
        cluster.copy("gb200-01", f"m{number}")
    cluster.copy("gb200-01", "bare")
    cluster.remove_rack(["bare"])
    cluster.remove(["gb200-01"])
    return cluster


def one_of_many_with_stricter_topology() -> SavedCluster:
    """One of 41 nodes has no rack, and the ClusterTopology asks for 99 % of them."""
    cluster = one_of_many()
    cluster.add_topology(minCoveragePercent=99)
    return cluster


def one_without_agent() -> SavedCluster:
    """No agent counts the GPUs of a node."""
    cluster = SavedCluster()
    del cluster.labels("gb200-01")[GPUS]
    return cluster


def busy() -> SavedCluster:
    """Pods run on two trays."""
    cluster = SavedCluster()
    cluster.run("busy", ["gb200-01", "gb200-02"], gpus=4)
    cluster.add_topology()
    return cluster


def cordoned() -> SavedCluster:
    """The largest nodes are cordoned."""
    cluster = SavedCluster()
    for name in H200:
        cluster.nodes[name]["spec"] = {"unschedulable": True}
    cluster.run("one", ["gb200-01"], gpus=4)
    cluster.add_topology()
    return cluster


def own_levels(rack_of_n1: str = "rack-1") -> SavedCluster:
    """Three nodes whose rows and racks only an admin's configuration knows."""
    cluster = SavedCluster(most=1)
    for name, rack in {"n1": rack_of_n1, "n2": "rack-2", "n3": "rack-2"}.items():
        node = cluster.copy("gb200-01", name)
        node["status"] = {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        node["metadata"]["labels"] = {
            GPUS: "8",
            "gpu.topology/state": "ok",
            "example.com/row": "row-1",
            "example.com/rack": rack,
            HOST: name,
        }
    cluster.remove(["gb200-01"])
    cluster.add_topology()
    return cluster


def own_levels_unassigned() -> SavedCluster:
    """The rack of one node is a placeholder."""
    return own_levels(rack_of_n1="unassigned")


def sliced() -> SavedCluster:
    """GPUs and NICs by DRA drivers alone.

    The driver's word of h200-2 is wrong in two places, and of h200-4; h200-3 lacks a link; a ComputeDomain has another
    clique for gb200-02.
    """
    cluster = SavedCluster(faulty=("h200-3",))
    attributes = cluster.offer_slices(["gb200-01", "gb200-02", "l40s-1", "h200-1", "h200-2", "h200-3", "h200-4"])
    attributes["h200-2/gpu-3"] |= {
        "resource.kubernetes.io/numaNode": {"int": 7},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:ff"},
    }
    attributes["h200-4/gpu-0"] |= {
        "uuid": {"string": "GPU-other"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:ff:00.0"},
    }
    cluster.others += read_manifests("cli/compute-domain.yaml")
    cluster.others += read_manifests("cli/device-classes.yaml")
    return cluster


def linked() -> SavedCluster:
    """The same drivers, and nothing wrong."""
    cluster = SavedCluster()
    cluster.offer_slices(["gb200-01", "gb200-02", "l40s-1", "h200-1", "h200-2"])
    cluster.others += read_manifests("cli/device-classes.yaml")
    return cluster


def kept_by_a_budget() -> SavedCluster:
    """A PodDisruptionBudget keeps a pod where it is."""
    cluster = SavedCluster(most=3)
    cluster.others += read_manifests("cli/disruption-budget.yaml")
    return cluster


def spared_by_a_budget() -> SavedCluster:
    """The PodDisruptionBudget lets the pod go."""
    cluster = kept_by_a_budget()
    budget = cluster.others[-1]
    budget["status"]["disruptionsAllowed"] = 1
    return cluster


def tainted() -> SavedCluster:
    """An admin tainted the last node."""
    cluster = plain()
    cluster.taint("h200-8", key="team", value="vision", effect="NoSchedule")
    return cluster


def under_pressure() -> SavedCluster:
    """A kubelet tainted its node."""
    cluster = plain()
    cluster.taint("h200-8", key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
    return cluster


def tolerated() -> SavedCluster:
    """Taints that GPU pods tolerate, or that keep no pod away."""
    cluster = plain()
    cluster.taint("h200-6", key="nvidia.com/gpu", effect="NoSchedule")
    cluster.taint("h200-7", key="sku", value="gpu", effect="NoSchedule")
    cluster.taint("h200-8", key="team", effect="PreferNoSchedule")
    return cluster


def miscabled() -> SavedCluster:
    """A cable of l40s-1 goes to another leaf than those of its peers."""
    cluster = SavedCluster()
    rail = {
        "node": "l40s-1",
        "nic": "mlx5_0",
        "switch": "leaf-2",
        "port": "",
        "expected": "leaf-1",
    }
    cluster.add_topology({"rails": {"nodes": 2, "miscabledRails": 1, "miscabled": [rail, None]}})
    return cluster


def trays() -> SavedCluster:
    """Four trays of one clique."""
    cluster = SavedCluster(most=4)
    for name in cluster.nodes:
        cluster.labels(name)["nvidia.com/gpu.clique"] = "a.1"
    cluster.add_topology()
    return cluster


def tight() -> SavedCluster:
    """Twelve nodes of one CPU each."""
    cluster = SavedCluster(most=0)
    for number in range(12):
        status = {"allocatable": {"cpu": "1", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}"},
            "status": status,
        }
        cluster.others.append(node)
    return cluster
