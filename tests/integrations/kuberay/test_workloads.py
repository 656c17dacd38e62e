"""Ray clusters that no other system places."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, check, error, reading_of
from tests.support.documents import Edits, edited, text
from toposcope.integrations.readings import readings

pytestmark = pytest.mark.regression

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
WORKERS = "spec.rayClusterSpec.workerGroupSpecs[0]"


def template(**limits: str) -> Object:
    """A pod with these limits."""
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}


def ray_job(edits: Edits | None = None) -> Object:
    """A RayJob with a head and two workers of 8 GPUs."""
    workers = {"groupName": "gpu", "replicas": 2, "maxReplicas": 4, "template": template(**{GPU: "8"})}
    cluster = {"headGroupSpec": {"template": template(cpu="1")}, "workerGroupSpecs": [workers]}
    document = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "rj", "namespace": "ml"},
        "spec": {"rayClusterSpec": cluster},
    }
    result: Object = edited(document, edits or {})
    return result


def read_ray(edits: Edits | None = None) -> Read:
    (reading,) = readings(ray_job(edits), CLUSTER)
    return Read(reading)


def test_ray_job_has_a_submitter() -> None:
    answer = read_ray()
    assert answer.findings == []
    assert answer.workload == text("""
        KubeRay rayjob/rj -n ml
          rj: 1 head (cpu=1000); 2 gpu (nvidia.com/gpu=8); 1 submitter (cpu=500 memory=209715200)
    """)
    assert answer.notes == []


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_ray_job_of_another_mode_has_no_submitter(mode: str) -> None:
    answer = read_ray({"spec.submissionMode": mode})
    assert "submitter" not in answer.workload


def test_submitter_of_a_sidecar_is_in_the_head() -> None:
    answer = read_ray({"spec.submissionMode": "SidecarMode"})
    assert answer.workload == text("""
        KubeRay rayjob/rj -n ml
          rj: 1 head (cpu=1500 memory=209715200); 2 gpu (nvidia.com/gpu=8)
    """)


def test_autoscaler_is_in_the_head_and_may_add_workers() -> None:
    answer = read_ray({"spec.rayClusterSpec.enableInTreeAutoscaling": True, "spec.submissionMode": "HTTPMode"})
    assert answer.workload == text("""
        KubeRay rayjob/rj -n ml
          rj: 1 head (cpu=1500 memory=536870912); 2 gpu (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is for the replicas at the start; Ray's autoscaler may grow gpu to 4 replicas"]


@pytest.mark.parametrize(
    ("edits", "count"),
    [
        pytest.param({f"{WORKERS}.minReplicas": 3}, 3, id="minimum"),
        pytest.param({f"{WORKERS}.maxReplicas": 1}, 1, id="maximum"),
        pytest.param({f"{WORKERS}.replicas": None, f"{WORKERS}.minReplicas": 1}, 1, id="only-minimum"),
    ],
)
def test_replicas_stay_within_their_limits(edits: Edits, count: int) -> None:
    assert f"{count} gpu (nvidia.com/gpu=8)" in read_ray(edits).workload


def test_minimum_above_the_maximum_is_refused() -> None:
    assert read_ray({f"{WORKERS}.minReplicas": 9}).findings == [
        error(
            "kuberay/replicas",
            f"{WORKERS}.minReplicas",
            "worker group gpu has minReplicas 9 greater than maxReplicas 4",
            fix="set at most 4",
        )
    ]


def test_ray_job_without_a_cluster_is_refused() -> None:
    assert read_ray({"spec.rayClusterSpec": None}).findings == [
        error(
            "kuberay/cluster",
            "spec",
            "The RayJob spec is invalid: one of RayClusterSpec or ClusterSelector must be set",
            fix="add rayClusterSpec",
        )
    ]


def test_cluster_of_others_takes_the_job_in() -> None:
    answer = read_ray({"spec.rayClusterSpec": None, "spec.clusterSelector": {"ray.io/cluster": "c"}})
    assert answer.findings == []


def test_selector_of_one_group_that_no_node_matches_is_named() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {
            "allocatable": {GPU: "16", "cpu": "8", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    assert check(ray_job(), [node]).verdict == "fits: 4 pods on 1 node"
    workload = ray_job({f"{WORKERS}.template.spec.nodeSelector": {"gpu": "b200"}})
    assert check(workload, [node]).verdict == (
        "cannot fit: no node takes a pod of gpu: does not match nodeSelector gpu=b200 (1 node)"
    )


def test_volcano_reads_a_cluster_with_its_labels_instead() -> None:
    document = ray_job({"metadata.labels": {"volcano.sh/queue-name": "gold"}})
    (reading,) = readings(document, CLUSTER)
    assert reading == reading_of(["Volcano"], document, CLUSTER)
