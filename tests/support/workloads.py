"""Workloads as people write them, for the systems that keep their pods together."""

from typing import Any

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading

Object = dict[str, Any]

ZONE = Level("zone", "topology.kubernetes.io/zone")
RACK = Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
LEVELS = (ZONE, RACK, HOST)
CLUSTER_FACTS = ClusterFacts({"cluster": TopologyLevels("cluster", LEVELS)}, frozenset(level.key for level in LEVELS))
GPU = "nvidia.com/gpu"


def template(gpus: int = 8, annotations: Object | None = None, **spec: Any) -> Object:
    """A pod template."""
    container = {
        "name": "c",
        "image": "example.invalid/c",
        "resources": {"limits": {GPU: str(gpus)}},
    }
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def _kai_template(gpus: int, annotations: Object | None = None) -> Object:
    return template(gpus, annotations, schedulerName="kai-scheduler")


def workload(version: str, kind: str, spec: Any, annotations: Object | None = None, **labels: str) -> Object:
    """An object called `ml/train`."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "annotations": annotations or {},
            "labels": labels,
        },
        "spec": spec,
    }


def job(pods: int = 4, annotations: Object | None = None, on_pods: Object | None = None, **spec: Any) -> Object:
    """A Job for KAI."""
    body = {
        "parallelism": pods,
        "completions": pods,
        "template": _kai_template(8, on_pods),
    }
    return workload("batch/v1", "Job", body | spec, annotations)


def jobset(*replicated: Object, annotations: Object | None = None, version: str = "jobset.x-k8s.io/v1alpha2") -> Object:
    return workload(version, "JobSet", {"replicatedJobs": list(replicated)}, annotations)


def replicated(
    name: str,
    jobs: int,
    pods: int,
    annotations: Object | None = None,
    on_pods: Object | None = None,
) -> Object:
    """One of a JobSet's kinds of Jobs."""
    return {
        "name": name,
        "replicas": jobs,
        "template": {
            "metadata": {"annotations": annotations or {}},
            "spec": {"parallelism": pods, "template": _kai_template(8, on_pods)},
        },
    }


def leader_worker_set(
    replicas: int,
    size: int,
    annotations: Object | None = None,
    on_workers: Object | None = None,
    *,
    has_leader: bool = True,
    **more: Any,
) -> Object:
    body: Object = {
        "size": size,
        "workerTemplate": _kai_template(8, on_workers),
        **more,
    }
    if has_leader:
        body["leaderTemplate"] = _kai_template(1)
    spec = {"replicas": replicas, "leaderWorkerTemplate": body}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations)


def pod_clique_set(name: str, pods: int, level: str = "rack") -> Object:
    """A PodCliqueSet for KAI, so many pods of eight GPUs, kept together."""
    pod = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "resources": {"limits": {GPU: 8}}}],
    }
    clique = {
        "name": "worker",
        "spec": {"roleName": "worker", "replicas": pods, "podSpec": pod},
    }
    spec = {
        "replicas": 1,
        "template": {
            "topologyConstraint": {
                "topologyName": "cluster",
                "pack": {"required": level},
            },
            "cliques": [clique],
        },
    }
    document = workload("grove.io/v1alpha1", "PodCliqueSet", spec)
    document["metadata"]["name"] = name
    document["metadata"]["labels"] = {"kai.scheduler/queue": "research"}
    return document


def reported(reading: Reading) -> list[tuple[str, str, str]]:
    """Severity, field and message of every finding."""
    return [(finding.severity, finding.field, finding.message) for finding in reading.findings]


def understood(reading: Reading) -> Workload:
    """The workload of a document that asks for something."""
    assert reading.workload is not None
    return reading.workload


def accepted(reading: Reading) -> Workload:
    """The workload of a document without findings."""
    assert reading.findings == ()
    return understood(reading)
