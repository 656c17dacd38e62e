"""Whether a PodGroup of KAI's has room, by its pods in the cluster or in the same file."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, NOT_CHECKED, CheckedCluster
from tests.support.documents import text

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RACK = "cloud.google.com/gce-topology-subblock"
TWO_RACKS_FIT = "fits: 2 racks could take it now, best rack-3 (4 nodes, 32 free GPUs)"


@pytest.fixture
def pod_group() -> CheckedCluster:
    """Two racks of four nodes of eight GPUs each, and a PodGroup pg."""
    return CheckedCluster("placement/clusters/two-racks-of-h200", "placement/kai-pod-group")


def waiting(name: str, *, gpus: int = 8, sub_group: str = "", select: Object | None = None) -> Object:
    """A pending pod of the PodGroup."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: str(gpus)}}}
    labels = {"kai.scheduler/subgroup-name": sub_group} if sub_group else {}
    metadata = {"name": name, "namespace": "ml", "annotations": {"pod-group-name": "pg"}, "labels": labels}
    spec: Object = {"containers": [container], "schedulerName": "kai-scheduler"}
    if select:
        spec["nodeSelector"] = select
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
    }
    status = {"phase": "Pending", "conditions": [scheduled]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def four_waiting(sub_group: str) -> list[Object]:
    """Four pending pods of a sub-group."""
    return [waiting(f"{sub_group}-{number}", sub_group=sub_group) for number in range(4)]


def busy(node: str) -> Object:
    """A pod of somebody else's that takes all GPUs of a node."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: "8"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"busy-{node}", "namespace": "ml"},
        "spec": {"containers": [container], "schedulerName": "kai-scheduler", "nodeName": node},
        "status": {"phase": "Running"},
    }


def job_of_pods(annotations: Object) -> Object:
    """A Job whose four pods name the PodGroup."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: "8"}}}
    template = {
        "metadata": {"annotations": {"pod-group-name": "pg"}},
        "spec": {"containers": [container], "schedulerName": "kai-scheduler"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "annotations": annotations},
        "spec": {"parallelism": 4, "completions": 4, "template": template},
    }


IN_A_RACK = {"topology": "cluster", "requiredTopologyLevel": RACK}
SKIPS_POD_GROUPER = {"kai.scheduler/skip-podgrouper": "true"}
TWO_SUB_GROUPS: Object = {
    "queue": "q",
    "subGroups": [
        {"name": "a", "minMember": 4, "topologyConstraint": IN_A_RACK},
        {"name": "b", "minMember": 4, "topologyConstraint": IN_A_RACK},
    ],
}


def gang(min_member: int) -> Object:
    """A gang that stays in a rack."""
    return {"queue": "q", "minMember": min_member, "topologyConstraint": IN_A_RACK}


def test_pods_in_the_cluster_count(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("a"))
    pod_group.add(waiting("b"))
    pod_group.edit_workload("spec", gang(2))

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_pods_that_are_not_known_are_taken_to_be_alike(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("a"))
    pod_group.add(waiting("b"))
    pod_group.edit_workload("spec", gang(4))

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/pg -n ml on cluster, a gang
          pg: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["2 of 4 pods of the PodGroup are known; the others are assumed identical"]
    assert answer.verdict == TWO_RACKS_FIT


def test_more_pods_than_a_rack_holds_never_fit(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("a"))
    pod_group.add(waiting("b"))
    pod_group.edit_workload("spec", gang(5))

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/pg -n ml on cluster, a gang
          pg: required rack; 5 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["2 of 5 pods of the PodGroup are known; the others are assumed identical"]
    assert answer.verdict == "cannot fit: pg needs 40 GPUs in one rack, largest has 32 (rack-3)"


def test_pods_of_a_job_in_the_same_file_wait_for_a_rack(pod_group: CheckedCluster) -> None:
    pod_group.add(busy("h200-1"))
    pod_group.add(busy("h200-5"))
    pod_group.edit_workload("spec", gang(4))
    pod_group.beside["Job/train"] = job_of_pods(SKIPS_POD_GROUPER)

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "does not fit now: pg needs 32 GPUs in one rack, largest has 24 (rack-3)"


def test_pods_of_a_job_in_the_same_file_fit(pod_group: CheckedCluster) -> None:
    pod_group.add(busy("h200-1"))
    pod_group.edit_workload("spec", gang(4))
    pod_group.beside["Job/train"] = job_of_pods(SKIPS_POD_GROUPER)

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: rack rack-4 (4 nodes, 32 free GPUs)"


def test_pods_of_a_job_with_a_group_of_its_own_do_not_count(pod_group: CheckedCluster) -> None:
    pod_group.add(busy("h200-1"))
    pod_group.edit_workload("spec", gang(4))
    pod_group.beside["Job/train"] = job_of_pods({})

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/pg -n ml on cluster, a gang, not placeable
          pg: required rack; 4 pods
    """)
    assert answer.notes == [
        (
            "no pods of the PodGroup are known, so their requests are unknown, so room is not checked; check the "
            "workload that creates its pods"
        )
    ]
    assert answer.verdict == NOT_CHECKED


def test_sub_groups_fit_in_a_rack_each(pod_group: CheckedCluster) -> None:
    pod_group.add(*four_waiting("a"))
    pod_group.add(*four_waiting("b"))
    pod_group.edit_workload("spec", TWO_SUB_GROUPS)

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 8 pods on 8 nodes"


def test_sub_groups_wait_for_a_busy_node(pod_group: CheckedCluster) -> None:
    pod_group.add(*four_waiting("a"))
    pod_group.add(*four_waiting("b"))
    pod_group.add(busy("h200-1"))
    pod_group.edit_workload("spec", TWO_SUB_GROUPS)

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "does not fit now: pg needs 64 GPUs, the nodes it may use have 56"


def test_sub_group_without_known_pods_is_not_checked(pod_group: CheckedCluster) -> None:
    pod_group.add(*four_waiting("a"))
    pod_group.edit_workload("spec", TWO_SUB_GROUPS)

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/pg -n ml on cluster, a gang, not placeable
          pg
            sub-group a: required rack; 4 a (nvidia.com/gpu=8)
            sub-group b: required rack; 4 b
    """)
    assert answer.notes == [
        (
            "no pods of sub-group b are known, so their requests are unknown, so room is not checked; check the "
            "workload that creates its pods"
        )
    ]
    assert answer.verdict == NOT_CHECKED


def test_node_selector_of_a_pod_that_matches_no_rack_counts(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("a", select={RACK: "rack-9"}))
    pod_group.edit_workload("spec", {"queue": "q", "minMember": 1})

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: pg needs 8 GPUs, the nodes it may use have none"


def test_node_selector_of_a_pod_that_matches_a_rack_counts(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("a", select={RACK: "rack-3"}))
    pod_group.edit_workload("spec", {"queue": "q", "minMember": 1})

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 1 pod on 1 node"


def test_pods_of_two_sizes_fit_in_a_rack(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("leader", gpus=1))
    pod_group.add(waiting("a"))
    pod_group.add(waiting("b"))
    pod_group.edit_workload("spec", gang(3))

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_fewer_pods_than_known_of_two_sizes_are_not_checked(pod_group: CheckedCluster) -> None:
    pod_group.add(waiting("leader", gpus=1))
    pod_group.add(waiting("a"))
    pod_group.add(waiting("b"))
    pod_group.edit_workload("spec", {"queue": "q", "minMember": 2})

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI podgroup/pg -n ml, a gang, not placeable
          pg: 2 pods
    """)
    assert answer.notes == [
        (
            "the PodGroup needs 2 of 3 known pods of several sizes; it is unknown which of them count, so room is "
            "not checked; check the workload that creates its pods"
        )
    ]
    assert answer.verdict == NOT_CHECKED
