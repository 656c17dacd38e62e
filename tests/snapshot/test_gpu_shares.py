"""What a node's GPU resources are: whole GPUs, or shares of them under the name of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import node_of, pod_of, snapshot
from tests.support.saved import cluster_topology
from tests.support.sharing import mixed_cluster, running, sharing_node
from toposcope.kube import gpu_shares
from toposcope.kube.gpu_shares import GpuUnit
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import shared_gpus, tree

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
COUNT = "nvidia.com/gpu.count"
PRODUCT = "nvidia.com/gpu.product"
REPLICAS = "nvidia.com/gpu.replicas"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
MIG_STRATEGY = "nvidia.com/mig.strategy"
MIG_CONFIG = "nvidia.com/mig.config"
GKE_STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
H100 = "NVIDIA-H100-80GB-HBM3"
TEN_REPLICAS = {REPLICAS: "10"}


def cluster(*objects: Mapping[str, Any]) -> Snapshot:
    """These nodes and pods under a ClusterTopology."""
    nodes = []
    pods = []
    for document in objects:
        if document["kind"] == "Node":
            nodes.append(node_of(document))
        else:
            pods.append(pod_of(document))
    return snapshot(nodes, pods, cluster_topology())


@dataclass(frozen=True)
class Shares:
    """Shares of one resource."""

    resource: str
    kind: str
    total: int


@dataclass(frozen=True)
class Offered:
    """The GPUs of a node, the whole ones of them that are free, and its shares."""

    gpus: int
    free: int | None
    shares: list[Shares] = field(default_factory=list)


def only_shares_of(resource: str, kind: str, total: int, *, gpus: int, free: int = 0) -> Offered:
    """A node that has shares of one resource."""
    shares = Shares(resource, kind, total)
    return Offered(gpus, free, [shares])


def offered(node: Mapping[str, Any]) -> Offered:
    """What is made of a Node object."""
    alone = cluster(node)
    (view,) = alone.nodes
    shares = []
    for share in alone.shares.get(view.name, ()):
        found = Shares(
            resource=share.resource,
            kind=share.described,
            total=share.total,
        )
        shares.append(found)
    free = alone.free_gpus(view)
    return Offered(view.gpus, free, shares)


SHARED = [
    pytest.param(
        4,
        40,
        {REPLICAS: "10", PRODUCT: "Tesla-T4-SHARED", STRATEGY: "time-slicing"},
        "time slices",
        id="time-slicing-by-product",
    ),
    pytest.param(4, 40, TEN_REPLICAS, "time slices", id="time-slicing-by-replicas"),
    pytest.param(4, 40, {PRODUCT: "Tesla-T4-SHARED"}, "shares", id="sharing-of-an-unknown-kind"),
    pytest.param(
        2,
        6,
        {COUNT: "2", REPLICAS: "3", PRODUCT: "RTX-2000-Ada-SHARED"},
        "time slices",
        id="time-slicing-of-an-old-gfd",
    ),
    pytest.param(
        4,
        3,
        {REPLICAS: "3", PRODUCT: "A100-SHARED"},
        "time slices",
        id="time-slicing-of-fewer-gpus",
    ),
    pytest.param(4, 13, TEN_REPLICAS, "time slices", id="time-slicing-of-some-gpus"),
    pytest.param(8, 16, {REPLICAS: "2", STRATEGY: "mps"}, "MPS clients", id="mps"),
    pytest.param(
        4,
        28,
        {MIG_STRATEGY: "single", PRODUCT: "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb"},
        "1g.5gb MIG devices",
        id="mig-single",
    ),
    pytest.param(
        8,
        8,
        {MIG_STRATEGY: "single", PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-7g.80gb"},
        "7g.80gb MIG devices",
        id="mig-single-one-device-a-gpu",
    ),
    pytest.param(
        1,
        1,
        {MIG_STRATEGY: "single", PRODUCT: f"{H100}-MIG-1g.10gb.me"},
        "1g.10gb.me MIG device",
        id="mig-single-with-media-extensions",
    ),
    pytest.param(
        4,
        56,
        {REPLICAS: "2", PRODUCT: "NVIDIA-A30-MIG-1g.6gb-SHARED"},
        "time slices of 1g.6gb MIG devices",
        id="mig-single-time-sliced",
    ),
    pytest.param(
        4,
        28,
        {MIG_STRATEGY: "single", MIG_CONFIG: "all-1g.5gb"},
        "1g.5gb MIG devices",
        id="mig-single-without-product",
    ),
    pytest.param(4, 12, {MIG_STRATEGY: "single"}, "MIG devices", id="mig-single-of-a-named-layout"),
    pytest.param(4, 40, {}, "shares", id="hami"),
    pytest.param(4, 40, {COUNT: "4", REPLICAS: "1"}, "shares", id="hami-beside-gfd"),
    pytest.param(1, 2, {}, "shares", id="hami-on-one-gpu"),
    pytest.param(
        2,
        20,
        {GKE_STRATEGY: "time-sharing", GKE_CLIENTS: "10"},
        "time slices",
        id="gke-time-sharing",
    ),
    pytest.param(1, 3, {GKE_STRATEGY: "mps", GKE_CLIENTS: "3"}, "MPS clients", id="gke-mps"),
    pytest.param(1, 7, {GKE_PARTITION: "1g.5gb"}, "1g.5gb MIG devices", id="gke-partitions"),
    pytest.param(
        1,
        21,
        {GKE_PARTITION: "1g.5gb", GKE_STRATEGY: "time-sharing", GKE_CLIENTS: "3"},
        "time slices of 1g.5gb MIG devices",
        id="gke-shared-partitions",
    ),
]


@pytest.mark.regression
@pytest.mark.parametrize(("gpus", "offers", "labels", "kind"), SHARED)
def test_shares_go_under_the_name_of_gpus(gpus: int, offers: int, labels: dict[str, str], kind: str) -> None:
    node = sharing_node("n", agent=gpus, offers={GPU: offers}, labels=labels)
    assert offered(node) == only_shares_of(GPU, kind, offers, gpus=gpus)


@pytest.mark.parametrize(
    ("gpus", "offers", "labels"),
    [
        pytest.param(8, 8, {}, id="no-labels"),
        pytest.param(8, 8, {REPLICAS: "1", STRATEGY: "none", PRODUCT: H100}, id="not-shared-by-gfd"),
        pytest.param(
            8,
            8,
            {MIG_STRATEGY: "single", MIG_CONFIG: "all-disabled", PRODUCT: H100},
            id="mig-disabled",
        ),
        pytest.param(8, 7, {}, id="unhealthy-gpu"),
        pytest.param(4, 4, {REPLICAS: "0"}, id="no-replicas"),
        pytest.param(4, 4, {REPLICAS: "many"}, id="malformed-replicas"),
    ],
)
def test_gpus_that_are_not_shared_are_whole(gpus: int, offers: int, labels: dict[str, str]) -> None:
    node = sharing_node(
        "n",
        agent=gpus,
        offers={GPU: offers},
        labels=labels,
    )
    assert offered(node) == Offered(gpus, free=offers)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("gpus", "offers", "labels"),
    [
        pytest.param(7, 8, {}, id="one-of-eight"),
        pytest.param(1, 2, {COUNT: "2"}, id="one-of-two-that-gfd-counts"),
        pytest.param(1, 2, {}, id="one-of-two"),
        pytest.param(1, 8, {}, id="seven-of-eight"),
    ],
)
def test_lost_gpus_that_are_still_offered_are_no_shares(gpus: int, offers: int, labels: dict[str, str]) -> None:
    node = sharing_node(
        "n",
        agent=gpus,
        offers={GPU: offers},
        labels=labels,
        state="degraded",
    )
    assert offered(node) == Offered(gpus, free=gpus)


def test_degraded_node_may_still_share() -> None:
    node = sharing_node("n", agent=3, offers={GPU: 40}, state="degraded")
    assert offered(node) == only_shares_of(GPU, "shares", 40, gpus=3)


def test_renamed_shares_leave_the_other_gpus_whole() -> None:
    node = sharing_node(
        "n",
        offers={GPU: 2, SHARED_GPU: 20},
        labels=TEN_REPLICAS,
    )
    assert offered(node) == only_shares_of(SHARED_GPU, "time slices", 20, gpus=4, free=2)


def test_renamed_shares_without_labels_are_of_an_unknown_kind() -> None:
    node = sharing_node("n", offers={GPU: 2, SHARED_GPU: 20})
    assert offered(node) == only_shares_of(SHARED_GPU, "shares", 20, gpus=4, free=2)


def test_renamed_mig_shares_keep_their_name() -> None:
    name = "nvidia.com/mig-1g.5gb.shared"
    node = sharing_node(
        "n",
        offers={GPU: 0, name: 56},
        labels={MIG_STRATEGY: "mixed", REPLICAS: "2"},
    )
    assert offered(node) == only_shares_of(name, "time slices of 1g.5gb MIG devices", 56, gpus=4)


@pytest.mark.parametrize("name", ["nvidia.com/gpu-small", "nvidia.com/shared"])
def test_shares_may_have_a_chosen_name(name: str) -> None:
    node = sharing_node(
        "n",
        offers={GPU: 0, name: 40},
        labels=TEN_REPLICAS,
    )
    assert offered(node) == only_shares_of(name, "time slices", 40, gpus=4)


def test_memory_and_cores_of_hami_are_no_shares() -> None:
    offers = {
        GPU: 40,
        "nvidia.com/gpumem": 163840,
        "nvidia.com/gpucores": 400,
    }
    node = sharing_node("n", offers=offers, labels=TEN_REPLICAS)
    assert offered(node) == only_shares_of(GPU, "time slices", 40, gpus=4)


@pytest.mark.parametrize(
    ("offers", "labels", "gpus"),
    [
        pytest.param(40, {REPLICAS: "10", COUNT: "4"}, 4, id="counted-by-gfd"),
        pytest.param(40, TEN_REPLICAS, 4, id="divided-by-replicas"),
        pytest.param(41, TEN_REPLICAS, 41, id="not-divisible-by-replicas"),
        pytest.param(8, {}, 8, id="device-plugin-alone"),
        pytest.param(0, {COUNT: "8"}, 8, id="device-plugin-that-offers-nothing-yet"),
        # GFD counts MIG devices here: how many GPUs there are is unknown, and not zero.
        pytest.param(28, {COUNT: "28", PRODUCT: "A100-MIG-1g.5gb"}, 28, id="mig-devices-counted-by-gfd"),
    ],
)
def test_gpus_are_counted_without_an_agent(offers: int, labels: dict[str, str], gpus: int) -> None:
    node = sharing_node(
        "n",
        agent=None,
        offers={GPU: offers},
        labels=labels,
    )
    assert offered(node).gpus == gpus


def test_tree_counts_whole_gpus_and_names_what_is_shared() -> None:
    mixed = cluster(*mixed_cluster())
    scope = select_scope(mixed)
    root = tree(mixed, scope)
    assert root.gpus == 28
    assert root.free == 11
    mig_single, sliced, renamed, mig_mixed = shared_gpus(mixed, scope)
    assert mig_single.nodes == ("mig-single",)
    assert mig_single.gpus == 4
    assert mig_single.described == "1g.5gb MIG devices"
    assert mig_single.free == 28
    assert mig_single.total == 28
    assert sliced.nodes == ("sliced",)
    assert sliced.gpus == 4
    assert sliced.described == "time slices"
    assert sliced.free == 39
    assert sliced.total == 40
    assert renamed.nodes == ("renamed",)
    assert renamed.gpus == 4
    assert renamed.described == "time slices"
    assert renamed.free == 39
    assert renamed.total == 40
    assert mig_mixed.nodes == ("mig-mixed",)
    assert mig_mixed.gpus == 4
    assert mig_mixed.described == "1g.5gb MIG devices"
    assert mig_mixed.free == 25
    assert mig_mixed.total == 28


def two_sliced_nodes() -> Snapshot:
    """Nodes without an agent whose GPUs are sliced 10 and 20 times."""
    offers = {GPU: 40}
    ten_times = sharing_node("a", agent=None, offers=offers, labels={REPLICAS: "10"})
    twenty_times = sharing_node("b", agent=None, offers=offers, labels={REPLICAS: "20"})
    return cluster(ten_times, twenty_times)


def test_topology_selects_no_nodes_without_an_agent() -> None:
    sliced = two_sliced_nodes()
    scope = select_scope(snapshot(sliced.nodes, ()))
    root = tree(sliced, scope)
    assert root.gpus == 0
    assert root.free == 0


def test_nodes_with_different_labels_are_counted_apart() -> None:
    sliced = two_sliced_nodes()
    without_topology = Snapshot("a test", None, sliced.nodes, ())
    scope = select_scope(without_topology)
    root = tree(without_topology, scope)
    assert root.gpus == 6
    assert root.free == 0
    assert scope.table() is not None


def test_free_shares_are_what_pods_leave() -> None:
    node = node_of(sharing_node("n", offers={GPU: 40}))
    pod = pod_of(running("p", "n", {GPU: 3}))
    known = snapshot([node], [pod])
    ((shares,),) = known.shares.values()
    assert shares.unit == GpuUnit.SHARE
    assert known.free_shares(node, shares) == 37
    cordoned = msgspec.structs.replace(node, is_schedulable=False)
    assert known.free_shares(cordoned, shares) == 0
    without_pods = snapshot([node], None)
    assert without_pods.free_shares(node, shares) is None


@pytest.mark.parametrize(
    ("free", "told"),
    [
        pytest.param(39, ", 39 free", id="free"),
        pytest.param(None, "", id="pods-unknown"),
    ],
)
def test_offer_of_shares_is_told_with_what_is_free(free: int | None, told: str) -> None:
    slices = gpu_shares.Shares(resource=GPU, unit=GpuUnit.TIME_SLICE, total=40)
    assert gpu_shares.described(4, slices, free) == f"its 4 GPUs are offered as 40 time slices ({GPU}){told}"


def test_shares_are_not_called_gpus() -> None:
    mixed = cluster(*mixed_cluster())
    whole = mixed.in_whole_gpus
    gpus = {node.name: node.allocatable.get(GPU, 0) for node in whole.nodes}
    assert gpus == {
        "eight": 8,
        "mig-mixed": 0,
        "mig-single": 0,
        "renamed": 0,
        "sliced": 0,
        "whole": 4,
    }
    sliced = whole.by_name["sliced"]
    assert sliced.allocatable["nvidia.com/gpu.shared"] == 40
    requests = {pod.name: dict(pod.requests) for pod in whole.pods or ()}
    assert requests["a"] == {GPU: 1}
    assert requests["b"] == {"nvidia.com/gpu.shared": 1}


def test_pods_that_ask_for_the_same_all_hold_shares() -> None:
    node = sharing_node("n", offers={GPU: 40})
    first = running("a", "n", {GPU: 3})
    second = running("b", "n", {GPU: 3})
    whole = cluster(node, first, second).in_whole_gpus
    requests = [dict(pod.requests) for pod in whole.pods or ()]
    assert requests == [{SHARED_GPU: 3}, {SHARED_GPU: 3}]


def test_cluster_without_shares_is_unchanged() -> None:
    without_shares = cluster(sharing_node("n", offers={GPU: 4}))
    assert without_shares.in_whole_gpus is without_shares
