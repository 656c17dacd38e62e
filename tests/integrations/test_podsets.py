"""The pods of every kind of workload: how many, how often, and what nonsense becomes."""

from typing import Any

import pytest

from tests.support.workloads import Object, job, jobset, leader_worker_set, replicated, template, workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.pods import chunks, structure_of
from toposcope.integrations.lws.workload import sub_groups


def counted(document: Object) -> tuple[list[tuple[str, int]], int]:
    structure = structure_of(Field(document))
    assert structure is not None
    return [(set_.name, set_.count) for set_ in structure.sets], structure.copies


RAY_SPEC = {
    "headGroupSpec": {"template": template(0)},
    "workerGroupSpecs": [
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": template()},
        {"groupName": "off", "replicas": 3, "suspend": True, "template": template()},
        {"template": template()},
    ],
}
RAY = [("head", 1), ("big", 8), ("off", 0), ("worker-group-2", 0)]
PYTORCH_SPEC = {"pytorchReplicaSpecs": {"Master": {"template": template()}, "Worker": {"replicas": 7}}}


@pytest.mark.parametrize(
    ("document", "sets", "copies"),
    [
        (workload("v1", "Pod", template()["spec"]), [("pod", 1)], 1),
        (job(4), [("pods", 4)], 1),
        (job(4, completions=3), [("pods", 3)], 1),
        (workload("batch/v1", "Job", {"template": template()}), [("pods", 1)], 1),
        (workload("apps/v1", "Deployment", {"replicas": 5, "template": template()}), [("pods", 5)], 1),
        (workload("apps/v1", "StatefulSet", {"template": template()}), [("pods", 1)], 1),
        (jobset(replicated("a", 2, 3), replicated("b", 1, 4)), [("a", 6), ("b", 4)], 1),
        (leader_worker_set(3, 5), [("leader", 1), ("worker", 4)], 3),
        (leader_worker_set(3, 5, leader=False), [("pods", 5)], 3),
        (workload("kubeflow.org/v1", "PyTorchJob", PYTORCH_SPEC), [("Master", 1), ("Worker", 7)], 1),
        (workload("ray.io/v1", "RayCluster", RAY_SPEC), RAY, 1),
        (workload("ray.io/v1", "RayJob", {"rayClusterSpec": RAY_SPEC}), RAY, 1),
        (workload("ray.io/v1", "RayService", {"rayClusterConfig": RAY_SPEC}), RAY, 1),
    ],
)
def test_how_many_pods(document: Object, sets: list[tuple[str, int]], copies: int) -> None:
    assert counted(document) == (sets, copies)


def test_what_a_pod_takes_is_that_of_its_template() -> None:
    structure = structure_of(Field(leader_worker_set(1, 3)))
    assert structure is not None
    assert [dict(pods.requests)["nvidia.com/gpu"] for pods in structure.whole] == [1, 8]


def test_only_pods_of_a_deployment_stand_alone() -> None:
    kinds = {"Deployment": True, "ReplicaSet": True, "StatefulSet": False}
    for kind, separate in kinds.items():
        structure = structure_of(Field(workload("apps/v1", kind, {"template": template()})))
        assert structure is not None
        assert structure.separate == separate


@pytest.mark.parametrize("document", [{}, {"kind": "Job"}, {"apiVersion": 1, "kind": ["Job"]}, {"kind": "ConfigMap"}])
def test_kinds_without_pods(document: Any) -> None:
    assert structure_of(Field(document)) is None


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (job(-1), "spec.parallelism", "is -1, expected a whole number of at least 0"),
        (
            workload("jobset.x-k8s.io/v1", "JobSet", {"replicatedJobs": [7]}),
            "spec.replicatedJobs[0]",
            "is 7, expected an object",
        ),
        (
            leader_worker_set(1, 0),
            "spec.leaderWorkerTemplate.size",
            "is 0, expected a whole number of at least 1",
        ),
        (workload("ray.io/v1", "RayCluster", "x"), "spec", "is 'x', expected an object"),
    ],
)
def test_nonsense_is_named(document: Object, field: str, message: str) -> None:
    root = Field(document)
    structure_of(root)
    assert (field, message) in [(finding.field, finding.message) for finding in root.findings]


@pytest.mark.parametrize(
    ("size", "each", "apart", "expected"),
    [
        (5, 2, False, [([1, 2], 1), ([2], 1)]),  # size - 1 can be divided: the leader is the extra pod
        (9, 2, False, [([1, 2], 1), ([2], 3)]),
        (6, 2, False, [([1, 1], 1), ([2], 2)]),  # size can be divided: the leader is one of the first
        (5, 2, True, [([2], 2)]),
        (6, 4, False, [([1, 3], 1), ([2], 1)]),  # neither: KAI fills the last one as far as it goes
        (1, 1, False, [([1], 1)]),
    ],
)
def test_subgroups(size: int, each: int, apart: bool, expected: list[tuple[list[int], int]]) -> None:
    structure = structure_of(Field(leader_worker_set(1, size)))
    assert structure is not None
    alike = sub_groups(structure, each, leader_excluded=apart)
    assert [([pods.count for pods in parts], times) for parts, times in alike] == expected
    total = sum(sum(pods.count for pods in parts) * times for parts, times in alike)
    assert total == size - (1 if apart else 0)


def test_portions() -> None:
    assert list(chunks(10, 4)) == [(4, 2), (2, 1)]
    assert list(chunks(8, 4)) == [(4, 2)]
    assert list(chunks(3, 4)) == [(3, 1)]
