"""Random clusters and workloads, drawn from a seed: small enough that a scheduler's answer can be followed by hand."""

import itertools
import random
from dataclasses import dataclass
from typing import Any, Final

from tests.support.slices import attributes, claim, device_class, request, slice_of

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
_VERSIONS: Final = {
    **dict.fromkeys(("Node", "Pod", "LimitRange"), "v1"),
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
}
"""Those of Kueue's kinds are `KUEUE`."""
_WITHOUT_NAMESPACE: Final = ("Node", "Topology", "ResourceFlavor", "ClusterQueue")


def made(kind: str, name: str, spec: Object, **more: Any) -> Object:
    """An object, in `default` where its kind has namespaces; `more` is its status, or of its metadata."""
    status = {"status": more.pop("status")} if "status" in more else {}
    metadata = {"name": name, **({} if kind in _WITHOUT_NAMESPACE else {"namespace": "default"}), **more}
    return {"apiVersion": _VERSIONS.get(kind, KUEUE), "kind": kind, "metadata": metadata, "spec": spec, **status}


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
    cpu = rng.choice(("16", "64"))
    allocatable = {"cpu": cpu, "memory": "512Gi", "pods": rng.choice(("110", "110", "110", "3")), GPU: str(gpus)}
    conditions = [{"type": "Ready", "status": ready, "reason": "Kubelet", "message": ""}]
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions}
    return made("Node", name, spec, labels=labels, status=status)


def _occupant(rng: random.Random, node: Object) -> Object:
    name = node["metadata"]["name"]
    gpus = rng.randint(1, int(node["status"]["allocatable"][GPU]))
    spec: Object = {"nodeName": name, "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}]}
    spec["containers"] = [_container({"cpu": "4", GPU: str(gpus)})]
    status = {"phase": rng.choice(("Running", "Running", "Pending", "Succeeded", "Failed"))}
    return made("Pod", f"running-{name}", spec, status=status)


def _container(requests: dict[str, str]) -> Object:
    limits = {key: value for key, value in requests.items() if key == GPU}
    return {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}


def pod_template(rng: random.Random, annotations: dict[str, str] | None = None, *, gpus: bool = True) -> Object:
    """What one pod takes, and which nodes it may use."""
    requests = {"cpu": rng.choice(("500m", "1", "8"))}
    if gpus:
        requests[GPU] = rng.choice(("1", "2", "4", "8"))
    spec: Object = {"restartPolicy": "Never", "automountServiceAccountToken": False}
    spec["containers"] = [_container(requests)]
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
    objects = [made("ResourceFlavor", name, _flavor(rng)) for name in flavors]
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
        objects.append(made("ClusterQueue", name, spec))
    return [*objects, made("LocalQueue", queue, {"clusterQueue": queue})]


def _flavor(rng: random.Random) -> Object:
    labels = rng.choice(({GPU_NODES: "true"}, {GPU_NODES: "true"}, {"pool": "a"}, {"pool": "b", GPU_NODES: "true"}))
    flavor: Object = {"nodeLabels": labels, "topologyName": rng.choice(("cluster", "cluster", "cluster", "racks"))}
    if rng.random() < 0.5:
        flavor["tolerations"] = [rng.choice((GPU_TOLERATION, {"operator": "Exists"}))]
    if rng.random() < 0.15:
        flavor["nodeTaints"] = [_TAINTS[0]]
    return flavor


def kueue_topologies() -> list[Object]:
    """All levels, and all but the broadest."""
    levels = {"cluster": LEVELS, "racks": LEVELS[1:]}
    return [made("Topology", name, {"levels": [{"nodeLabel": key} for key in keys]}) for name, keys in levels.items()]


def limit_range() -> Object:
    """Defaults for containers that say nothing of memory."""
    spec = {"limits": [{"type": "Container", "default": {"memory": "96Gi"}, "defaultRequest": {"memory": "64Gi"}}]}
    return made("LimitRange", "defaults", spec)


def kueue_workload(rng: random.Random, name: str, queue: str) -> Object:
    """A Job or a JobSet for Kueue: pod sets that are kept together, in slices, or a leader with its workers."""
    queue = queue if rng.random() < 0.97 else "nowhere"
    metadata: Object = {"labels": {"kueue.x-k8s.io/queue-name": queue}}
    shape = rng.random()
    if shape < 0.45:
        template, pods = _kueue_pod_set(rng)
        # Kueue 0.19 never answers where it would admit less than a slice: its own API refuses the assignment.
        least = int(template["metadata"]["annotations"].get("kueue.x-k8s.io/podset-slice-size", 1))
        if pods > least and rng.random() < 0.25:
            metadata["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": str(rng.randint(least, pods - 1))}
        spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": template}
        return made("Job", name, spec, **metadata)
    if shape < 0.7:
        key = f"kueue.x-k8s.io/podset-{rng.choice(('required', 'preferred'))}-topology"
        annotations = {key: rng.choice((BLOCK, RACK)), "kueue.x-k8s.io/podset-group-name": "group"}
        sets = [("leader", pod_template(rng, dict(annotations), gpus=rng.random() < 0.5), 1)]
        workers = rng.randint(1, 8)
        sets.append(("workers", pod_template(rng, dict(annotations)), workers))
    else:
        sets = [(f"s{number}", *_kueue_pod_set(rng)) for number in range(rng.randint(1, 3))]
    jobs = []
    for role, template, pods in sets:
        job = {"parallelism": pods, "completions": pods, "template": template}
        jobs.append({"name": role, "replicas": 1, "template": {"spec": job}})
    spec = {"suspend": True, "replicatedJobs": jobs}
    return made("JobSet", name, spec, **metadata)


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
    members = [
        made("Pod", f"{name}-{number}", {**each, "schedulingGroup": {"podGroupName": name}}, labels={"job": name})
        for number, each in enumerate(specs)
    ]
    return [made("PodGroup", name, spec), *members]


def plain_job(rng: random.Random, name: str) -> Object:
    """A Job without any topology, for kube-scheduler."""
    pods = rng.randint(1, 12)
    spec = {"parallelism": pods, "completions": pods, "template": pod_template(rng)}
    return made("Job", name, spec)


def new_node(like: Object, number: int, labels: dict[str, str]) -> Object:
    """Another node like this one, Ready and not cordoned."""
    name = f"{like['metadata']['name']}-new-{number}"
    taints = [taint for taint in like["spec"]["taints"] if not taint["key"].startswith("node.kubernetes.io/")]
    ready = [{"type": "Ready", "status": "True", "reason": "Kubelet", "message": ""}]
    status = {**like["status"], "conditions": ready}
    return made(
        "Node", name, {"taints": taints}, labels={**like["metadata"]["labels"], HOST: name, **labels}, status=status
    )


def gang_of(name: str, pods: int, gpus: int, labels: dict[str, str]) -> Object:
    """A Job of pods with so many GPUs each, on nodes with these labels."""
    spec: Object = {"restartPolicy": "Never", "automountServiceAccountToken": False, "nodeSelector": labels}
    spec |= {"containers": [_container({"cpu": "1m", GPU: str(gpus)})], "tolerations": [GPU_TOLERATION]}
    return made("Job", name, {"parallelism": pods, "completions": pods, "template": {"spec": spec}})


_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_KIND: Final = 'device.attributes["gpu.example.com"].kind'
_CHOSEN: Final = ((), (), (f'{_KIND} == "big"',), (f'!({_KIND} in ["big", "none"])',), ("device.driver != 'x'",))


def offered(rng: random.Random, cluster: Cluster) -> Cluster:
    """The cluster with GPUs and NICs of DRA drivers on some of its nodes: some in use, tainted, or without a kind."""
    objects: list[Object] = [
        device_class(name, f"device.driver == '{name}.example.com'", extendedResourceName=f"example.com/{name}")
        for name in ("gpu", "nic")
    ]
    for node in (node for node in cluster.nodes if rng.random() < 0.7):
        name, sure = node["metadata"]["name"], rng.random() < 0.9
        for driver in ("gpu.example.com", "nic.example.com"):
            devices = [
                {
                    "name": f"d{number}",
                    "attributes": attributes(
                        k8s__pcieRoot=f"pci0000:0{rng.randint(0, 2)}" if rng.random() < 0.8 else None,
                        kind=rng.choice(("big", "small")) if sure or rng.random() < 0.8 else None,
                    ),
                    **({"taints": [{"key": "sick", "effect": "NoSchedule"}]} if rng.random() < 0.1 else {}),
                }
                for number in range(rng.randint(1, 4))
            ]
            objects.append(slice_of(name, driver, devices))
            held = [{"request": "r", "driver": driver, "pool": name, "device": device["name"]} for device in devices]
            objects += [
                {
                    **_claim(f"held-{name}-{driver}-{device['device']}", request("r", "gpu")),
                    "status": {"allocation": {"devices": {"results": [device]}}},
                }
                for device in held
                if rng.random() < 0.3
            ]
    return Cluster([*cluster.nodes, *objects], cluster.pods)


def claiming(rng: random.Random, name: str) -> Object:
    """A Job of one pod, and its claim of GPUs and NICs."""
    classes = rng.choice((["gpu"], ["gpu", "nic"], ["gpu", "gpu"], ["gpu", "nic", "nic"]))
    requests = [
        request(f"r{n}", of, rng.randint(1, 3), *(rng.choice(_CHOSEN) if of == "gpu" else ()))
        for n, of in enumerate(classes)
    ]
    for asked in requests if rng.random() < 0.2 else ():
        asked["exactly"]["tolerations"] = [{"key": "sick", "operator": "Exists"}]
    pairs = [[a["name"], b["name"]] for a, b in itertools.pairwise(requests)]
    constraints = tuple(
        {"matchAttribute": _ROOT, "requests": rng.choice((pair, []))} for pair in pairs if rng.random() < 0.7
    )
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": "c", "resourceClaimName": name}]
    spec = {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}
    if rng.random() < 0.15:  # its claim is then the scheduler's
        wanted = {"example.com/gpu": str(rng.randint(1, 4))}
        spec |= {
            "containers": [{**container, "resources": {"requests": wanted, "limits": wanted}}],
            "resourceClaims": [],
        }
    job = made("Job", name, {"parallelism": 1, "completions": 1, "template": {"spec": spec}})
    return {"items": [job, _claim(name, *requests, constraints=constraints)]}


def _claim(name: str, *requests: Object, constraints: tuple[Object, ...] = ()) -> Object:
    found = claim(name, *requests, constraints=constraints)
    return {**found, "metadata": {"name": name, "namespace": "default"}}
