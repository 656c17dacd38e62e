"""Which idle GPUs a pod of typical shape can get, what blocks the others, and who."""

from typing import Any

import pytest
from tests.snapshot.clusters import pod_of, snapshot, view
from toposcope.integrations.framework.node_affinity import NodeFilter, Toleration
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.reach import Basis, BlockedGpus, PodShape, Reach, typical_shape
from toposcope.snapshot.scope import select_scope

pytestmark = pytest.mark.regression
GPU = "nvidia.com/gpu"
DEDICATED = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def pod(
    name: str, node: str | None, *, tolerations: list[dict[str, str]] | None = None, **requests: str
) -> PodView | None:
    """A pod with these requests; `gpus` is short for NVIDIA's. Waiting without a node."""
    resources = {GPU if key == "gpus" else key: value for key, value in requests.items()}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": resources}}]}
    if node:
        spec["nodeName"] = node
    if tolerations:
        spec["tolerations"] = tolerations
    return pod_of({"metadata": {"name": name, "namespace": "u"}, "spec": spec, "status": {"phase": "Running"}})


def shape(gpus: int, cpu: int = 0, memory: int = 0, node_filter: NodeFilter | None = None) -> PodShape:
    """Cores, and bytes."""
    return PodShape(gpus, cpu * 1000, memory, Basis.LIKE, node_filter or NodeFilter())


def blocks(cluster: Snapshot, wanted: PodShape) -> list[tuple[str, str, int, list[str], tuple[str, ...]]]:
    reach = Reach(cluster, select_scope(cluster), wanted)
    return [(block.why.value, block.detail, block.gpus, block.nodes, block.holders) for block in reach.blocks()]


def one_blocked(cluster: Snapshot, wanted: PodShape) -> BlockedGpus:
    (block,) = Reach(cluster, select_scope(cluster), wanted).blocks()
    return block


def test_cpu_job_blocks_the_gpus_of_its_node() -> None:
    """marin#8249: 140 of 144 cores of one node in each NVLink domain."""
    cluster = snapshot([view("a"), view("b")], [pod("cpu-0", "a", cpu="97")])
    block = one_blocked(cluster, shape(4, cpu=40))
    assert block.sentence() == "8 GPUs on 1 node (a), where too little CPU is left: u/cpu-0 holds it"


def test_pods_are_whole_and_what_is_left_over_goes_to_a_smaller_one() -> None:
    """Two pods of 3 GPUs and one of 2 fit on a free node; 40 cores are enough for one pod of 3."""
    cluster = snapshot([view("a"), view("b")], [pod("web", "a", cpu="60")])
    assert blocks(cluster, shape(3, cpu=30)) == [("cpu", "", 5, ["a"], ("u/web",))]


def test_pod_with_more_gpus_than_are_idle_is_scaled_down() -> None:
    """Fragmentation is no block: 2 idle GPUs want a quarter of the CPU of 8."""
    running = [pod("train", "a", gpus="6", cpu="60"), pod("web", "a", cpu="15")]
    cluster = snapshot([view("a")], running)
    assert blocks(cluster, shape(8, cpu=80)) == []
    assert blocks(cluster, shape(8, cpu=120)) == [("cpu", "", 2, ["a"], ("u/web",))]


def nodes_of_every_state() -> Snapshot:
    """Four nodes that take no pods, each for another reason, among many that do."""
    nodes = [
        view("cordoned", cordoned=True),
        view("dead", ready=False),
        view("lacks", rack=None),
        view("tainted", taints=[DEDICATED]),
        *[view(f"good-{number:02}") for number in range(60)],
    ]
    return snapshot(nodes)


def test_every_state_of_a_node_is_a_reason() -> None:
    assert blocks(nodes_of_every_state(), shape(8)) == [
        ("cordoned", "", 8, ["cordoned"], ()),
        ("level", "", 8, ["lacks"], ()),
        ("notReady", "", 8, ["dead"], ()),
        ("taint", "dedicated=x:NoSchedule", 8, ["tainted"], ()),
    ]


def test_every_reason_has_a_sentence() -> None:
    cluster = nodes_of_every_state()
    reach = Reach(cluster, select_scope(cluster), shape(8))
    assert [block.sentence() for block in reach.blocks()] == [
        "8 GPUs on 1 node (cordoned), cordoned: not in FREE",
        "8 GPUs on 1 node (lacks) that lacks a level: toposcope nodes --state left-out",
        "8 GPUs on 1 node (dead), not Ready: not in FREE",
        "8 GPUs on 1 node (tainted) that has the taint dedicated=x:NoSchedule",
    ]


def test_wide_sentence_names_every_node_and_pod() -> None:
    nodes = [view(f"n{number}") for number in range(5)]
    running = []
    for number in range(5):
        running.append(pod(f"web-{number}", f"n{number}", cpu="97"))
    block = one_blocked(snapshot(nodes, running), shape(8, cpu=40))
    assert block.sentence(is_wide=True) == (
        "40 GPUs on 5 nodes (n0, n1, n2, n3, n4), where too little CPU is left: "
        "u/web-0, u/web-1, u/web-2, u/web-3 and u/web-4 hold it"
    )


def test_pods_with_gpus_hold_what_is_scarce_where_no_other_pods_run() -> None:
    running = [pod("train", "a", gpus="1", cpu="97")]
    block = one_blocked(snapshot([view("a")], running), shape(8, cpu=80))
    assert block.sentence() == "7 GPUs on 1 node (a), where too little CPU is left: pods with GPUs hold it"


def test_taint_that_the_pod_tolerates_is_no_reason() -> None:
    tolerant = NodeFilter(tolerations=(Toleration("dedicated", "Exists", "", ""),))
    cluster = snapshot([view("tainted", taints=[DEDICATED]), view("good")])
    assert blocks(cluster, shape(8, node_filter=tolerant)) == []


def test_node_with_as_many_pods_as_it_may_run_takes_no_other() -> None:
    running = [pod(f"small-{number:03}", "a") for number in range(110)]
    block = one_blocked(snapshot([view("a")], running), shape(1))
    assert block.sentence() == (
        "8 GPUs on 1 node (a), where no more pods may run: "
        "u/small-000, u/small-001, u/small-002 and 107 more pods hold it"
    )


def test_gpus_that_pods_hold_are_not_idle() -> None:
    cluster = snapshot([view("a", cordoned=True)], [pod("train", "a", gpus="8")])
    assert blocks(cluster, shape(8)) == []


def test_shape_is_the_median_of_pods_with_gpus_waiting_ones_too() -> None:
    running = [
        pod("one", "a", gpus="1", cpu="4"),
        pod("two", "a", gpus="2", cpu="8", memory="2Gi"),
        pod("large", None, gpus="8", cpu="80", memory="8Gi"),
        pod("web", "a", cpu="3"),
    ]
    assert typical_shape(snapshot([view("a")], running)) == PodShape(2, 8000, 2 << 30, Basis.MEDIAN)


def test_shape_tolerates_what_most_pods_with_gpus_tolerate() -> None:
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    running = [
        pod("a", "n", gpus="1", tolerations=tolerations),
        pod("b", "n", gpus="1", tolerations=tolerations),
        pod("c", "n", gpus="1"),
    ]
    nodes: list[NodeView] = [view("n", taints=[DEDICATED]), view("m")]
    cluster = snapshot(nodes, running)
    assert blocks(cluster, typical_shape(cluster)) == []


def test_shape_without_pods_with_gpus_is_half_of_a_share() -> None:
    """Of 100 cores, 8 GPUs: what else runs on a node needs some, too."""
    assert typical_shape(snapshot([view("a")])) == PodShape(1, 6250, 0, Basis.SHARE)
