"""Run:ai: what it adds to distributed workloads, KAI's annotations, and network topologies."""

import copy
from typing import Any

import pytest

from tests.support.workloads import Object, accepted, understood, workload
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.registry import readings, with_documents
from toposcope.integrations.runai.topology import NETWORK_TOPOLOGY
from toposcope.integrations.runai.workload import SYSTEM as RUNAI
from toposcope.topology.levels import Level

BLOCK = Level("block", "cloud.provider.com/topology-block")
RACK = Level("rack", "cloud.provider.com/topology-rack")
HOST = Level("host", "kubernetes.io/hostname")
LEVELS = TopologyLevels("pool-a", (BLOCK, RACK, HOST))
KNOWN = ClusterFacts({"pool-a": LEVELS}, frozenset({BLOCK.key, RACK.key, HOST.key}))
TWO = ClusterFacts({"pool-a": LEVELS, "pool-b": TopologyLevels("pool-b", (RACK, HOST))}, KNOWN.node_labels)

TOPOLOGY, REQUIRED = "kai.scheduler/topology", "kai.scheduler/topology-required-placement"
PREFERRED, SEGMENT = "kai.scheduler/topology-preferred-placement", "kai.scheduler/segment-size"


def template(pool: str = "", **annotations: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"containers": [container]} | ({"nodeSelector": {"runai/node-pool": pool}} if pool else {})
    return {"metadata": {"annotations": annotations}, "spec": spec}


def training(annotations: dict[str, str] | None = None, workers: int = 3, **parts: Any) -> dict[str, Any]:
    """A PyTorchJob of a master and workers in a project's namespace."""
    roles = {
        "Master": {"replicas": 1, "template": parts.get("master", template())},
        "Worker": {"replicas": workers, "template": parts.get("worker", template())},
    }
    return in_project(workload("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles}, annotations))


def in_project(document: Object) -> Object:
    document["metadata"]["namespace"] = "runai-team"
    return document


def read(document: dict[str, Any], known: ClusterFacts = KNOWN) -> Reading:
    return RUNAI.read(document, known)


def rules(reading: Reading) -> list[tuple[str, str]]:
    return [(finding.severity, finding.rule) for finding in reading.findings]


def test_distributed_workloads_prefer_the_lowest_level() -> None:
    document = training()
    before = copy.deepcopy(document)
    read_workload = accepted(read(document))
    assert document == before
    assert (read_workload.system, read_workload.topology) == ("Run:ai", "pool-a")
    (whole,) = read_workload.groups
    assert (whole.required, whole.preferred) == (None, HOST)
    assert whole.total() == {"pods": 4, "nvidia.com/gpu": 32}
    assert "then goes upward" in read_workload.notes[0]


def test_a_leader_worker_set_is_placed_replica_by_replica() -> None:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}}
    document = in_project(workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec))
    (replica,) = understood(read(document)).groups
    assert (replica.preferred, replica.copies, replica.total()["pods"]) == (HOST, 2, 4)


@pytest.mark.parametrize(
    ("annotations", "required", "preferred"),
    [
        ({TOPOLOGY: "pool-a", REQUIRED: RACK.key}, RACK, None),
        ({TOPOLOGY: "pool-a", PREFERRED: RACK.key}, None, RACK),
        ({TOPOLOGY: "pool-a", REQUIRED: BLOCK.key, PREFERRED: RACK.key}, BLOCK, RACK),
        ({TOPOLOGY: "pool-a"}, None, HOST),
    ],
)
def test_what_is_asked_stands(annotations: dict[str, str], required: Level, preferred: Level) -> None:
    (whole,) = accepted(read(training(annotations))).groups
    assert (whole.required, whole.preferred) == (required, preferred)


def test_segments_prefer_the_lowest_level_too() -> None:
    worker = template(**{SEGMENT: "2"})
    (whole,) = accepted(read(training(workers=4, worker=worker))).groups
    segments = [group for group, _ in whole.everything() if group.name == "segment"]
    assert [(segment.copies, segment.preferred, segment.total()["pods"]) for segment in segments] == [(2, HOST, 2)]


def test_which_topology() -> None:
    reading = read(training(), TWO)
    assert rules(reading) == [("advice", "runai/topology-unknown")]
    assert understood(reading).topology is None
    assert accepted(read(training({TOPOLOGY: "pool-b"}), TWO)).topology == "pool-b"


@pytest.mark.parametrize("annotations", [{TOPOLOGY: "pool-x"}, {TOPOLOGY: "pool-x", REQUIRED: RACK.key}])
def test_a_topology_that_does_not_exist(annotations: dict[str, str]) -> None:
    (finding,) = read(training(annotations)).findings
    assert (finding.severity, finding.message) == ("error", "Requested topology pool-x does not exist")
    assert finding.fix == "did you mean 'pool-a'?"


def test_one_node_pool() -> None:
    assert read(training(master=template("a"), worker=template("a"))).findings == ()
    ((severity, rule),) = rules(read(training(master=template("a"), worker=template("b"))))
    assert (severity, rule) == ("error", "runai/one-pool")


def test_what_is_not_distributed_is_left_alone() -> None:
    job = in_project(workload("batch/v1", "Job", {"parallelism": 4, "template": template()}))
    for document in (job, training(workers=0)):
        assert accepted(read(document)).topology is None


def test_which_documents_are_run_ais() -> None:
    elsewhere = training()
    elsewhere["metadata"]["namespace"] = "default"
    assert not RUNAI.claims(elsewhere)
    for role in elsewhere["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["schedulerName"] = "runai-scheduler"
    assert RUNAI.claims(elsewhere)
    named = training()
    named["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    assert not RUNAI.claims(named)
    assert [
        reading.workload and reading.workload.system for reading in readings(training({REQUIRED: RACK.key}), KNOWN)
    ] == ["Run:ai"]


def network(*keys: Any, **more: Any) -> dict[str, Any]:
    return {"levels": list(keys), "name": "default-topology", "clusterId": "71f69d83", **more}


def reported(document: dict[str, Any], before: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
    reading = NETWORK_TOPOLOGY.read(document, KNOWN, before)
    assert all(finding.fix for finding in reading.findings if finding.rule != "type")
    return [(finding.severity, finding.field, finding.message) for finding in reading.findings]


def test_a_network_topology_counts_for_the_workloads_of_the_run() -> None:
    document = network(BLOCK.key, RACK.key, HOST.key)
    assert NETWORK_TOPOLOGY.claims(document)
    assert reported(document) == []
    known = with_documents(ClusterFacts(node_labels=KNOWN.node_labels), [document, training()])
    (whole,) = accepted(read(training({TOPOLOGY: "default-topology", REQUIRED: RACK.key}), known)).groups
    assert whole.required is not None
    assert whole.required.key == RACK.key


@pytest.mark.parametrize(
    ("document", "severity", "field", "message"),
    [
        (network(), "error", "levels", "should have at least 1 items"),
        (network(RACK.key, RACK.key), "error", "levels[1]", "nodeLabel must be unique"),
        (network(""), "error", "levels[0]", "should be the key of a node label"),
        (network(7), "error", "levels[0]", "is 7, expected a string"),
        (
            network(HOST.key, RACK.key),
            "error",
            "levels[0]",
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
        (
            network(RACK.key, BLOCK.key),
            "warning",
            "levels[1]",
            f"{BLOCK.key!r} comes after {RACK.key!r}, but is broader in topology 'pool-a'",
        ),
        (
            network("example.com/row", HOST.key),
            "warning",
            "levels[0]",
            "no node carries the label 'example.com/row', so no node is in the topology",
        ),
        (network(HOST.key, name=""), "error", "name", "a network topology needs a name"),
        (network(HOST.key, clusterId=None), "advice", "clusterId", "the API takes no topology without the cluster"),
        (network(*(f"example.com/l{number}" for number in range(17))), "error", "levels", "must have at most 16 items"),
    ],
)
def test_what_is_wrong_with_a_network_topology(
    document: dict[str, Any], severity: str, field: str, message: str
) -> None:
    assert (severity, field, message) in reported(document)


def test_levels_do_not_change() -> None:
    before = network(BLOCK.key, RACK.key)
    assert reported(before, copy.deepcopy(before)) == []
    assert reported(network(BLOCK.key, HOST.key), before) == [
        ("error", "levels", "levels are immutable in KAI's Topology")
    ]
