"""What the catalogue knows of keys that are levels, and of those that are not."""

from dataclasses import replace

import pytest
from toposcope.api.label_keys import GPU_PRESENT, GPUS
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, RETIRED_KEY
from toposcope.hierarchy.platforms import MISTAKEN, RETIRED, UNKNOWN

NOTHING_WRITES_IT = "no known platform writes it"


def test_every_successor_is_a_level() -> None:
    for successor, _ in (*RETIRED.values(), *MISTAKEN.values()):
        assert successor in BUILT_IN.level_keys


def test_retired_key_is_a_level_as_long_as_there_is_no_other() -> None:
    assert RETIRED.keys() <= BUILT_IN.level_keys


def test_near_miss_is_no_level() -> None:
    assert MISTAKEN.keys().isdisjoint(BUILT_IN.level_keys)
    assert UNKNOWN.keys().isdisjoint(BUILT_IN.level_keys)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(
            ["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"],
            id="kubernetes",
        ),
        pytest.param(
            [
                "topology.k8s.aws/zone-id",
                "topology.k8s.aws/network-node-layer-1",
                "topology.k8s.aws/network-node-layer-2",
                "topology.k8s.aws/network-node-layer-3",
                "topology.k8s.aws/network-node-layer-4",
                "topology.k8s.aws/ultraserver-id",
            ],
            id="aws",
        ),
        pytest.param(
            ["cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock", "kubernetes.io/hostname"],
            id="gke",
        ),
        pytest.param(
            [
                "oci.oraclecloud.com/rdma.hpc_island_id",
                "oci.oraclecloud.com/rdma.network_block_id",
                "oci.oraclecloud.com/rdma.local_block_id",
                "oci.oraclecloud.com/host.gpu_memory_fabric_id",
            ],
            id="oke",
        ),
        pytest.param(
            [
                "backend.coreweave.cloud/fabric",
                "backend.coreweave.cloud/superpod",
                "backend.coreweave.cloud/leafgroup",
                "ds.coreweave.com/nvlink.domain",
            ],
            id="coreweave",
        ),
        pytest.param(
            [
                "topology.nebius.com/gpu-cluster-id",
                "topology.nebius.com/tier-2",
                "topology.nebius.com/tier-1",
                "topology.nebius.com/tier-0",
            ],
            id="nebius",
        ),
        pytest.param(
            ["crusoe.ai/ib.partition.id", "crusoe.ai/pod.id", "nvidia.com/gpu.clique"],
            id="crusoe",
        ),
        pytest.param(
            [
                "fabric.topograph.run/tier-3",
                "fabric.topograph.run/tier-2",
                "fabric.topograph.run/tier-1",
                "fabric.topograph.run/tier-0",
                "accelerator.topograph.run/domain",
                "accelerator.topograph.run/sub-domain",
            ],
            id="topograph",
        ),
        pytest.param(
            [
                "network.topology.nvidia.com/core",
                "network.topology.nvidia.com/spine",
                "network.topology.nvidia.com/leaf",
                "network.topology.nvidia.com/accelerator",
            ],
            id="topograph-0-5",
        ),
        pytest.param(
            [
                "network.topology.nvidia.com/datacenter",
                "network.topology.nvidia.com/spine",
                "network.topology.nvidia.com/block",
                "network.topology.nvidia.com/accelerator",
            ],
            id="topograph-0-1",
        ),
        pytest.param(
            ["topology.gpustack.ai/zone", "topology.gpustack.ai/rack", "topology.gpustack.ai/accelerator-domain"],
            id="gpustack",
        ),
        pytest.param(
            ["cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname"],
            id="examples",
        ),
        pytest.param(
            [
                "topology.kubernetes.io/zone",
                "gpu.topology/leaf-group",
                "gpu.topology/nvlink-domain",
                "kubernetes.io/hostname",
            ],
            id="own-rails",
        ),
        pytest.param(
            ["gpu.topology/leaf", "topology.gpustack.ai/rack", "gpu.topology/nvlink-domain", "kubernetes.io/hostname"],
            id="own-racks",
        ),
    ],
)
def test_levels_of_each_platform_are_inferred_broadest_first(keys: list[str]) -> None:
    levels = BUILT_IN.infer(dict.fromkeys(keys, 1))
    assert [level.key for level in levels] == keys


@pytest.mark.parametrize("key", RETIRED)
def test_retired_key_comes_after_its_successor(key: str) -> None:
    successor, _ = RETIRED[key]
    domains = BUILT_IN.domain_of
    if domains[key] != domains[successor]:
        return
    rank = BUILT_IN.rank
    assert rank[successor] < rank[key]


@pytest.mark.parametrize(
    ("key", "right", "why"),
    [
        pytest.param(
            "nvidia.com/gpu-clique",
            "nvidia.com/gpu.clique",
            NOTHING_WRITES_IT,
            id="gpu-dash-clique",
        ),
        pytest.param(
            "nvidia.com/gpu_clique",
            "nvidia.com/gpu.clique",
            NOTHING_WRITES_IT,
            id="gpu-underscore-clique",
        ),
        pytest.param(
            "nvidia.com/GPU.Clique",
            "nvidia.com/gpu.clique",
            NOTHING_WRITES_IT,
            id="upper-case-clique",
        ),
        pytest.param(
            "gpu.topology/nvlink_domain",
            "gpu.topology/nvlink-domain",
            NOTHING_WRITES_IT,
            id="nvlink-underscore",
        ),
        pytest.param(
            "cloud.google.com/gce_topology_block",
            "cloud.google.com/gce-topology-block",
            NOTHING_WRITES_IT,
            id="gce-underscores",
        ),
        pytest.param(
            "topology.k8s.aws/network.node.layer.1",
            "topology.k8s.aws/network-node-layer-1",
            NOTHING_WRITES_IT,
            id="aws-dots",
        ),
        pytest.param(
            "oci.oraclecloud.com/rdma-network-block-id",
            "oci.oraclecloud.com/rdma.network_block_id",
            NOTHING_WRITES_IT,
            id="oci-dashes",
        ),
        pytest.param(
            "fabric.topograph.run/leaf",
            "fabric.topograph.run/tier-0",
            "Topograph counts its tiers from the node up",
            id="topograph-leaf",
        ),
        pytest.param(
            "topology.k8s.aws/capacity-block-id",
            "topology.k8s.aws/ultraserver-id",
            "it is a reservation, not a location",
            id="aws-capacity-block",
        ),
        pytest.param(
            "topology.kubernetes.io/rack",
            "",
            "no known platform writes it; if you do, map it to domain 'rack' in the controller's --config FILE",
            id="rack-of-no-platform",
        ),
        pytest.param(
            "ib/torset",
            "",
            "the job that writes it renumbers its values on every run",
            id="torset",
        ),
    ],
)
def test_near_miss_is_explained_with_the_right_key(key: str, right: str, why: str) -> None:
    advice = BUILT_IN.advise(key)
    assert advice is not None
    assert advice.reason == NEAR_MISS
    assert advice.instead == right
    assert advice.why == why


@pytest.mark.parametrize("key", ["network.topology.nvidia.com/leaf", "failure-domain.beta.kubernetes.io/zone"])
def test_retired_key_is_explained_with_its_successor(key: str) -> None:
    successor, _ = RETIRED[key]
    advice = BUILT_IN.advise(key)
    assert advice is not None
    assert advice.reason == RETIRED_KEY
    assert advice.instead == successor


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("topology.kubernetes.io/zone", id="level"),
        pytest.param("example.com/rack", id="unknown"),
        pytest.param("rack", id="no-prefix"),
        pytest.param("nvidia.com/gpu.present", id="no-place"),
        pytest.param("", id="empty"),
    ],
)
def test_other_keys_need_no_advice(key: str) -> None:
    assert BUILT_IN.advise(key) is None


def test_keys_that_a_controller_keeps_of_a_node_are_few() -> None:
    catalogue = replace(BUILT_IN)  # nothing is cached in it yet
    assert len(catalogue.tracked) < 200
    assert catalogue.suspects <= catalogue.tracked


def test_suspect_keys_are_those_with_advice() -> None:
    catalogue = replace(BUILT_IN)
    suspects = catalogue.suspects
    assert {"nvidia.com/gpu-clique", "nvidia.com/gpu_clique"} <= suspects
    for key in suspects:
        assert catalogue.advise(key) is not None
    assert suspects.isdisjoint({GPUS, GPU_PRESENT})
