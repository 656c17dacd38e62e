"""Every cause for which a workload waits, or does not sit as it asks: a cluster that shows it and nothing else.

`CAUSES` has one entry for each function; what `toposcope explain` prints is in tests/documents/explain/pages/, in a
file of the function's name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.explain.waiting import (
    LEVELS,
    NODES,
    RACK,
    WaitingCluster,
    binding,
    cluster_topology,
    cluster_without_workload,
    condition,
    grove_set,
    kai_topology,
    kueue_job,
    levels_of,
    named,
    owned,
    pod,
    pod_spec,
    running_pod,
    train_job,
    untried_grove_set,
)

GROVE_SET = "podcliqueset/llm"
NO_RACK = (
    f"topology cluster, requirement {RACK} couldn't be satisfied for job <ml/pg-llm-0>: "
    "node-group rack-3 can allocate only 2 of 4 required pods, node-group rack-4 can allocate only 3 of 4 required pods"
)
"""What KAI says of a gang that fits into no rack."""


@dataclass(frozen=True)
class Cause:
    """A cluster, what is asked about, and the step that is the answer (empty: none failed)."""

    name: str
    build: Callable[[], WaitingCluster]
    step: str
    subject: str
    code: int


Build = Callable[[], WaitingCluster]

CAUSES: list[Cause] = []


def cause(*, step: str = "", subject: str = GROVE_SET, code: int = 1) -> Callable[[Build], Build]:
    """Register a function that builds a cluster, with the answer of `explain` for the subject."""

    def register(build: Build) -> Build:
        name = build.__name__.replace("_", "-")
        CAUSES.append(Cause(name, build, step, subject, code))
        return build

    return register


@cause(step="topology")
def topology_not_found() -> WaitingCluster:
    cluster = untried_grove_set()
    podcliqueset = cluster["PodCliqueSet/llm"]
    podcliqueset["spec"]["template"]["topologyConstraint"]["topologyName"] = "clutser"
    podcliqueset["status"]["conditions"][0] |= {
        "status": "Unknown",
        "reason": "ClusterTopologyNotFound",
        "message": "ClusterTopologyBinding resource not found",
    }
    return cluster


@cause(step="topology")
def topology_not_published() -> WaitingCluster:
    cluster = untried_grove_set()
    cluster.remove("ClusterTopologyBinding/cluster")
    cluster.add(binding(*LEVELS.items(), name="other"))
    return cluster


@cause(step="levels")
def level_not_found() -> WaitingCluster:
    cluster = untried_grove_set()
    podcliqueset = cluster["PodCliqueSet/llm"]
    podcliqueset["spec"]["template"]["topologyConstraint"]["pack"]["required"] = "rak"
    podcliqueset["status"]["conditions"][0] |= {
        "status": "True",
        "reason": "ClusterTopologyLevelsUnavailable",
        "message": "Unavailable topology domains: [rak]",
    }
    return cluster


@cause(step="hierarchy")
def hierarchy() -> WaitingCluster:
    cluster = untried_grove_set()
    clique = cluster["PodCliqueSet/llm"]["spec"]["template"]["cliques"][0]
    clique["topologyConstraint"] = {"pack": {"required": "zone"}}
    return cluster


@cause(step="labels")
def nodes_lack_a_label() -> WaitingCluster:
    cluster = grove_set(message=NO_RACK)
    cluster.remove_rack_label("h200-2", "h200-3")
    cluster.occupy("h200-5")
    return cluster


@cause(step="room")
def tainted() -> WaitingCluster:
    cluster = grove_set()
    cluster.taint("h200-1", "h200-2", "h200-3", "h200-4")
    cluster.occupy("h200-5", "h200-6")
    return cluster


@cause(step="availability")
def level_gone() -> WaitingCluster:
    cluster = untried_grove_set()
    cluster.remove_rack_label(*NODES)
    topology = cluster["ClusterTopology/cluster"]
    topology["spec"] |= {"required": ["rack"], "gracePeriod": "1s"}
    topology["status"]["conditions"] = [
        condition(
            "TopologyLevelsAvailable",
            "False",
            "TopologyLevelsUnavailable",
            "Topology level 'rack' is no longer available in the cluster topology",
        )
    ]
    return cluster


@cause(step="room")
def no_room() -> WaitingCluster:
    cluster = grove_set()
    cluster.occupy("h200-1", "h200-5", gpus=4)
    return cluster


@cause(step="room")
def no_room_ever() -> WaitingCluster:
    cluster = grove_set()
    cluster["PodCliqueSet/llm"]["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 5
    return cluster


@cause(step="room", subject="pod/chat-1-2")
def no_room_for_a_deployment() -> WaitingCluster:
    cluster = WaitingCluster(cluster_topology(levels=levels_of(LEVELS)))
    cluster.cordon("h200-8")
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {**pod_spec(), "schedulerName": "default-scheduler"}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
    deployment = named("apps/v1", "Deployment", "chat", spec)
    replica_set = owned(named("apps/v1", "ReplicaSet", "chat-1", spec), deployment)
    cluster.add(deployment, replica_set)

    cluster.add(owned(running_pod("chat-1-0", "h200-1"), replica_set))
    cluster.add(owned(running_pod("chat-1-1", "h200-2"), replica_set))
    message = "0/8 nodes are available: 7 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable. preemption: 0/8"
    cluster.add(owned(pod("chat-1-2", message=message), replica_set))
    cluster.occupy("h200-3", "h200-4", "h200-5", "h200-6", "h200-7")
    return cluster


@cause(step="availability", subject="job/train")
def assigned_node_gone() -> WaitingCluster:
    """Kueue assigned the four pods of a Job to nodes, of which one is gone; three of them run."""
    cluster = kueue_job()
    roots = {"individual": {"prefix": "h200-", "roots": ["1", "2", "3", "99"]}}
    assignment = {
        "levels": ["kubernetes.io/hostname"],
        "slices": [{"domainCount": 4, "valuesPerLevel": [roots], "podCounts": {"universal": 1}}],
    }
    pod_set = {"name": "main", "count": 4, "topologyAssignment": assignment}
    cluster["Workload/job-train"]["status"] = {
        "admission": {"clusterQueue": "all", "podSetAssignments": [pod_set]},
        "unhealthyNodes": [{"name": "h200-99"}],
    }
    job = cluster["Job/train"]
    for number in range(3):
        cluster.add(owned(running_pod(f"train-{number}", f"h200-{number + 1}"), job))
    return cluster


@cause(step="room", subject="wl/job-train")
def no_room_for_kueue() -> WaitingCluster:
    cluster = kueue_job()
    cluster.occupy("h200-1", "h200-5", gpus=4)
    return cluster


@cause(step="drift")
def drift() -> WaitingCluster:
    cluster = untried_grove_set()
    drifted = condition(
        "SchedulerTopologyDrift", "True", "Drift", "One or more scheduler backend topologies have drifted"
    )
    of_kai = {
        "schedulerName": "kai-scheduler",
        "topologyReference": "cluster",
        "inSync": False,
        "message": "KAI Topology levels differ from ClusterTopologyBinding levels",
    }
    cluster["ClusterTopologyBinding/cluster"]["status"] = {
        "conditions": [drifted],
        "schedulerTopologyStatuses": [of_kai],
    }
    del cluster["Topology/cluster"]["spec"]["levels"][2]
    return cluster


@cause(step="drift")
def old_binding() -> WaitingCluster:
    cluster = untried_grove_set()
    del cluster["ClusterTopologyBinding/cluster"]["spec"]["levels"][0]
    del cluster["Topology/cluster"]["spec"]["levels"][0]
    return cluster


@cause(step="features")
def grove_off() -> WaitingCluster:
    cluster = untried_grove_set()
    cluster["PodCliqueSet/llm"]["status"]["conditions"][0] |= {
        "status": "Unknown",
        "reason": "TopologyAwareSchedulingDisabled",
        "message": "Topology constraints are defined but Topology Aware Scheduling is disabled",
    }
    del cluster["PodGang/llm-0"]["metadata"]["annotations"]
    cluster.run("llm-0-worker-0", on="h200-1")
    cluster.run("llm-0-worker-1", on="h200-2")
    cluster.run("llm-0-worker-2", on="h200-5")
    cluster.run("llm-0-worker-3", on="h200-6")
    return cluster


@cause(step="features")
def kai_topology_missing() -> WaitingCluster:
    cluster = untried_grove_set()
    cluster.remove("Topology/cluster")
    cluster.add(kai_topology(*LEVELS.values(), name="other"))
    return cluster


@cause(step="features")
def gang_without_constraint() -> WaitingCluster:
    cluster = untried_grove_set()
    del cluster["PodGang/llm-0"]["metadata"]["annotations"]
    return cluster


@cause(step="features")
def default_scheduler() -> WaitingCluster:
    cluster = untried_grove_set()
    del cluster["PodCliqueSet/llm"]["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulerName"]
    for number, node in enumerate(["h200-1", "h200-5", "h200-6", "h200-7"]):
        name = f"llm-0-worker-{number}"
        del cluster[f"Pod/{name}"]["spec"]["schedulerName"]
        cluster.run(name, on=node)
    return cluster


@cause(step="topology", subject="dgd/llm")
def dynamo_binding_gone() -> WaitingCluster:
    cluster = untried_grove_set()
    graph = named("nvidia.com/v1beta1", "DynamoGraphDeployment", "llm")
    worker = {"name": "worker", "replicas": 4, "podTemplate": {"spec": pod_spec()}}
    graph["spec"] = {
        "topologyConstraint": {"clusterTopologyName": "cluster", "packDomain": "rack"},
        "components": [worker],
    }
    available = condition(
        "TopologyLevelsAvailable",
        "True",
        "AllTopologyLevelsAvailable",
        "All required topology levels are available in the cluster topology",
    )
    graph["status"] = {"conditions": [available]}
    cluster.add(graph)

    podcliqueset = cluster["PodCliqueSet/llm"]
    podcliqueset["metadata"] = owned(podcliqueset, graph)["metadata"]
    podcliqueset["status"]["conditions"][0] |= {
        "status": "Unknown",
        "reason": "ClusterTopologyNotFound",
        "message": "ClusterTopologyBinding resource not found",
    }
    del cluster["PodGang/llm-0"]["metadata"]["annotations"]
    cluster.remove("ClusterTopologyBinding/cluster")
    cluster.add(binding(*LEVELS.items(), name="other"))
    return cluster


@cause(step="levels", subject="podgroups/pg-train")
def kai_level() -> WaitingCluster:
    cluster = cluster_without_workload()
    job = train_job({"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": "rack"})
    pod_group = owned(named("scheduling.run.ai/v2alpha2", "PodGroup", "pg-train"), job)
    pod_group["spec"] = {"minMember": 4, "queue": "q"}
    unschedulable = {
        "type": "UnschedulableOnNodePool",
        "status": "True",
        "reason": "Error",
        "message": (
            "topology constraint error: workload specified 'rack' as the required topology constraint level, "
            "but the topology tree 'cluster' does not contain a level with this name"
        ),
        "nodePool": "default",
        "transitionID": "1",
    }
    pod_group["status"] = {"schedulingConditions": [unschedulable]}
    cluster.add(job, pod_group)
    for number in range(4):
        member = owned(pod(f"train-{number}"), job)
        member["metadata"]["annotations"] = {"pod-group-name": "pg-train"}
        cluster.add(member)
    return cluster


@cause(step="room", subject="job/train")
def kai_strands_a_job() -> WaitingCluster:
    cluster = cluster_without_workload()
    job = train_job({"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": RACK})
    cluster.add(job)
    cluster.add(owned(running_pod("train-0", "h200-1"), job), owned(running_pod("train-1", "h200-2"), job))
    message = (
        "Resources were not found for pod ml/train-2 due to: no nodes with enough resources were found: "
        "8 node(s) didn't have enough resources: GPUs."
    )
    cluster.add(owned(pod("train-2", message=message), job), owned(pod("train-3", message=message), job))
    cluster.occupy("h200-3", "h200-4")
    return cluster


@cause(step="features", subject="job/train")
def kueue_flavor() -> WaitingCluster:
    cluster = kueue_job(topology=None)
    reserved = cluster["Workload/job-train"]["status"]["conditions"][0]
    reserved["message"] = (
        'couldn\'t assign flavors to pod set main: Flavor "h200" does not support TopologyAwareScheduling'
    )
    cluster.occupy("h200-1", gpus=1)
    return cluster


@cause(step="levels", subject="lws/serve")
def label_on_no_node() -> WaitingCluster:
    cluster = WaitingCluster(cluster_topology(levels=levels_of(LEVELS)))
    cluster.apply(
        """
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata:
          name: serve
          namespace: ml
          annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack}
        spec:
          replicas: 2
          leaderWorkerTemplate:
            size: 2
            workerTemplate:
              spec:
                containers: [{name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}]
                schedulerName: kai-scheduler
        """
    )
    cluster.add(owned(pod("serve-0", message=""), cluster["LeaderWorkerSet/serve"]))
    return cluster


@cause(subject="pod/sim-workers-1-0")
def jobs_share_a_rack() -> WaitingCluster:
    cluster = WaitingCluster(cluster_topology(levels=levels_of(LEVELS)))
    template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
    job_set = named("jobset.x-k8s.io/v1alpha2", "JobSet", "sim")
    job_set["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    workers = {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 1, "template": template}}}
    job_set["spec"] = {"replicatedJobs": [workers]}
    cluster.add(job_set)
    for number in range(2):
        job = owned(named("batch/v1", "Job", f"sim-workers-{number}", {"template": template}), job_set)
        worker = owned(running_pod(f"sim-workers-{number}-0", f"h200-{number + 1}"), job)
        worker["metadata"]["labels"] = {
            "jobset.sigs.k8s.io/job-key": f"key-{number}",
            "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        }
        cluster.add(job, worker)
    return cluster


@cause(code=0)
def runs_well() -> WaitingCluster:
    cluster = grove_set()
    for number in range(4):
        cluster.run(f"llm-0-worker-{number}", on=f"h200-{number + 1}")
    return cluster


@cause(step="scheduler")
def scheduler_refuses() -> WaitingCluster:
    """The scheduler says that there is no room, although there seems to be."""
    return grove_set()


@cause(code=0)
def just_waits() -> WaitingCluster:
    return untried_grove_set()
