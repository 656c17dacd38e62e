"""What Run:ai adds to distributed workloads: a preference for the lowest level of the node pool's topology."""

import pytest
from tests.integrations.clusters import NODE_POOL, TWO_NODE_POOLS
from tests.support.checking import Read, advice, error, read
from tests.support.documents import Edits, document, text
from tests.support.workloads import accepted
from toposcope.integrations.documents import with_documents
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.readings import readings

pytestmark = pytest.mark.regression

TOPOLOGY = "metadata.annotations[kai.scheduler/topology]"
REQUIRED = "metadata.annotations[kai.scheduler/topology-required-placement]"
PREFERRED = "metadata.annotations[kai.scheduler/topology-preferred-placement]"
LOWEST_OF_POOL_A = "Run:ai prefers the lowest level of topology pool-a by default (host), then broader levels"
MASTER_POOL = "spec.pytorchReplicaSpecs.Master.template.spec.nodeSelector"
WORKER_POOL = "spec.pytorchReplicaSpecs.Worker.template.spec.nodeSelector"
MASTER_SCHEDULER = "spec.pytorchReplicaSpecs.Master.template.spec.schedulerName"
WORKER_SCHEDULER = "spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName"
RACK = "cloud.provider.com/topology-rack"
LOWEST_LEVEL = text("""
    Run:ai pytorchjob/train -n runai-team on pool-a, a gang
      train: preferred host
        Master: 1 Master (nvidia.com/gpu=8)
        Worker: 3 Worker (nvidia.com/gpu=8)
""")


def read_runai(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = NODE_POOL) -> Read:
    return read("Run:ai", document(f"runai/{name}", edits), cluster)


def test_distributed_workload_prefers_the_lowest_level() -> None:
    answer = read_runai("pytorchjob", {"metadata.annotations": None})
    assert answer.findings == []
    assert answer.workload == LOWEST_LEVEL
    assert answer.notes == [LOWEST_OF_POOL_A]


def test_leaderworkerset_is_placed_replica_by_replica() -> None:
    answer = read_runai("leaderworkerset")
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai leaderworkerset/train -n runai-team on pool-a, a gang
          2 x train: preferred host
            leader: 1 pods (nvidia.com/gpu=8)
            workers: 3 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LOWEST_OF_POOL_A]


def test_required_level_stands_alone() -> None:
    answer = read_runai("pytorchjob", {REQUIRED: RACK, PREFERRED: None})
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-a, a gang
          train: required rack
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_preferred_level_stands_alone() -> None:
    answer = read_runai("pytorchjob", {REQUIRED: None})
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-a, a gang
          train: preferred rack
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_required_and_preferred_levels_stand() -> None:
    answer = read_runai("pytorchjob")
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-a, a gang
          train: required block, preferred rack
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_topology_alone_means_its_lowest_level() -> None:
    answer = read_runai("pytorchjob", {REQUIRED: None, PREFERRED: None})
    assert answer.findings == []
    assert answer.workload == LOWEST_LEVEL
    assert answer.notes == [LOWEST_OF_POOL_A]


def test_segments_prefer_the_lowest_level() -> None:
    answer = read_runai(
        "pytorchjob",
        {
            "metadata.annotations": None,
            "spec.pytorchReplicaSpecs.Worker.replicas": 4,
            "spec.pytorchReplicaSpecs.Worker.template.metadata": {"annotations": {"kai.scheduler/segment-size": "2"}},
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-a, a gang
          train: preferred host
            Master: 1 Master (nvidia.com/gpu=8)
            Worker
              2 x segment: preferred host; 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [LOWEST_OF_POOL_A]


def test_topology_of_one_of_two_pools_is_not_known() -> None:
    answer = read_runai("pytorchjob", {"metadata.annotations": None}, cluster=TWO_NODE_POOLS)
    assert answer.findings == [
        advice(
            "runai/topology-unknown",
            TOPOLOGY,
            (
                "the topology of the workload's node pool is unknown (pool-a, pool-b), so Run:ai's default "
                "preferred placement is left out"
            ),
            fix="set kai.scheduler/topology to the node pool's network topology",
        )
    ]
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team, a gang
          train
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_named_topology_of_two_pools_counts() -> None:
    answer = read_runai("pytorchjob", {TOPOLOGY: "pool-b", REQUIRED: None, PREFERRED: None}, cluster=TWO_NODE_POOLS)
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-b, a gang
          train: preferred host
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["Run:ai prefers the lowest level of topology pool-b by default (host), then broader levels"]


def test_unknown_topology_is_refused() -> None:
    answer = read_runai("pytorchjob", {TOPOLOGY: "pool-x", REQUIRED: None, PREFERRED: None})
    assert answer.findings == [
        error(
            "runai/topology-exists", TOPOLOGY, "Requested topology pool-x does not exist", fix="did you mean 'pool-a'?"
        )
    ]


def test_unknown_topology_with_level_is_refused() -> None:
    answer = read_runai("pytorchjob", {TOPOLOGY: "pool-x", REQUIRED: RACK, PREFERRED: None})
    assert answer.findings == [
        error("kai/topology-exists", TOPOLOGY, "Requested topology pool-x does not exist", fix="did you mean 'pool-a'?")
    ]


def test_workload_in_one_node_pool_is_placed_there() -> None:
    answer = read_runai(
        "pytorchjob",
        {"metadata.annotations": None, MASTER_POOL: {"runai/node-pool": "a"}, WORKER_POOL: {"runai/node-pool": "a"}},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team on pool-a, a gang
          train: preferred host
            Master: 1 Master (nvidia.com/gpu=8) on nodes with runai/node-pool=a
            Worker: 3 Worker (nvidia.com/gpu=8) on nodes with runai/node-pool=a
    """)
    assert answer.notes == [LOWEST_OF_POOL_A]


def test_workload_across_node_pools_is_refused() -> None:
    answer = read_runai(
        "pytorchjob",
        {"metadata.annotations": None, MASTER_POOL: {"runai/node-pool": "a"}, WORKER_POOL: {"runai/node-pool": "b"}},
    )
    assert answer.findings == [
        error(
            "runai/one-pool",
            "spec.pytorchReplicaSpecs.Worker.template.spec.nodeSelector.runai/node-pool",
            "the pods use node pools 'a' and 'b'; topology-aware placement does not span node pools",
            fix="choose one node pool for all pods of the workload",
        )
    ]


def test_job_is_no_distributed_workload() -> None:
    answer = read_runai("job")
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai job/train -n runai-team, one by one
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_master_without_workers_is_no_distributed_workload() -> None:
    answer = read_runai("pytorchjob", {"metadata.annotations": None, "spec.pytorchReplicaSpecs.Worker.replicas": 0})
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n runai-team, a gang
          train
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 0 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"metadata.namespace": "default"}, id="namespace-of-no-project"),
        pytest.param({WORKER_SCHEDULER: "kai-scheduler"}, id="kai-scheduler"),
    ],
)
def test_workload_of_others_is_not_read(edits: Edits) -> None:
    answer = read_runai("pytorchjob", edits)
    assert not answer.is_claimed


def test_empty_document_is_not_read() -> None:
    answer = read_runai("network-topology", {"": {}})
    assert not answer.is_claimed


def test_runai_scheduler_counts_in_every_namespace() -> None:
    answer = read_runai(
        "pytorchjob",
        {"metadata.namespace": "default", MASTER_SCHEDULER: "runai-scheduler", WORKER_SCHEDULER: "runai-scheduler"},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai pytorchjob/train -n default on pool-a, a gang
          train: required block, preferred rack
            Master: 1 Master (nvidia.com/gpu=8)
            Worker: 3 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_network_topology_counts_for_the_workloads_of_the_run() -> None:
    topology = document(
        "runai/network-topology", {"levels": ["cloud.provider.com/topology-block", RACK, "kubernetes.io/hostname"]}
    )
    workload = document("runai/pytorchjob", {TOPOLOGY: "default-topology", REQUIRED: RACK, PREFERRED: None})
    known = with_documents(ClusterFacts(node_labels=NODE_POOL.node_labels), [topology, workload])
    (reading,) = readings(workload, known)
    (whole,) = accepted(reading).groups
    assert whole.required
    assert whole.required.key == RACK


def test_workload_of_a_project_is_read_by_runai_alone() -> None:
    (reading,) = readings(document("runai/pytorchjob"), NODE_POOL)
    assert accepted(reading).system == "Run:ai"
