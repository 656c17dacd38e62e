"""Where KAI finds no placement although there is one: it starts pods one by one, and in an order of its own."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster
from tests.support.checking import Finding, warning

pytestmark = pytest.mark.regression

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
MIN_MEMBER = "kai.scheduler/batch-min-member"
FITS_IN_ZONE_A = "fits: zone a (3 nodes, 24 free GPUs)"
FITS_IN_ZONE_B = "fits: zone b (8 nodes, 64 free GPUs)"
FITS_IN_RACK = "fits: rack a/r1 (2 nodes, 16 free GPUs)"
NO_ZONE = (
    "cannot fit: KAI 0.17 finds no zone for train: all nodes that it considers are in one example.com/rack (r1), "
    "and without a preferred level it looks no higher; also prefer topology.kubernetes.io/zone"
)
TWO_OF_EIGHT = (
    "does not fit now: KAI 0.17 starts the pods of train one by one: it binds 2 of 8 in zone a, "
    "where the first pod goes, and the other 6 wait; as a gang all of them fit now"
)


@pytest.fixture
def two_zones() -> CheckedCluster:
    """Two nodes in zone a, eight in zone b; a Job of eight pods, a node each, that must stay in a zone."""
    return CheckedCluster("placement/clusters/two-zones", "placement/kai-job-of-8")


@pytest.fixture
def one_rack() -> CheckedCluster:
    """Three nodes in one rack; a gang of two pods that must stay in a zone."""
    return CheckedCluster("placement/clusters/one-rack", "placement/kai-job-of-2")


@pytest.fixture
def pod_group() -> CheckedCluster:
    """Two free nodes, and five that are half full; a PodGroup of two sub-groups, of half nodes and of whole ones."""
    return CheckedCluster(
        "placement/clusters/two-zones-half-full",
        "placement/kai-pod-group-of-two-sizes",
        beside="placement/pods-of-two-sizes",
    )


@pytest.fixture
def clique_set() -> CheckedCluster:
    """Two nodes in a rack and one in another; a PodCliqueSet of one pod of 8 GPUs and two of 4, in a rack."""
    return CheckedCluster("placement/clusters/grove-racks", "placement/grove-cliques-of-two-sizes")


def starts_one_by_one(pods: int, *, kind: str = "Job", annotation: str = REQUIRED) -> Finding:
    """The warning that a Job is no gang unless it says so."""
    return warning(
        "kai/min-member",
        f"metadata.annotations[{annotation}]",
        f"KAI 0.17 does not treat a {kind} as a gang: it starts the {pods} pods one by one, the first chooses the "
        "domain, and pods without room there wait",
        fix=f'set kai.scheduler/batch-min-member: "{pods}" on the Job, and recreate it',
    )


def full(node: str) -> Object:
    """A pod of somebody else's Job that takes all GPUs of a node."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p-{node}", "namespace": "other", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {GPU: "8"}}}]},
        "status": {"phase": "Running"},
    }


def clique(name: str) -> Object:
    """A clique of one pod of 8 GPUs."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: "8"}}}
    pod = {"containers": [container], "schedulerName": "kai-scheduler"}
    return {"name": name, "spec": {"roleName": name, "replicas": 1, "podSpec": pod}}


def test_job_without_min_member_starts_one_by_one(two_zones: CheckedCluster) -> None:
    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(8)]
    assert answer.verdict == TWO_OF_EIGHT


def test_job_with_min_member_is_a_gang(two_zones: CheckedCluster) -> None:
    two_zones.annotate(MIN_MEMBER, "8")

    answer = two_zones.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_ZONE_B


def test_node_that_lacks_a_level_is_left_out_of_a_gang(two_zones: CheckedCluster) -> None:
    two_zones.annotate(MIN_MEMBER, "8")
    two_zones.label_node("n0", RACK, None)

    answer = two_zones.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_ZONE_B
    assert answer.explanation == [
        "train must stay in one zone: 1 of 2 zones has room for it alone",
        ("train prefers to stay in one example.com/rack: 0 of 3 example.com/racks have room for it alone"),
        "train: 8 pods in b: n2, n3, n4, n5, n6 and 3 more",
        "1 node is left out: lacks label example.com/rack (n0)",
    ]


def test_job_without_min_member_fits_when_the_first_zone_is_full(two_zones: CheckedCluster) -> None:
    two_zones.add(full("n0"))
    two_zones.add(full("n1"))

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(8)]
    assert answer.verdict == FITS_IN_ZONE_B


def test_preferred_zone_lets_all_pods_start(two_zones: CheckedCluster) -> None:
    two_zones.edit_workload("metadata.annotations", {TOPOLOGY: "t", PREFERRED: ZONE})

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(8, annotation=PREFERRED)]
    assert answer.verdict == "fits: 8 pods on 8 nodes"


def test_preferred_zone_does_not_help_when_nodes_are_full(two_zones: CheckedCluster) -> None:
    two_zones.add(full("n0"))
    two_zones.add(full("n1"))
    two_zones.add(full("n2"))
    two_zones.edit_workload("metadata.annotations", {TOPOLOGY: "t", PREFERRED: ZONE})

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(8, annotation=PREFERRED)]
    assert answer.verdict == "does not fit now: train needs 64 GPUs, the nodes it may use have 56"


def test_preferred_zone_does_not_help_when_nodes_are_too_few(two_zones: CheckedCluster) -> None:
    two_zones.edit_workload("metadata.annotations", {TOPOLOGY: "t", PREFERRED: ZONE})
    two_zones.pods(11)

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(11, annotation=PREFERRED)]
    assert answer.verdict == "cannot fit: train needs 88 GPUs, the nodes it may use have 80"


def test_cordoned_node_is_left_out_of_pods_one_by_one(two_zones: CheckedCluster) -> None:
    two_zones.cordon("n9")
    two_zones.pods(7)

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(7)]
    assert answer.verdict == (
        "does not fit now: KAI 0.17 starts the pods of train one by one: it binds 2 of 7 in zone a, "
        "where the first pod goes, and the other 5 wait; as a gang all of them fit now"
    )
    assert answer.explanation == [
        "train must stay in one zone: 1 of 2 zones has room for it alone",
        ("train prefers to stay in one example.com/rack: 0 of 3 example.com/racks have room for it alone"),
        "1 node is left out: is cordoned (n9)",
    ]


def test_stateful_set_is_no_gang_whatever_its_annotation(two_zones: CheckedCluster) -> None:
    two_zones.submit("""
        apiVersion: apps/v1
        kind: StatefulSet
        metadata:
          name: train
          namespace: ml
          annotations:
            kai.scheduler/topology: t
            kai.scheduler/topology-required-placement: topology.kubernetes.io/zone
            kai.scheduler/batch-min-member: '8'
        spec:
          template:
            metadata: {}
            spec:
              containers:
                - {name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}
              schedulerName: kai-scheduler
          replicas: 8
    """)

    answer = two_zones.check()

    assert answer.findings == [
        warning(
            "kai/min-member",
            "metadata.annotations[kai.scheduler/batch-min-member]",
            "KAI reads this on Jobs and JobSets only",
            fix="remove it",
        ),
        warning(
            "kai/min-member",
            "metadata.annotations[kai.scheduler/topology-required-placement]",
            (
                "KAI 0.17 does not treat a StatefulSet as a gang: it starts the 8 pods one by one, the first "
                "chooses the domain, and pods without room there wait"
            ),
            fix=(
                "use a LeaderWorkerSet, JobSet or Job; or write a PodGroup with minMember: 8, name it in the "
                'annotation pod-group-name of the pod template, and set kai.scheduler/skip-podgrouper: "true" on '
                "the StatefulSet"
            ),
        ),
    ]
    assert answer.verdict == TWO_OF_EIGHT


def test_pods_one_by_one_never_fit_where_all_do_not(two_zones: CheckedCluster) -> None:
    two_zones.annotate(PREFERRED, None)
    two_zones.pods(9)

    answer = two_zones.check()

    assert answer.findings == [starts_one_by_one(9)]
    assert answer.verdict == (
        "cannot fit: KAI 0.17 starts the pods of train one by one: it binds 2 of 9 in zone a, where the first pod "
        "goes, and the other 7 wait"
    )


def test_gang_in_one_rack_needs_a_preferred_level(one_rack: CheckedCluster) -> None:
    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == NO_ZONE


def test_gang_on_one_host_needs_a_preferred_level(one_rack: CheckedCluster) -> None:
    one_rack.delete("Node/n1", "Node/n2")
    one_rack.gpus_per_pod(4)

    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI 0.17 finds no zone for train: all nodes that it considers are in one host (n0), and "
        "without a preferred level it looks no higher; also prefer topology.kubernetes.io/zone"
    )


def test_gang_that_prefers_its_zone_fits(one_rack: CheckedCluster) -> None:
    one_rack.annotate(PREFERRED, ZONE)

    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_ZONE_A


def test_gang_that_prefers_a_host_fits(one_rack: CheckedCluster) -> None:
    one_rack.annotate(PREFERRED, HOST)

    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_ZONE_A


def test_gang_that_requires_a_rack_fits(one_rack: CheckedCluster) -> None:
    one_rack.annotate(REQUIRED, RACK)

    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack r1 (3 nodes, 24 free GPUs)"


def test_pods_one_by_one_in_one_rack_need_a_preferred_level(one_rack: CheckedCluster) -> None:
    one_rack.annotate(MIN_MEMBER, None)

    answer = one_rack.check()

    assert answer.findings == [starts_one_by_one(2)]
    assert answer.verdict == NO_ZONE


def test_pods_one_by_one_that_prefer_their_zone_fit(one_rack: CheckedCluster) -> None:
    one_rack.annotate(MIN_MEMBER, None)
    one_rack.annotate(PREFERRED, ZONE)

    answer = one_rack.check()

    assert answer.findings == [starts_one_by_one(2)]
    assert answer.verdict == FITS_IN_ZONE_A


def test_pods_one_by_one_that_prefer_a_host_fit(one_rack: CheckedCluster) -> None:
    one_rack.annotate(MIN_MEMBER, None)
    one_rack.annotate(PREFERRED, HOST)

    answer = one_rack.check()

    assert answer.findings == [starts_one_by_one(2)]
    assert answer.verdict == FITS_IN_ZONE_A


def test_pods_one_by_one_that_require_a_rack_fit(one_rack: CheckedCluster) -> None:
    one_rack.edit_workload("metadata.annotations", {TOPOLOGY: "t", REQUIRED: RACK})

    answer = one_rack.check()

    assert answer.findings == [starts_one_by_one(2)]
    assert answer.verdict == "fits: example.com/rack r1 (3 nodes, 24 free GPUs)"


def test_every_pod_counts_as_the_largest_in_a_required_rack(pod_group: CheckedCluster) -> None:
    pod_group.delete("Node/n3", "Node/n4", "Node/n5", "Node/n6", "Pod/q2", "Pod/q3", "Pod/q4", "Pod/q5", "Pod/q6")
    pod_group.edit_workload(
        "spec", {"minMember": 3, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": RACK}}
    )
    pod_group.edit("Pod/a-0", "metadata.labels", None)
    pod_group.edit("Pod/a-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "8")
    pod_group.edit("Pod/a-1", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "4")
    del pod_group.beside["Pod/large-1"]

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI 0.17 counts every pod of train as its largest, so the best example.com/rack has room for 2 "
        "of 3 pods; request the same for every pod"
    )


def test_rack_of_three_nodes_takes_three_of_the_largest(pod_group: CheckedCluster) -> None:
    pod_group.delete("Node/n4", "Node/n5", "Node/n6", "Pod/q2", "Pod/q3", "Pod/q4", "Pod/q5", "Pod/q6")
    pod_group.label_node("n3", ZONE, "a")
    pod_group.edit_workload(
        "spec", {"minMember": 3, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": RACK}}
    )
    pod_group.edit("Pod/a-0", "metadata.labels", None)
    pod_group.edit("Pod/a-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "8")
    pod_group.edit("Pod/a-1", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "4")
    del pod_group.beside["Pod/large-1"]

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack a/r1 (3 nodes, 24 free GPUs)"


def test_every_pod_counts_as_the_largest_in_a_preferred_rack(pod_group: CheckedCluster) -> None:
    pod_group.delete(
        "Node/n2", "Node/n3", "Node/n4", "Node/n5", "Node/n6", "Pod/q2", "Pod/q3", "Pod/q4", "Pod/q5", "Pod/q6"
    )
    pod_group.edit_workload(
        "spec", {"minMember": 3, "topologyConstraint": {"topology": "t", "preferredTopologyLevel": RACK}}
    )
    pod_group.edit("Pod/a-0", "metadata.labels", None)
    pod_group.edit("Pod/a-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "8")
    pod_group.edit("Pod/a-1", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "4")
    del pod_group.beside["Pod/large-1"]

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI 0.17 counts every pod of train as its largest, so the whole topology has room for 2 of 3 "
        "pods; request the same for every pod"
    )


def test_pods_with_and_without_gpus_are_added_up(pod_group: CheckedCluster) -> None:
    pod_group.delete("Node/n3", "Node/n4", "Node/n5", "Node/n6", "Pod/q2", "Pod/q3", "Pod/q4", "Pod/q5", "Pod/q6")
    pod_group.edit_workload(
        "spec", {"minMember": 3, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": RACK}}
    )
    pod_group.edit("Pod/a-0", "metadata.labels", None)
    pod_group.edit("Pod/a-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "8")
    pod_group.edit("Pod/a-1", "metadata.labels", None)
    pod_group.edit("Pod/a-1", "spec.containers[0].resources.limits[nvidia.com/gpu]", "8")
    pod_group.edit("Pod/large-0", "metadata.labels", None)
    pod_group.edit("Pod/large-0", "spec.containers[0].resources.limits[nvidia.com/gpu]", "0")
    del pod_group.beside["Pod/large-1"]

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack a/r1 (2 nodes, 16 free GPUs)"


def test_sub_groups_are_placed_by_name_and_move_none(pod_group: CheckedCluster) -> None:
    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: KAI 0.17 places sub-groups by name and pods by age, and moves none to make room: "
        "sub-group large has room for 1 of 2 pods"
    )


def test_larger_sub_group_first_by_name_fits(pod_group: CheckedCluster) -> None:
    pod_group.edit_workload("spec.subGroups[0].name", "z")
    pod_group.edit("Pod/a-0", "metadata.labels[kai.scheduler/subgroup-name]", "z")
    pod_group.edit("Pod/a-1", "metadata.labels[kai.scheduler/subgroup-name]", "z")

    answer = pod_group.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 4 pods on 4 nodes"


def test_grove_cliques_of_one_size_fit(clique_set: CheckedCluster) -> None:
    clique_set.edit_workload("spec.template.cliques", [clique("c0"), clique("c1")])

    answer = clique_set.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_grove_cliques_of_two_sizes_count_as_the_largest(clique_set: CheckedCluster) -> None:
    answer = clique_set.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: KAI 0.17 counts every pod of train as its largest, so the best rack has room for 2 of 3 pods; "
        "request the same for every pod"
    )


def test_grove_clique_without_gpus_is_added_up(clique_set: CheckedCluster) -> None:
    clique_set.edit_workload(
        "spec.template.cliques[1].spec.podSpec.containers[0].resources.limits[nvidia.com/gpu]", "8"
    )
    clique_set.edit_workload(
        "spec.template.cliques[2].spec.podSpec.containers[0].resources.limits[nvidia.com/gpu]", "0"
    )

    answer = clique_set.check()

    assert answer.findings == []
    assert answer.verdict == FITS_IN_RACK


def test_placeholder_is_a_value_like_any_other_to_kai(one_rack: CheckedCluster) -> None:
    one_rack.delete("Node/n2")
    one_rack.label_node("n0", ZONE, "no-topology")
    one_rack.label_node("n1", ZONE, "no-topology")
    one_rack.label_node("n1", RACK, "r2")

    answer = one_rack.check()

    assert answer.findings == []
    assert answer.verdict == "fits: zone no-topology (2 nodes, 16 free GPUs)"
