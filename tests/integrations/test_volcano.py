"""Volcano: what Jobs and PodGroups ask for, and what its webhooks refuse or its scheduler never places."""

import pytest
from tests.integrations.clusters import (
    HYPER_NODES,
    HYPER_NODES_OF_OTHERS,
    HYPER_NODES_OF_TWO_TOPOLOGIES,
    NO_HYPER_NODES,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

QUOTA_IGNORED = "the quota of Volcano's queue default is not looked at"
PODS_UNKNOWN = "which pods it has is not read: room is not checked; check the Job that they come from"
IN_ONE_RACK = text("""
    Volcano job/train -n ml on cluster
      train: required rack; 4 pods (nvidia.com/gpu=8)
""")

TEMPLATE = document("volcano/job")["spec"]["tasks"][0]["template"]


def read_volcano(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = HYPER_NODES) -> Read:
    return read("Volcano", document(f"volcano/{name}", edits), cluster)


def test_tier_number_is_a_level() -> None:
    answer = read_volcano("job")
    assert answer.findings == []
    assert answer.workload == IN_ONE_RACK
    assert answer.notes == [QUOTA_IGNORED]


def test_tier_name_is_a_domain() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierName": "rack"}})
    assert answer.findings == []
    assert answer.workload == IN_ONE_RACK
    assert answer.notes == [QUOTA_IGNORED]


def test_tier_name_may_be_a_level_key() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierName": "example.com/rack"}})
    assert answer.findings == []
    assert answer.workload == IN_ONE_RACK
    assert answer.notes == [QUOTA_IGNORED]


def test_job_may_use_hyper_nodes_of_either_topology() -> None:
    answer = read_volcano("job", cluster=HYPER_NODES_OF_TWO_TOPOLOGIES)
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 4 pods (nvidia.com/gpu=8)
        or on other
    """)
    assert answer.notes == [QUOTA_IGNORED]


def test_soft_mode_binds_no_pod() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"mode": "soft", "highestTierAllowed": 9}})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["that Volcano prefers the lowest tier where mode is soft is not looked at", QUOTA_IGNORED]


def test_job_without_network_topology_asks_for_no_level() -> None:
    answer = read_volcano("job", {"spec.networkTopology": None})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_IGNORED]


def test_network_topology_without_tier_is_warned_of() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"mode": "hard"}})
    assert answer.findings == [
        warning(
            "volcano/no-tier",
            "spec.networkTopology",
            "names no tier: the pods may go anywhere (Volcano 1.14 and later)",
            fix="write highestTierAllowed or highestTierName",
        )
    ]


def test_only_pods_of_min_available_need_room() -> None:
    answer = read_volcano("job", {"spec.minAvailable": 3, "spec.queue": "gold"})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 3 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is for the 3 pods of minAvailable, of 4",
        "the quota of Volcano's queue gold is not looked at",
    ]


def test_min_available_of_a_task_counts_too() -> None:
    answer = read_volcano("job", {"spec.tasks[0].minAvailable": 2, "spec.minAvailable": None})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is for the 2 pods of minAvailable, of 4", QUOTA_IGNORED]


def test_min_available_across_several_tasks_is_not_placeable() -> None:
    answer = read_volcano(
        "job",
        {
            "spec.tasks": [
                {"name": "a", "replicas": 2, "template": TEMPLATE},
                {"name": "b", "replicas": 2, "template": TEMPLATE},
            ],
            "spec.minAvailable": 3,
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster, not placeable
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        ("minAvailable is 3 of 4 pods of several tasks: which of them count is not known: room is not checked"),
        QUOTA_IGNORED,
    ]


def test_partitions_have_a_tier_of_their_own() -> None:
    answer = read_volcano("partitioned-job")
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required zone
            4 x partition of worker: required rack; 2 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_IGNORED]


def test_only_min_partitions_need_room() -> None:
    answer = read_volcano("partitioned-job", {"spec.tasks[0].partitionPolicy.minPartitions": 3})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required zone
            3 x partition of worker: required rack; 2 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is for the 6 pods of minAvailable, of 8", QUOTA_IGNORED]


def test_replicas_that_differ_from_partitions_are_refused() -> None:
    answer = read_volcano("partitioned-job", {"spec.tasks[0].replicas": 6})
    assert answer.findings == [
        error(
            "volcano/partitions",
            "spec.tasks[0].replicas",
            "'Replicas' are not equal to TotalPartitions*PartitionSize in task: worker",
            fix="write 8",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "field", "message"),
    [
        pytest.param(
            {"spec.tasks[0].partitionPolicy.partitionSize": 0},
            "spec.tasks[0].partitionPolicy.partitionSize",
            "'PartitionSize' must be greater than 0 in task: worker",
            id="size",
        ),
        pytest.param(
            {"spec.tasks[0].partitionPolicy.totalPartitions": 0},
            "spec.tasks[0].partitionPolicy.totalPartitions",
            "'TotalPartitions' must be greater than 0 in task: worker",
            id="total",
        ),
    ],
)
def test_partition_numbers_of_zero_are_refused(edits: Edits, field: str, message: str) -> None:
    answer = read_volcano("partitioned-job", edits)
    assert answer.findings == [
        error("volcano/partitions", field, message, fix="say how many there are, and of how many pods")
    ]


def test_pod_group_is_not_placeable() -> None:
    answer = read_volcano("pod-group")
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano podgroup/train -n ml on cluster, not placeable
          train: required zone
            worker: required rack
    """)
    assert answer.notes == [PODS_UNKNOWN]


def test_pod_group_does_not_wait_for_either_topology() -> None:
    answer = read_volcano("pod-group", cluster=HYPER_NODES_OF_TWO_TOPOLOGIES)
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano podgroup/train -n ml on cluster, not placeable
          train: required zone
            worker: required rack
    """)
    assert answer.notes == [PODS_UNKNOWN]


def test_tier_number_beside_tier_name_is_refused() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}})
    assert answer.findings == [
        error(
            "volcano/tier-or-name",
            "spec.networkTopology",
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
            fix="keep one of them",
        )
    ]


def test_unknown_tier_name_is_refused() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierName": "rak"}})
    assert answer.findings == [
        error(
            "volcano/level-exists",
            "spec.networkTopology.highestTierName",
            "failed to find hypernode tier name rak: so the scheduler logs, and places the pods anywhere",
            fix="did you mean 'rack'?",
        )
    ]


def test_tier_below_the_lowest_is_refused() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierAllowed": 0}})
    assert answer.findings == [
        error(
            "volcano/level-exists",
            "spec.networkTopology.highestTierAllowed",
            "no HyperNode has tier 0 or a lower one, so that no place is ever found",
            fix="the lowest tier is 1",
        )
    ]


def test_tier_above_the_highest_is_warned_of() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierAllowed": 5}})
    assert answer.findings == [
        warning(
            "volcano/tier-above-all",
            "spec.networkTopology.highestTierAllowed",
            "is above all HyperNodes, the highest of which have tier 2: the pods may go anywhere",
            fix="name a tier that there is",
        )
    ]


def test_tier_without_any_hyper_node_is_refused() -> None:
    answer = read_volcano("job", cluster=NO_HYPER_NODES)
    assert answer.findings == [
        error(
            "volcano/topology-exists",
            "spec.networkTopology",
            "there is no HyperNode, and without any the whole cluster counts as one: the pods may go anywhere",
            fix="have Toposcope make them: spec.publish.volcano: Auto in a ClusterTopology",
        )
    ]


def test_hyper_nodes_of_no_known_level_leave_room_unchecked() -> None:
    answer = read_volcano("job", cluster=HYPER_NODES_OF_OTHERS)
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml, not placeable
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["which level its tier is, is not known: room is not checked", QUOTA_IGNORED]
