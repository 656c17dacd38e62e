"""kube-scheduler's own gangs; tests/schedulers holds `check` to the scheduler."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, NOT_CHECKED, CheckedCluster
from tests.support.checking import error, warning
from tests.support.documents import text
from toposcope.integrations.kubernetes.gangs import GATES

pytestmark = pytest.mark.regression

Object = dict[str, Any]
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
POLICY = "spec.schedulingPolicy"
CONSTRAINTS = "spec.schedulingConstraints"
MIN_GROUPS = "spec.schedulingPolicy.gang.minGroupCount"
TREE = "spec.parentCompositePodGroupName"
TWO_RACKS_FIT = "fits: 2 racks could take it now, best r1 (4 nodes, 32 free GPUs)"
NEVER_40_OF_32 = "cannot fit: train needs 40 GPUs in one rack, largest has 32 (r1)"
MAY_MISS_A_PLACE = (
    "unclear: kube-scheduler places pods of different sizes one by one without backtracking, so it may miss a valid "
    "placement"
)
OTHER_PRIORITY = (
    "unclear: its pods have a different priorityClassName from their PodGroup, and kube-scheduler 1.37 never "
    "schedules a group whose pods differ in priority from the group"
)
NO_PODS_NOTE = "no pods of the PodGroup are known, so room is not checked; also give the files of its pods"
NAMES_MIXED = warning(
    "levels/names-mixed",
    "",
    "cloud.google.com/gce-topology-subblock: rack 'r1' lies under block 'a' and 'b' (2 of 2 values do so); "
    "Grove, KAI and Kueue treat it as one rack domain in each, "
    "kube-scheduler's gangs and pod affinity as a single one; "
    "normal if each block uses the same names; if the two levels cut across each other, "
    "give each its own ClusterTopology",
    fix="list rack in spec.uniqueValues of the ClusterTopology and use gpu.topology/unique-rack",
)
"""Both blocks have a rack r1 and a rack r2."""


@pytest.fixture
def gang() -> CheckedCluster:
    """Two racks of each name, of two nodes each: to kube-scheduler, two racks of four; a gang of four pods."""
    return CheckedCluster(
        "placement/clusters/racks-of-one-name", "placement/pod-group", beside="placement/pod-group-job"
    )


@pytest.fixture
def tree() -> CheckedCluster:
    """Two racks in block a and one in block b; a tree of two groups, which stay in a block and a rack each."""
    return CheckedCluster(
        "placement/clusters/three-nodes-in-two-blocks",
        "placement/composite-pod-group",
        beside="placement/groups-of-the-tree",
    )


@pytest.fixture
def group_of_tree() -> CheckedCluster:
    """The same cluster with one group of the tree to check."""
    return CheckedCluster(
        "placement/clusters/three-nodes-in-two-blocks", "placement/pod-group-of-a-tree", beside="placement/tree"
    )


@pytest.fixture
def jobset() -> CheckedCluster:
    """Two nodes in a rack; a JobSet whose Jobs name a gang of two pods and one of nine."""
    return CheckedCluster(
        "placement/clusters/two-nodes-in-a-rack", "placement/jobset-of-two-gangs", beside="placement/two-pod-groups"
    )


def min_count(pods: int) -> Object:
    """The policy of a gang."""
    return {"gang": {"minCount": pods}}


def pod(name: str, *, pending: bool = False) -> Object:
    """A pod of 8 GPUs of the gang."""
    item: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {
            "schedulingGroup": {"podGroupName": "train"},
            "containers": [{"name": "c", "resources": {"limits": {GPU: "8"}}}],
        },
    }
    return {**item, "status": {"phase": "Pending"}} if pending else item


def job(name: str, *, pods: int, gpus: int, **spec: Any) -> Object:
    """A Job whose pods belong to the gang."""
    containers = [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]
    template = {"spec": {"schedulingGroup": {"podGroupName": "train"}, **spec, "containers": containers}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def large_pods(gang: CheckedCluster, count: int) -> None:
    """Let the Job in the same file run so many pods of 8 GPUs."""
    gang.edit("Job/large", "spec.parallelism", count)
    gang.edit("Job/large", "spec.completions", count)


def cluster_topology(name: str, uid: str, *levels: Object) -> Object:
    """A ClusterTopology of these levels."""
    metadata = {"name": name, "uid": uid, "generation": 1}
    head = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology"}
    return {**head, "metadata": metadata, "spec": {"levels": list(levels)}}


BLOCK_LEVEL = {"domain": "block", "key": BLOCK}
RACK_LEVEL = {"domain": "rack", "key": RACK}


def test_pods_in_the_cluster_of_the_same_gang_count(gang: CheckedCluster) -> None:
    del gang.beside["Job/large"]
    gang.add(pod("p0", pending=True))
    gang.add(pod("p1", pending=True))
    gang.apply("""
        apiVersion: v1
        kind: Pod
        spec: {schedulingGroup: {podGroupName: other}, containers: [{name: c}]}
        metadata: {name: p2, namespace: ml}
        status: {phase: Pending}
    """)
    gang.edit_workload(POLICY, min_count(2))

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.workload == text("""
        kube-scheduler podgroup/train -n ml on labels cloud.google.com/gce-topology-subblock
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == TWO_RACKS_FIT


def test_any_cluster_topology_shows_that_names_are_mixed(gang: CheckedCluster) -> None:
    gang.add(cluster_topology("a", "1", RACK_LEVEL))
    gang.add(cluster_topology("b", "2", BLOCK_LEVEL, RACK_LEVEL))

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_claims_of_pods_of_two_sizes_are_unclear(gang: CheckedCluster) -> None:
    large_pods(gang, 1)
    gang.edit("Job/large", "spec.template.spec.resourceClaims", [{"name": "g", "resourceClaimTemplateName": "one"}])
    gang.beside["Job/small"] = job("small", pods=3, gpus=4)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == "unclear: it is unknown which devices the resource claims of its pods get"


def test_pod_groups_that_are_not_served_are_an_error(gang: CheckedCluster) -> None:
    answer = gang.check(served={"podgroups.scheduling.k8s.io": False})

    assert answer.findings == [
        error(
            "kube-scheduler/served",
            "",
            (
                "the cluster does not serve podgroups.scheduling.k8s.io, so the API server silently drops fields "
                "that request it"
            ),
            fix=GATES,
        ),
        NAMES_MIXED,
    ]
    assert answer.verdict == TWO_RACKS_FIT


def test_gang_in_a_rack_fits(gang: CheckedCluster) -> None:
    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_pods_in_the_same_file_make_up_the_gang(gang: CheckedCluster) -> None:
    del gang.beside["Job/large"]
    gang.beside["Pod/p0"] = pod("p0")
    gang.beside["Pod/p1"] = pod("p1")
    gang.beside["Pod/p2"] = pod("p2")
    gang.beside["Pod/p3"] = pod("p3")

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_gang_larger_than_a_rack_never_fits(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(5))
    large_pods(gang, 5)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == NEVER_40_OF_32


def test_minimum_above_the_known_pods_is_warned_of(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(3))
    large_pods(gang, 2)

    answer = gang.check()

    assert answer.findings == [
        warning(
            "kube-scheduler/min-count",
            "spec.schedulingPolicy.gang.minCount",
            "waiting for minCount pods from a gang to appear in scheduling queue",
            fix="2 of 3 pods of PodGroup train are known",
        ),
        NAMES_MIXED,
    ]


def priority_class(name: str, value: int, **more: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


@pytest.fixture
def ranked(gang: CheckedCluster) -> CheckedCluster:
    """The gang on Kubernetes 1.37, and three PriorityClasses, of which two have one value."""
    gang.edit_workload("apiVersion", "scheduling.k8s.io/v1beta1")
    gang.add(
        priority_class("urgent", 1000),
        priority_class("important", 1000),
        priority_class("polite", 1000, preemptionPolicy="Never"),
    )
    return gang


def of_class(name: str, gang: CheckedCluster) -> CheckedCluster:
    """Have the pods of the gang be of a PriorityClass."""
    gang.beside["Job/large"]["spec"]["template"]["spec"]["priorityClassName"] = name
    return gang


def errors_of(cluster: CheckedCluster) -> list[str]:
    """The messages of errors."""
    return [finding.message for finding in cluster.check().findings if finding.severity == "error"]


def priority_error(field: str, message: str, fix: str) -> Any:
    return error("kube-scheduler/priority", field, message, fix=fix)


def test_gang_when_its_pods_have_another_priority_is_refused(ranked: CheckedCluster) -> None:
    """As kube-scheduler 1.37.2 did."""
    answer = of_class("urgent", ranked).check()
    assert [finding for finding in answer.findings if finding.severity == "error"] == [
        priority_error(
            "spec.priorityClassName",
            "all pods in a single pod group should have the same priority as the pod group's priority, got 1000 and 0",
            fix="give pods and PodGroup the same priorityClassName",
        )
    ]


@pytest.mark.parametrize("of_group", ["urgent", "important"])
def test_gang_when_its_pods_have_its_priority_fits(ranked: CheckedCluster, of_group: str) -> None:
    ranked.edit_workload("spec.priorityClassName", of_group)
    assert of_class("urgent", ranked).check().verdict == TWO_RACKS_FIT


def test_gang_that_can_start_before_a_pod_of_another_priority_is_unclear(ranked: CheckedCluster) -> None:
    """kube-scheduler 1.37.2 placed it where it saw that pod last."""
    ranked.edit_workload("spec.priorityClassName", "urgent")
    ranked.edit_workload(POLICY, min_count(3))
    of_class("urgent", ranked).beside["Job/large"]["spec"]["parallelism"] = 3
    ranked.beside["Job/odd"] = job("odd", pods=1, gpus=8)
    assert ranked.check().verdict == OTHER_PRIORITY


def test_priority_of_a_tree_is_that_of_its_outermost_group(tree: CheckedCluster) -> None:
    tree.add(priority_class("urgent", 1000))
    tree.edit_workload("spec.priorityClassName", "urgent")
    for job in ("Job/w0", "Job/w1"):
        tree.beside[job]["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    assert errors_of(tree) == []
    del tree.beside["Job/w0"]["spec"]["template"]["spec"]["priorityClassName"]
    assert errors_of(tree) == [
        "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 1000"
    ]


def test_gang_of_1_36_may_have_pods_of_another_priority(ranked: CheckedCluster) -> None:
    ranked.edit_workload("apiVersion", "scheduling.k8s.io/v1alpha2")
    assert of_class("urgent", ranked).check().verdict == TWO_RACKS_FIT


def test_gang_when_a_priority_class_is_not_read_is_unclear(gang: CheckedCluster) -> None:
    gang.edit_workload("apiVersion", "scheduling.k8s.io/v1beta1")
    assert of_class("system-cluster-critical", gang).check().verdict == OTHER_PRIORITY
    gang.edit_workload("spec.priorityClassName", "system-cluster-critical")
    assert gang.check().verdict == TWO_RACKS_FIT


def test_pods_beyond_the_minimum_need_no_room(gang: CheckedCluster) -> None:
    large_pods(gang, 5)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_one_large_and_three_small_pods_fit(gang: CheckedCluster) -> None:
    large_pods(gang, 1)
    gang.beside["Job/small"] = job("small", pods=3, gpus=4)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_three_large_and_two_small_pods_are_unclear(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(5))
    large_pods(gang, 3)
    gang.beside["Job/small"] = job("small", pods=2, gpus=4)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == MAY_MISS_A_PLACE


def test_four_large_and_two_small_pods_never_fit(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(6))
    large_pods(gang, 4)
    gang.beside["Job/small"] = job("small", pods=2, gpus=4)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == NEVER_40_OF_32


def test_basic_policy_may_take_a_domain_for_some_pods_only(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, {"basic": {}})

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == (
        "unclear: with schedulingPolicy.basic kube-scheduler may choose a domain with room for only some of the "
        "pods, and the others wait for it: use gang with minCount"
    )


def test_basic_policy_with_more_pods_than_a_rack_never_fits(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, {"basic": {}})
    large_pods(gang, 5)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == NEVER_40_OF_32


def test_basic_policy_with_one_pod_fits(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, {"basic": {}})
    large_pods(gang, 1)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == TWO_RACKS_FIT


def test_basic_policy_names_the_taint_that_keeps_pods_out(gang: CheckedCluster) -> None:
    gang.taint("ar10", "team:NoSchedule")
    gang.taint("ar20", "team:NoSchedule")
    gang.edit_workload(POLICY, {"basic": {}})

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == "cannot fit: train needs 32 GPUs in one rack, largest has 24 (r1)"
    assert answer.advice == [
        "would fit if its pods tolerated taint team:NoSchedule of 2 nodes: ar10, ar20",
        "  add to the spec of its pod template, if these nodes are meant for it:",
        "    tolerations:",
        '    - {key: "team", operator: "Exists", effect: "NoSchedule"}',
    ]


def test_pods_with_selectors_of_different_blocks_are_unclear(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(2))
    gang.beside["Job/large"] = job("large", pods=1, gpus=8, nodeSelector={BLOCK: "a"})
    gang.beside["Job/small"] = job("small", pods=1, gpus=4, nodeSelector={BLOCK: "b"})

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == MAY_MISS_A_PLACE


def test_pods_count_on_the_nodes_that_all_may_use(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(2))
    gang.beside["Job/large"] = job("large", pods=1, gpus=8, nodeSelector={BLOCK: "a"})
    gang.beside["Job/small"] = job("small", pods=1, gpus=4)

    answer = gang.check()

    assert answer.findings == [NAMES_MIXED]
    assert answer.verdict == "fits: 2 racks could take it now, best r1 (2 nodes, 16 free GPUs)"


def test_gang_without_a_constraint_fits_anywhere(gang: CheckedCluster) -> None:
    gang.edit_workload(POLICY, min_count(8))
    large_pods(gang, 8)
    gang.edit_workload(CONSTRAINTS, None)

    answer = gang.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 8 pods on 8 nodes"


def test_gang_in_a_block_fits(gang: CheckedCluster) -> None:
    gang.edit_workload("spec.schedulingConstraints.topology[0].key", BLOCK)

    answer = gang.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 blocks could take it now, best a (4 nodes, 32 free GPUs)"


def test_nodes_without_the_label_are_noted(gang: CheckedCluster) -> None:
    gang.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: x, labels: {gpu.topology/gpus: '8', cloud.google.com/gce-topology-block: a}}
        status:
          allocatable: {nvidia.com/gpu: '8', pods: '110'}
          conditions: [{type: Ready, status: 'True'}]
    """)

    answer = gang.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler podgroup/train -n ml on labels cloud.google.com/gce-topology-subblock
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "1 of 9 nodes with GPUs lacks cloud.google.com/gce-topology-subblock and is silently skipped"
    ]
    assert answer.verdict == TWO_RACKS_FIT


def test_jobset_of_two_gangs_shows_the_one_that_never_fits(jobset: CheckedCluster) -> None:
    answer = jobset.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler jobset/set -n ml on labels cloud.google.com/gce-topology-subblock
          other: required rack; 9 pods (nvidia.com/gpu=8)
        kube-scheduler jobset/set -n ml on labels cloud.google.com/gce-topology-subblock
          other: required rack; 9 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: other needs 72 GPUs in one rack, largest has 16 (r1)"


def test_jobset_whose_pod_group_is_missing_is_an_error(jobset: CheckedCluster) -> None:
    del jobset.beside["PodGroup/other"]

    answer = jobset.check()

    assert answer.findings == [
        error(
            "kube-scheduler/pod-group",
            "",
            'waiting for pods\'s pod group "other" to appear in scheduling queue',
            fix="there are: train",
        )
    ]
    assert answer.workload == text("""
        kube-scheduler jobset/set -n ml on labels cloud.google.com/gce-topology-subblock
          train: required rack; 2 pods (nvidia.com/gpu=8)
        kube-scheduler jobset/set -n ml, not placeable
          other: 9 other (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is not checked until its PodGroup exists"]
    assert answer.verdict == "fits: rack r1 (2 nodes, 16 free GPUs)"


def test_tree_fits_in_one_block(tree: CheckedCluster) -> None:
    answer = tree.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler compositepodgroup/all -n ml on labels cloud.google.com/gce-topology-block,
            cloud.google.com/gce-topology-subblock
          all: required block
            w0: required rack; 1 pods (nvidia.com/gpu=8)
            w1: required rack; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "fits: block a (2 nodes, 16 free GPUs)"


def test_tree_larger_than_a_block_never_fits(tree: CheckedCluster) -> None:
    tree.label_node("a2", BLOCK, "c")

    answer = tree.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: all needs 16 GPUs in one block, largest has 8 (a)"


def test_tree_with_an_unconstrained_group_is_unclear(tree: CheckedCluster) -> None:
    tree.edit("PodGroup/w1", CONSTRAINTS, None)

    answer = tree.check()

    assert answer.findings == []
    assert answer.verdict == (
        "unclear: kube-scheduler places groups of a CompositePodGroup one by one, and one may use the only place of "
        "another"
    )


def test_tree_with_fewer_groups_than_it_needs_is_not_checked(tree: CheckedCluster) -> None:
    tree.edit_workload(MIN_GROUPS, 3)

    answer = tree.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler compositepodgroup/all -n ml on labels cloud.google.com/gce-topology-block,
            cloud.google.com/gce-topology-subblock, not placeable
          all: required block
            w0: required rack; 1 pods (nvidia.com/gpu=8)
            w1: required rack; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["CompositePodGroup all needs 3 of its groups; known: 2, so room is not checked"]
    assert answer.verdict == NOT_CHECKED


def test_tree_that_needs_fewer_of_its_equal_groups_fits(tree: CheckedCluster) -> None:
    tree.label_node("a2", BLOCK, "c")
    tree.edit_workload(MIN_GROUPS, 1)

    answer = tree.check()

    assert answer.findings == []
    assert answer.notes == ["room is counted for 1 of 2 groups of all, its minGroupCount"]
    assert answer.verdict == "fits: 3 blocks could take it now, best a (1 node, 8 free GPUs)"


def test_tree_whose_groups_go_by_different_labels_is_not_checked(tree: CheckedCluster) -> None:
    tree.delete("Node/b1")
    tree.edit_workload(CONSTRAINTS, None)
    tree.edit("PodGroup/w1", "spec.schedulingConstraints.topology[0].key", BLOCK)

    answer = tree.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler compositepodgroup/all -n ml on labels cloud.google.com/gce-topology-subblock, not
            placeable
          all
            w0: required rack; 1 pods (nvidia.com/gpu=8)
            w1: required block; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["its groups use different labels, so room is not checked"]
    assert answer.verdict == NOT_CHECKED


def test_tree_without_known_pods_is_not_checked(tree: CheckedCluster) -> None:
    del tree.beside["PodGroup/w1"]
    del tree.beside["Job/w1"]
    tree.edit_workload(POLICY, {"gang": {"minGroupCount": 1}})
    del tree.beside["Job/w0"]

    answer = tree.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler compositepodgroup/all -n ml on labels cloud.google.com/gce-topology-block,
            cloud.google.com/gce-topology-subblock, not placeable
          all: required block
            w0: required rack
    """)
    assert answer.notes == [NO_PODS_NOTE]
    assert answer.verdict == NOT_CHECKED


def test_group_of_a_missing_tree_is_an_error(group_of_tree: CheckedCluster) -> None:
    group_of_tree.delete("Node/b1")
    group_of_tree.edit_workload(TREE, "al")

    answer = group_of_tree.check()

    assert answer.findings == [
        error(
            "kube-scheduler/parent",
            TREE,
            "CompositePodGroup al does not exist, and kube-scheduler binds no pods until it does",
            fix="did you mean 'all'?",
        )
    ]
    assert answer.verdict == ""


def test_group_of_a_tree_is_checked_with_the_tree(group_of_tree: CheckedCluster) -> None:
    answer = group_of_tree.check()

    assert answer.findings == []
    assert answer.workload == text("""
        kube-scheduler podgroup/w0 -n ml on labels cloud.google.com/gce-topology-block,
            cloud.google.com/gce-topology-subblock, not placeable
          all: required block
            w0: required rack
    """)
    assert answer.notes == [
        NO_PODS_NOTE,
        "CompositePodGroup all needs 2 of its groups; known: 1, so room is not checked",
    ]
    assert answer.verdict == NOT_CHECKED


def test_group_of_a_tree_that_contains_itself_is_an_error(group_of_tree: CheckedCluster) -> None:
    group_of_tree.delete("Node/b1")
    group_of_tree.edit("CompositePodGroup/all", TREE, "all")

    answer = group_of_tree.check()

    assert answer.findings == [
        error(
            "kube-scheduler/parent",
            TREE,
            "CompositePodGroup all contains itself, so none of its pods is bound",
            fix="name a parent outside of it, or remove the parent",
        )
    ]
    assert answer.verdict == ""
