"""Pod sets that get flavors of their own: other topologies, or none."""

import pytest
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.kueue_objects import quotas

pytestmark = pytest.mark.regression

HEAD = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
NO_NODES = (
    "unclear: Kueue 0.19 admits it, but it is uncertain whether kube-scheduler finds nodes for pods to which Kueue "
    "assigns none"
)
COARSE = (
    "Topology zones ends above the nodes: Kueue 0.19 treats each of its lowest domains as one node, ignores taints "
    "and labels of the nodes, and may admit pods that no node has room for"
)


def pod_set(name: str, *, level: str = "", gpus: int = 1, pods: int = 1, pool: str = "") -> Object:
    """A Job of a JobSet; `level`: what its pods require, empty: no topology at all."""
    annotations = {"kueue.x-k8s.io/podset-required-topology": level} if level else {}
    spec: Object = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}
    if pool:
        spec["nodeSelector"] = {"pool": pool}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    job = {"parallelism": pods, "completions": pods, "template": template}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def submit(kueue: CheckedCluster, *pod_sets: Object) -> None:
    """Check this JobSet."""
    kueue.workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "ml", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {"replicatedJobs": list(pod_sets)},
    }


def add_flavor(kueue: CheckedCluster, name: str, *, pool: str, topology: str = "") -> None:
    """One more flavor of the queue."""
    spec: Object = {"nodeLabels": {"pool": pool}}
    if topology:
        spec["topologyName"] = topology
    kueue.add({**HEAD, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec})
    flavors = [quotas("f"), quotas(name)]
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups[0].flavors", flavors)


@pytest.fixture
def zones(kueue: CheckedCluster) -> CheckedCluster:
    """A second flavor, of node n1 in pool b, whose Topology is zones and no hosts."""
    levels = [{"nodeLabel": "example.com/zone"}]
    kueue.add({**HEAD, "kind": "Topology", "metadata": {"name": "zones"}, "spec": {"levels": levels}})
    kueue.label_node("n1", "example.com/zone", "z1")
    kueue.label_node("n1", "pool", "b")
    add_flavor(kueue, "z", pool="b", topology="zones")
    return kueue


def test_levels_of_two_flavors_are_placed_on_both(zones: CheckedCluster) -> None:
    submit(zones, pod_set("a", level="example.com/zone", gpus=8), pod_set("b", level="example.com/rack", gpus=8))
    answer = zones.check()
    assert answer.findings == []
    assert answer.notes == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_levels_of_two_flavors_without_room_cannot_fit(zones: CheckedCluster) -> None:
    submit(zones, pod_set("a", level="example.com/zone", gpus=9), pod_set("b", level="example.com/rack", gpus=1))
    assert zones.check().verdict == (
        "cannot fit: a pod of set needs 9 GPUs, and no node that it may use has more than 8 (n0)"
    )


def test_domain_whose_nodes_take_no_pod_is_unclear(zones: CheckedCluster) -> None:
    """Zone z1 has 8 GPUs free in all, and no node with 5."""
    zones.edit("Node/n1", "status.allocatable[nvidia.com/gpu]", "4")
    zones.add(node_like(zones, "n1", "n2"))
    submit(zones, pod_set("a", level="example.com/zone", gpus=5), pod_set("b", level="example.com/rack", gpus=8))
    answer = zones.check()
    assert answer.notes == [COARSE]
    assert answer.verdict == NO_NODES


def node_like(kueue: CheckedCluster, node: str, name: str) -> Object:
    """Another node with the same labels and the same room."""
    like = kueue.objects[f"Node/{node}"]
    labels = {**like["metadata"]["labels"], "kubernetes.io/hostname": name}
    return {**like, "metadata": {"name": name, "labels": labels}}


def test_pod_sets_of_two_pools_are_placed_on_both(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", "pool", "b")
    add_flavor(kueue, "g", pool="b", topology="t")
    rack = "example.com/rack"
    submit(kueue, pod_set("a", level=rack, gpus=8, pool="a"), pod_set("b", level=rack, gpus=8, pool="b"))
    assert kueue.check().verdict == "fits: 2 pods on 2 nodes"


def test_pod_set_without_a_topology_is_counted(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", "pool", "b")
    add_flavor(kueue, "plain", pool="b")
    submit(kueue, pod_set("a", level="example.com/rack", gpus=8), pod_set("b", gpus=4, pods=2))
    assert kueue.check().verdict == "fits: 3 pods on 2 nodes"


def test_pod_set_without_a_topology_that_finds_no_room_is_unclear(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", "pool", "b")
    add_flavor(kueue, "plain", pool="b")
    submit(kueue, pod_set("a", level="example.com/rack", gpus=8), pod_set("b", gpus=4, pods=3))
    assert kueue.check().verdict == NO_NODES


def test_levels_of_two_topologies_are_unclear_where_the_queue_is_not_known(zones: CheckedCluster) -> None:
    zones.delete("LocalQueue/queue", "ClusterQueue/cq")
    submit(zones, pod_set("a", level="example.com/zone"), pod_set("b", level="example.com/rack"))
    answer = zones.check()
    assert [finding.rule for finding in answer.findings] == ["kueue/one-topology"]
    assert answer.verdict == (
        "unclear: no topology has all of these levels, and it is unknown which flavor each pod set gets"
    )
