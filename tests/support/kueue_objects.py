"""Objects of Kueue's chain: flavors, queues that lend, admitted Workloads and their pods."""

from tests.support.checked_cluster import GPU, Object

_HEAD = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
BOTH_ON_N0 = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n0"], "count": 2}]}
ONE_ON_N0 = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n0"], "count": 1}]}
ONE_ON_EACH = {
    "levels": ["kubernetes.io/hostname"],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["0", "1"]}}],
            "podCounts": {"individual": [1, 1]},
        }
    ],
}
"""The same as BOTH_ON_N0 in Kueue's compressed form, with a pod on each node."""


def quotas(flavor: str, gpus: str = "100") -> Object:
    """A flavor of a queue, with much memory."""
    resources = [{"name": GPU, "nominalQuota": gpus}, {"name": "memory", "nominalQuota": "1Ti"}]
    return {"name": flavor, "resources": resources}


def flavor(name: str, *, pool: str) -> Object:
    """A ResourceFlavor of the nodes of a pool."""
    spec = {"nodeLabels": {"pool": pool}, "topologyName": "t"}
    return {**_HEAD, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def lender(quotas: Object) -> Object:
    """A ClusterQueue in cohort c that lends what it does not use."""
    group = {
        "coveredResources": [GPU, "memory"],
        "flavors": [quotas],
    }
    return {
        **_HEAD,
        "kind": "ClusterQueue",
        "metadata": {"name": "lender"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "cohortName": "c",
        },
    }


def admitted(
    name: str = "w",
    *,
    gpus: int,
    pods: int = 2,
    queue: str = "cq",
    on: Object | None = None,
    owner: Object | None = None,
) -> Object:
    """An admitted Workload of pods with so many GPUs each; `on`: which nodes it was assigned."""
    container = {"resources": {"requests": {GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    assignment: Object = {
        "name": "main",
        "count": pods,
        "flavors": {GPU: "f"},
        "resourceUsage": {GPU: str(gpus * pods)},
    }
    if on:
        assignment["topologyAssignment"] = on
    metadata: Object = {"name": name, "namespace": "ml"}
    if owner:
        metadata["ownerReferences"] = [owner]
    return {
        **_HEAD,
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"podSets": [pod_set]},
        "status": {"admission": {"clusterQueue": queue, "podSetAssignments": [assignment]}},
    }


def pod_of_workload(name: str, *, on: str = "") -> Object:
    """A pod with 4 GPUs of the admitted Workload w; pending where it is on no node."""
    spec: Object = {"containers": [{"name": "c", "resources": {"requests": {GPU: "4"}}}]}
    metadata = {
        "name": name,
        "namespace": "ml",
        "labels": {"kueue.x-k8s.io/podset": "main"},
        "annotations": {"kueue.x-k8s.io/workload": "w"},
    }
    if on:
        spec = {"nodeName": on, **spec}
    phase = "Running" if on else "Pending"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}
