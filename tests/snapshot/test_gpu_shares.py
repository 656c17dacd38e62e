"""What a node's GPU resources are: whole GPUs, or shares of them under the name of GPUs."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.snapshot.clusters import node_of, pod_of, snapshot
from tests.support.saved import cluster_topology
from tests.support.sharing import mixed_cluster, running, sharing_node
from toposcope.kube.gpu_shares import Unit
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import shared_gpus, tree

REPLICAS = {"nvidia.com/gpu.replicas": "10"}
GKE = "cloud.google.com/"
H100 = "NVIDIA-H100-80GB-HBM3"


def cluster(*objects: Mapping[str, Any]) -> Snapshot:
    nodes = [node_of(one) for one in objects if one["kind"] == "Node"]
    pods = [pod_of(one) for one in objects if one["kind"] == "Pod"]
    return snapshot(nodes, pods, cluster_topology())


def offered(node: dict[str, Any]) -> tuple[int, int | None, list[tuple[str, str, int]]]:
    """GPUs, free whole GPUs, and shares by resource, kind and number."""
    seen = cluster(node)
    (view,) = seen.nodes
    shares = [(one.resource, one.described, one.total) for one in seen.shares.get(view.name, ())]
    return view.gpus, seen.free_gpus(view), shares


SHARED = {
    "time slicing, by the product": (
        4,
        40,
        REPLICAS | {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        "time slices",
    ),
    "time slicing, by the number of replicas alone": (4, 40, REPLICAS, "time slices"),
    "time slicing of an old GFD without a strategy": (
        2,
        6,
        {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.product": "RTX-2000-Ada-SHARED"},
        "time slices",
    ),
    "time slices of fewer GPUs than the agent counts": (
        4,
        3,
        {"nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.product": "A100-SHARED"},
        "time slices",
    ),
    "only some GPUs are sliced, under one name": (4, 13, REPLICAS, "time slices"),
    "MPS": (8, 16, {"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.sharing-strategy": "mps"}, "MPS clients"),
    "MIG single": (
        4,
        28,
        {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb"},
        "1g.5gb MIG devices",
    ),
    "MIG single, one device a GPU": (
        8,
        8,
        {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-7g.80gb"},
        "7g.80gb MIG devices",
    ),
    "MIG single with media extensions": (
        1,
        1,
        {"nvidia.com/gpu.product": f"{H100}-MIG-1g.10gb.me", "nvidia.com/mig.strategy": "single"},
        "1g.10gb.me MIG device",
    ),
    "MIG single, sliced in time as well": (
        4,
        56,
        {"nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb-SHARED", "nvidia.com/gpu.replicas": "2"},
        "time slices of 1g.6gb MIG devices",
    ),
    "MIG single without a product": (
        4,
        28,
        {"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-1g.5gb"},
        "1g.5gb MIG devices",
    ),
    "MIG single of a layout with a name of its own": (4, 12, {"nvidia.com/mig.strategy": "single"}, "MIG devices"),
    "HAMi, which labels nothing": (4, 40, {}, "shares"),
    "HAMi beside GFD": (4, 40, {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "1"}, "shares"),
    "HAMi on one GPU": (1, 2, {}, "shares"),
    "GKE, time sharing": (
        2,
        20,
        {GKE + "gke-gpu-sharing-strategy": "time-sharing", GKE + "gke-max-shared-clients-per-gpu": "10"},
        "time slices",
    ),
    "GKE, MPS": (
        1,
        3,
        {GKE + "gke-gpu-sharing-strategy": "mps", GKE + "gke-max-shared-clients-per-gpu": "3"},
        "MPS clients",
    ),
    "GKE, partitions": (1, 7, {GKE + "gke-gpu-partition-size": "1g.5gb"}, "1g.5gb MIG devices"),
    "GKE, partitions that are shared": (
        1,
        21,
        {
            GKE + "gke-gpu-partition-size": "1g.5gb",
            GKE + "gke-gpu-sharing-strategy": "time-sharing",
            GKE + "gke-max-shared-clients-per-gpu": "3",
        },
        "time slices of 1g.5gb MIG devices",
    ),
}


@pytest.mark.regression
@pytest.mark.parametrize(("gpus", "offers", "labels", "kind"), SHARED.values(), ids=SHARED)
def test_shares_under_the_name_of_gpus(gpus: int, offers: int, labels: dict[str, str], kind: str) -> None:
    node = sharing_node("n", agent=gpus, offers={"nvidia.com/gpu": offers}, labels=labels)
    assert offered(node) == (gpus, 0, [("nvidia.com/gpu", kind, offers)])


WHOLE = {
    "nothing is shared": (8, 8, {}),
    "GFD says that nothing is shared": (
        8,
        8,
        {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.product": H100},
    ),
    "the MIG strategy is single and MIG is off": (
        8,
        8,
        {"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": "all-disabled", "nvidia.com/gpu.product": H100},
    ),
    "one GPU is unhealthy": (8, 7, {}),
    "no replicas are left": (4, 4, {"nvidia.com/gpu.replicas": "0"}),
    "a label is no number": (4, 4, {"nvidia.com/gpu.replicas": "many"}),
}


@pytest.mark.parametrize(("gpus", "offers", "labels"), WHOLE.values(), ids=WHOLE)
def test_whole_gpus(gpus: int, offers: int, labels: dict[str, str]) -> None:
    node = sharing_node("n", agent=gpus, offers={"nvidia.com/gpu": offers}, labels=labels)
    assert offered(node) == (gpus, offers, [])


LOST = {
    "one of eight": (7, 8, {}),
    "all but one, as GFD still counts them": (1, 2, {"nvidia.com/gpu.count": "2"}),
    "all but one, and the agent says so": (1, 2, {}),
    "seven of eight": (1, 8, {}),
}


@pytest.mark.regression
@pytest.mark.parametrize(("left", "offers", "labels"), LOST.values(), ids=LOST)
def test_lost_gpus_that_are_still_offered_are_no_shares(left: int, offers: int, labels: dict[str, str]) -> None:
    node = sharing_node("n", agent=left, offers={"nvidia.com/gpu": offers}, labels=labels, state="degraded")
    assert offered(node) == (left, left, [])


def test_degraded_node_may_still_share() -> None:
    node = sharing_node("n", agent=3, offers={"nvidia.com/gpu": 40}, state="degraded")
    assert offered(node) == (3, 0, [("nvidia.com/gpu", "shares", 40)])


def test_shares_with_a_name_of_their_own_leave_the_others_whole() -> None:
    node = sharing_node("n", offers={"nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 20}, labels=REPLICAS)
    assert offered(node) == (4, 2, [("nvidia.com/gpu.shared", "time slices", 20)])


def test_renamed_mig_shares_keep_their_name() -> None:
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.replicas": "2"}
    node = sharing_node("n", offers={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb.shared": 56}, labels=labels)
    assert offered(node) == (4, 0, [("nvidia.com/mig-1g.5gb.shared", "time slices of 1g.5gb MIG devices", 56)])


@pytest.mark.parametrize("name", ["nvidia.com/gpu-small", "nvidia.com/shared"])
def test_shares_may_have_a_name_that_somebody_chose(name: str) -> None:
    node = sharing_node("n", offers={"nvidia.com/gpu": 0, name: 40}, labels=REPLICAS)
    assert offered(node) == (4, 0, [(name, "time slices", 40)])


def test_memory_and_cores_of_hami_are_no_shares() -> None:
    offers = {"nvidia.com/gpu": 40, "nvidia.com/gpumem": 163840, "nvidia.com/gpucores": 400}
    node = sharing_node("n", offers=offers, labels=REPLICAS)
    assert offered(node) == (4, 0, [("nvidia.com/gpu", "time slices", 40)])


@pytest.mark.parametrize(
    ("offers", "labels", "gpus"),
    [
        pytest.param(40, {**REPLICAS, "nvidia.com/gpu.count": "4"}, 4, id="GFD counts GPUs"),
        pytest.param(40, REPLICAS, 4, id="replicas divide what is offered"),
        pytest.param(41, REPLICAS, 41, id="and where they do not, it stands"),
        pytest.param(8, {}, 8, id="nothing says more than the device plugin"),
        pytest.param(0, {"nvidia.com/gpu.count": "8"}, 8, id="a device plugin that offers nothing yet"),
        pytest.param(
            28,
            {"nvidia.com/gpu.count": "28", "nvidia.com/gpu.product": "A100-MIG-1g.5gb"},
            28,
            id="with MIG, GFD counts MIG devices: how many GPUs is unknown, and not zero",
        ),
    ],
)
def test_gpus_without_an_agent(offers: int, labels: dict[str, str], gpus: int) -> None:
    assert offered(sharing_node("n", agent=None, offers={"nvidia.com/gpu": offers}, labels=labels))[0] == gpus


def test_tree_counts_whole_gpus_and_names_what_is_shared() -> None:
    seen = cluster(*mixed_cluster())
    scope = select_scope(seen)
    root = tree(seen, scope)
    assert (root.gpus, root.free) == (28, 11)
    assert [(one.nodes, one.gpus, one.described, one.free, one.total) for one in shared_gpus(seen, scope)] == [
        (("mig-single",), 4, "1g.5gb MIG devices", 28, 28),
        (("sliced",), 4, "time slices", 39, 40),
        (("renamed",), 4, "time slices", 39, 40),
        (("mig-mixed",), 4, "1g.5gb MIG devices", 25, 28),
    ]


def test_nodes_with_different_labels_are_counted_apart() -> None:
    seen = cluster(
        sharing_node("a", agent=None, offers={"nvidia.com/gpu": 40}, labels={"nvidia.com/gpu.replicas": "10"}),
        sharing_node("b", agent=None, offers={"nvidia.com/gpu": 40}, labels={"nvidia.com/gpu.replicas": "20"}),
    )
    root = tree(seen, select_scope(snapshot(seen.nodes, ())))
    assert (root.gpus, root.free) == (0, 0)  # its ClusterTopology selects nodes with an agent
    bare = Snapshot("a test", None, seen.nodes, ())
    root = tree(bare, select_scope(bare))
    assert (root.gpus, root.free) == (6, 0)
    assert select_scope(bare).table() is not None


def test_free_shares_where_no_pod_may_go_and_where_pods_are_unknown() -> None:
    node = node_of(sharing_node("n", offers={"nvidia.com/gpu": 40}))
    seen = snapshot([node], [pod_of(running("p", "n", {"nvidia.com/gpu": 3}))])
    ((shares,),) = seen.shares.values()
    assert (shares.unit, seen.free_shares(node, shares)) == (Unit.SHARE, 37)
    assert snapshot([node], None).free_shares(node, shares) is None


def test_shares_are_not_called_gpus() -> None:
    seen = cluster(*mixed_cluster())
    whole = seen.in_whole_gpus
    assert {node.name: node.allocatable.get("nvidia.com/gpu", 0) for node in whole.nodes} == {
        "eight": 8,
        "mig-mixed": 0,
        "mig-single": 0,
        "renamed": 0,
        "sliced": 0,
        "whole": 4,
    }
    assert whole.by_name["sliced"].allocatable["nvidia.com/gpu.shared"] == 40
    requests = {pod.name: dict(pod.requests) for pod in whole.pods or ()}
    assert requests["a"] == {"nvidia.com/gpu": 1}
    assert requests["b"] == {"nvidia.com/gpu.shared": 1}


def test_cluster_without_shares_is_unchanged() -> None:
    seen = cluster(sharing_node("n", offers={"nvidia.com/gpu": 4}))
    assert seen.in_whole_gpus is seen
