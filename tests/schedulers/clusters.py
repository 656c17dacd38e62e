"""Random clusters and workloads, drawn from a seed: small enough that a scheduler's answer can be followed by hand."""

import random
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]

BLOCK: Final = "cloud.google.com/gce-topology-block"
RACK: Final = "cloud.google.com/gce-topology-subblock"
HOST: Final = "kubernetes.io/hostname"
LEVELS: Final = (BLOCK, RACK, HOST)
GPU_NODES: Final = "gpu.topology/gpus-present"
GPU: Final = "nvidia.com/gpu"
_TAINTS: Final = (
    {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "x", "effect": "NoExecute"},
    {"key": "soft", "value": "x", "effect": "PreferNoSchedule"},
)
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_GPU_TAINT: Final = {"key": GPU, "value": "present", "effect": "NoSchedule"}
GPU_TOLERATION: Final = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
KUEUE: Final = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes with their status, and pods that already run on them."""

    nodes: list[Object]
    pods: list[Object]


def cluster(rng: random.Random) -> Cluster:
    """Two to three blocks of one to three racks; some nodes are cordoned, tainted, not ready or lack a label."""
    nodes = [
        _node(rng, block, rack, number)
        for block in range(rng.randint(2, 3))
        for rack in range(rng.randint(1, 3))
        for number in range(rng.randint(1, 4))
    ]
    share = rng.choice((0.0, 0.3, 0.6))
    return Cluster(nodes, [_occupant(rng, node) for node in nodes if rng.random() < share])


def _node(rng: random.Random, block: int, rack: int, number: int) -> Object:
    name, gpus = f"n-{block}-{rack}-{number}", rng.choice((4, 8, 8))
    # Rack names may repeat under another block: Kueue and KAI tell such racks apart.
    labels = {
        HOST: name,
        BLOCK: f"b{block}",
        RACK: f"r{rack}" if rng.random() < 0.5 else f"r{block}-{rack}",
        "gpu.topology/gpus": str(gpus),
        GPU_NODES: "true",
        "pool": rng.choice("ab"),
    }
    if rng.random() < 0.06:
        del labels[rng.choice((BLOCK, RACK))]
    if rng.random() < 0.05:
        labels[rng.choice((BLOCK, RACK))] = "no-topology"
    if rng.random() < 0.1:
        del labels["gpu.topology/gpus"]
    spec: Object = {"taints": [rng.choice(_TAINTS)] if rng.random() < 0.15 else []}
    if rng.random() < 0.15:
        spec["taints"].append(_GPU_TAINT)
    ready = "False" if rng.random() < 0.05 else "True"
    # As the controllers of a real cluster leave them behind.
    if rng.random() < 0.1:
        spec["unschedulable"] = True
        spec["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if ready == "False":
        spec["taints"] += [{"key": "node.kubernetes.io/not-ready", "effect": effect} for effect in _EFFECTS]
    allocatable = {
        "cpu": rng.choice(("16", "64")),
        "memory": "512Gi",
        "pods": rng.choice(("110", "110", "110", "3")),
        GPU: str(gpus),
    }
    status = {
        "allocatable": allocatable,
        "capacity": allocatable,
        "conditions": [{"type": "Ready", "status": ready, "reason": "Kubelet", "message": ""}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _occupant(rng: random.Random, node: Object) -> Object:
    name = node["metadata"]["name"]
    gpus = rng.randint(1, int(node["status"]["allocatable"][GPU]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"running-{name}", "namespace": "default"},
        "spec": {
            "nodeName": name,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [_container({"cpu": "4", GPU: str(gpus)})],
        },
        "status": {"phase": rng.choice(("Running", "Running", "Pending", "Succeeded", "Failed"))},
    }


def _container(requests: dict[str, str]) -> Object:
    limits = {key: value for key, value in requests.items() if key == GPU}
    return {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}


def pod_template(rng: random.Random, annotations: dict[str, str] | None = None, *, gpus: bool = True) -> Object:
    """What one pod takes, and which nodes it may use."""
    requests = {"cpu": rng.choice(("500m", "1", "8"))}
    if gpus:
        requests[GPU] = rng.choice(("1", "2", "4", "8"))
    spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [_container(requests)],
    }
    if rng.random() < 0.25:
        spec["nodeSelector"] = {"pool": rng.choice("ab")}
    if rng.random() < 0.25:
        spec["tolerations"] = [rng.choice(({"key": "dedicated", "operator": "Exists"}, {"operator": "Exists"}))]
    if rng.random() < 0.15:
        expression = {"key": BLOCK, "operator": rng.choice(("In", "NotIn")), "values": [rng.choice(("b0", "b1"))]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def kueue_objects(rng: random.Random, queue: str) -> list[Object]:
    """Flavors with nodes, taints and tolerations of their own, and their queue: in a cohort, or short of quota."""
    flavors = [f"{queue}-f{number}" for number in range(rng.choice((1, 1, 2, 3)))]
    objects = [_object("ResourceFlavor", name, _flavor(rng)) for name in flavors]
    scarce = rng.random() < 0.3
    cohort = {"cohortName": f"{queue}-cohort"} if rng.random() < 0.3 else {}
    for name in (queue, f"{queue}-lender") if cohort else (queue,):
        entries = []
        for flavor in flavors:
            quotas: list[Object] = [{"name": "cpu", "nominalQuota": "1000"}, {"name": "memory", "nominalQuota": "10Ti"}]
            gpus: Object = {"name": GPU, "nominalQuota": str(rng.choice((4, 8, 16, 32)) if scarce else 100000)}
            if cohort and rng.random() < 0.5:
                gpus[rng.choice(("borrowingLimit", "lendingLimit"))] = str(rng.choice((0, 2, 4)))
            entries.append({"name": flavor, "resources": [*quotas, gpus]})
        group = {"coveredResources": ["cpu", "memory", GPU], "flavors": entries}
        spec: Object = {"namespaceSelector": {}, "resourceGroups": [group], **cohort}
        if rng.random() < 0.2:
            spec["flavorFungibility"] = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
        objects.append(_object("ClusterQueue", name, spec))
    return [*objects, _object("LocalQueue", queue, {"clusterQueue": queue})]


def _flavor(rng: random.Random) -> Object:
    labels = rng.choice(({GPU_NODES: "true"}, {GPU_NODES: "true"}, {"pool": "a"}, {"pool": "b", GPU_NODES: "true"}))
    flavor: Object = {"nodeLabels": labels, "topologyName": rng.choice(("cluster", "cluster", "cluster", "racks"))}
    if rng.random() < 0.5:
        flavor["tolerations"] = [rng.choice((GPU_TOLERATION, {"operator": "Exists"}))]
    if rng.random() < 0.15:
        flavor["nodeTaints"] = [_TAINTS[0]]
    return flavor


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": "default"} if kind == "LocalQueue" else {"name": name}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec}


def kueue_topologies() -> list[Object]:
    """All levels, and all but the broadest."""
    levels = {"cluster": LEVELS, "racks": LEVELS[1:]}
    return [
        _object("Topology", name, {"levels": [{"nodeLabel": key} for key in keys]}) for name, keys in levels.items()
    ]


def limit_range() -> Object:
    """Defaults for containers that say nothing of memory."""
    spec = {"limits": [{"type": "Container", "default": {"memory": "96Gi"}, "defaultRequest": {"memory": "64Gi"}}]}
    metadata = {"name": "defaults", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}


def kueue_workload(rng: random.Random, name: str, queue: str) -> Object:
    """A Job or a JobSet for Kueue: pod sets that are kept together, in slices, or a leader with its workers."""
    queue = queue if rng.random() < 0.97 else "nowhere"
    metadata: Object = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    shape = rng.random()
    if shape < 0.45:
        template, pods = _kueue_pod_set(rng)
        # Kueue 0.19 never answers where it would admit less than a slice: its own API refuses the assignment.
        least = int(template["metadata"]["annotations"].get("kueue.x-k8s.io/podset-slice-size", 1))
        if pods > least and rng.random() < 0.25:
            metadata["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": str(rng.randint(least, pods - 1))}
        spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    if shape < 0.7:
        annotations = {
            f"kueue.x-k8s.io/podset-{rng.choice(('required', 'preferred'))}-topology": rng.choice((BLOCK, RACK)),
            "kueue.x-k8s.io/podset-group-name": "group",
        }
        sets = [("leader", 1, pod_template(rng, dict(annotations), gpus=rng.random() < 0.5))]
        sets.append(("workers", rng.randint(1, 8), pod_template(rng, dict(annotations))))
    else:
        sets = []
        for number in range(rng.randint(1, 3)):
            template, pods = _kueue_pod_set(rng)
            sets.append((f"s{number}", pods, template))
    jobs = [
        {
            "name": role,
            "replicas": 1,
            "template": {"spec": {"parallelism": pods, "completions": pods, "template": template}},
        }
        for role, pods, template in sets
    ]
    spec = {"suspend": True, "replicatedJobs": jobs}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _kueue_pod_set(rng: random.Random) -> tuple[Object, int]:
    """A template and its pods, perhaps without a word about topology."""
    annotations: dict[str, str] = {}
    pods = rng.choice((1, 2, 3, 4, 6, 8, 12))
    kind = rng.random()
    if kind < 0.45:
        annotations["kueue.x-k8s.io/podset-required-topology"] = rng.choice(LEVELS)
    elif kind < 0.65:
        annotations["kueue.x-k8s.io/podset-preferred-topology"] = rng.choice(LEVELS)
    elif kind < 0.75:
        annotations["kueue.x-k8s.io/podset-unconstrained-topology"] = "true"
    if annotations and rng.random() < 0.3:
        divisors = [divisor for divisor in range(1, pods + 1) if pods % divisor == 0]
        size = rng.choice(divisors) if rng.random() < 0.8 else rng.randint(1, pods)
        annotations["kueue.x-k8s.io/podset-slice-required-topology"] = rng.choice(LEVELS)
        annotations["kueue.x-k8s.io/podset-slice-size"] = str(size)
    return pod_template(rng, annotations), pods


def gang(rng: random.Random, name: str) -> list[Object]:
    """A PodGroup for kube-scheduler and its pods, of one or two sizes; one key in twenty is on no node."""
    sizes = 1 if rng.random() < 0.7 else 2
    templates = [pod_template(rng)["spec"] for _ in range(sizes)]
    pods = rng.choice((1, 2, 3, 4, 6, 8, 12))
    specs = [templates[number * sizes // pods] for number in range(pods)]
    least = rng.randint(1, pods) if sizes == 1 and rng.random() < 0.3 else pods
    spec: Object = {"schedulingPolicy": {"basic": {}} if rng.random() < 0.15 else {"gang": {"minCount": least}}}
    if rng.random() < 0.85:
        key = rng.choice(LEVELS) if rng.random() < 0.95 else "example.com/nowhere"
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    return [group, *(_member(f"{name}-{number}", name, spec) for number, spec in enumerate(specs))]


def _member(name: str, group: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": {"job": group}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "schedulingGroup": {"podGroupName": group}},
    }


def plain_job(rng: random.Random, name: str) -> Object:
    """A Job without any topology, for kube-scheduler."""
    pods = rng.randint(1, 12)
    spec = {"parallelism": pods, "completions": pods, "template": pod_template(rng)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
