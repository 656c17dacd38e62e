"""KAI's segments: parts of one group of workers that are kept together each."""

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression

SEGMENT_SIZE = "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[kai.scheduler/segment-size]"
SEGMENT_LEVEL = (
    "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[kai.scheduler/segment-topology-required-placement]"
)
SEGMENTS = text("""
    KAI leaderworkerset/train -n ml on cluster, a gang
      3 x train: required rack
        segment: required host; 1 leader (nvidia.com/gpu=1); 2 worker (nvidia.com/gpu=8)
        segment: required host; 2 worker (nvidia.com/gpu=8)
""")

TWO_ON_ONE_HOST = {
    "kai.scheduler/segment-size": "2",
    "kai.scheduler/segment-topology-required-placement": "kubernetes.io/hostname",
}
FOUR_IN_ONE_RACK = {
    "kai.scheduler/topology": "cluster",
    "kai.scheduler/segment-size": "4",
    "kai.scheduler/segment-topology-required-placement": "example.com/rack",
}


def read_kai(name: str, edits: Edits | None = None) -> Read:
    return read("KAI", document(f"kai/{name}", edits), CLUSTER)


def test_leader_joins_the_first_segment() -> None:
    answer = read_kai("leaderworkerset")
    assert answer.findings == []
    assert answer.workload == SEGMENTS
    assert answer.notes == []


def test_sub_group_size_is_a_segment_size() -> None:
    answer = read_kai(
        "leaderworkerset", {SEGMENT_SIZE: None, "spec.leaderWorkerTemplate.subGroupPolicy": {"subGroupSize": 2}}
    )
    assert answer.findings == []
    assert answer.workload == SEGMENTS
    assert answer.notes == []


def test_leader_excluded_stays_out_of_segments() -> None:
    answer = read_kai(
        "leaderworkerset",
        {
            SEGMENT_SIZE: None,
            "spec.leaderWorkerTemplate.subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI leaderworkerset/train -n ml on cluster, a gang
          3 x train: required rack
            leader: 1 leader (nvidia.com/gpu=1)
            2 x segment: required host; 2 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_last_segment_of_pytorch_workers_is_smaller() -> None:
    answer = read_kai(
        "pytorchjob",
        {
            "metadata.annotations": None,
            "spec.pytorchReplicaSpecs.Master.replicas": 1,
            "spec.pytorchReplicaSpecs.Worker.replicas": 10,
            "spec.pytorchReplicaSpecs.Worker.template.metadata": {"annotations": FOUR_IN_ONE_RACK},
            "spec.elasticPolicy": None,
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train
            Master: 1 Master (nvidia.com/gpu=8)
            Worker
              2 x segment: required rack; 4 Worker (nvidia.com/gpu=8)
              segment: required rack; 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_smaller_segment_stands_where_names_sort_it() -> None:
    answer = read_kai(
        "pytorchjob",
        {
            "metadata.annotations": None,
            "spec.pytorchReplicaSpecs.Master.replicas": 1,
            "spec.pytorchReplicaSpecs.Worker.replicas": 46,
            "spec.pytorchReplicaSpecs.Worker.template.metadata": {"annotations": FOUR_IN_ONE_RACK},
            "spec.elasticPolicy": None,
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train
            Master: 1 Master (nvidia.com/gpu=8)
            Worker
              3 x segment: required rack; 4 Worker (nvidia.com/gpu=8)
              segment: required rack; 2 Worker (nvidia.com/gpu=8)
              8 x segment: required rack; 4 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


@pytest.mark.parametrize(
    ("edits", "notes"),
    [
        pytest.param(
            {
                "spec.pytorchReplicaSpecs.Master": None,
                "spec.pytorchReplicaSpecs.Worker.template.metadata": {"annotations": TWO_ON_ONE_HOST},
                "spec.elasticPolicy.minReplicas": 3,
            },
            ["room is checked for 3 of 4 pods: KAI starts these together, and the others if there is room"],
            id="four-workers",
        ),
        pytest.param(
            {
                "spec.pytorchReplicaSpecs.Master": None,
                "spec.pytorchReplicaSpecs.Worker.replicas": 9,
                "spec.pytorchReplicaSpecs.Worker.template.metadata": {"annotations": TWO_ON_ONE_HOST},
                "spec.elasticPolicy.minReplicas": 3,
            },
            ["room is checked for 3 of 9 pods: KAI starts these together, and the others if there is room"],
            id="nine-workers",
        ),
    ],
)
def test_segments_beyond_min_replicas_are_not_needed(edits: Edits, notes: list[str]) -> None:
    answer = read_kai("pytorchjob", edits)
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train: required rack
            Worker
              2 x segment: required host; 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == notes


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        pytest.param({"spec.replicas": 1, SEGMENT_SIZE: "two"}, "invalid segment size two", id="no-number"),
        pytest.param(
            {"spec.replicas": 1, SEGMENT_SIZE: "1"}, "segmentSize 1 is not valid. It must be greater than 1", id="one"
        ),
        pytest.param(
            {"spec.replicas": 1, SEGMENT_SIZE: "6"}, "segmentSize 6 is greater than replicasSize 5", id="too-large"
        ),
    ],
)
def test_wrong_segment_size_is_refused(edits: Edits, message: str) -> None:
    answer = read_kai("leaderworkerset", edits)
    assert answer.findings == [
        error("kai/segment-size", SEGMENT_SIZE, message, fix="set a whole number from 2 to 5, in quotes")
    ]


def test_segments_without_level_are_warned_of() -> None:
    answer = read_kai("leaderworkerset", {"spec.replicas": 1, SEGMENT_LEVEL: None})
    assert answer.findings == [
        warning(
            "kai/segment-level",
            SEGMENT_SIZE,
            "segments without a level are placed anywhere",
            fix=(
                "set kai.scheduler/segment-topology-required-placement or "
                "kai.scheduler/segment-topology-preferred-placement on the pod template"
            ),
        )
    ]


def test_segment_level_without_size_is_warned_of() -> None:
    answer = read_kai("leaderworkerset", {"spec.replicas": 1, SEGMENT_SIZE: None})
    assert answer.findings == [
        warning(
            "kai/segment-size-missing",
            SEGMENT_LEVEL,
            "has no effect without a segment size",
            fix="also set kai.scheduler/segment-size",
        )
    ]


def test_domain_as_segment_level_is_refused() -> None:
    answer = read_kai("leaderworkerset", {"spec.replicas": 1, SEGMENT_LEVEL: "host"})
    assert answer.findings == [
        error(
            "kai/level-exists",
            SEGMENT_LEVEL,
            (
                "topology constraint error: sub-group segment specified 'host' as the required topology "
                "constraint level, but the topology tree 'cluster' does not contain a level with this name"
            ),
            fix="a label key is required here: write 'kubernetes.io/hostname'",
        )
    ]


def test_leader_excluded_needs_equal_segments() -> None:
    answer = read_kai(
        "leaderworkerset",
        {
            "spec.replicas": 1,
            "spec.leaderWorkerTemplate.size": 6,
            SEGMENT_SIZE: None,
            "spec.leaderWorkerTemplate.subGroupPolicy": {"subGroupSize": 3, "subGroupPolicyType": "LeaderExcluded"},
        },
    )
    assert answer.findings == [
        error(
            "kai/segment-size",
            "spec.leaderWorkerTemplate.subGroupPolicy",
            "LeaderExcluded needs size - 1 (5) to be a multiple of the segment size 3",
            fix="change the size, or use subGroupPolicyType LeaderWorker",
        )
    ]
