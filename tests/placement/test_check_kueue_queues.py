"""Whether a workload of Kueue's is admitted: the chain from its queue to the nodes, quota, and who holds what."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster
from tests.support.checking import error, warning
from tests.support.documents import text
from tests.support.kueue_objects import (
    BOTH_ON_N0,
    ONE_ON_EACH,
    ONE_ON_N0,
    admitted,
    flavor,
    lender,
    pod_of_workload,
    quotas,
)

pytestmark = pytest.mark.regression

Object = dict[str, Any]
SERVED = {"topologies.kueue.x-k8s.io": True}
BLOCK = "example.com/block"
RACK = "example.com/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
SLICE_LEVEL = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
QUEUE_NAME = "metadata.labels[kueue.x-k8s.io/queue-name]"
FLAVORS = "spec.resourceGroups[0].flavors"
GPU_QUOTA = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"
FITS_IN_R1 = "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"
QUOTA_OF_8 = (
    "cannot fit: ClusterQueue cq has a quota of at most 8 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
)
QUOTA_OF_12 = (
    "cannot fit: ClusterQueue cq has a quota of at most 12 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
)
LARGEST_HAS_8 = "does not fit now: pod set pods needs 16 GPUs in one example.com/rack, largest has 8 (r1)"


@pytest.fixture
def kueue() -> CheckedCluster:
    """Two nodes in a rack, and a queue whose flavor places a Job of two pods on them."""
    return CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job", served=SERVED)


def default_memory(namespace: str) -> Object:
    """A LimitRange that gives each container 40 GiB of memory."""
    limits = [{"type": "Container", "defaultRequest": {"memory": "40Gi"}}]
    metadata = {"name": "r", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}


def node(name: str, *, pool: str, rack: str = "r1", **spec: Any) -> Object:
    """A Ready node with 8 GPUs."""
    labels = {"kubernetes.io/hostname": name, "pool": pool, RACK: rack}
    status = {
        "allocatable": {GPU: "8", "cpu": "64", "memory": "64Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    item: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    return {**item, "spec": spec} if spec else item


def test_flavor_of_the_nodes_has_room(kueue: CheckedCluster) -> None:
    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_flavor_of_other_nodes_has_no_room(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.nodeLabels.pool", "b")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: pod set pods needs 16 GPUs in one example.com/rack, largest has none"


def test_taint_that_pods_do_not_tolerate_is_named(kueue: CheckedCluster) -> None:
    kueue.taint("n0", GPU_TAINT)
    kueue.taint("n1", GPU_TAINT)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: pod set pods needs 16 GPUs in one example.com/rack, largest has none"
    assert answer.advice == [
        "would fit if its pods tolerated taint nvidia.com/gpu=present:NoSchedule of 2 nodes: n0, n1",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "nvidia.com/gpu", operator: "Equal", value: "present", effect: "NoSchedule"}',
    ]


def test_too_little_quota_counts_before_nodes_of_other_pools(kueue: CheckedCluster) -> None:
    kueue.add(node("n2", pool="b"))
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == QUOTA_OF_8
    assert answer.advice == []


def test_too_little_quota_counts_before_taints(kueue: CheckedCluster) -> None:
    kueue.add(node("n2", pool="a", taints=[{"key": "team", "effect": "NoSchedule"}]))
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == QUOTA_OF_8
    assert answer.advice == []


def test_taint_that_the_flavor_tolerates_leaves_room(kueue: CheckedCluster) -> None:
    kueue.taint("n0", GPU_TAINT)
    kueue.taint("n1", GPU_TAINT)
    kueue.edit("ResourceFlavor/f", "spec.tolerations", [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}])

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_taint_of_the_flavor_keeps_pods_out(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.nodeTaints", [{"key": "team", "value": "x", "effect": "NoSchedule"}])

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: flavor f has taint team=x:NoSchedule, which pods do not tolerate"


def test_taint_that_the_flavor_tolerates_itself_is_ignored(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.nodeTaints", [{"key": "team", "value": "x", "effect": "NoSchedule"}])
    kueue.edit("ResourceFlavor/f", "spec.tolerations", [{"operator": "Exists"}])

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_second_flavor_is_taken_when_the_first_has_no_nodes(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", FLAVORS, [quotas("full"), quotas("f")])
    kueue.add(flavor("full", pool="b"))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"
    assert answer.explanation == ["pod set pods: 2 pods in n0, n1"]
    assert answer.json["verdict"]["placement"] == [{"group": "pod set pods", "domain": [], "nodes": {"n0": 1, "n1": 1}}]


def test_nearest_flavor_is_explained_when_none_has_room(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", FLAVORS, [quotas("full"), quotas("f")])
    kueue.add(flavor("full", pool="b"))
    kueue.run("other/p", on="n1", requests={GPU: "4"})

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
        or on t
    """)
    assert answer.notes == []
    assert answer.verdict == "does not fit now: pod set pods needs 16 GPUs in one example.com/rack, largest has 12 (r1)"
    assert answer.advice == ["would fit if 1 node of r1 were drained of other/p: n1"]


def test_nodes_in_two_racks_do_not_hold_one_pod_set(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", RACK, "r2")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: pod set pods needs 16 GPUs in one example.com/rack, largest has 8 (r1)"


def test_flavor_without_topology_counts_all_nodes(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.topologyName", None)
    kueue.edit_workload("spec.template.metadata.annotations", None)
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 32 GPUs, the nodes it may use have 16"


def test_local_queue_of_another_namespace_does_not_exist(kueue: CheckedCluster) -> None:
    kueue.edit("LocalQueue/queue", "metadata.namespace", "other")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/queue-exists",
            QUEUE_NAME,
            "LocalQueue queue doesn't exist",
            fix="kubectl get localqueues.kueue.x-k8s.io -A; the namespace of the workload counts",
        )
    ]
    assert answer.verdict == ""


def test_missing_cluster_queue_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit("LocalQueue/queue", "spec.clusterQueue", "no")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/queue-exists",
            QUEUE_NAME,
            "ClusterQueue no doesn't exist",
            fix="LocalQueue queue names it: there are: cq",
        )
    ]
    assert answer.verdict == ""


def test_stopped_local_queue_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit("LocalQueue/queue", "spec.stopPolicy", "Hold")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/queue-stopped",
            QUEUE_NAME,
            "LocalQueue queue is stopped (spec.stopPolicy: Hold)",
            fix="to start it, set spec.stopPolicy to None: kubectl patch localqueue queue -n ml "
            """--type merge -p '{"spec": {"stopPolicy": "None"}}'""",
        )
    ]
    assert answer.verdict == ""


def test_stopped_cluster_queue_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.stopPolicy", "HoldAndDrain")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/queue-stopped",
            QUEUE_NAME,
            "ClusterQueue cq is stopped (spec.stopPolicy: HoldAndDrain)",
            fix="to start it, set spec.stopPolicy to None: kubectl patch clusterqueue cq "
            """--type merge -p '{"spec": {"stopPolicy": "None"}}'""",
        )
    ]
    assert answer.verdict == ""


def test_missing_flavor_makes_the_queue_inactive(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", FLAVORS, [quotas("f"), quotas("g")])

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/flavor-exists",
            QUEUE_NAME,
            "ClusterQueue cq is inactive: references missing ResourceFlavor(s): g",
            fix="there are: f",
        )
    ]
    assert answer.verdict == ""


def test_missing_topology_makes_the_queue_inactive(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.topologyName", "no")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/topology-exists",
            QUEUE_NAME,
            'ClusterQueue cq is inactive: there is no Topology "no" for TAS flavor "f"',
            fix="there are: t",
        )
    ]
    assert answer.verdict == ""


def test_queue_without_namespace_selector_takes_no_namespace(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector", None)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/namespace",
            QUEUE_NAME,
            "the namespace ml doesn't match the namespaceSelector of ClusterQueue cq",
            fix="{} selects every namespace",
        )
    ]
    assert answer.verdict == ""


def test_namespace_that_the_queue_does_not_select_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector.matchLabels", {"kubernetes.io/metadata.name": "other"})

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/namespace",
            QUEUE_NAME,
            "the namespace ml doesn't match the namespaceSelector of ClusterQueue cq",
            fix="{} selects every namespace",
        )
    ]
    assert answer.verdict == ""


def test_level_that_the_topology_lacks_is_an_error(kueue: CheckedCluster) -> None:
    kueue.annotate_pods(REQUIRED, "example.com/shelf")

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/level-exists",
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
            'Flavor "f" does not contain the requested level',
            fix="there are: example.com/rack, kubernetes.io/hostname",
        )
    ]
    assert answer.verdict == ""


def test_flavor_without_topology_takes_no_topology_request(kueue: CheckedCluster) -> None:
    kueue.edit("ResourceFlavor/f", "spec.topologyName", None)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/flavor-topology",
            "spec.template.metadata.annotations",
            'Flavor "f" does not support TopologyAwareScheduling',
            fix="set spec.topologyName on a flavor of ClusterQueue cq, or use another queue",
        )
    ]
    assert answer.verdict == ""


def test_quota_for_the_whole_job_is_enough(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "16")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_quota_below_the_request_never_fits(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "15")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 15 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
    )


def test_quota_counts_before_nodes_that_lack_a_level(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "15")
    kueue.label_node("n1", RACK, None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 15 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
    )
    assert answer.explanation == ["1 node is left out: lacks label example.com/rack (n1)"]


def test_admitted_workload_uses_up_quota(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "24")
    kueue.add(admitted(gpus=8))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: ClusterQueue cq has a quota of 8 nvidia.com/gpu left in flavor f, 16 "
        "nvidia.com/gpu requested"
    )


def test_reclaimable_pods_give_quota_back(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "24")
    kueue.add(
        {
            **admitted(gpus=8),
            "status": {**admitted(gpus=8)["status"], "reclaimablePods": [{"name": "main", "count": 1}]},
        }
    )

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_cohort_lends_quota(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.add(lender(quotas("f", "8")))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_quota_that_the_lender_uses_is_not_lent(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.edit("ClusterQueue/cq", "spec.cohort", "c")
    kueue.add(lender(quotas("f", "8")))
    kueue.add(admitted(gpus=4, queue="lender"))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: ClusterQueue cq has a quota of 8 nvidia.com/gpu left in flavor f, 16 "
        "nvidia.com/gpu requested"
    )


def test_borrowing_limit_of_the_queue_binds(kueue: CheckedCluster) -> None:
    kueue.edit(
        "ClusterQueue/cq",
        "spec.resourceGroups[0].flavors[0].resources[0]",
        {"name": GPU, "nominalQuota": "8", "borrowingLimit": 4},
    )
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.add(lender(quotas("f", "8")))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == QUOTA_OF_12


def test_lending_limit_of_the_cohort_binds(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: lender}
        spec:
          namespaceSelector: {}
          resourceGroups:
            - coveredResources: [nvidia.com/gpu, memory]
              flavors:
                - name: f
                  resources:
                    - {name: nvidia.com/gpu, nominalQuota: '8', lendingLimit: 4}
                    - {name: memory, nominalQuota: 1Ti}
          cohortName: c
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == QUOTA_OF_12


def test_quota_of_a_cohort_above_the_cohort_is_lent(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: c}
        spec: {parentName: top}
    """)
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: top}
        spec:
          namespaceSelector: {}
          resourceGroups:
            - coveredResources: [nvidia.com/gpu, memory]
              flavors:
                - name: f
                  resources:
                    - {name: nvidia.com/gpu, nominalQuota: '8'}
                    - {name: memory, nominalQuota: 1Ti}
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_reservation_in_the_status_counts_where_workloads_are_unknown(kueue: CheckedCluster) -> None:
    kueue.edit(
        "ClusterQueue/cq",
        "status",
        {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "90"}]}]},
    )

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == (
        "does not fit now: ClusterQueue cq has a quota of 10 nvidia.com/gpu left in flavor f, 16 "
        "nvidia.com/gpu requested"
    )


def test_admitted_workload_holds_its_nodes_before_it_has_pods(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == LARGEST_HAS_8


def test_pending_pod_of_an_admitted_workload_counts_once(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0))
    kueue.add(pod_of_workload("p0"))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == LARGEST_HAS_8


def test_own_workload_with_controller_holds_nothing(kueue: CheckedCluster) -> None:
    kueue.add(
        admitted(
            gpus=4, on=BOTH_ON_N0, owner={"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
        )
    )

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_workload_outside_kueue_ignores_admitted_ones(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0))
    kueue.edit_workload("metadata.labels", None)
    kueue.edit_workload("spec.template.metadata", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_two_admitted_workloads_share_a_node(kueue: CheckedCluster) -> None:
    kueue.delete("Node/n1")
    kueue.add(admitted("v", gpus=2, pods=1, on=ONE_ON_N0))
    kueue.add(admitted("w", gpus=2, pods=1, on=ONE_ON_N0))
    kueue.pods(1)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: a pod of pod set pods needs 8 GPUs, and no node that it may use has more than 4 free (n0)"
    )
    assert answer.advice == ["would fit if 1 node of r1 were drained: n0"]


def test_resource_claims_are_unclear_where_kueue_places(kueue: CheckedCluster) -> None:
    kueue.edit_workload("spec.template.spec.resourceClaims", [{"name": "g", "resourceClaimTemplateName": "one"}])

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "unclear: it is unknown which devices the resource claims of its pods get"


def test_running_pods_of_an_admitted_workload_count_once(kueue: CheckedCluster) -> None:
    kueue.add(pod_of_workload("p0", on="n0"))
    kueue.add(pod_of_workload("p1", on="n0"))
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0))
    kueue.pods(1)
    kueue.edit_workload("spec.template.metadata.annotations", None)
    kueue.gpus_per_pod(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: 1 pods (nvidia.com/gpu=4) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == "fits: 1 pod on 1 node"


def test_own_workload_with_domains_holds_nothing(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0, owner={"kind": "Job", "name": "train"}))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_IN_R1


def test_assignment_in_slices_holds_a_pod_on_each_node(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=ONE_ON_EACH))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == (
        "does not fit now: a pod of pod set pods needs 8 GPUs, and no node that it may use has more than 4 free (n0)"
    )


def test_assignment_to_a_rack_holds_a_part_of_it(kueue: CheckedCluster) -> None:
    """A topology that ends with racks: Kueue assigns these, and no nodes."""
    kueue.edit("Topology/t", "spec.levels", [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}])
    kueue.label_node("n0", BLOCK, "b1")
    kueue.label_node("n1", BLOCK, "b1")
    assert kueue.check().verdict == FITS_IN_R1

    kueue.add(admitted(gpus=4, on={"levels": [BLOCK, RACK], "domains": [{"values": ["b1", "r1"], "count": 2}]}))
    assert kueue.check().verdict == (
        "does not fit now: Kueue 0.19 finds no nodes for pod set pods: there is room for 1 of 2 pods"
    )


def test_running_pods_of_an_assignment_in_slices_count_once(kueue: CheckedCluster) -> None:
    kueue.add(pod_of_workload("p0", on="n0"))
    kueue.add(pod_of_workload("p1", on="n1"))
    kueue.add(admitted(gpus=4, on=ONE_ON_EACH))
    kueue.pods(1)
    kueue.edit_workload("spec.template.metadata.annotations", None)
    kueue.gpus_per_pod(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: 1 pods (nvidia.com/gpu=4) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == "fits: 1 pod on 1 node"


def test_own_workload_with_slices_holds_nothing(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=ONE_ON_EACH, owner={"kind": "Job", "name": "train"}))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_IN_R1


def test_pods_without_memory_request_fit(kueue: CheckedCluster) -> None:
    kueue.pods(4)
    kueue.gpus_per_pod(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_default_request_of_the_namespace_counts(kueue: CheckedCluster) -> None:
    kueue.add(default_memory("ml"))
    kueue.pods(4)
    kueue.gpus_per_pod(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: pod set pods needs 160 GiB of memory in one example.com/rack, largest has 128 GiB (r1)"
    )


def test_default_request_of_another_namespace_does_not_count(kueue: CheckedCluster) -> None:
    kueue.add(default_memory("other"))
    kueue.pods(4)
    kueue.gpus_per_pod(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_R1


def test_queue_with_topology_leaves_out_nodes_without_its_levels(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", RACK, None)
    kueue.edit_workload("spec.template.metadata.annotations", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 16 GPUs, the nodes it may use have 8"


def test_one_pod_fits_on_the_node_that_has_the_levels(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", RACK, None)
    kueue.pods(1)
    kueue.edit_workload("spec.template.metadata.annotations", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 1 pod on 1 node"


def test_queue_without_topology_takes_nodes_without_levels(kueue: CheckedCluster) -> None:
    kueue.label_node("n1", RACK, None)
    kueue.edit("ResourceFlavor/f", "spec.topologyName", None)
    kueue.edit_workload("spec.template.metadata.annotations", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_four_pods_without_minimum_do_not_fit(kueue: CheckedCluster) -> None:
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 4 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: pod set pods needs 32 GPUs in one example.com/rack, largest has 16 (r1)"


@pytest.mark.regression
def test_minimum_is_unclear_where_the_quota_is_unknown(kueue: CheckedCluster) -> None:
    for name in list(kueue.objects):
        if not name.startswith("Node/"):
            kueue.delete(name)
    kueue.edit_workload("spec.template.metadata.annotations", None)
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "1"})
    kueue.pods(9)

    answer = kueue.check()

    assert answer.unread == [f"metadata.annotations[{MIN_PARALLELISM}]"]
    assert answer.verdict.startswith(
        f"unclear: metadata.annotations[{MIN_PARALLELISM}] is not read; without it: cannot fit: "
    )


def test_fewer_pods_are_admitted_down_to_the_minimum(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "1"})
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 4 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == ["admitted with 2 of 4 pods: the workload allows fewer (job-min-parallelism)"]
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_minimum_that_finds_no_room_now_does_not_fit(kueue: CheckedCluster) -> None:
    """All of it never fits; fewer pods do once the cluster is empty."""
    kueue.apply("""
        apiVersion: v1
        kind: Pod
        metadata: {name: p, namespace: ml}
        spec:
          nodeName: n0
          containers: [{name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}]
        status: {phase: Running}
    """)
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "2"})
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: Kueue 0.19 finds no nodes for pod set pods: there is room for 1 of 4 pods, and at least "
        "2 must start (job-min-parallelism)"
    )


def test_minimum_of_all_pods_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "4"})
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/min-parallelism",
            "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
            "should be between 0 and 3",
            fix="set the fewest pods that the job can run with, in quotes",
        )
    ]
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 4 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: pod set pods needs 32 GPUs in one example.com/rack, largest has 16 (r1)"


def test_minimum_that_is_no_number_is_an_error(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "--2"})
    kueue.pods(4)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/min-parallelism",
            "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
            "should be between 0 and 3",
            fix="set the fewest pods that the job can run with, in quotes",
        )
    ]
    assert answer.verdict == "cannot fit: pod set pods needs 32 GPUs in one example.com/rack, largest has 16 (r1)"


def test_fewer_pods_than_a_slice_are_never_admitted(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.annotations", {MIN_PARALLELISM: "1"})
    kueue.pods(8)
    kueue.annotate_pods(SLICE_LEVEL, RACK)
    kueue.annotate_pods(SLICE_SIZE, "4")

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: Kueue 0.19 would admit pod set pods with 3 pods, which is less than a slice, so its own API "
        "rejects it: raise job-min-parallelism to the slice size"
    )


def test_pods_that_are_no_multiple_of_the_slice_are_warned_of(kueue: CheckedCluster) -> None:
    kueue.pods(3)
    kueue.annotate_pods(SLICE_LEVEL, RACK)
    kueue.annotate_pods(SLICE_SIZE, "2")

    answer = kueue.check()

    assert answer.findings == [
        warning(
            "kueue/slice-remainder",
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology]",
            "3 pods are no multiple of the slice size 2: Kueue 0.19 assigns nodes to 2 of them",
            fix="make the number of pods a multiple of the slice size",
        )
    ]
    assert answer.verdict == FITS_IN_R1


def test_pod_sets_are_placed_one_after_the_other(kueue: CheckedCluster) -> None:
    kueue.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: n2, labels: {kubernetes.io/hostname: n2, pool: a, example.com/rack: r2}}
        status:
          allocatable: {nvidia.com/gpu: '16', cpu: '8', memory: 64Gi, pods: '110'}
          conditions: [{type: Ready, status: 'True'}]
    """)
    kueue.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: n3, labels: {kubernetes.io/hostname: n3, pool: a}}
        status:
          allocatable: {nvidia.com/gpu: '8', cpu: '64', memory: 64Gi, pods: '110'}
          conditions: [{type: Ready, status: 'True'}]
    """)
    kueue.edit(
        "ClusterQueue/cq",
        "spec.resourceGroups[0]",
        {
            "coveredResources": [GPU, "memory", "cpu"],
            "flavors": [
                {
                    "name": "f",
                    "resources": [
                        {"name": GPU, "nominalQuota": "100"},
                        {"name": "memory", "nominalQuota": "1Ti"},
                        {"name": "cpu", "nominalQuota": "100"},
                    ],
                }
            ],
        },
    )
    kueue.submit("""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
        spec:
          replicatedJobs:
            - name: a
              replicas: 1
              template:
                spec:
                  parallelism: 1
                  template:
                    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}
                    spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: '8'}}}]}
            - name: b
              replicas: 1
              template:
                spec:
                  parallelism: 2
                  template:
                    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}
                    spec:
                      containers: [{name: c, resources: {limits: {nvidia.com/gpu: '8', cpu: '8'}}}]
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: Kueue 0.19 assigns pod sets one after the other without backtracking: at pod set b there "
        "is room for 1 of 2 pods"
    )
    assert answer.explanation == [
        "pod set a must stay in one example.com/rack: 2 of 2 example.com/racks have room for it alone",
        "pod set b must stay in one example.com/rack: 1 of 2 example.com/racks has room for it alone",
        "1 node is left out: lacks label example.com/rack (n3)",
    ]


def test_leader_with_another_selector_than_its_workers_is_warned_of(kueue: CheckedCluster) -> None:
    kueue.submit("""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
        spec:
          replicatedJobs:
            - name: leader
              replicas: 1
              template:
                metadata: {}
                spec:
                  parallelism: 1
                  template:
                    metadata:
                      annotations:
                        kueue.x-k8s.io/podset-required-topology: example.com/rack
                        kueue.x-k8s.io/podset-group-name: g
                    spec:
                      containers:
                        - name: c
                          image: example.invalid/c
                          resources: {limits: {nvidia.com/gpu: '8'}}
                      schedulerName: kai-scheduler
                      nodeSelector: {pool: b}
            - name: workers
              replicas: 1
              template:
                metadata: {}
                spec:
                  parallelism: 2
                  template:
                    metadata:
                      annotations:
                        kueue.x-k8s.io/podset-required-topology: example.com/rack
                        kueue.x-k8s.io/podset-group-name: g
                    spec:
                      containers:
                        - name: c
                          image: example.invalid/c
                          resources: {limits: {nvidia.com/gpu: '8'}}
                      schedulerName: kai-scheduler
    """)

    answer = kueue.check()

    assert answer.findings == [
        warning(
            "kueue/leader-nodes",
            "spec.replicatedJobs[0].template.spec.template.spec",
            (
                "Kueue 0.19 looks for the leader's node by the node selector, affinity and tolerations of the "
                "workers, and these differ"
            ),
            fix="set the same as in spec.replicatedJobs[1].template.spec.template.spec",
        )
    ]
    assert answer.verdict == "cannot fit: flavor f doesn't match node affinity"


def test_leader_goes_where_the_selector_of_its_workers_allows(kueue: CheckedCluster) -> None:
    """Its own selector does not count: node n0 is free, and no place for it."""
    kueue.submit("""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
        spec:
          replicatedJobs:
            - name: leader
              replicas: 1
              template:
                metadata: {}
                spec:
                  parallelism: 1
                  template:
                    metadata:
                      annotations:
                        kueue.x-k8s.io/podset-required-topology: example.com/rack
                        kueue.x-k8s.io/podset-group-name: g
                    spec:
                      containers:
                        - name: c
                          image: example.invalid/c
                          resources: {limits: {nvidia.com/gpu: '8'}}
                      schedulerName: kai-scheduler
            - name: workers
              replicas: 1
              template:
                metadata: {}
                spec:
                  parallelism: 2
                  template:
                    metadata:
                      annotations:
                        kueue.x-k8s.io/podset-required-topology: example.com/rack
                        kueue.x-k8s.io/podset-group-name: g
                    spec:
                      containers:
                        - name: c
                          image: example.invalid/c
                          resources: {limits: {nvidia.com/gpu: '4'}}
                      schedulerName: kai-scheduler
                      nodeSelector: {tier: fast}
    """)
    kueue.label_node("n1", "tier", "fast")

    answer = kueue.check()

    assert answer.findings == [
        warning(
            "kueue/leader-nodes",
            "spec.replicatedJobs[0].template.spec.template.spec",
            (
                "Kueue 0.19 looks for the leader's node by the node selector, affinity and tolerations of the "
                "workers, and these differ"
            ),
            fix="set the same as in spec.replicatedJobs[1].template.spec.template.spec",
        )
    ]
    assert answer.verdict == (
        "does not fit now: Kueue 0.19 assigns pod sets one after the other without backtracking: at pod set workers "
        "no domain has room for it with its leader"
    )


def test_copies_of_a_deployment_are_admitted_one_by_one(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "16")
    kueue.submit("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
        spec:
          template:
            metadata: {}
            spec:
              containers:
                - {name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}
          replicas: 2
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_second_copy_of_a_deployment_lacks_quota(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.submit("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: train, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
        spec:
          template:
            metadata: {}
            spec:
              containers:
                - {name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}
          replicas: 2
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: after 1 of 2 copies: ClusterQueue cq has a quota of at most 8 nvidia.com/gpu in "
        "flavor f, 16 nvidia.com/gpu requested"
    )


def test_chain_in_the_same_file_counts_as_applied(kueue: CheckedCluster) -> None:
    kueue.delete("LocalQueue/queue", "ClusterQueue/cq", "ResourceFlavor/f")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: other}
        spec: {}
    """)
    kueue.put_beside("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: queue, namespace: ml}
        spec: {clusterQueue: cq}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: cq}
        spec:
          namespaceSelector: {}
          resourceGroups:
            - coveredResources: [nvidia.com/gpu, memory]
              flavors:
                - name: f
                  resources:
                    - {name: nvidia.com/gpu, nominalQuota: '100'}
                    - {name: memory, nominalQuota: 1Ti}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: f}
        spec: {nodeLabels: {pool: a}, topologyName: t}
    """)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == []
    assert answer.verdict == FITS_IN_R1


def test_stopped_queue_in_the_same_file_is_an_error(kueue: CheckedCluster) -> None:
    kueue.delete("LocalQueue/queue", "ClusterQueue/cq", "ResourceFlavor/f")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: other}
        spec: {}
    """)
    kueue.put_beside("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: queue, namespace: ml}
        spec: {clusterQueue: cq}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: cq}
        spec:
          namespaceSelector: {}
          resourceGroups:
            - coveredResources: [nvidia.com/gpu, memory]
              flavors:
                - name: f
                  resources:
                    - {name: nvidia.com/gpu, nominalQuota: '100'}
                    - {name: memory, nominalQuota: 1Ti}
          stopPolicy: Hold
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: f}
        spec: {nodeLabels: {pool: a}, topologyName: t}
    """)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/queue-stopped",
            QUEUE_NAME,
            "ClusterQueue cq is stopped (spec.stopPolicy: Hold)",
            fix="to start it, set spec.stopPolicy to None: kubectl patch clusterqueue cq "
            """--type merge -p '{"spec": {"stopPolicy": "None"}}'""",
        )
    ]
    assert answer.workload == text("""
        Kueue job/train -n ml, not placeable
    """)
    assert answer.notes == ["levels and room are not checked until the queue is fixed"]
    assert answer.verdict == ""


def test_what_decides_and_is_not_read_makes_it_unclear(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector.matchLabels", {"team": "x"})
    kueue.edit("ClusterQueue/cq", "spec.admissionChecks", ["prov"])
    kueue.edit("ClusterQueue/cq", "spec.preemption", {"withinClusterQueue": "LowerPriority"})
    kueue.add(admitted(gpus=4))

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack; 2 pods (nvidia.com/gpu=8) on nodes with pool=a
    """)
    assert answer.notes == [
        "the ClusterQueue preempts: if room or quota is short, Kueue may evict workloads of lower priority for it"
    ]
    assert answer.verdict == (
        "unclear: it is unknown whether namespace ml has the labels of the ClusterQueue's namespaceSelector (team); "
        "ClusterQueue cq has admission checks (prov), which decide after the quota and are not checked"
    )


def test_misspelled_field_of_a_topology_is_an_error(kueue: CheckedCluster) -> None:
    kueue.submit("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Topology
        metadata: {name: t}
        spec: {levels: [{nodelabel: example.com/rack}]}
    """)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/field",
            "spec.levels[0].nodelabel",
            'unknown field "spec.levels[0].nodelabel"',
            fix="did you mean 'nodeLabel'? Kueue 0.19 has no such field: kubectl rejects it, Helm drops it",
        ),
        error(
            "kueue/topology-levels",
            "spec.levels[0].nodeLabel",
            "should be the key of a node label",
            fix="a lower-case DNS prefix, a slash and a name",
        ),
    ]
    assert answer.verdict == ""


def test_misspelled_field_of_a_flavor_is_an_error(kueue: CheckedCluster) -> None:
    kueue.submit("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: f}
        spec: {nodeLabels: {a: b}, topology: t}
    """)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/field",
            "spec.topology",
            'unknown field "spec.topology"',
            fix="did you mean 'topologyName'? Kueue 0.19 has no such field: kubectl rejects it, Helm drops it",
        )
    ]
    assert answer.verdict == ""
    assert answer.json["workload"] is None
    assert answer.json["system"] is None
    assert answer.json["topology"] is None
    assert answer.json["findings"] == [
        {
            "rule": "kueue/field",
            "severity": "error",
            "field": "spec.topology",
            "line": None,
            "message": 'unknown field "spec.topology"',
            "fix": "did you mean 'topologyName'? Kueue 0.19 has no such field: kubectl rejects it, Helm drops it",
        }
    ]
    assert answer.json["notes"] == []
    assert answer.json["verdict"] is None


def test_misspelled_field_of_a_workload_is_an_error(kueue: CheckedCluster) -> None:
    kueue.submit("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Workload
        metadata: {name: w, namespace: ml}
        spec: {podSets: [{name: main, topologyRequest: {require: example.com/rack}}]}
    """)

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/field",
            "spec.podSets[0].topologyRequest.require",
            'unknown field "spec.podSets[0].topologyRequest.require"',
            fix="did you mean 'required'? Kueue 0.19 has no such field: kubectl rejects it, Helm drops it",
        )
    ]
    assert answer.verdict == (
        "unclear: spec.podSets[0].topologyRequest.require is not read; without it: fits: 1 pod on 1 node"
    )


def test_workload_without_queue_is_warned_of(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.labels", None)

    answer = kueue.check()

    assert answer.findings == [
        warning(
            "kueue/queue-name",
            QUEUE_NAME,
            "Kueue does not manage a workload without a queue, so its annotations have no effect",
            fix=(
                "label the Job with kueue.x-k8s.io/queue-name (not needed where Kueue manages jobs without a "
                "queue name)"
            ),
        )
    ]
    assert answer.verdict == FITS_IN_R1


def test_queue_called_default_takes_workloads_without_queue(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, "8")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: LocalQueue
        metadata: {name: default, namespace: ml}
        spec: {clusterQueue: cq}
    """)
    kueue.edit_workload("metadata.labels", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == QUOTA_OF_8


def test_topology_that_ends_above_the_nodes_is_noted(kueue: CheckedCluster) -> None:
    kueue.edit("Topology/t", "spec.levels", [{"nodeLabel": RACK}])
    kueue.edit_workload("spec.template.spec.nodeSelector", {"disk": "fast"})

    answer = kueue.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kueue job/train -n ml on t
          train
            pod set pods: required example.com/rack;
                2 pods (nvidia.com/gpu=8) on nodes with disk=fast, pool=a
    """)
    assert answer.notes == [
        (
            "Topology t ends above the nodes: Kueue 0.19 treats each of its lowest domains as one node, ignores "
            "taints and labels of the nodes, and may admit pods that no node has room for"
        )
    ]
    assert answer.verdict == "cannot fit: pod set pods needs 16 GPUs in one example.com/rack, largest has none"


def test_queue_without_flavors_takes_no_topology_request(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups", [])

    answer = kueue.check()

    assert answer.findings == [
        error(
            "kueue/flavor-topology",
            "spec.template.metadata.annotations",
            "ClusterQueue cq has no flavor",
            fix="set spec.topologyName on a flavor of ClusterQueue cq, or use another queue",
        )
    ]
    assert answer.verdict == ""


def test_queue_without_flavors_has_no_quota(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups", [])
    kueue.edit_workload("spec.template.metadata.annotations", None)

    answer = kueue.check()

    assert answer.findings == []
    assert answer.verdict == (
        "unclear: ClusterQueue cq has no quota of nvidia.com/gpu, and Kueue's Configuration was not read "
        "(resources.transformations, excludeResourcePrefixes, quotaCheckStrategy): "
        "kubectl get configmap kueue-manager-config -n kueue-system -o yaml"
    )
