"""Small clusters with pods, by hand and at random."""

import random
from collections.abc import Iterable

from toposcope.api.cluster_topology import read
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.snapshot.model import NodeView, Owner, PodView, Snapshot
from toposcope.snapshot.scope import select_scope

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
PLACES = {BLOCK: 0, RACK: 1, HOST: 2, "gpu.topology/gpus": 3}
_LEVELS = [{"domain": domain, "key": key} for domain, key in (("block", BLOCK), ("rack", RACK), ("host", HOST))]
TOPOLOGY = read({"metadata": {"name": "cluster", "uid": "1"}, "spec": {"levels": _LEVELS}})


def node(name: str, block: str = "b", rack: str = "r", gpus: int = 8, *, ready: bool = True) -> NodeView:
    resources = {"nvidia.com/gpu": gpus, "cpu": 64, "pods": 110}
    return NodeView(name, name, PLACES, (block, rack, name, str(gpus)), ready, True, (), resources, {}, None)


def pod(job: str, number: int, where: str, gpus: int = 8, cpu: int = 0, kind: str = "Job", **labels: str) -> PodView:
    requests = {"nvidia.com/gpu": gpus, **({"cpu": cpu} if cpu else {})}
    owner = Owner("batch/v1", kind, job) if kind else None
    return PodView("ml", f"{job}-{number}", where, "Running", requests, owner, labels, {}, "kueue", "")


def pods(job: str, *where: str, gpus: int = 8, kind: str = "Job") -> list[PodView]:
    return [pod(job, number, name, gpus, kind=kind) for number, name in enumerate(where)]


def cluster(nodes: Iterable[NodeView], running: Iterable[PodView] = ()) -> Snapshot:
    return Snapshot("test", None, tuple(nodes), tuple(running), (TOPOLOGY,))


def capacity(snapshot: Snapshot) -> tuple[Capacity, tuple[Gang, ...]]:
    gangs = gangs_of(snapshot)
    return Capacity(snapshot, select_scope(snapshot), gangs), gangs


def at_random(rng: random.Random) -> Snapshot:
    """Up to six nodes in up to four racks of two blocks, and pods that fit onto them."""
    nodes = [
        node(f"n{i}", rng.choice("xy"), rng.choice("ab"), rng.randint(1, 4), ready=rng.random() < 0.9)
        for i in range(rng.randint(2, 6))
    ]
    free = {node.name: dict(node.allocatable) for node in nodes}
    running: list[PodView] = []
    for number in range(rng.randint(0, 3)):
        kinds = [(rng.randint(1, 2), rng.choice((0, 20, 40))) for _ in range(rng.randint(1, 2))]
        for index in range(rng.randint(1, 4)):
            gpus, cpu = rng.choice(kinds)
            where = [name for name, left in free.items() if left["nvidia.com/gpu"] >= gpus and left["cpu"] >= cpu]
            if where:
                name = rng.choice(where)
                free[name]["nvidia.com/gpu"] -= gpus
                free[name]["cpu"] -= cpu
                running.append(pod(f"j{number}", index, name, gpus, cpu, rng.choice(("Job", "StatefulSet"))))
    return cluster(nodes, running)
