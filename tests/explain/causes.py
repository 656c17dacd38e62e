"""Every cause for which a workload waits, or does not sit as it asks: a cluster each that shows it and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.explain.waiting import (
    LEVELS,
    RACK,
    SUBJECT,
    ZONE,
    Object,
    binding,
    busy,
    cluster_topology,
    condition,
    created_by_grove,
    job,
    kai_topology,
    kueue,
    named,
    nodes,
    owned,
    pod,
    pod_clique_set,
    pod_spec,
    scheduler_resources,
)

GONE = "Topology level 'rack' is no longer available in the cluster topology"
ALL_BUT_ONE = ("h200-1", "h200-5")
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
NO_GPUS = "no nodes with enough resources were found: 8 node(s) didn't have enough resources: GPUs."
QUOTA = "couldn't assign flavors to pod set main: topology \"cluster\" doesn't allow to fit any of 4 pod(s)"


@dataclass(frozen=True)
class Cause:
    """A cluster, what is asked about, and the step that is the answer (empty: none failed)."""

    name: str
    step: str
    objects: Callable[[], list[Object]]
    subject: str = SUBJECT
    code: int = 1


def _grove(root: Object, *more: Object, on: tuple[str, ...] = (), **made: bool) -> list[Object]:
    return [*nodes(), *scheduler_resources(), *created_by_grove(root, on, **made), *more]


def _published(*resources: Object) -> list[Object]:
    """The usual workload of Grove with these topology resources."""
    return [*nodes(), *resources, *created_by_grove(pod_clique_set())]


def _reported(status: str, reason: str, message: str) -> Object:
    return condition("TopologyLevelsUnavailable", status, reason, message)


def _topology_not_found() -> list[Object]:
    return _grove(
        pod_clique_set(
            topology="clutser",
            reported=_reported("Unknown", "ClusterTopologyNotFound", "ClusterTopologyBinding resource not found"),
        )
    )


def _not_published() -> list[Object]:
    return _published(cluster_topology(), kai_topology(), binding_of("other"))


def binding_of(name: str) -> Object:
    return {**binding(), "metadata": {"name": name}}


def _level_not_found() -> list[Object]:
    unavailable = _reported("True", "ClusterTopologyLevelsUnavailable", "Unavailable topology domains: [rak]")
    return _grove(pod_clique_set("rak", reported=unavailable))


def _nodes_lack_a_label() -> list[Object]:
    unlabelled = ("h200-2", "h200-3")
    return [*nodes(unlabelled=unlabelled), *scheduler_resources(), *created_by_grove(pod_clique_set()), *busy("h200-5")]


def _tainted() -> list[Object]:
    """One rack is kept for others by a taint, the other one is full."""
    tainted = nodes()
    for node in tainted[:4]:
        node["spec"] = {**node["spec"], "taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]}
    return [*tainted, *scheduler_resources(), *created_by_grove(pod_clique_set()), *busy("h200-5", "h200-6")]


def _level_gone() -> list[Object]:
    gone = condition("TopologyLevelsAvailable", "False", "TopologyLevelsUnavailable", GONE)
    topology = cluster_topology(gone, required=["rack"], gracePeriod="1s")
    every = tuple(f"h200-{i}" for i in range(1, 9))
    return [*nodes(unlabelled=every), topology, binding(), kai_topology(), *created_by_grove(pod_clique_set())]


def _drift() -> list[Object]:
    drifted = condition(
        "SchedulerTopologyDrift", "True", "Drift", "One or more scheduler backend topologies have drifted"
    )
    backend = {
        "schedulerName": "kai-scheduler",
        "topologyReference": "cluster",
        "inSync": False,
        "message": "KAI Topology levels differ from ClusterTopologyBinding levels",
    }
    status = {"conditions": [drifted], "schedulerTopologyStatuses": [backend]}
    return _published(cluster_topology(), binding(status=status), kai_topology(ZONE, RACK))


def _old_binding() -> list[Object]:
    return _published(cluster_topology(), binding(*LEVELS[1:]), kai_topology(*(key for _, key in LEVELS[1:])))


def _grove_off() -> list[Object]:
    off = _reported(
        "Unknown",
        "TopologyAwareSchedulingDisabled",
        "Topology constraints are defined but Topology Aware Scheduling is disabled",
    )
    return _grove(pod_clique_set(reported=off), on=("h200-1", "h200-2", "h200-5", "h200-6"), constrained=False)


def _default_scheduler() -> list[Object]:
    """Nobody names a scheduler: Grove's default profile is default-scheduler."""
    root = pod_clique_set()
    made = created_by_grove(root, on=("h200-1", "h200-5", "h200-6", "h200-7"))
    for spec in (
        root["spec"]["template"]["cliques"][0]["spec"]["podSpec"],
        *(made_pod["spec"] for made_pod in made[3:]),
    ):
        spec.pop("schedulerName")
    return [*nodes(), *scheduler_resources(), *made]


def _kai_has_none() -> list[Object]:
    return _published(cluster_topology(), binding(), kai_topology(name="other"))


def _graph() -> Object:
    pods = {"replicas": 4, "podTemplate": {"spec": pod_spec()}}
    spec = {
        "topologyConstraint": {"clusterTopologyName": "cluster", "packDomain": "rack"},
        "components": [{"name": "worker", **pods}],
    }
    reported = condition(
        "TopologyLevelsAvailable",
        "True",
        "AllTopologyLevelsAvailable",
        "All required topology levels are available in the cluster topology",
    )
    return {**named("nvidia.com/v1beta1", "DynamoGraphDeployment", "llm", spec), "status": {"conditions": [reported]}}


def _dynamo() -> list[Object]:
    """The binding is gone; Grove says Unknown, Dynamo True."""
    gone = _reported("Unknown", "ClusterTopologyNotFound", "ClusterTopologyBinding resource not found")
    graph = _graph()
    made = created_by_grove(owned(pod_clique_set(reported=gone), graph), constrained=False)
    return [*nodes(), cluster_topology(), kai_topology(), binding_of("other"), graph, *made]


def _kai_job() -> list[Object]:
    annotations = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": "rack"}
    root = job("train", annotations)
    words = (
        "topology constraint error: workload specified 'rack' as the required topology constraint level, "
        "but the topology tree 'cluster' does not contain a level with this name"
    )
    group = named("scheduling.run.ai/v2alpha2", "PodGroup", "pg-train", {"minMember": 4, "queue": "q"})
    failed = {"type": "UnschedulableOnNodePool", "status": "True", "reason": "Error", "message": words}
    group["status"] = {"schedulingConditions": [{**failed, "nodePool": "default", "transitionID": "1"}]}
    pods = [owned(pod(f"train-{i}", annotations={"pod-group-name": "pg-train"}), root) for i in range(4)]
    return [*nodes(), *scheduler_resources(), root, owned(group, root), *pods]


def _kai_strands(*on: str) -> list[Object]:
    """A Job without a gang size: KAI bound its first pods in rack-3, where others hold the rest."""
    root = job("train", {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": RACK})
    words = f"Resources were not found for pod ml/train-2 due to: {NO_GPUS}"
    pods = [owned(pod(f"train-{i}", node, words), root) for i, node in enumerate((*on, "", ""))]
    return [*nodes(), *scheduler_resources(), root, *pods, *busy("h200-3", "h200-4")]


def _queues(flavor: Object, status: Object | None = None) -> list[Object]:
    quota = [{"name": "nvidia.com/gpu", "nominalQuota": "1000"}]
    covers = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "h200", "resources": quota}]}
    return [
        kueue("Topology", "cluster", {"levels": [{"nodeLabel": key} for _, key in LEVELS]}),
        kueue("ResourceFlavor", "h200", {"nodeLabels": {"nvidia.com/gpu.present": "true"}, **flavor}),
        kueue("ClusterQueue", "all", {"namespaceSelector": {}, "resourceGroups": [covers]}, status=status),
        kueue("LocalQueue", "gpus", {"clusterQueue": "all"}, "ml"),
    ]


def _kueue_job() -> Object:
    return job("train", {}, {"kueue.x-k8s.io/podset-required-topology": RACK}, **QUEUE)


def _quota(root: Object) -> Object:
    waits = condition("QuotaReserved", "False", "Pending", QUOTA)
    made = kueue("Workload", "job-train", {"queueName": "gpus"}, "ml", {"conditions": [waits]})
    return owned(made, root)


def _kueue_without_topology() -> list[Object]:
    root = _kueue_job()
    return [*nodes(), cluster_topology(), *_queues({}), root, _quota(root), *busy("h200-1", gpus=1)]


def _kueue_without_room() -> list[Object]:
    root = _kueue_job()
    flavor = {"topologyName": "cluster"}
    return [*nodes(), cluster_topology(), *_queues(flavor), root, _quota(root), *busy("h200-1", "h200-5", gpus=4)]


def _kueue_assigned() -> list[Object]:
    """Admitted to four nodes, of which one is deleted since."""
    root = _kueue_job()
    hosts = {"individual": {"prefix": "h200-", "roots": ["1", "2", "3", "99"]}}
    part = {"domainCount": 4, "valuesPerLevel": [hosts], "podCounts": {"universal": 1}}
    assignment = {"levels": ["kubernetes.io/hostname"], "slices": [part]}
    sets = [{"name": "main", "count": 4, "topologyAssignment": assignment}]
    status = {"admission": {"clusterQueue": "all", "podSetAssignments": sets}, "unhealthyNodes": [{"name": "h200-99"}]}
    made = kueue("Workload", "job-train", {"queueName": "gpus"}, "ml", status)
    queues = _queues({"topologyName": "cluster"})
    pods = [owned(pod(f"train-{i}", f"h200-{i + 1}"), root) for i in range(3)]
    return [*nodes(), cluster_topology(), *queues, root, owned(made, root), *pods]


def _leader_worker_set() -> list[Object]:
    template = {"metadata": {}, "spec": pod_spec()}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    notes = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    root = named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", spec, annotations=notes)
    leader = owned(pod("serve-0"), root)
    return [*nodes(), cluster_topology(), root, leader]


def _deployment() -> list[Object]:
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "chat"}},
        "template": {"metadata": {"labels": {"app": "chat"}}, "spec": pod_spec(8, schedulerName="default-scheduler")},
    }
    root = named("apps/v1", "Deployment", "chat", spec)
    body = {"selector": spec["selector"], "template": spec["template"], "replicas": 3}
    middle = owned(named("apps/v1", "ReplicaSet", "chat-1", body), root)
    reported = "0/8 nodes are available: 7 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable. preemption: 0/8"
    names = [f"h200-{i}" for i in range(1, 8)]
    pods = [owned(pod(f"chat-1-{i}", node, reported), middle) for i, node in enumerate(("h200-1", "h200-2", ""))]
    return [*nodes(cordoned=["h200-8"]), cluster_topology(), root, middle, *pods, *busy(*names[2:])]


def _jobset() -> list[Object]:
    """Two Jobs that were to have a rack each and share one."""
    template = {"metadata": {}, "spec": {**pod_spec(), "restartPolicy": "Never"}}
    body = {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 1, "template": template}}}
    notes = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    root = named("jobset.x-k8s.io/v1alpha2", "JobSet", "sim", {"replicatedJobs": [body]}, annotations=notes)
    objects = [*nodes(), cluster_topology(), root]
    for i in range(2):
        labels = {"jobset.sigs.k8s.io/job-key": f"key-{i}", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
        made = owned(named("batch/v1", "Job", f"sim-workers-{i}", {"template": template}), root)
        objects += [made, owned(pod(f"sim-workers-{i}-0", f"h200-{i + 1}", labels=labels), made)]
    return objects


def _rack_and_zone() -> list[Object]:
    return _grove(pod_clique_set("rack", inner="zone"))


CAUSES = (
    Cause("topology-not-found", "topology", _topology_not_found),
    Cause("topology-not-published", "topology", _not_published),
    Cause("level-not-found", "levels", _level_not_found),
    Cause("hierarchy", "hierarchy", _rack_and_zone),
    Cause("nodes-lack-a-label", "labels", _nodes_lack_a_label),
    Cause("tainted", "room", _tainted),
    Cause("level-gone", "availability", _level_gone),
    Cause("no-room", "room", partial(_grove, pod_clique_set(), *busy(*ALL_BUT_ONE, gpus=4))),
    Cause("no-room-ever", "room", partial(_grove, pod_clique_set(replicas=5))),
    Cause("no-room-for-a-deployment", "room", _deployment, "pod/chat-1-2"),
    Cause("assigned-node-gone", "availability", _kueue_assigned, "job/train"),
    Cause("no-room-for-kueue", "room", _kueue_without_room, "wl/job-train"),
    Cause("drift", "drift", _drift),
    Cause("old-binding", "drift", _old_binding),
    Cause("grove-off", "features", _grove_off),
    Cause("kai-topology-missing", "features", _kai_has_none),
    Cause("gang-without-constraint", "features", partial(_grove, pod_clique_set(), constrained=False)),
    Cause("default-scheduler", "features", _default_scheduler),
    Cause("dynamo-binding-gone", "topology", _dynamo, "dgd/llm"),
    Cause("kai-level", "levels", _kai_job, "podgroups/pg-train"),
    Cause("kai-strands-a-job", "room", partial(_kai_strands, "h200-1", "h200-2"), "job/train"),
    Cause("kueue-flavor", "features", _kueue_without_topology, "job/train"),
    Cause("label-on-no-node", "levels", _leader_worker_set, "lws/serve"),
    Cause("jobs-share-a-rack", "", _jobset, "pod/sim-workers-1-0"),
    Cause("runs-well", "", partial(_grove, pod_clique_set(), on=("h200-1", "h200-2", "h200-3", "h200-4")), code=0),
    Cause("just-waits", "", partial(_grove, pod_clique_set()), code=0),
)
