"""Pods that share memory over NVLink: nothing but a level keeps them in one NVLink domain."""

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import warning

pytestmark = pytest.mark.regression

CLIQUE = "nvidia.com/gpu.clique"
NOTHING_KEEPS = warning(
    "dra/compute-domain",
    "",
    "nothing keeps the 4 pods of train in one NVLink domain, of which the largest has 2 nodes: a ComputeDomain does "
    "not choose nodes, and pods in different domains share no memory, without any error",
    fix="require the NVLink domain's level for them, such as nvidia.com/gpu.clique",
)


def slice_of(node: str) -> str:
    """The channel that NVIDIA's driver offers on a node."""
    return f"""
        apiVersion: resource.k8s.io/v1
        kind: ResourceSlice
        metadata: {{name: {node}}}
        spec:
          driver: compute-domain.nvidia.com
          nodeName: {node}
          pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}
          devices: [{{name: channel-0, attributes: {{type: {{string: channel}}, id: {{int: 0}}}}}}]
    """


@pytest.fixture
def cluster() -> CheckedCluster:
    """Four nodes in two cliques, and a Job of four pods with a channel of one ComputeDomain."""
    cluster = CheckedCluster("placement/clusters/two-racks-of-h200", "placement/kueue-job")
    cluster.apply("""
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: compute-domain-default-channel.nvidia.com}
        spec: {selectors: [{cel: {expression: "device.driver == 'compute-domain.nvidia.com'"}}]}
    """)
    for number in range(4):
        cluster.apply(f"""
            apiVersion: v1
            kind: Node
            metadata: {{name: g{number}, labels: {{kubernetes.io/hostname: g{number}, {CLIQUE}: c{number // 2}}}}}
            status:
              allocatable: {{nvidia.com/gpu: '4', cpu: '64', memory: 1024Gi, pods: '110'}}
              conditions: [{{type: Ready, status: 'True'}}]
        """)
        cluster.apply(slice_of(f"g{number}"))
    cluster.put_beside("""
        apiVersion: resource.nvidia.com/v1beta1
        kind: ComputeDomain
        metadata: {name: train, namespace: ml}
        spec: {numNodes: 4, channel: {resourceClaimTemplate: {name: train-channel}}}
    """)
    cluster.submit("""
        apiVersion: batch/v1
        kind: Job
        metadata: {name: train, namespace: ml}
        spec:
          parallelism: 4
          completions: 4
          template:
            spec:
              nodeSelector: {kubernetes.io/os: ''}
              resourceClaims: [{name: channel, resourceClaimTemplateName: train-channel}]
              containers: [{name: c, resources: {limits: {nvidia.com/gpu: '4'}, claims: [{name: channel}]}}]
    """)
    cluster.edit_workload("spec.template.spec.nodeSelector", None)
    return cluster


def test_pods_with_channels_when_no_level_is_required_are_warned_of(cluster: CheckedCluster) -> None:
    answer = cluster.check()
    assert answer.findings == [NOTHING_KEEPS]
    assert answer.verdict == "fits: 4 pods on 4 nodes"


def test_channels_when_all_nodes_are_in_one_clique_are_not_warned_of(cluster: CheckedCluster) -> None:
    for number in range(4):
        cluster.label_node(f"g{number}", CLIQUE, "c0")
    assert cluster.check().findings == []


def test_pods_with_channels_when_they_choose_a_clique_are_not_warned_of(cluster: CheckedCluster) -> None:
    cluster.pods(2)
    cluster.edit_workload("spec.template.spec.nodeSelector", {CLIQUE: "c1"})
    answer = cluster.check()
    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_channel_of_a_node_is_for_one_pod(cluster: CheckedCluster) -> None:
    cluster.edit_workload("spec.template.spec.containers[0].resources.limits", {"nvidia.com/gpu": "1"})
    cluster.pods(5)
    assert (
        cluster.check().verdict
        == "cannot fit: train needs 5 x resourceclaimtemplate/train-channel -n ml, the nodes it may use have 4"
    )
