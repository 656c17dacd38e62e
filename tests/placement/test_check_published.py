"""Which topology counts: the resource that a scheduler reads, or what stands in for it where it is not known."""

from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import Finding, error, warning
from tests.support.documents import text

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RACK = "example.com/rack"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"
HOST = "kubernetes.io/hostname"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
MIN_MEMBER = "kai.scheduler/batch-min-member"
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KAI_TOPOLOGIES = "topologies.kai.scheduler"
KUEUE_TOPOLOGIES = "topologies.kueue.x-k8s.io"
BINDINGS = "clustertopologybindings.grove.io"
FITS_IN_RACK = "fits: rack r1 (2 nodes, 16 free GPUs)"
FITS_ON_SHELF = "fits: shelf r1 (2 nodes, 16 free GPUs)"
ONLY_HOSTS = [{"domain": "host", "key": HOST}]
FLAVORS_NOTE = "the queue's flavors are not known: their nodes, taints and quota are not checked"
STARTS_ONE_BY_ONE = warning(
    "kai/min-member",
    f"metadata.annotations[{REQUIRED}]",
    "KAI 0.17 does not treat a Job as a gang: it starts the 2 pods one by one, the first chooses the domain, and "
    "pods without room there wait",
    fix='set kai.scheduler/batch-min-member: "2" on the Job, and recreate it',
)
NO_REPLICAS = warning(
    "grove/no-replicas", "spec.replicas", "defaults to 0, so Grove creates no pods", fix="set it to 1 or more"
)
NO_QUEUE = warning(
    "grove/queue",
    "metadata.labels",
    "no KAI queue is configured on PodCliqueSet default/c or its PodClique templates",
    fix="label the set with kai.scheduler/queue: Grove after v0.1.0-alpha.12 rejects it without a queue",
)
POD_CLIQUE_SET = """
    apiVersion: grove.io/v1alpha1
    kind: PodCliqueSet
    metadata: {name: c}
    spec:
      template:
        topologyConstraint: {topologyName: cluster, pack: {required: rack}}
        cliques:
          - name: c
            spec:
              replicas: 2
              roleName: c
              podSpec:
                schedulerName: kai-scheduler
                containers: [{name: c, resources: {limits: {nvidia.com/gpu: '8'}}}]
"""
SHELF_TOPOLOGY = """
    apiVersion: kai.scheduler/v1alpha1
    kind: Topology
    metadata: {name: cluster}
    spec: {levels: [{nodeLabel: example.com/rack, alias: shelf}, {nodeLabel: kubernetes.io/hostname}]}
"""
OTHER_CLUSTER_TOPOLOGY = """
    apiVersion: gpu.topology/v1alpha1
    kind: ClusterTopology
    metadata: {name: other, uid: '2', generation: 1}
    spec: {levels: [{domain: shelf, key: example.com/rack}, {domain: host, key: kubernetes.io/hostname}]}
"""
BARE_NODE = """
    apiVersion: v1
    kind: Node
    metadata: {name: bare, labels: {kubernetes.io/hostname: bare, gpu.topology/gpus: '8', example.com/rack: r1}}
    status: {allocatable: {nvidia.com/gpu: '8', pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
"""
UNLABELLED_NODE = """
    apiVersion: v1
    kind: Node
    metadata: {name: n}
    status: {allocatable: {nvidia.com/gpu: '8', pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
"""


@pytest.fixture
def kai() -> CheckedCluster:
    """Two nodes in a rack, a ClusterTopology, and the Topology of KAI's that it publishes; a Job of two pods."""
    return CheckedCluster("placement/clusters/published-kai", "placement/kai-job-of-2-in-rack")


@pytest.fixture
def kueue() -> CheckedCluster:
    """The same with Kueue's Topology; a Job of two pods for Kueue."""
    return CheckedCluster("placement/clusters/published-kueue", "placement/kueue-job-of-2-in-rack")


def no_kai_topology(fix: str) -> Finding:
    """KAI's topology does not exist."""
    message = "Requested topology cluster does not exist"
    return error("kai/topology-exists", f"metadata.annotations[{TOPOLOGY}]", message, fix=fix)


def no_kueue_topology(fix: str) -> Finding:
    """No topology of Kueue's exists."""
    field = f"spec.template.metadata.annotations[{KUEUE_REQUIRED}]"
    return error(
        "kueue/topology-exists", field, "there is no Kueue Topology, so no ResourceFlavor can use one", fix=fix
    )


def no_binding(fix: str) -> Finding:
    """Grove's binding does not exist."""
    message = 'ClusterTopologyBinding "cluster" not found'
    return error("grove/topology-exists", "spec.template.topologyConstraint.topologyName", message, fix=fix)


def test_kai_job_that_requires_a_host_goes_by_the_topology(kai: CheckedCluster) -> None:
    kai.label_node("n0", RACK, None)
    kai.label_node("n1", RACK, None)
    kai.edit("ClusterTopology/cluster", "spec.levels", ONLY_HOSTS)
    kai.edit("Topology/cluster", "spec.levels", [{"nodeLabel": HOST}])
    kai.annotate(REQUIRED, HOST)

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == (
        "cannot fit: KAI 0.17 starts the pods of train one by one: it binds 1 of 2 in host n0, where the "
        "first pod goes, and the other 1 waits"
    )


def test_kai_level_that_no_node_carries_keeps_all_nodes_out(kai: CheckedCluster) -> None:
    kai.label_node("n0", RACK, None)
    kai.label_node("n1", RACK, None)
    kai.edit("ClusterTopology/cluster", "spec.levels", ONLY_HOSTS)
    kai.annotate(REQUIRED, HOST)

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == (
        "cannot fit: no node carries example.com/rack, a level of Topology cluster, and KAI "
        "leaves out every node that lacks a level"
    )


def test_kueue_job_that_requires_a_host_goes_by_the_topology(kueue: CheckedCluster) -> None:
    kueue.label_node("n0", RACK, None)
    kueue.label_node("n1", RACK, None)
    kueue.edit("ClusterTopology/cluster", "spec.levels", ONLY_HOSTS)
    kueue.edit("Topology/cluster", "spec.levels", [{"nodeLabel": HOST}])
    kueue.annotate_pods(KUEUE_REQUIRED, HOST)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: pod set pods needs 16 GPUs in one host, largest has 8 (n0)"


def test_kueue_level_that_no_node_carries_keeps_all_nodes_out(kueue: CheckedCluster) -> None:
    kueue.label_node("n0", RACK, None)
    kueue.label_node("n1", RACK, None)
    kueue.edit("ClusterTopology/cluster", "spec.levels", ONLY_HOSTS)
    kueue.annotate_pods(KUEUE_REQUIRED, HOST)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: no node carries example.com/rack, a level of Topology cluster, and Kueue "
        "leaves out every node that lacks a level"
    )


def test_several_levels_that_no_node_carries_are_named(kai: CheckedCluster) -> None:
    kai.edit(
        "Topology/cluster",
        "spec.levels",
        [{"nodeLabel": "example.com/a"}, {"nodeLabel": "example.com/b"}, {"nodeLabel": HOST}],
    )
    kai.edit_workload("metadata.annotations", {TOPOLOGY: "cluster", REQUIRED: HOST, MIN_MEMBER: "2"})

    answer = kai.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: no node carries example.com/a, example.com/b, levels of Topology cluster, "
        "and KAI leaves out every node that lacks a level"
    )


def test_kai_rack_of_the_topology_fits(kai: CheckedCluster) -> None:
    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == FITS_IN_RACK


def test_kueue_rack_of_the_topology_fits(kueue: CheckedCluster) -> None:
    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_kai_counts_nodes_that_the_cluster_topology_does_not_select(kai: CheckedCluster) -> None:
    kai.edit("ClusterTopology/cluster", "spec.nodeSelector", {"matchLabels": {"pool": "other"}})

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == FITS_IN_RACK


def test_kueue_counts_nodes_that_the_cluster_topology_does_not_select(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterTopology/cluster", "spec.nodeSelector", {"matchLabels": {"pool": "other"}})

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_placeholder_is_a_rack_to_kai(kai: CheckedCluster) -> None:
    kai.label_node("n0", RACK, "no-topology")
    kai.label_node("n1", RACK, "no-topology")

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == "fits: rack no-topology (2 nodes, 16 free GPUs)"


def test_placeholder_is_a_rack_to_kueue(kueue: CheckedCluster) -> None:
    kueue.label_node("n0", RACK, "no-topology")
    kueue.label_node("n1", RACK, "no-topology")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: rack no-topology (2 nodes, 16 free GPUs)"


def test_kai_counts_nodes_without_an_agent(kai: CheckedCluster) -> None:
    kai.delete("Node/n1")
    kai.apply(BARE_NODE)

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.verdict == FITS_IN_RACK


def test_kueue_counts_nodes_without_an_agent(kueue: CheckedCluster) -> None:
    kueue.delete("Node/n1")
    kueue.apply(BARE_NODE)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_kai_topology_that_is_not_published_is_an_error(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")

    answer = kai.check(served={"topologies.kai.scheduler": True})

    assert answer.findings == [
        no_kai_topology(
            "ClusterTopology cluster is not published as topologies.kai.scheduler; kubectl describe gtopo "
            "cluster says why"
        )
    ]
    assert answer.verdict == ""


def test_kai_topology_that_is_never_published_names_the_field(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.edit("ClusterTopology/cluster", "spec.publish", {"kai": "Never"})

    answer = kai.check(served={"topologies.kai.scheduler": True})

    assert answer.findings == [
        no_kai_topology("ClusterTopology cluster sets spec.publish.kai: Never; set it to Auto to publish the Topology")
    ]
    assert answer.verdict == ""


def test_kai_topology_that_is_not_served_asks_for_kai(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")

    answer = kai.check(served={"topologies.kai.scheduler": False})

    assert answer.findings == [
        no_kai_topology("the cluster does not serve topologies.kai.scheduler: is KAI installed?")
    ]
    assert answer.verdict == ""


def test_kueue_topology_that_is_not_published_is_an_error(kueue: CheckedCluster) -> None:
    kueue.delete("Topology/cluster")

    answer = kueue.check(served={"topologies.kueue.x-k8s.io": True})

    assert answer.findings == [
        no_kueue_topology(
            "ClusterTopology cluster is not published as topologies.kueue.x-k8s.io; kubectl describe gtopo "
            "cluster says why"
        )
    ]
    assert answer.verdict == ""


def test_kueue_topology_that_is_never_published_names_the_field(kueue: CheckedCluster) -> None:
    kueue.delete("Topology/cluster")
    kueue.edit("ClusterTopology/cluster", "spec.publish", {"kueue": "Never"})

    answer = kueue.check(served={"topologies.kueue.x-k8s.io": True})

    assert answer.findings == [
        no_kueue_topology(
            "ClusterTopology cluster sets spec.publish.kueue: Never; set it to Auto to publish the Topology"
        )
    ]
    assert answer.verdict == ""


def test_kueue_topology_that_is_not_served_asks_for_kueue(kueue: CheckedCluster) -> None:
    kueue.delete("Topology/cluster")

    answer = kueue.check(served={"topologies.kueue.x-k8s.io": False})

    assert answer.findings == [
        no_kueue_topology("the cluster does not serve topologies.kueue.x-k8s.io: is Kueue installed?")
    ]
    assert answer.verdict == ""


def test_grove_binding_that_is_not_published_is_an_error(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.submit(POD_CLIQUE_SET)

    answer = kai.check(served={"clustertopologybindings.grove.io": True})

    assert answer.findings == [
        no_binding(
            "ClusterTopology cluster is not published as clustertopologybindings.grove.io; kubectl describe "
            "gtopo cluster says why"
        ),
        NO_REPLICAS,
        NO_QUEUE,
    ]
    assert answer.verdict == ""


def test_grove_binding_that_is_never_published_names_the_field(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.edit("ClusterTopology/cluster", "spec.publish", {"grove": "Never"})
    kai.submit(POD_CLIQUE_SET)

    answer = kai.check(served={"clustertopologybindings.grove.io": True})

    assert answer.findings == [
        no_binding(
            "ClusterTopology cluster sets spec.publish.grove: Never; "
            "set it to Auto to publish the ClusterTopologyBinding"
        ),
        NO_REPLICAS,
        NO_QUEUE,
    ]
    assert answer.verdict == ""


def test_grove_binding_that_is_not_served_asks_for_grove(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.submit(POD_CLIQUE_SET)

    answer = kai.check(served={"clustertopologybindings.grove.io": False})

    assert answer.findings == [
        no_binding("the cluster does not serve clustertopologybindings.grove.io: is Grove installed?"),
        NO_REPLICAS,
        NO_QUEUE,
    ]
    assert answer.verdict == ""


def test_queue_that_does_not_exist_is_an_error_where_queues_are_known(kueue: CheckedCluster) -> None:
    answer = kueue.check(
        served={
            "localqueues.kueue.x-k8s.io": True,
            "clusterqueues.kueue.x-k8s.io": True,
            "resourceflavors.kueue.x-k8s.io": True,
            "topologies.kueue.x-k8s.io": True,
        }
    )

    assert answer.findings == [
        error(
            "kueue/queue-exists",
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            "LocalQueue queue doesn't exist",
            fix="kubectl get localqueues.kueue.x-k8s.io -A; the namespace of the workload counts",
        )
    ]
    assert answer.verdict == ""


def test_cluster_topology_stands_in_for_kai(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")

    answer = kai.check()

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [("the Topology that KAI reads is unknown: ClusterTopology cluster is used instead")]
    assert answer.verdict == FITS_IN_RACK


def test_cluster_topology_stands_in_for_kueue(kueue: CheckedCluster) -> None:
    kueue.delete("Topology/cluster")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on cluster
          train
            pod set pods: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        FLAVORS_NOTE,
        ("the Topology that Kueue reads is unknown: ClusterTopology cluster is used instead"),
    ]
    assert answer.verdict == FITS_IN_RACK


def test_cluster_topology_stands_in_for_grove(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.submit(POD_CLIQUE_SET)

    answer = kai.check()

    assert answer.findings == [NO_REPLICAS, NO_QUEUE]
    assert answer.workload == text("""
        Grove podcliqueset/c on cluster, a gang
          c: required rack
            clique c: 2 c (nvidia.com/gpu=8)
          at once: c: required rack
                     clique c: 2 c (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        ("the ClusterTopologyBinding that Grove reads is unknown: ClusterTopology cluster is used instead")
    ]
    assert answer.verdict == FITS_IN_RACK


def test_labels_stand_in_where_there_is_no_cluster_topology(kueue: CheckedCluster) -> None:
    kueue.delete("ClusterTopology/cluster", "Topology/cluster")
    kueue.label_node("n0", RACK, None)
    kueue.label_node("n0", SUBBLOCK, "r1")
    kueue.label_node("n1", RACK, None)
    kueue.label_node("n1", SUBBLOCK, "r1")
    kueue.annotate_pods(KUEUE_REQUIRED, SUBBLOCK)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on cluster
          train
            pod set pods: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        FLAVORS_NOTE,
        ("the Topology that Kueue reads is unknown: the hierarchy of the node labels is used instead"),
    ]
    assert answer.verdict == FITS_IN_RACK


def test_other_cluster_topology_stands_in_under_its_name(kai: CheckedCluster) -> None:
    kai.delete("Topology/cluster")
    kai.apply(OTHER_CLUSTER_TOPOLOGY)
    kai.annotate(TOPOLOGY, "other")
    kai.annotate(MIN_MEMBER, "2")

    answer = kai.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on other, a gang
          train: required shelf; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [("the Topology that KAI reads is unknown: ClusterTopology other is used instead")]
    assert answer.verdict == FITS_ON_SHELF


def test_other_cluster_topology_names_the_levels_it_publishes(kai: CheckedCluster) -> None:
    kai.apply(OTHER_CLUSTER_TOPOLOGY)
    kai.apply("""
        apiVersion: kai.scheduler/v1alpha1
        kind: Topology
        metadata: {name: other}
        spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
    """)
    kai.annotate(TOPOLOGY, "other")
    kai.annotate(MIN_MEMBER, "2")

    answer = kai.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on other, a gang
          train: required shelf; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_ON_SHELF


def test_topology_in_the_same_file_stands_for_itself(kai: CheckedCluster) -> None:
    kai.delete("ClusterTopology/cluster", "Topology/cluster")
    kai.annotate(REQUIRED, "shelf")
    kai.annotate(MIN_MEMBER, "2")
    kai.put_beside(SHELF_TOPOLOGY)

    answer = kai.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, a gang
          train: required shelf; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_ON_SHELF


def test_unlabelled_nodes_stand_in_for_nothing_where_kai_is_served(kai: CheckedCluster) -> None:
    kai.objects.clear()
    kai.apply(UNLABELLED_NODE)

    answer = kai.check(served={"topologies.kai.scheduler": True})

    assert answer.findings == [no_kai_topology("")]
    assert answer.verdict == ""


def test_unlabelled_nodes_stand_in_for_nothing(kai: CheckedCluster) -> None:
    kai.objects.clear()
    kai.apply(UNLABELLED_NODE)

    answer = kai.check()

    assert answer.findings == [no_kai_topology("")]
    assert answer.verdict == ""


def test_topology_in_the_same_file_counts_as_applied(kai: CheckedCluster) -> None:
    kai.delete("ClusterTopology/cluster", "Topology/cluster")
    kai.annotate(REQUIRED, "shelf")
    kai.put_beside(SHELF_TOPOLOGY)

    answer = kai.check(served={"topologies.kai.scheduler": True})

    assert answer.findings == [STARTS_ONE_BY_ONE]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one
          train: required shelf; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_ON_SHELF
