"""Random clusters and workloads, drawn from a seed: small enough that a scheduler's answer can be followed by hand."""

import itertools
import random
from dataclasses import dataclass
from typing import Any, Final

from tests.schedulers.versions import COMPOSITES, GANGS
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
_TOLERATIONS: Final = ({"key": "dedicated", "operator": "Exists"}, {"operator": "Exists"})
_FLAVOR_LABELS: Final = (
    {GPU_NODES: "true"},
    {GPU_NODES: "true"},
    {"pool": "a"},
    {"pool": "b", GPU_NODES: "true"},
)
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_VERSIONS: Final = {
    **dict.fromkeys(("Node", "Pod", "LimitRange"), "v1"),
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PodGroup": GANGS,
    "CompositePodGroup": COMPOSITES,
}
"""Those of Kueue's kinds are `KUEUE`."""
_WITHOUT_NAMESPACE: Final = ("Node", "Topology", "ResourceFlavor", "ClusterQueue", "Cohort")


def made(kind: str, name: str, spec: Object, **more: Any) -> Object:
    """An object, in `default` where its kind has namespaces; `more` is its status, or of its metadata."""
    metadata = {"name": name}
    if kind not in _WITHOUT_NAMESPACE:
        metadata["namespace"] = "default"
    obj = {
        "apiVersion": _VERSIONS.get(kind, KUEUE),
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }
    if "status" in more:
        obj["status"] = more.pop("status")
    metadata |= more
    return obj


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes with their status, and pods that already run on them."""

    nodes: list[Object]
    pods: list[Object]


def cluster(rng: random.Random) -> Cluster:
    """Two to three blocks of one to three racks; some nodes are cordoned, tainted, not ready or lack a label."""
    nodes = []
    for block in range(rng.randint(2, 3)):
        for rack in range(rng.randint(1, 3)):
            for number in range(rng.randint(1, 4)):
                nodes.append(_node(rng, block, rack, number))
    share = rng.choice((0.0, 0.3, 0.6))
    pods = []
    for node in nodes:
        if rng.random() < share:
            pods.append(_occupant(rng, node))
    return Cluster(nodes, pods)


def _node(rng: random.Random, block: int, rack: int, number: int) -> Object:
    name, gpus = f"n-{block}-{rack}-{number}", rng.choice((4, 8, 8))
    labels = _node_labels(rng, block, rack, name, gpus)
    spec, ready = _node_spec(rng)
    allocatable = {
        "cpu": rng.choice(("16", "64")),
        "memory": "512Gi",
        "pods": rng.choice(("110", "110", "110", "3")),
        GPU: str(gpus),
    }
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Kubelet",
        "message": "",
    }
    status = {
        "allocatable": allocatable,
        "capacity": allocatable,
        "conditions": [condition],
    }
    return made("Node", name, spec, labels=labels, status=status)


def _node_labels(rng: random.Random, block: int, rack: int, name: str, gpus: int) -> dict[str, str]:
    # Rack names may repeat under another block: Kueue and KAI tell such racks apart.
    rack_name = f"r{rack}" if rng.random() < 0.5 else f"r{block}-{rack}"
    labels = {
        HOST: name,
        BLOCK: f"b{block}",
        RACK: rack_name,
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
    return labels


def _node_spec(rng: random.Random) -> tuple[Object, str]:
    """The spec of a Node, and the status of its condition Ready."""
    taints: list[Object] = []
    if rng.random() < 0.15:
        taints.append(rng.choice(_TAINTS))
    spec: Object = {"taints": taints}
    if rng.random() < 0.15:
        taints.append(_GPU_TAINT)
    ready = "False" if rng.random() < 0.05 else "True"

    # As the controllers of a real cluster leave them behind.
    if rng.random() < 0.1:
        spec["unschedulable"] = True
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if ready == "False":
        for effect in _EFFECTS:
            taints.append({"key": "node.kubernetes.io/not-ready", "effect": effect})
    return spec, ready


def _occupant(rng: random.Random, node: Object) -> Object:
    """A pod that runs on the node."""
    name = node["metadata"]["name"]
    gpus = rng.randint(1, int(node["status"]["allocatable"][GPU]))
    spec = {
        "nodeName": name,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container({"cpu": "4", GPU: str(gpus)})],
    }
    phase = rng.choice(("Running", "Running", "Pending", "Succeeded", "Failed"))
    return made("Pod", f"running-{name}", spec, status={"phase": phase})


def _container(requests: dict[str, str]) -> Object:
    limits = {GPU: requests[GPU]} if GPU in requests else {}
    return {
        "name": "main",
        "image": "none",
        "resources": {"requests": requests, "limits": limits},
    }


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
        spec["tolerations"] = [rng.choice(_TOLERATIONS)]
    if rng.random() < 0.15:
        spec["affinity"] = _block_affinity(rng)
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def _block_affinity(rng: random.Random) -> Object:
    """Only nodes inside or outside of one block."""
    expression = {
        "key": BLOCK,
        "operator": rng.choice(("In", "NotIn")),
        "values": [rng.choice(("b0", "b1"))],
    }
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def kueue_objects(rng: random.Random, queue: str) -> list[Object]:
    """Flavors with nodes, taints and tolerations of their own, and their queue: in a cohort, or short of quota."""
    flavors = []
    objects = []
    for number in range(rng.choice((1, 1, 2, 3))):
        flavors.append(f"{queue}-f{number}")
        objects.append(made("ResourceFlavor", flavors[-1], _flavor(rng)))
    is_scarce = rng.random() < 0.3
    in_cohort = rng.random() < 0.3
    names = (queue, f"{queue}-lender") if in_cohort else (queue,)
    for name in names:
        entries = []
        for flavor in flavors:
            entries.append({"name": flavor, "resources": _quotas(rng, is_scarce=is_scarce, in_cohort=in_cohort)})
        spec: Object = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu", "memory", GPU], "flavors": entries}],
        }
        if in_cohort:
            spec["cohortName"] = f"{queue}-cohort"
        if rng.random() < 0.2:
            spec["flavorFungibility"] = {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
            }
        objects.append(made("ClusterQueue", name, spec))
    objects.append(made("LocalQueue", queue, {"clusterQueue": queue}))
    return objects


def _quotas(rng: random.Random, *, is_scarce: bool, in_cohort: bool) -> list[Object]:
    """The quotas of one flavor."""
    quota = rng.choice((4, 8, 16, 32)) if is_scarce else 100000
    gpus: Object = {"name": GPU, "nominalQuota": str(quota)}
    if in_cohort and rng.random() < 0.5:
        most = rng.choice((0, 2, 4))
        limit = rng.choice(("borrowingLimit", "lendingLimit"))
        gpus[limit] = str(most)
    return [
        {"name": "cpu", "nominalQuota": "1000"},
        {"name": "memory", "nominalQuota": "10Ti"},
        gpus,
    ]


def _flavor(rng: random.Random) -> Object:
    flavor: Object = {
        "nodeLabels": rng.choice(_FLAVOR_LABELS),
        "topologyName": rng.choice(("cluster", "cluster", "cluster", "racks")),
    }
    if rng.random() < 0.5:
        flavor["tolerations"] = [rng.choice((GPU_TOLERATION, {"operator": "Exists"}))]
    if rng.random() < 0.15:
        flavor["nodeTaints"] = [_TAINTS[0]]
    return flavor


def kueue_topologies() -> list[Object]:
    """All levels, and all but the broadest."""
    topologies = []
    for name, keys in (("cluster", LEVELS), ("racks", LEVELS[1:])):
        levels = []
        for key in keys:
            levels.append({"nodeLabel": key})
        topologies.append(made("Topology", name, {"levels": levels}))
    return topologies


def limit_range() -> Object:
    """Defaults for containers that say nothing of memory."""
    container = {
        "type": "Container",
        "default": {"memory": "96Gi"},
        "defaultRequest": {"memory": "64Gi"},
    }
    return made("LimitRange", "defaults", {"limits": [container]})


def kueue_workload(rng: random.Random, name: str, queue: str) -> Object:
    """A Job or a JobSet for Kueue: pod sets that are kept together, in slices, or a leader with its workers."""
    queue = queue if rng.random() < 0.97 else "nowhere"
    labels = {"kueue.x-k8s.io/queue-name": queue}
    shape = rng.random()
    if shape < 0.45:
        return _kueue_job(rng, name, labels)
    if shape < 0.7:
        pod_sets = _leader_and_workers(rng)
    else:
        pod_sets = []
        for number in range(rng.randint(1, 3)):
            template, pods = _kueue_pod_set(rng)
            pod_sets.append((f"s{number}", template, pods))
    jobs = []
    for role, template, pods in pod_sets:
        job = {
            "parallelism": pods,
            "completions": pods,
            "template": template,
        }
        jobs.append({"name": role, "replicas": 1, "template": {"spec": job}})
    return made("JobSet", name, {"suspend": True, "replicatedJobs": jobs}, labels=labels)


def _kueue_job(rng: random.Random, name: str, labels: dict[str, str]) -> Object:
    """A Job of one pod set, which may start with fewer pods."""
    template, pods = _kueue_pod_set(rng)
    # Kueue 0.19 never answers where it would admit less than a slice: its own API refuses the assignment.
    slice_size = template["metadata"]["annotations"].get("kueue.x-k8s.io/podset-slice-size", 1)
    least = int(slice_size)
    metadata: Object = {"labels": labels}
    metadata["annotations"] = {}
    if pods > least and rng.random() < 0.25:
        metadata["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = str(rng.randint(least, pods - 1))
    if rng.random() < 0.1:
        metadata["annotations"]["kueue.x-k8s.io/elastic-job"] = "true"
    if rng.random() < 0.1:  # the only pod set of its group
        template["metadata"]["annotations"]["kueue.x-k8s.io/podset-group-name"] = "group"
    spec = {
        "suspend": True,
        "parallelism": pods,
        "completions": pods,
        "template": template,
    }
    return made("Job", name, spec, **metadata)


def _leader_and_workers(rng: random.Random) -> list[tuple[str, Object, int]]:
    """Two pod sets of one group: role, template and pods of each."""
    mode = rng.choice(("required", "preferred"))
    annotations = {
        f"kueue.x-k8s.io/podset-{mode}-topology": rng.choice((BLOCK, RACK)),
        "kueue.x-k8s.io/podset-group-name": "group",
    }
    leader = pod_template(rng, dict(annotations), gpus=rng.random() < 0.5)
    workers = rng.randint(1, 8)
    return [
        ("leader", leader, 1),
        ("workers", pod_template(rng, dict(annotations)), workers),
    ]


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
        annotations["kueue.x-k8s.io/podset-unconstrained-topology"] = rng.choice(("true", "true", "1", "false"))
    if annotations and rng.random() < 0.3:
        divisors = [divisor for divisor in range(1, pods + 1) if pods % divisor == 0]
        size = rng.choice(divisors) if rng.random() < 0.8 else rng.randint(1, pods)
        annotations["kueue.x-k8s.io/podset-slice-required-topology"] = rng.choice(LEVELS)
        annotations["kueue.x-k8s.io/podset-slice-size"] = str(size)
    return pod_template(rng, annotations), pods


def plain_job(rng: random.Random, name: str) -> Object:
    """A Job without any topology, for kube-scheduler."""
    pods = rng.randint(1, 12)
    spec = {
        "parallelism": pods,
        "completions": pods,
        "template": pod_template(rng),
    }
    return made("Job", name, spec)


def new_node(like: Object, number: int, labels: dict[str, str]) -> Object:
    """Another node like this one, Ready and not cordoned."""
    name = f"{like['metadata']['name']}-new-{number}"
    taints = []
    for taint in like["spec"]["taints"]:
        if not taint["key"].startswith("node.kubernetes.io/"):
            taints.append(taint)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Kubelet",
        "message": "",
    }
    return made(
        "Node",
        name,
        {"taints": taints},
        labels={**like["metadata"]["labels"], HOST: name, **labels},
        status={**like["status"], "conditions": [ready]},
    )


def gang_of(name: str, pods: int, gpus: int, labels: dict[str, str]) -> Object:
    """A Job of pods with so many GPUs each, on nodes with these labels."""
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": labels,
        "containers": [_container({"cpu": "1m", GPU: str(gpus)})],
        "tolerations": [GPU_TOLERATION],
    }
    return made("Job", name, {"parallelism": pods, "completions": pods, "template": {"spec": spec}})


_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_KIND: Final = 'device.attributes["gpu.example.com"].kind'
_SELECTORS: Final = (
    (),
    (),
    (f'{_KIND} == "big"',),
    (f'!({_KIND} in ["big", "none"])',),
    ("device.driver != 'x'",),
)
_SICK: Final = {"key": "sick", "effect": "NoSchedule"}


def offered(rng: random.Random, cluster: Cluster) -> Cluster:
    """The cluster with GPUs and NICs of DRA drivers on some of its nodes: some in use, tainted, or without a kind."""
    objects: list[Object] = []
    for name in ("gpu", "nic"):
        selector = f"device.driver == '{name}.example.com'"
        objects.append(device_class(name, selector, extendedResourceName=f"example.com/{name}"))
    for node in cluster.nodes:
        if rng.random() < 0.7:
            name = node["metadata"]["name"]
            has_kinds = rng.random() < 0.9
            for driver in ("gpu.example.com", "nic.example.com"):
                objects += _devices_of_driver(rng, name, driver, has_kinds=has_kinds)
    return Cluster([*cluster.nodes, *objects], cluster.pods)


def _devices_of_driver(rng: random.Random, node: str, driver: str, *, has_kinds: bool) -> list[Object]:
    """A ResourceSlice of a node, and claims that hold some of its devices."""
    devices = []
    for number in range(rng.randint(1, 4)):
        devices.append(_device(rng, number, has_kind=has_kinds))
    objects = [slice_of(node, driver, devices)]
    for device in devices:
        if rng.random() < 0.3:
            result = {
                "request": "r",
                "driver": driver,
                "pool": node,
                "device": device["name"],
            }
            holder = _claim(f"held-{node}-{driver}-{device['name']}", request("r", "gpu"))
            holder["status"] = {"allocation": {"devices": {"results": [result]}}}
            objects.append(holder)
    return objects


def _device(rng: random.Random, number: int, *, has_kind: bool) -> Object:
    root = None
    if rng.random() < 0.8:
        root = f"pci0000:0{rng.randint(0, 2)}"
    kind = None
    if has_kind or rng.random() < 0.8:
        kind = rng.choice(("big", "small"))
    device: Object = {
        "name": f"d{number}",
        "attributes": attributes(k8s__pcieRoot=root, kind=kind),
    }
    if rng.random() < 0.1:
        device["taints"] = [_SICK]
    return device


def claiming(rng: random.Random, name: str) -> Object:
    """A Job of one pod, and its claim of GPUs and NICs."""
    requests = _device_requests(rng)
    constraints = []
    for first, second in itertools.pairwise(requests):
        if rng.random() < 0.7:
            pair = [first["name"], second["name"]]
            constraints.append({"matchAttribute": _ROOT, "requests": rng.choice((pair, []))})

    resources: Object = {"requests": {"cpu": "1"}}
    claims = [{"name": "c", "resourceClaimName": name}]
    if rng.random() < 0.15:  # its claim is then the scheduler's
        gpus = {"example.com/gpu": str(rng.randint(1, 4))}
        resources = {"requests": gpus, "limits": gpus}
        claims = []
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "resourceClaims": claims,
    }
    job = made("Job", name, {"parallelism": 1, "completions": 1, "template": {"spec": spec}})
    return {"items": [job, _claim(name, *requests, constraints=tuple(constraints))]}


def _device_requests(rng: random.Random) -> list[Object]:
    classes = rng.choice((["gpu"], ["gpu", "nic"], ["gpu", "gpu"], ["gpu", "nic", "nic"]))
    requests = []
    for number, device_class_name in enumerate(classes):
        count = rng.randint(1, 3)
        selectors = rng.choice(_SELECTORS) if device_class_name == "gpu" else ()
        requests.append(request(f"r{number}", device_class_name, count, *selectors))
    if rng.random() < 0.2:
        for each in requests:
            each["exactly"]["tolerations"] = [{"key": "sick", "operator": "Exists"}]
    return requests


def _claim(name: str, *requests: Object, constraints: tuple[Object, ...] = ()) -> Object:
    """A claim in the namespace `default`."""
    written = claim(name, *requests, constraints=constraints)
    return {**written, "metadata": {"name": name, "namespace": "default"}}
