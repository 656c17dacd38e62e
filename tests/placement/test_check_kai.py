"""What KAI does whatever the topology: queues, taints, closed nodes, minimal replicas, and which Topology it reads."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster
from tests.support.checking import Finding, error
from tests.support.documents import text

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RACK = "example.com/rack"
QUEUE = "kai.scheduler/queue"
MIN_MEMBER = "kai.scheduler/batch-min-member"
PREEMPTIBILITY = "metadata.labels[kai.scheduler/preemptibility]"
QUEUE_LABEL = "metadata.labels[kai.scheduler/queue]"
PRIORITY_CLASS = "spec.template.spec.priorityClassName"
TOLERATIONS = "spec.template.spec.tolerations"
MIN_AVAILABLE = "spec.template.cliques[0].spec.minAvailable"
OSMO_TOPOLOGY = "osmo-pool-ns-p-topology"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service:NoExecute"
TWO_PODS_FIT = "fits: 2 pods on 2 nodes"
FITS_IN_RACK = "fits: rack r1 (2 nodes, 16 free GPUs)"
FITS_ON_SHELF = "fits: shelf r1 (2 nodes, 16 free GPUs)"
NEVER_16_OF_8 = "cannot fit: train needs 16 GPUs, the nodes it may use have 8"
NOT_NOW_16_OF_8 = "does not fit now: train needs 16 GPUs, the nodes it may use have 8"
POOL_NOTE = (
    "OSMO's pod templates may restrict the pool's platforms to some nodes; they are unknown here, so all nodes count"
)


@pytest.fixture
def two_nodes() -> CheckedCluster:
    """Two nodes, and a gang of two pods that tolerate everything and ask for no topology."""
    return CheckedCluster("placement/clusters/two-nodes", "placement/kai-job-anywhere")


@pytest.fixture
def dynamo() -> CheckedCluster:
    """Two nodes in a rack, Grove's binding and KAI's Topology; a graph of three replicas."""
    return CheckedCluster("placement/clusters/grove-and-kai", "placement/dynamo-graph")


@pytest.fixture
def grove() -> CheckedCluster:
    """The same with a PodCliqueSet of three replicas of which two have to start."""
    return CheckedCluster("placement/clusters/grove-and-kai", "placement/grove-replicas")


@pytest.fixture
def osmo() -> CheckedCluster:
    """The same with a workflow of OSMO's, and its pool p in the same file."""
    return CheckedCluster("placement/clusters/grove-and-kai", "placement/osmo-workflow", beside="placement/osmo-pool")


@pytest.fixture
def queue() -> CheckedCluster:
    """Two nodes; the queue team with a quota of 8 GPUs below the queue all with a limit of 16; a gang of 16 GPUs."""
    return CheckedCluster("placement/clusters/kai-queues", "placement/kai-job-in-queue")


QUEUE_LABEL = "metadata.labels[kai.scheduler/queue]"


def no_queue(name: str, *, fix: str, field: str = QUEUE_LABEL) -> Finding:
    """KAI does not know the queue."""
    return error("kai/queue", field, f"Queue '{name}' does not exist", fix=fix)


def osmo_topology(message: str, *, fix: str) -> Finding:
    """KAI has no Topology of OSMO's that would do."""
    return error("osmo/kai-topology", "workflow.pool", f"{message}, so it starts no task with a requirement", fix=fix)


def grove_topology(message: str, *, fix: str) -> Finding:
    """KAI has no Topology of Grove's that would do."""
    return error("grove/kai-topology", "", f"{message}, so it cannot keep Grove's pods together", fix=fix)


def priority_class(name: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 50,
    }


def levels(*keys: str) -> list[Object]:
    """Levels of a Topology."""
    return [{"nodeLabel": key} for key in keys]


def test_gang_fits_within_the_limits_of_its_queues(queue: CheckedCluster) -> None:
    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_what_the_parent_queue_has_allocated_counts(queue: CheckedCluster) -> None:
    queue.edit("Queue/all", "status.allocated", {GPU: "2", "cpu": "500m"})

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: KAI's queue all has a limit of 16 GPUs, 2 GPUs of it allocated, and this requests 16 GPUs"
    )


def test_limit_of_the_parent_queue_binds(queue: CheckedCluster) -> None:
    queue.edit("Queue/all", "spec.resources.gpu.limit", 12)

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI's queue all has a limit of 12 GPUs, 0 GPUs of it allocated, and this requests 16 GPUs"
    )


@pytest.mark.regression
def test_queue_with_queues_below_it_takes_no_pods(queue: CheckedCluster) -> None:
    queue.edit_workload("metadata.labels", {"kai.scheduler/queue": "all"})

    answer = queue.check()

    assert answer.findings == [
        error(
            "kai/queue-leaf",
            QUEUE_LABEL,
            "queue all has child queues, so KAI schedules nothing in it",
            fix="name one of the queues below it: team",
        )
    ]


@pytest.mark.regression
def test_parts_of_gpus_fit_where_gpus_are_free_only(queue: CheckedCluster) -> None:
    queue.edit_workload("spec.template.metadata.annotations", {"gpu-fraction": "0.5"})
    queue.edit_workload("spec.template.spec.containers[0].resources.limits", None)
    queue.run("other/p", on="n0", requests={GPU: "8"})
    queue.run("other/q", on="n1", requests={GPU: "7"})
    assert queue.check().verdict == "fits: 2 pods on 1 node"

    queue.pods(3)
    queue.annotate(MIN_MEMBER, "3")

    assert queue.check().verdict == "does not fit now: train needs 3 x 0.5 gpu, the nodes it may use have 2"


@pytest.mark.regression
def test_parts_of_gpus_count_towards_the_limit_of_a_queue(queue: CheckedCluster) -> None:
    queue.edit_workload("spec.template.metadata.annotations", {"gpu-fraction": "0.75"})
    queue.edit_workload("spec.template.spec.containers[0].resources.limits", None)
    queue.edit("Queue/all", "spec.resources.gpu.limit", 1)

    assert queue.check().verdict == (
        "cannot fit: KAI's queue all has a limit of 1 GPU, 0 GPUs of it allocated, and this requests 1.5 GPUs"
    )


@pytest.mark.regression
def test_parts_of_gpus_of_several_sizes_are_unclear_without_gpus_for_all(queue: CheckedCluster) -> None:
    queue.submit("""
        apiVersion: scheduling.run.ai/v2alpha2
        kind: PodGroup
        metadata: {name: train, namespace: ml}
        spec: {queue: team, minMember: 2}
    """)
    for name, annotation in (("a", {"gpu-fraction": "0.5"}), ("b", {"gpu-fraction": "0.4"})):
        queue.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "ml", "annotations": {"pod-group-name": "train", **annotation}},
                "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c"}]},
                "status": {"phase": "Pending"},
            }
        )
    queue.run("other/p", on="n0", requests={GPU: "8"})
    queue.run("other/q", on="n1", requests={GPU: "6"})
    assert queue.check().verdict == "fits: 2 pods on 1 node"

    queue.run("other/r", on="n1", requests={GPU: "1"})

    assert queue.check().verdict == (
        "unclear: it is unknown which GPUs its pods share: they request different fractions of GPUs, and there is "
        "no room for each on its own GPU"
    )


def test_limit_of_memory_is_in_megabytes(queue: CheckedCluster) -> None:
    queue.edit("Queue/team", "spec.resources.memory.limit", 8000)

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI's queue team has a limit of 7.5 GiB of memory, 0 bytes of memory of it allocated, and this "
        "requests 8 GiB of memory"
    )


def test_queue_without_resources_has_a_limit_of_none(queue: CheckedCluster) -> None:
    queue.edit("Queue/team", "spec.resources", None)

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI's queue team has a limit of 0 GPUs, 0 GPUs of it allocated, and this requests 16 GPUs"
    )


def test_nodes_count_before_the_limit_of_a_queue(queue: CheckedCluster) -> None:
    queue.edit("Queue/all", "spec.resources.gpu.limit", 12)
    queue.edit_workload("metadata.annotations", {MIN_MEMBER: "3"})
    queue.pods(3)

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 24 GPUs, the nodes it may use have 16"


def test_build_priority_is_bound_by_the_quota(queue: CheckedCluster) -> None:
    queue.edit_workload(PRIORITY_CLASS, "build")

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI's queue team has a quota of 8 GPUs, 0 GPUs of it allocated, and this requests 16 GPUs; "
        "preemptible workloads may go beyond it"
    )


def test_allocated_non_preemptible_counts_against_the_quota(queue: CheckedCluster) -> None:
    queue.edit_workload(PREEMPTIBILITY, "non-preemptible")
    queue.edit("Queue/team", "spec.resources.gpu.quota", 20)
    queue.edit("Queue/team", "status.allocatedNonPreemptible", {GPU: 5})

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: KAI's queue team has a quota of 20 GPUs, 5 GPUs of it allocated, and this requests 16 "
        "GPUs; preemptible workloads may go beyond it"
    )


def test_preemptible_label_frees_build_priority_from_the_quota(queue: CheckedCluster) -> None:
    queue.edit_workload(PRIORITY_CLASS, "build")
    queue.edit_workload(PREEMPTIBILITY, "preemptible")
    queue.add(priority_class("build"))

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_own_priority_class_is_not_bound_by_the_quota(queue: CheckedCluster) -> None:
    queue.edit_workload(PRIORITY_CLASS, "mine")
    queue.add(priority_class("mine"))

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_misspelled_queue_suggests_the_right_one(queue: CheckedCluster) -> None:
    queue.edit_workload(QUEUE_LABEL, "tema")

    answer = queue.check()

    assert answer.findings == [no_queue("tema", fix="did you mean 'team'?")]
    assert answer.verdict == TWO_PODS_FIT


def test_workload_without_queue_goes_to_the_default_queue(queue: CheckedCluster) -> None:
    queue.edit_workload(QUEUE_LABEL, None)

    answer = queue.check()

    assert answer.findings == [no_queue("default-queue", fix="there are: all, team")]
    assert answer.verdict == TWO_PODS_FIT


def test_queue_whose_parent_is_missing_does_not_exist(queue: CheckedCluster) -> None:
    queue.delete("Queue/all")

    answer = queue.check()

    assert answer.findings == [no_queue("team", fix="its parent all does not exist, so KAI ignores the queue")]
    assert answer.verdict == TWO_PODS_FIT


def test_label_project_names_a_queue(queue: CheckedCluster) -> None:
    queue.edit_workload("metadata.labels", {"project": "team"})
    queue.edit("Queue/team", "spec.resources.gpu.limit", 8)

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI's queue team has a limit of 8 GPUs, 0 GPUs of it allocated, and this requests 16 GPUs"
    )


def test_label_queue_counts_before_label_project(queue: CheckedCluster) -> None:
    queue.edit_workload("metadata.labels", {"project": "other", QUEUE: "team"})

    answer = queue.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_node_pool_is_part_of_the_name_of_the_queue(queue: CheckedCluster) -> None:
    queue.edit_workload("metadata.labels", None)
    queue.edit_workload("spec.template.metadata.labels", {"project": "team", "kai.scheduler/node-pool": "a"})

    answer = queue.check()

    assert answer.findings == [
        no_queue("team-a", fix="did you mean 'team'?", field="spec.template.metadata.labels.project")
    ]
    assert answer.verdict == (
        "unclear: spec.template.metadata.labels[kai.scheduler/node-pool] is not read; "
        "without it: fits: 2 pods on 2 nodes"
    )


def test_osmo_without_the_topology_of_its_pool_is_an_error(osmo: CheckedCluster) -> None:
    answer = osmo.check()

    assert answer.findings == [
        osmo_topology(
            "KAI has no Topology of pool p (osmo-pool-p-topology)",
            fix="OSMO creates it from the pool's topology_keys: osmo config show POOL NAME",
        )
    ]
    assert answer.verdict == ""


def test_osmo_with_the_topology_of_its_pool_fits(osmo: CheckedCluster) -> None:
    osmo.edit("Topology/cluster", "metadata.name", OSMO_TOPOLOGY)

    answer = osmo.check()

    assert answer.findings == []
    assert answer.verdict == FITS_ON_SHELF


def test_osmo_topology_that_lacks_a_level_is_an_error(osmo: CheckedCluster) -> None:
    osmo.edit("Topology/cluster", "metadata.name", OSMO_TOPOLOGY)
    osmo.edit("Topology/cluster", "spec.levels", levels("kubernetes.io/hostname"))

    answer = osmo.check()

    assert answer.findings == [
        osmo_topology(
            "KAI's Topology osmo-pool-ns-p-topology lacks example.com/rack",
            fix="OSMO creates it again when the pool's topology_keys change: osmo config show POOL NAME",
        )
    ]
    assert answer.verdict == ""


def test_osmo_pool_without_a_name_takes_the_default_topology(osmo: CheckedCluster) -> None:
    osmo.edit("p", "name", None)

    answer = osmo.check()

    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/w on osmo-pool-topology, a gang
          group t
            shelf group default: required shelf; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [POOL_NOTE]
    assert answer.verdict == FITS_ON_SHELF


def test_osmo_without_kai_asks_whether_it_is_installed(osmo: CheckedCluster) -> None:
    osmo.delete("Topology/cluster")
    osmo.edit("p", "name", None)

    answer = osmo.check(served={"topologies.kai.scheduler": False})

    assert answer.findings == [
        osmo_topology(
            "KAI has no Topology (osmo-pool-*-topology)",
            fix="the cluster does not serve topologies.kai.scheduler: is KAI installed?",
        )
    ]
    assert answer.verdict == ""


def test_osmo_on_one_host_needs_a_preferred_level(osmo: CheckedCluster) -> None:
    osmo.edit("Topology/cluster", "metadata.name", OSMO_TOPOLOGY)
    osmo.label_node("n1", RACK, None)

    answer = osmo.check()

    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/w on osmo-pool-ns-p-topology, a gang
          group t
            shelf group default: required shelf; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [POOL_NOTE]
    assert answer.verdict == (
        "cannot fit: KAI 0.17 finds no shelf for shelf group default: all nodes that it considers are in one host "
        "(n0), and without a preferred level it looks no higher; also prefer example.com/rack"
    )


def test_dynamo_replicas_beyond_the_minimum_need_no_room(dynamo: CheckedCluster) -> None:
    answer = dynamo.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm: required rack
            component decode: 3 decode (nvidia.com/gpu=8)
          at once: llm: required rack
                     component decode: 1 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 1 of 3 pods: KAI starts these together, and the others if there is room"
    ]
    assert answer.verdict == FITS_IN_RACK


def test_dynamo_minimum_of_all_replicas_needs_room(dynamo: CheckedCluster) -> None:
    dynamo.edit_workload("spec.components[0].minAvailable", 3)

    answer = dynamo.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: llm needs 24 GPUs in one rack, largest has 16 (r1)"


def test_grove_replicas_beyond_the_minimum_need_no_room(grove: CheckedCluster) -> None:
    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_grove_replicas_beyond_the_minimum_are_placed_where_there_is_room(grove: CheckedCluster) -> None:
    grove.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: n2, labels: {kubernetes.io/hostname: n2, example.com/rack: r1}}
        spec: {}
        status:
          allocatable: {nvidia.com/gpu: '8', cpu: '64', memory: 1024Gi, pods: '110'}
          conditions: [{type: Ready, status: 'True'}]
    """)

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == "fits: rack r1 (3 nodes, 24 free GPUs)"
    assert answer.json["verdict"]["placement"][0]["nodes"] == {"n0": 1, "n1": 1, "n2": 1}


def test_grove_without_minimum_needs_room_for_all(grove: CheckedCluster) -> None:
    grove.edit_workload(MIN_AVAILABLE, None)

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: llm needs 24 GPUs in one rack, largest has 16 (r1)"


def test_grove_without_the_topology_of_kai_is_an_error(grove: CheckedCluster) -> None:
    grove.edit("Topology/cluster", "metadata.name", "other")

    answer = grove.check()

    assert answer.findings == [
        grove_topology(
            "KAI has no Topology cluster",
            fix=(
                "Grove's operator creates it from the binding with KAI v0.12 or later; otherwise let Toposcope "
                "create it (spec.publish.kai)"
            ),
        )
    ]
    assert answer.verdict == FITS_IN_RACK


def test_grove_topology_that_lacks_the_required_level_is_an_error(grove: CheckedCluster) -> None:
    grove.edit("Topology/cluster", "spec.levels", levels("kubernetes.io/hostname"))

    answer = grove.check()

    assert answer.findings == [
        grove_topology(
            "KAI's Topology cluster lacks example.com/rack",
            fix="give it the levels of clustertopologybinding.grove.io/cluster",
        )
    ]
    assert answer.verdict == FITS_IN_RACK


def test_grove_topology_that_lacks_both_levels_names_them(grove: CheckedCluster) -> None:
    grove.edit("Topology/cluster", "spec.levels", levels("example.com/zone"))
    grove.edit_workload("spec.template.topologyConstraint.pack.preferred", "host")

    answer = grove.check()

    assert answer.findings == [
        grove_topology(
            "KAI's Topology cluster lacks example.com/rack, kubernetes.io/hostname",
            fix="give it the levels of clustertopologybinding.grove.io/cluster",
        )
    ]
    assert answer.verdict == FITS_IN_RACK


def test_grove_binding_that_refers_to_another_topology_is_an_error(grove: CheckedCluster) -> None:
    grove.edit(
        "ClusterTopologyBinding/cluster",
        "spec.schedulerTopologyBindings",
        [{"schedulerName": "kai-scheduler", "topologyReference": "other"}],
    )

    answer = grove.check()

    assert answer.findings == [
        grove_topology(
            "KAI has no Topology other",
            fix=(
                "Grove's operator creates it from the binding with KAI v0.12 or later; otherwise let Toposcope "
                "create it (spec.publish.kai)"
            ),
        )
    ]
    assert answer.verdict == FITS_IN_RACK


def test_grove_level_that_no_node_carries_keeps_all_nodes_out(grove: CheckedCluster) -> None:
    grove.edit(
        "ClusterTopologyBinding/cluster",
        "spec.levels",
        [{"domain": "rack", "key": RACK}, {"domain": "shelf", "key": "example.com/shelf"}],
    )

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: no node carries example.com/shelf, a level of ClusterTopologyBinding cluster, "
        "and KAI leaves out every node that lacks a level"
    )


def test_grove_topology_that_is_not_known_is_taken_from_the_binding(grove: CheckedCluster) -> None:
    grove.delete("Topology/cluster")

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_grove_domain_that_does_not_exist_is_reported_alone(grove: CheckedCluster) -> None:
    grove.edit("Topology/cluster", "metadata.name", "other")
    grove.edit_workload("spec.template.topologyConstraint.pack.required", "shelf")

    answer = grove.check()

    assert answer.findings == [
        error(
            "grove/domain-exists",
            "spec.template.topologyConstraint.pack.required",
            "topology domain 'shelf' does not exist in cluster topology [rack host]",
            fix="there are: host, rack",
        )
    ]
    assert answer.verdict == ""


def test_kai_job_ignores_the_binding_of_grove(two_nodes: CheckedCluster) -> None:
    two_nodes.apply("""
        apiVersion: grove.io/v1alpha1
        kind: ClusterTopologyBinding
        metadata: {name: cluster}
        spec:
          levels: [{domain: rack, key: example.com/rack}]
          schedulerTopologyBindings: [{schedulerName: kai-scheduler, topologyReference: other}]
    """)
    two_nodes.apply("""
        apiVersion: kai.scheduler/v1alpha1
        kind: Topology
        metadata: {name: cluster}
        spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
    """)
    two_nodes.edit_workload(
        "metadata.annotations",
        {MIN_MEMBER: "2", "kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": RACK},
    )

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"


def test_taint_that_keeps_a_gang_out_is_named_with_the_toleration(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "team=x:NoSchedule")
    two_nodes.edit_workload(TOLERATIONS, [])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NEVER_16_OF_8
    assert answer.advice == [
        "would fit if its pods tolerated taint team=x:NoSchedule of 1 node: n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "team", operator: "Equal", value: "x", effect: "NoSchedule"}',
    ]


def test_pod_that_fits_elsewhere_needs_no_toleration(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "team=x:NoSchedule")
    two_nodes.edit_workload(TOLERATIONS, [])
    two_nodes.pods(1)
    two_nodes.edit_workload("metadata.annotations", {MIN_MEMBER: "1"})

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 1 pod on 1 node"
    assert answer.advice == []


def test_toleration_and_drain_are_both_advised(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "team=x:NoSchedule")
    two_nodes.edit_workload(TOLERATIONS, [])
    two_nodes.pods(1)
    two_nodes.edit_workload("metadata.annotations", {MIN_MEMBER: "1"})
    two_nodes.run("other/p", on="n0", requests={GPU: "4"})

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: a pod of train needs 8 GPUs, and no node that it may use has more than 4 free (n0)"
    )
    assert answer.advice == [
        "would fit if its pods tolerated taint team=x:NoSchedule of 1 node: n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "team", operator: "Equal", value: "x", effect: "NoSchedule"}',
        "would fit if 1 node of the cluster were drained of other/p: n0",
    ]


def test_only_taints_of_nodes_that_match_the_selector_are_named(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n0", "team=x:NoSchedule")
    two_nodes.taint("n1", "known:NoSchedule", "idle:NoExecute")
    two_nodes.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}
        spec: {taints: [{key: odd, effect: NoSchedule}]}
        status:
          allocatable: {nvidia.com/gpu: '8', cpu: '64', memory: 1024Gi, pods: '110'}
          conditions: [{type: Ready, status: 'True'}]
    """)
    two_nodes.edit_workload("spec.template.spec.nodeSelector", {RACK: "r1"})
    two_nodes.edit_workload(TOLERATIONS, [{"key": "known", "operator": "Exists"}])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 16 GPUs, the nodes it may use have none"
    assert answer.advice == [
        "would fit if its pods tolerated taints team=x:NoSchedule, idle:NoExecute of 2 nodes: n0, n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "team", operator: "Equal", value: "x", effect: "NoSchedule"}',
        '    - {key: "idle", operator: "Exists", effect: "NoExecute"}',
    ]


def test_fewest_taints_are_advised(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n0", "team=x:NoSchedule", "idle:NoExecute")
    two_nodes.taint("n1", "idle:NoExecute")
    two_nodes.annotate(MIN_MEMBER, "1")
    two_nodes.pods(1)
    two_nodes.edit_workload(TOLERATIONS, [])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 8 GPUs, the nodes it may use have none"
    assert answer.advice == [
        "would fit if its pods tolerated taint idle:NoExecute of 2 nodes: n0, n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "idle", operator: "Exists", effect: "NoExecute"}',
    ]


def test_taint_for_a_node_out_of_service_is_not_to_be_tolerated(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", OUT_OF_SERVICE)
    two_nodes.edit_workload(TOLERATIONS, [])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NEVER_16_OF_8
    assert answer.advice == []


def test_taint_beside_a_node_out_of_service_does_not_help(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n0", "team:NoSchedule")
    two_nodes.taint("n1", OUT_OF_SERVICE)
    two_nodes.edit_workload(TOLERATIONS, [])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 16 GPUs, the nodes it may use have none"
    assert answer.advice == []


def test_taint_that_keeps_grove_out_is_named(grove: CheckedCluster) -> None:
    grove.taint("n1", "team:NoSchedule")

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: llm needs 16 GPUs in one rack, largest has 8 (r1)"
    assert answer.advice == [
        "would fit if its pods tolerated taint team:NoSchedule of 1 node: n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "team", operator: "Exists", effect: "NoSchedule"}',
    ]


def test_dynamo_without_replicas_has_nothing_to_place(dynamo: CheckedCluster) -> None:
    dynamo.edit_workload("spec.components[0].replicas", 0)

    answer = dynamo.check()

    assert answer.findings == []
    assert answer.verdict == ""


def test_grove_clique_without_replicas_is_an_error(grove: CheckedCluster) -> None:
    grove.edit_workload("spec.template.cliques[0].spec.replicas", 0)
    grove.edit_workload(MIN_AVAILABLE, 0)

    answer = grove.check()

    assert answer.findings == [
        error("grove/replicas", MIN_AVAILABLE, "must be greater than 0", fix="write 1 or more"),
    ]


@pytest.mark.regression
def test_grove_makes_one_replica_of_none_that_must_start(grove: CheckedCluster) -> None:
    grove.edit_workload("spec.template.cliques[0].spec.replicas", 0)
    grove.edit_workload(MIN_AVAILABLE, 1)

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == "fits: rack r1 (2 nodes, 16 free GPUs)"


@pytest.mark.regression
def test_grove_set_fits_where_the_minimum_of_a_group_starts(grove: CheckedCluster) -> None:
    grove.edit_workload(
        "spec.template.podCliqueScalingGroups",
        [{"name": "group", "cliqueNames": ["decode"], "replicas": 4, "minAvailable": 1}],
    )
    grove.edit_workload("spec.template.cliques[0].spec.replicas", 1)
    grove.edit_workload(MIN_AVAILABLE, 1)

    answer = grove.check()

    assert answer.findings == []
    assert answer.verdict == "fits: rack r1 (2 nodes, 16 free GPUs)"
    assert answer.notes[-1] == "3 more pods wait for room; those that have to start together fit without them"


def test_gang_without_a_topology_fits_anywhere(two_nodes: CheckedCluster) -> None:
    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml, a gang
          train: 2 pods (nvidia.com/gpu=8) on nodes with tolerates Exists
    """)
    assert answer.notes == []
    assert answer.verdict == TWO_PODS_FIT


def test_affinity_to_the_name_of_a_node_counts(two_nodes: CheckedCluster) -> None:
    two_nodes.edit_workload("metadata.annotations", {MIN_MEMBER: "1"})
    two_nodes.pods(1)
    two_nodes.edit_workload(
        "spec.template.spec.affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            }
        },
    )

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 1 pod on 1 node"
    assert answer.explanation == ["train: 1 pod in n1", "1 node is left out: does not match the node affinity (n0)"]


def test_pods_without_gpus_go_to_nodes_without_gpus(two_nodes: CheckedCluster) -> None:
    two_nodes.edit("Node/n1", "status.allocatable", {"cpu": "64", "memory": "64Gi", "pods": "110"})
    two_nodes.submit("""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train, namespace: ml}
        spec:
          replicatedJobs:
            - name: a
              replicas: 1
              template:
                spec:
                  parallelism: 1
                  template:
                    spec:
                      schedulerName: kai-scheduler
                      containers: [{name: c, resources: {limits: {cpu: '40'}}}]
            - name: b
              replicas: 1
              template:
                spec:
                  parallelism: 1
                  template:
                    spec:
                      schedulerName: kai-scheduler
                      containers: [{name: c, resources: {limits: {nvidia.com/gpu: '8', cpu: '40'}}}]
    """)

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_kai_leaves_out_cordoned_nodes(two_nodes: CheckedCluster) -> None:
    two_nodes.cordon("n1")

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NOT_NOW_16_OF_8
    assert answer.explanation == ["1 node is left out: is cordoned (n1)"]


def test_kai_leaves_out_nodes_under_pressure(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "node.kubernetes.io/disk-pressure:NoSchedule")

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NOT_NOW_16_OF_8
    assert answer.explanation == ["1 node is left out: is under pressure (n1)"]


def test_kai_leaves_out_nodes_that_are_not_ready(two_nodes: CheckedCluster) -> None:
    two_nodes.edit("Node/n1", "status.conditions", [{"type": "Ready", "status": "Unknown"}])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NOT_NOW_16_OF_8
    assert answer.explanation == ["1 node is left out: is not Ready (n1)"]


def test_tolerated_taint_of_gpu_nodes_keeps_nothing_out(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "nvidia.com/gpu=present:NoSchedule")

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_kube_scheduler_lets_pods_tolerate_a_cordon(two_nodes: CheckedCluster) -> None:
    two_nodes.cordon("n1")
    two_nodes.edit_workload("spec.template.spec.schedulerName", "default-scheduler")

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == TWO_PODS_FIT


def test_json_has_the_tolerations(two_nodes: CheckedCluster) -> None:
    two_nodes.taint("n1", "team=x:NoSchedule", "other:NoExecute")
    two_nodes.edit_workload(TOLERATIONS, [])

    answer = two_nodes.check()

    assert answer.findings == []
    assert answer.verdict == NEVER_16_OF_8
    assert answer.json["topology"] is None
    assert answer.json["verdict"] == {
        "kind": "never",
        "answer": NEVER_16_OF_8,
        "domains": None,
        "best": None,
        "shortage": {
            "group": "train",
            "level": None,
            "counted": "resource",
            "resource": GPU,
            "needs": 16,
            "largest": 8,
            "domain": "the cluster",
            "copies": 1,
            "roomFor": 0,
        },
        "remedies": [
            {
                "act": "tolerate",
                "domain": "the cluster",
                "nodes": ["n1"],
                "pods": [],
                "tolerations": [
                    {"key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
                    {"key": "other", "operator": "Exists", "effect": "NoExecute"},
                ],
            }
        ],
        "placement": [],
        "leftOut": {"has taint team=x:NoSchedule": 1},
    }


GROUPED = """
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: ml, annotations: {pod-group-name: train}}
    spec: {schedulerName: kai-scheduler, containers: [{name: c}]}
"""
POD_GROUP = """
    apiVersion: scheduling.run.ai/v2alpha2
    kind: PodGroup
    metadata: {name: train, namespace: ml}
    spec: {queue: team, minMember: 1}
"""


@pytest.mark.regression
def test_pod_of_an_unknown_pod_group_is_unclear(queue: CheckedCluster) -> None:
    queue.submit(GROUPED)
    assert queue.check().verdict == (
        "unclear: KAI schedules these pods with PodGroup train, which is not checked with them, so its queue and its "
        "other pods are unknown"
    )


@pytest.mark.regression
def test_pod_of_a_pod_group_beside_it_is_left_to_that(queue: CheckedCluster) -> None:
    queue.put_beside(POD_GROUP)
    queue.submit(GROUPED)
    assert queue.check().verdict == ""

    queue.put_beside(GROUPED)
    queue.submit(POD_GROUP)
    assert queue.check().verdict == "fits: 1 pod on 1 node"


@pytest.mark.regression
def test_quota_binds_grove_in_its_queue_by_priority_class(grove: CheckedCluster) -> None:
    for name, parent in (("all", ""), ("default-queue", "all")):
        grove.add(
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {
                    "parentQueue": parent,
                    "resources": {
                        "gpu": {"quota": 8, "limit": -1},
                        "cpu": {"quota": -1, "limit": -1},
                        "memory": {"quota": -1, "limit": -1},
                    },
                },
            }
        )
    assert grove.check().verdict == "fits: rack r1 (2 nodes, 16 free GPUs)"

    grove.edit_workload("spec.template.priorityClassName", "inference")

    assert grove.check().verdict == (
        "cannot fit: KAI's queue default-queue has a quota of 8 GPUs, 0 GPUs of it allocated, and this requests 16 "
        "GPUs; preemptible workloads may go beyond it"
    )
