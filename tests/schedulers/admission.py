"""What the API server and volumes do to pods before they are placed, drawn from a seed and played."""

import random
from typing import Any, Final

from tests.schedulers import play
from tests.schedulers.clusters import GPU, HOST, Cluster, Object, made, plain_job
from tests.schedulers.play import Answer
from tests.support.api import ApiUnderTest

QUOTA: Final = "/api/v1/namespaces/default/resourcequotas/pods"
MOST_PODS: Final = 6
"""By the quota of the namespace."""


def of_kind(version: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def in_default(version: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}


def around() -> list[Object]:
    """The objects that decide about pods, one or two of each kind."""
    bounds = {
        "type": "Container",
        "default": {"memory": "96Gi"},
        "defaultRequest": {"memory": "64Gi"},
        "max": {"memory": "256Gi"},
    }
    hard = {"pods": str(MOST_PODS)}
    only_counted = [{"scopeName": "PriorityClass", "operator": "In", "values": ["counted"]}]
    return [
        in_default("v1", "LimitRange", "bounds", spec={"limits": [bounds]}),
        of_kind(
            "node.k8s.io/v1",
            "RuntimeClass",
            "kata",
            handler="kata",
            overhead={"podFixed": {"cpu": "10"}},
            scheduling={"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
        ),
        _priority_class("counted"),
        _priority_class("usual"),
        in_default(
            "v1",
            "ResourceQuota",
            "pods",
            spec={"hard": hard, "scopeSelector": {"matchExpressions": only_counted}},
            status={"hard": hard, "used": {"pods": "0"}},
        ),
        *_volume("local", "n-0-0-0"),
        *_volume("gone", "n-9-9-9"),
    ]


def _priority_class(name: str) -> Object:
    """One that evicts nobody, so that what fits does not depend on it."""
    return of_kind("scheduling.k8s.io/v1", "PriorityClass", name, value=10, preemptionPolicy="Never")


def _volume(name: str, node: str) -> tuple[Object, Object]:
    """A volume of a node, and the claim that is bound to it."""
    expression = {"key": HOST, "operator": "In", "values": [node]}
    modes = ["ReadWriteMany"]
    volume = of_kind(
        "v1",
        "PersistentVolume",
        f"pv-{name}",
        spec={
            "accessModes": modes,
            "capacity": {"storage": "1Gi"},
            "storageClassName": "local",
            "claimRef": {"name": name, "namespace": "default"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
        status={"phase": "Bound"},
    )
    claim = in_default(
        "v1",
        "PersistentVolumeClaim",
        name,
        spec={
            "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
            "volumeName": f"pv-{name}",
        },
        status={"phase": "Bound"},
    )
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return volume, claim


def with_resized_pods(rng: random.Random, cluster: Cluster) -> Cluster:
    """The cluster, some of whose pods still hold more CPU than their spec asks for, or already."""
    pods = []
    for pod in cluster.pods:
        if rng.random() < 0.4 and pod["status"]["phase"] == "Running":
            cpu = rng.choice(("1", "12", "60"))
            requests = {**pod["spec"]["containers"][0]["resources"]["requests"], "cpu": cpu}
            reported = {
                "name": "main",
                "image": "none",
                "imageID": "none",
                "ready": True,
                "restartCount": 0,
                "resources": {"requests": requests},
                "allocatedResources": requests,
            }
            status = {**pod["status"], "containerStatuses": [reported]}
            pods.append({**pod, "status": status})
        else:
            pods.append(pod)
    return Cluster(cluster.nodes, pods)


def job(rng: random.Random, name: str) -> Object:
    """A Job with one or two of the fields that decide before a scheduler does."""
    drawn = plain_job(rng, name)
    spec = drawn["spec"]["template"]["spec"]
    for change in rng.sample(_CHANGES, rng.randint(0, 2)):
        change(rng, spec)
    return drawn


def _runtime_class(rng: random.Random, spec: Object) -> None:
    spec["runtimeClassName"] = rng.choice(("kata", "kata", "gvisor"))


def _priority(rng: random.Random, spec: Object) -> None:
    spec["priorityClassName"] = rng.choice(("counted", "counted", "usual", "missing"))


def _gate(rng: random.Random, spec: Object) -> None:
    if rng.random() < 0.3:
        spec["schedulingGates"] = [{"name": "example.com/data"}]


def _scheduler(rng: random.Random, spec: Object) -> None:
    if rng.random() < 0.3:
        spec["schedulerName"] = "of-nobody"


def _claim(rng: random.Random, spec: Object) -> None:
    name = rng.choice(("local", "local", "gone", "missing"))
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def _memory(rng: random.Random, spec: Object) -> None:
    resources = spec["containers"][0]["resources"]
    resources["requests"]["memory"] = rng.choice(("1Gi", "80Gi", "200Gi"))
    if rng.random() < 0.5:
        resources["limits"]["memory"] = rng.choice(("200Gi", "300Gi"))


def _gpus(rng: random.Random, spec: Object) -> None:
    """Amounts of GPUs that the API server may refuse."""
    resources = spec["containers"][0]["resources"]
    requested, limit = rng.choice((("500m", "500m"), ("1", None), ("1", "2"), ("2000m", "2")))
    resources["requests"][GPU] = requested
    resources["limits"].pop(GPU, None)
    if limit:
        resources["limits"][GPU] = limit


_CHANGES: Final = (_runtime_class, _priority, _gate, _scheduler, _claim, _memory, _gpus)


def on_api_server_and_scheduler(api: ApiUnderTest, workload: Object, lasting: float = 0.0) -> tuple[Answer, str]:
    """The same as `play` has it, with the quota as before."""
    answer = play.on_api_server_and_scheduler(api, workload, lasting)
    api.patch(f"{QUOTA}/status", {"status": {"used": {"pods": "0"}}})  # as a controller that is not here would do
    return answer


def occupied_node(rng: random.Random, number: int) -> tuple[Object, list[Object]]:
    """A node of 8 GPUs, all of which are taken by pods of different priorities below 1000, or above."""
    name = f"full-{number}"
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "Kubelet", "message": ""}
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}
    node = made("Node", name, {"taints": []}, labels={HOST: name}, status=status)
    pods = []
    for each, gpus in enumerate(rng.choice(((8,), (4, 4), (2, 6), (1, 1, 2, 4)))):
        spec = {
            "nodeName": name,
            "automountServiceAccountToken": False,
            "priorityClassName": f"p{rng.randrange(LEVELS_OF_PRIORITY)}",
            "containers": [_container(gpus)],
        }
        pods.append(made("Pod", f"{name}-{each}", spec, status={"phase": "Running"}))
    return node, pods


LEVELS_OF_PRIORITY: Final = 12


def priority_classes() -> list[Object]:
    """`p0` to `p11`, of 100 to 1200, and `mine` of 1000."""
    classes = [of_kind("scheduling.k8s.io/v1", "PriorityClass", "mine", value=1000)]
    for number in range(LEVELS_OF_PRIORITY):
        value = 100 * (number + 1)
        classes.append(of_kind("scheduling.k8s.io/v1", "PriorityClass", f"p{number}", value=value))
    return classes


def _container(gpus: int) -> Object:
    return {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}


def preempting_pod(rng: random.Random, name: str) -> Object:
    """A pod of priority 1000."""
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "priorityClassName": "mine",
        "containers": [_container(rng.choice((1, 2, 4, 8)))],
    }
    return made("Pod", name, spec, labels={"job": name})
