"""Volcano: what Jobs and PodGroups ask for, and what its webhooks refuse or its scheduler never places."""

from typing import Any

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

QUOTA_IGNORED = "Volcano queue quota (default) is not checked"
PODS_UNKNOWN = "a PodGroup does not say what its pods request; check the Job that creates them"
IN_ONE_RACK = text("""
    Volcano job/train -n ml on cluster
      train: required rack; 4 pods (nvidia.com/gpu=8)
""")


def task(name: str, *, gpus: int = 8, cpu: str = "") -> dict[str, Any]:
    """A task of two pods."""
    limits = {"nvidia.com/gpu": str(gpus)}
    if cpu:
        limits["cpu"] = cpu
    container = {"name": "c", "resources": {"limits": limits}}
    return {"name": name, "replicas": 2, "template": {"spec": {"containers": [container]}}}


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
    assert answer.notes == ["Volcano's preference for the lowest tier (mode: soft) is not checked", QUOTA_IGNORED]


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
            "sets no tier, so the pods may go anywhere (Volcano 1.14 and later)",
            fix="set highestTierAllowed or highestTierName",
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
        "room is counted for the 3 pods of minAvailable, of 4",
        "Volcano queue quota (gold) is not checked",
    ]


def test_min_available_of_a_task_counts_too() -> None:
    answer = read_volcano("job", {"spec.tasks[0].minAvailable": 2, "spec.minAvailable": None})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is counted for the 2 pods of minAvailable, of 4", QUOTA_IGNORED]


def test_min_available_across_tasks_needs_the_smallest_pods_at_least() -> None:
    answer = read_volcano("job", {"spec.tasks": [task("a", gpus=8), task("b", gpus=1)], "spec.minAvailable": 3})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=1); 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_IGNORED]


def test_pods_of_different_resources_need_the_least_of_each() -> None:
    tasks = [task("a", gpus=8), task("b", gpus=1, cpu="4")]
    answer = read_volcano("job", {"spec.tasks": tasks, "spec.minAvailable": 3})
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 3 pods (nvidia.com/gpu=1)
    """)


@pytest.mark.parametrize(
    ("minimum", "message", "fix"),
    [
        pytest.param(
            5,
            "job 'minAvailable' should not be greater than total replicas in tasks: 5 of 4",
            "set at most 4",
            id="more-than-replicas",
        ),
        pytest.param(
            3,
            "is 3, but only 2 pods are created before those of b, which wait for a to run, so the gang never starts",
            "set minAvailable to 2 or less, or remove dependsOn",
            id="more-than-are-created",
        ),
    ],
)
def test_min_available_that_never_starts_is_refused(minimum: int, message: str, fix: str) -> None:
    later = {**task("b"), "dependsOn": {"name": ["a"]}}
    tasks = [task("a"), later if minimum < 5 else task("b")]
    answer = read_volcano("job", {"spec.tasks": tasks, "spec.minAvailable": minimum})
    rule = "volcano/min-available" if minimum > 4 else "volcano/depends-on"
    assert answer.findings == [error(rule, "spec.minAvailable", message, fix=fix)]
    assert answer.workload.startswith("Volcano job/train -n ml on cluster, not placeable")


def test_only_tasks_that_wait_for_none_start_together() -> None:
    later = {**task("b", gpus=1), "dependsOn": {"name": ["a"]}}
    answer = read_volcano("job", {"spec.tasks": [task("a"), later], "spec.minAvailable": 2})
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is counted for the 2 pods of minAvailable, of 4", QUOTA_IGNORED]


def test_tasks_that_wait_for_each_other_are_refused() -> None:
    first = {**task("a"), "dependsOn": {"name": ["b"]}}
    second = {**task("b"), "dependsOn": {"name": ["a"]}}
    answer = read_volcano("job", {"spec.tasks": [first, second]})
    assert answer.findings == [
        error(
            "volcano/depends-on",
            "spec.tasks[0].dependsOn",
            "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
            fix="remove one dependency of the cycle",
        )
    ]


def test_task_that_waits_for_no_task_is_refused() -> None:
    first = {**task("a"), "dependsOn": {"name": ["bb"]}}
    answer = read_volcano("job", {"spec.tasks": [first, task("b")]})
    assert answer.findings == [
        error(
            "volcano/depends-on",
            "spec.tasks[0].dependsOn",
            "there is no task bb, so the pods of a are never created",
            fix="there are: a, b",
        )
    ]


def test_task_minimum_above_its_replicas_is_refused() -> None:
    answer = read_volcano("job", {"spec.tasks[0].minAvailable": 9})
    assert answer.findings == [
        error(
            "volcano/min-available",
            "spec.tasks[0].minAvailable",
            "'minAvailable' is greater than 'replicas' in task: worker",
            fix="set at most 4",
        )
    ]


def test_two_tasks_of_one_name_are_refused() -> None:
    answer = read_volcano("job", {"spec.tasks": [task("a"), task("a")]})
    assert answer.findings == [
        error("volcano/tasks", "spec.tasks[1].name", "duplicated task name a", fix="give each task a name of its own")
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
    assert answer.notes == ["room is counted for the 6 pods of minAvailable, of 8", QUOTA_IGNORED]


def test_min_available_that_differs_from_min_partitions_is_refused() -> None:
    edits = {"spec.tasks[0].partitionPolicy.minPartitions": 3, "spec.tasks[0].minAvailable": 5}
    answer = read_volcano("partitioned-job", edits)
    assert answer.findings == [
        error(
            "volcano/partitions",
            "spec.tasks[0].minAvailable",
            "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: worker",
            fix="set 6, or remove it",
        )
    ]
    assert read_volcano("partitioned-job", {**edits, "spec.tasks[0].minAvailable": 6}).findings == []


def test_job_without_tasks_is_refused() -> None:
    answer = read_volcano("job", {"spec.tasks": [], "spec.minAvailable": None})
    assert answer.findings == [
        error("volcano/tasks", "spec.tasks", "No task specified in job spec", fix="add a task with a pod template")
    ]


def test_tasks_of_one_name_are_refused() -> None:
    answer = read_volcano("job", {"spec.tasks": [task("a"), task("b"), task("a")]})
    assert answer.findings == [
        error(
            "volcano/tasks",
            "spec.tasks[2].name",
            "duplicated task name a",
            fix="give each task a name of its own",
        )
    ]


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
        error("volcano/partitions", field, message, fix="set the number of partitions, and their size in pods")
    ]


def test_pod_group_is_not_placeable() -> None:
    answer = read_volcano("pod-group")
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano podgroup/train -n ml on cluster, not placeable
          train: required zone
            worker: required rack
    """)
    assert answer.unknown == PODS_UNKNOWN


def test_pod_group_does_not_wait_for_either_topology() -> None:
    answer = read_volcano("pod-group", cluster=HYPER_NODES_OF_TWO_TOPOLOGIES)
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano podgroup/train -n ml on cluster, not placeable
          train: required zone
            worker: required rack
    """)
    assert answer.unknown == PODS_UNKNOWN


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
            "failed to find hypernode tier name rak: the scheduler logs this and places the pods anywhere",
            fix="did you mean 'rack'?",
        )
    ]


def test_tier_below_the_lowest_is_refused() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierAllowed": 0}})
    assert answer.findings == [
        error(
            "volcano/level-exists",
            "spec.networkTopology.highestTierAllowed",
            "no HyperNode has tier 0 or lower, so the pods can never be placed",
            fix="the lowest tier is 1",
        )
    ]


def test_tier_above_the_highest_is_warned_of() -> None:
    answer = read_volcano("job", {"spec.networkTopology": {"highestTierAllowed": 5}})
    assert answer.findings == [
        warning(
            "volcano/tier-above-all",
            "spec.networkTopology.highestTierAllowed",
            "is above the highest tier of the HyperNodes (2), so the pods may go anywhere",
            fix="use a tier that exists",
        )
    ]


def test_tier_without_any_hyper_node_is_refused() -> None:
    answer = read_volcano("job", cluster=NO_HYPER_NODES)
    assert answer.findings == [
        error(
            "volcano/topology-exists",
            "spec.networkTopology",
            "there are no HyperNodes, so the whole cluster counts as one and the pods may go anywhere",
            fix="let Toposcope create them: set spec.publish.volcano: Auto in a ClusterTopology",
        )
    ]


def test_hyper_nodes_of_no_known_level_leave_room_unchecked() -> None:
    answer = read_volcano("job", cluster=HYPER_NODES_OF_OTHERS)
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml, not placeable
          train: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.unknown == "the level of its tier is unknown"
    assert answer.notes == [QUOTA_IGNORED]
