"""Small clusters with pods, by hand and at random."""

import random
from collections.abc import Iterable

from toposcope.api.cluster_topology import read
from toposcope.planning.capacity import Capacity
from toposcope.planning.gangs import Gang, gangs_of
from toposcope.snapshot.model import NodeView, Owner, PodView, Snapshot
from toposcope.snapshot.reach import Basis, PodShape
from toposcope.snapshot.scope import select_scope

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
GPU, GPUS_OF_NODE = "nvidia.com/gpu", "gpu.topology/gpus"
PLACES = {BLOCK: 0, RACK: 1, HOST: 2, GPUS_OF_NODE: 3}
_LEVELS = [{"domain": "block", "key": BLOCK}, {"domain": "rack", "key": RACK}, {"domain": "host", "key": HOST}]
TOPOLOGY = read({"metadata": {"name": "cluster", "uid": "1"}, "spec": {"levels": _LEVELS}})


def node(name: str, block: str = "b", rack: str = "r", gpus: int = 8, *, ready: bool = True) -> NodeView:
    """A node with so many GPUs in a rack of a block."""
    return NodeView(
        name=name,
        uid=name,
        places=PLACES,
        values=(block, rack, name, str(gpus)),
        is_ready=ready,
        is_schedulable=True,
        taints=(),
        allocatable={GPU: gpus, "cpu": 64, "pods": 110},
        conditions={},
        matrix=None,
    )


def node_without_levels(name: str) -> NodeView:
    """A node of eight GPUs that carries none of the levels."""
    return NodeView(
        name=name,
        uid=name,
        places={GPUS_OF_NODE: 0},
        values=("8",),
        is_ready=True,
        is_schedulable=True,
        taints=(),
        allocatable={GPU: 8},
        conditions={},
        matrix=None,
    )


GPUS_ALONE = PodShape(gpus=1, cpu=0, memory=0, basis=Basis.LIKE)
"""Of gangs whose pods request nothing else."""
RACKS = [node(f"n{number}", f"b{number // 4}", f"r{number // 2}") for number in range(8)]
"""Two blocks of two racks of two nodes."""


def pod(job: str, number: int, where: str, gpus: int = 8, *, cpu: int = 0, kind: str = "Job", **labels: str) -> PodView:
    """One running pod of a Job, or of something else."""
    requests = {GPU: gpus}
    if cpu:
        requests["cpu"] = cpu
    owner = Owner("batch/v1", kind, job) if kind else None
    return PodView(
        namespace="ml",
        name=f"{job}-{number}",
        node=where,
        phase="Running",
        requests=requests,
        owner=owner,
        labels=labels,
        annotations={},
        scheduler="kueue",
        waiting="",
    )


def pods(job: str, *where: str, gpus: int = 8, kind: str = "Job") -> list[PodView]:
    """A pod of the same Job on each of these nodes."""
    running = []
    for number, name in enumerate(where):
        running.append(pod(job, number, name, gpus, kind=kind))
    return running


def busy(*free: str) -> list[PodView]:
    """Pods that take all GPUs of all nodes of RACKS but these."""
    taken = []
    for node in RACKS:
        if node.name not in free:
            taken.append(node.name)
    return pods("busy", *taken, kind="StatefulSet")


def cluster(nodes: Iterable[NodeView], running: Iterable[PodView] = ()) -> Snapshot:
    """A cluster of these nodes and pods."""
    return Snapshot(
        source="test",
        taken_at=None,
        nodes=tuple(nodes),
        pods=tuple(running),
        topologies=(TOPOLOGY,),
    )


def capacity(snapshot: Snapshot) -> tuple[Capacity, tuple[Gang, ...]]:
    """What it has room for, and the gangs that run."""
    gangs = gangs_of(snapshot)
    return Capacity(snapshot, select_scope(snapshot), gangs), gangs


def at_random(rng: random.Random) -> Snapshot:
    """Up to six nodes in up to four racks of two blocks, and pods that fit onto them."""
    nodes = []
    for number in range(rng.randint(2, 6)):
        block = rng.choice("xy")
        rack = rng.choice("ab")
        gpus = rng.randint(1, 4)
        is_ready = rng.random() < 0.9
        nodes.append(node(f"n{number}", block, rack, gpus, ready=is_ready))
    free = {node.name: dict(node.allocatable) for node in nodes}
    running: list[PodView] = []
    for job in range(rng.randint(0, 3)):
        running += _random_job(rng, f"j{job}", free)
    return cluster(nodes, running)


def _random_job(rng: random.Random, name: str, free: dict[str, dict[str, int]]) -> list[PodView]:
    """Up to four pods of one or two sizes; what they take is no longer free."""
    sizes = []
    for _ in range(rng.randint(1, 2)):
        gpus = rng.randint(1, 2)
        cpu = rng.choice((0, 20, 40))
        sizes.append((gpus, cpu))
    running = []
    for number in range(rng.randint(1, 4)):
        gpus, cpu = rng.choice(sizes)
        roomy = _with_room(free, gpus, cpu)
        if not roomy:
            continue
        where = rng.choice(roomy)
        free[where][GPU] -= gpus
        free[where]["cpu"] -= cpu
        kind = rng.choice(("Job", "StatefulSet"))
        running.append(pod(name, number, where, gpus, cpu=cpu, kind=kind))
    return running


def _with_room(free: dict[str, dict[str, int]], gpus: int, cpu: int) -> list[str]:
    """The nodes that have so much free."""
    names = []
    for name, amounts in free.items():
        if amounts[GPU] >= gpus and amounts["cpu"] >= cpu:
            names.append(name)
    return names
