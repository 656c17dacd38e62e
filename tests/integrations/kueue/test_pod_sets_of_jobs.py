"""The pod sets that Kueue makes of a job: in its own order, with those that KubeRay adds."""

import pytest
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.checking import error

pytestmark = pytest.mark.regression

QUOTA = "spec.resourceGroups[0]"


def pod(*, gpus: int = 0, cpu: str = "1", rack: bool = False) -> Object:
    """A pod template; `rack`: its pods share a rack."""
    requests = {"cpu": cpu}
    limits = {}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    container = {"name": "c", "image": "example.invalid/c", "resources": {"requests": requests, "limits": limits}}
    annotations = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"} if rack else {}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def kubeflow_job(kind: str, field: str, **roles: Object) -> Object:
    """A job of kubeflow.org with its roles in this order."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "job", "namespace": "ml", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {field: roles},
    }


def cover_cpu(kueue: CheckedCluster, *, cpu: str = "1000", memory: str | None = "1Ti") -> None:
    """Give the queue a quota of CPU; `memory`: that of memory, None for none at all."""
    quotas = {"nvidia.com/gpu": "100", "cpu": cpu}
    if memory:
        quotas["memory"] = memory
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": "f", "resources": resources}]}
    kueue.edit("ClusterQueue/cq", QUOTA, group)


@pytest.mark.parametrize(
    ("kind", "field", "first"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", "Master"),
        ("XGBoostJob", "xgbReplicaSpecs", "Master"),
        ("PaddleJob", "paddleReplicaSpecs", "Master"),
        ("TFJob", "tfReplicaSpecs", "Chief"),
        ("MPIJob", "mpiReplicaSpecs", "Launcher"),
    ],
)
def test_first_role_is_placed_first_whatever_the_order(
    kueue: CheckedCluster, kind: str, field: str, first: str
) -> None:
    """The first role takes the node with the least room, and that is the only one for both workers."""
    cover_cpu(kueue)
    kueue.delete("Node/n1")
    kueue.add(node("n2", gpus=16, cpu="12"))
    workers = {"replicas": 2, "template": pod(gpus=4, cpu="8", rack=True)}
    leader = {"replicas": 1, "template": pod(gpus=1)}

    for roles in ({"Worker": workers, first: leader}, {first: leader, "Worker": workers}):
        kueue.workload = kubeflow_job(kind, field, **roles)
        assert kueue.check().verdict == (
            "does not fit now: Kueue 0.19 assigns pod sets one after the other without backtracking: at pod set "
            "Worker there is room for 1 of 2 pods"
        )


def test_roles_of_a_wrapped_job_are_in_order(kueue: CheckedCluster) -> None:
    cover_cpu(kueue)
    kueue.delete("Node/n1")
    kueue.add(node("n2", gpus=16, cpu="12"))
    workers = {"replicas": 2, "template": pod(gpus=4, cpu="8", rack=True)}
    master = {"replicas": 1, "template": pod(gpus=1)}
    wrapped = kubeflow_job("PyTorchJob", "pytorchReplicaSpecs", Worker=workers, Master=master)
    kueue.workload = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrapper", "namespace": "ml", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {"components": [{"template": wrapped}]},
    }
    assert kueue.check().verdict == (
        "does not fit now: Kueue 0.19 assigns pod sets one after the other without backtracking: at pod set Worker "
        "there is room for 1 of 2 pods"
    )


def test_first_role_leaves_room_for_the_workers_on_another_node(kueue: CheckedCluster) -> None:
    cover_cpu(kueue)
    kueue.label_node("n1", "example.com/rack", "r2")
    workers = {"replicas": 2, "template": pod(gpus=4, cpu="8", rack=True)}
    master = {"replicas": 1, "template": pod(gpus=1)}
    kueue.workload = kubeflow_job("PyTorchJob", "pytorchReplicaSpecs", Worker=workers, Master=master)
    assert kueue.check().verdict == "fits: 3 pods on 2 nodes"


def node(name: str, *, gpus: int, cpu: str) -> Object:
    """Another node, in rack r2."""
    allocatable = {"nvidia.com/gpu": str(gpus), "cpu": cpu, "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "pool": "a", "example.com/rack": "r2"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def ray_job(**spec: object) -> Object:
    """A RayJob with a head of 1 CPU and a worker of 4."""
    workers = {"groupName": "w", "replicas": 1, "rayStartParams": {}, "template": pod(gpus=8, cpu="4")}
    cluster = {"headGroupSpec": {"rayStartParams": {}, "template": pod()}, "workerGroupSpecs": [workers]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "job", "namespace": "ml", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True, **spec},
    }


def test_submitter_of_a_ray_job_counts_against_the_quota(kueue: CheckedCluster) -> None:
    cover_cpu(kueue, cpu="5")
    kueue.workload = ray_job()
    assert kueue.check().verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 5 cpu in flavor f, 5.5 cpu requested"
    )


def test_ray_job_with_quota_for_its_submitter_fits(kueue: CheckedCluster) -> None:
    cover_cpu(kueue, cpu="5500m")
    kueue.workload = ray_job(submissionMode="K8sJobMode")
    assert kueue.check().verdict == "fits: 3 pods on 1 node"


def test_submitter_template_says_what_it_requests(kueue: CheckedCluster) -> None:
    cover_cpu(kueue, cpu="7")
    kueue.workload = ray_job(submitterPodTemplate=pod(cpu="3"))
    assert kueue.check().verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 7 cpu in flavor f, 8 cpu requested"
    )


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_ray_job_submitted_by_http_has_no_submitter(kueue: CheckedCluster, mode: str) -> None:
    cover_cpu(kueue, cpu="5")
    kueue.workload = ray_job(submissionMode=mode)
    assert kueue.check().verdict == "fits: 2 pods on 1 node"


def test_sidecar_that_submits_counts_with_the_head(kueue: CheckedCluster) -> None:
    cover_cpu(kueue, cpu="5")
    kueue.workload = ray_job(submissionMode="SidecarMode")
    assert kueue.check().verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 5 cpu in flavor f, 5.5 cpu requested"
    )


def test_ray_job_that_keeps_its_cluster_is_refused(kueue: CheckedCluster) -> None:
    cover_cpu(kueue)
    kueue.workload = ray_job(shutdownAfterJobFinishes=False)
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/ray",
            "spec.shutdownAfterJobFinishes",
            "a kueue managed job should delete the cluster after finishing",
            fix="set it to true",
        )
    ]
    assert answer.verdict == "unclear: Kueue rejects the workload as written, even on an empty cluster"


def test_ray_cluster_that_scales_itself_is_refused(kueue: CheckedCluster) -> None:
    cover_cpu(kueue)
    kueue.workload = ray_job()
    kueue.edit_workload("spec.rayClusterSpec.enableInTreeAutoscaling", True)
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/ray",
            "spec.rayClusterSpec.enableInTreeAutoscaling",
            "a kueue managed job should only use autoscaling when workload slicing is enabled",
            fix='set the annotation kueue.x-k8s.io/elastic-job: "true", or remove it',
        )
    ]


def test_autoscaler_of_an_elastic_ray_job_counts_with_the_head(kueue: CheckedCluster) -> None:
    cover_cpu(kueue, cpu="5500m")
    kueue.workload = ray_job()
    kueue.annotate("kueue.x-k8s.io/elastic-job", "true")
    kueue.edit_workload("spec.rayClusterSpec.enableInTreeAutoscaling", True)
    assert kueue.check().verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 5.5 cpu in flavor f, 6 cpu requested"
    )


def test_ray_job_on_an_existing_cluster_is_left_alone(kueue: CheckedCluster) -> None:
    kueue.workload = ray_job(clusterSelector={"ray.io/cluster": "there"})
    answer = kueue.check()
    assert answer.findings == []
    assert answer.verdict == ""
    assert answer.notes == ["Kueue does not manage a RayJob with a clusterSelector: it runs on that cluster"]
