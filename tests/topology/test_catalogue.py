"""What the catalogue knows of keys that are no level."""

import pytest

from toposcope.api.label_keys import GPU_PRESENT, GPUS
from toposcope.topology.catalogue import BUILT_IN, NEAR_MISS, RETIRED_KEY
from toposcope.topology.platforms import MISTAKEN, RETIRED, UNKNOWN


def test_every_successor_is_a_level_and_no_near_miss_is_one() -> None:
    assert {right for right, _ in RETIRED.values()} <= BUILT_IN.level_keys
    assert {right for right, _ in MISTAKEN.values()} <= BUILT_IN.level_keys
    assert RETIRED.keys() <= BUILT_IN.level_keys  # a level as long as there is no other
    assert (MISTAKEN.keys() | UNKNOWN.keys()).isdisjoint(BUILT_IN.level_keys)


PLATFORMS = {
    "kubernetes": "topology.kubernetes.io/region topology.kubernetes.io/zone kubernetes.io/hostname",
    "aws": "topology.k8s.aws/zone-id topology.k8s.aws/network-node-layer-1 topology.k8s.aws/network-node-layer-2 "
    "topology.k8s.aws/network-node-layer-3 topology.k8s.aws/network-node-layer-4 topology.k8s.aws/ultraserver-id",
    "gke": "cloud.google.com/gce-topology-block cloud.google.com/gce-topology-subblock kubernetes.io/hostname",
    "oke": "oci.oraclecloud.com/rdma.hpc_island_id oci.oraclecloud.com/rdma.network_block_id "
    "oci.oraclecloud.com/rdma.local_block_id oci.oraclecloud.com/host.gpu_memory_fabric_id",
    "coreweave": "backend.coreweave.cloud/fabric backend.coreweave.cloud/superpod backend.coreweave.cloud/leafgroup "
    "ds.coreweave.com/nvlink.domain",
    "nebius": "topology.nebius.com/gpu-cluster-id topology.nebius.com/tier-2 topology.nebius.com/tier-1 "
    "topology.nebius.com/tier-0",
    "crusoe": "crusoe.ai/ib.partition.id crusoe.ai/pod.id nvidia.com/gpu.clique",
    "topograph": "fabric.topograph.run/tier-3 fabric.topograph.run/tier-2 fabric.topograph.run/tier-1 "
    "fabric.topograph.run/tier-0 accelerator.topograph.run/domain accelerator.topograph.run/sub-domain",
    "topograph 0.5": "network.topology.nvidia.com/core network.topology.nvidia.com/spine "
    "network.topology.nvidia.com/leaf network.topology.nvidia.com/accelerator",
    "topograph 0.1": "network.topology.nvidia.com/datacenter network.topology.nvidia.com/spine "
    "network.topology.nvidia.com/block network.topology.nvidia.com/accelerator",
    "gpustack": "topology.gpustack.ai/zone topology.gpustack.ai/rack topology.gpustack.ai/accelerator-domain",
    "examples": "cloud.provider.com/topology-block cloud.provider.com/topology-rack kubernetes.io/hostname",
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_is_inferred_whole_and_in_its_order(platform: str) -> None:
    keys = PLATFORMS[platform].split()
    assert [level.key for level in BUILT_IN.infer(set(keys))] == keys


def test_a_retired_key_comes_after_its_successor() -> None:
    for key, (successor, _) in RETIRED.items():
        if BUILT_IN.domain_of[key] == BUILT_IN.domain_of[successor]:
            assert BUILT_IN.rank[successor] < BUILT_IN.rank[key]


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("nvidia.com/gpu-clique", "nvidia.com/gpu.clique"),
        ("nvidia.com/gpu_clique", "nvidia.com/gpu.clique"),
        ("nvidia.com/GPU.Clique", "nvidia.com/gpu.clique"),
        ("gpu.topology/nvlink_domain", "gpu.topology/nvlink-domain"),
        ("cloud.google.com/gce_topology_block", "cloud.google.com/gce-topology-block"),
        ("topology.k8s.aws/network.node.layer.1", "topology.k8s.aws/network-node-layer-1"),
        ("oci.oraclecloud.com/rdma-network-block-id", "oci.oraclecloud.com/rdma.network_block_id"),
        ("fabric.topograph.run/leaf", "fabric.topograph.run/tier-0"),
        ("topology.k8s.aws/capacity-block-id", "topology.k8s.aws/ultraserver-id"),
        ("topology.kubernetes.io/rack", ""),
        ("ib/torset", ""),
    ],
)
def test_a_near_miss_is_told_with_the_right_key(key: str, right: str) -> None:
    advice = BUILT_IN.advise(key)
    assert advice is not None
    assert (advice.reason, advice.instead) == (NEAR_MISS, right)
    assert advice.why


@pytest.mark.parametrize("key", ["network.topology.nvidia.com/leaf", "failure-domain.beta.kubernetes.io/zone"])
def test_a_retired_key_is_told_with_its_successor(key: str) -> None:
    advice = BUILT_IN.advise(key)
    assert advice is not None
    assert (advice.reason, advice.instead) == (RETIRED_KEY, RETIRED[key][0])


@pytest.mark.parametrize(
    "key", ["topology.kubernetes.io/zone", "example.com/rack", "rack", "nvidia.com/gpu.present", ""]
)
def test_there_is_nothing_to_say_of_other_keys(key: str) -> None:
    assert BUILT_IN.advise(key) is None


def test_keys_that_a_controller_keeps_of_a_node_are_few_and_told_apart() -> None:
    assert len(BUILT_IN.tracked) < 200
    assert BUILT_IN.suspects <= BUILT_IN.tracked
    assert all(BUILT_IN.advise(key) for key in BUILT_IN.suspects)
    assert BUILT_IN.suspects.isdisjoint({GPUS, GPU_PRESENT})
