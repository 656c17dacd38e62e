"""Pods of lower priority that kube-scheduler evicts for a workload which does not fit now."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster

pytestmark = pytest.mark.regression

Object = dict[str, Any]
PRIORITY_CLASS = "spec.template.spec.priorityClassName"


@pytest.fixture
def full() -> CheckedCluster:
    """Two nodes whose GPUs are all taken; a Job of one pod with 4 GPUs, of priority 1000."""
    cluster = CheckedCluster("placement/clusters/two-nodes", "placement/plain-job")
    cluster.pods(1)
    cluster.gpus_per_pod(4)
    cluster.edit_workload(PRIORITY_CLASS, "high")
    cluster.add(priority_class("high", 1000))
    run(cluster, "a", "n0", gpus=4, priority=0)
    run(cluster, "b", "n0", gpus=4, priority=500)
    run(cluster, "c", "n1", gpus=8, priority=100)
    return cluster


def priority_class(name: str, value: int, **fields: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def run(cluster: CheckedCluster, pod: str, node: str, *, gpus: int, priority: int) -> None:
    cluster.run(f"ml/{pod}", on=node, requests={GPU: str(gpus)})
    cluster.edit(f"Pod/{pod}", "spec.priority", priority)


def evictions(cluster: CheckedCluster) -> list[str]:
    """What is said of evicted pods."""
    answer = cluster.check()
    assert answer.verdict.startswith("does not fit now: ")
    return [line for line in answer.advice if "lower priority" in line]


def test_least_important_pod_is_evicted(full: CheckedCluster) -> None:
    assert evictions(full) == ["kube-scheduler would evict 1 pod of lower priority to make room: ml/a (on n0)"]


def test_more_important_pods_stay_where_they_can(full: CheckedCluster) -> None:
    full.gpus_per_pod(8)
    full.edit("Pod/b", "spec.priority", 50)

    assert evictions(full) == ["kube-scheduler would evict 2 pods of lower priority to make room: ml/b, ml/a (on n0)"]


def test_each_pod_of_the_workload_gets_room(full: CheckedCluster) -> None:
    full.pods(3)

    assert evictions(full) == [
        "kube-scheduler would evict 2 pods of lower priority to make room: ml/a, ml/c (on n0, n1)"
    ]


def test_pods_of_equal_priority_are_not_evicted(full: CheckedCluster) -> None:
    for pod in ("a", "b", "c"):
        full.edit(f"Pod/{pod}", "spec.priority", 1000)

    assert evictions(full) == []


def test_nothing_is_said_where_too_little_would_be_free(full: CheckedCluster) -> None:
    full.pods(4)
    full.edit("Pod/b", "spec.priority", 2000)

    assert evictions(full) == []


def test_class_that_never_preempts_evicts_nobody(full: CheckedCluster) -> None:
    full.edit("PriorityClass/high", "preemptionPolicy", "Never")

    assert evictions(full) == []


def test_global_default_is_the_priority_without_a_class(full: CheckedCluster) -> None:
    full.edit("PriorityClass/high", "globalDefault", True)
    full.edit_workload(PRIORITY_CLASS, None)

    assert evictions(full) == ["kube-scheduler would evict 1 pod of lower priority to make room: ml/a (on n0)"]


def test_cordoned_node_is_no_place_to_evict_from(full: CheckedCluster) -> None:
    full.cordon("n0")

    assert evictions(full) == ["kube-scheduler would evict 1 pod of lower priority to make room: ml/c (on n1)"]


def test_other_schedulers_evict_by_rules_of_their_own(full: CheckedCluster) -> None:
    full.edit_workload("spec.template.spec.schedulerName", "volcano")

    assert evictions(full) == []


def test_json_names_the_evicted_pods(full: CheckedCluster) -> None:
    remedies = full.check().json["verdict"]["remedies"]

    evicting = [remedy for remedy in remedies if remedy["act"] == "preempt"]
    assert evicting == [
        {
            "act": "preempt",
            "domain": "the cluster",
            "nodes": ["n0"],
            "pods": ["ml/a"],
            "tolerations": [],
        }
    ]


def test_evictions_for_two_kinds_of_pods_are_of_one_node(full: CheckedCluster) -> None:
    container = {"name": "c", "resources": {"limits": {GPU: "4"}}}
    pod_template = {"spec": {"priorityClassName": "high", "containers": [container]}}
    roles = []
    for name in ("first", "second"):
        job = {"parallelism": 1, "completions": 1, "template": pod_template}
        roles.append({"name": name, "replicas": 1, "template": {"spec": job}})
    full.workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"replicatedJobs": roles},
    }
    full.edit("Pod/c", "spec.priority", 2000)

    assert evictions(full) == ["kube-scheduler would evict 2 pods of lower priority to make room: ml/a, ml/b (on n0)"]


def test_nobody_is_evicted_where_pods_of_no_gpus_keep_others_off(full: CheckedCluster) -> None:
    for pod in ("a", "b", "c"):
        full.delete(f"Pod/{pod}")
    for node in ("n0", "n1"):
        run(full, f"on-{node}", node, gpus=0, priority=2000)
        full.edit(f"Pod/on-{node}", "metadata.labels", {"app": "other"})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    full.edit_workload("spec.template.spec.affinity", {"podAntiAffinity": required})

    assert evictions(full) == []
