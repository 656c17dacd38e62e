"""Volcano: HyperNodes decide, whoever made them, by the nodes in them."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, CheckedCluster
from tests.support.checking import error, warning
from tests.support.documents import text

pytestmark = pytest.mark.regression

Object = dict[str, Any]
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
NVLINK_DOMAIN = "gpu.topology/nvlink-domain"
REPLICAS = "spec.tasks[0].replicas"
TASKS = "spec.tasks"
NETWORK_TOPOLOGY = "spec.networkTopology"
HIGHEST_TIER = "spec.networkTopology.highestTierAllowed"
TWO_RACKS_FIT = "fits: 2 racks could take it now, best a/r1 (2 nodes, 16 free GPUs)"
MAY_MISS_A_PLACE = (
    "unclear: Volcano places differing pods and parts one by one without backtracking, so it may miss a valid placement"
)
QUOTA_NOTE = "Volcano queue quota (default) is not checked"
STANDS_IN_NOTE = "the HyperNode that Volcano reads is unknown: ClusterTopology cluster is used instead"
BLOCK_LEVEL = {"domain": "block", "key": BLOCK}
RACK_LEVEL = {"domain": "rack", "key": RACK}


@pytest.fixture
def volcano() -> CheckedCluster:
    """Two racks of one name in two blocks, of two nodes each, as HyperNodes, and one node without a rack."""
    return CheckedCluster("placement/clusters/hyper-nodes", "placement/volcano-job")


def pod_template(gpus: int) -> Object:
    """A pod of so many GPUs."""
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]}}


def task(name: str, *, pods: int, gpus: int = 8, parts: int = 0) -> Object:
    """A task of a Job; `parts`: of two pods each, every part in one rack."""
    result: Object = {"name": name, "replicas": pods, "template": pod_template(gpus)}
    if parts:
        topology = {"highestTierAllowed": 1}
        result["partitionPolicy"] = {"totalPartitions": parts, "partitionSize": 2, "networkTopology": topology}
    return result


def cluster_topology(name: str, *levels: Object, select: Object | None = None) -> Object:
    """A second ClusterTopology; `select`: labels of its nodes."""
    spec: Object = {"levels": list(levels)}
    if select:
        spec["nodeSelector"] = {"matchLabels": select}
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name, "uid": "2", "generation": 1},
        "spec": spec,
    }


def labels(block: str, domain: str) -> Object:
    """Of a node with 8 GPUs in rack r1, in an NVLink domain."""
    return {"gpu.topology/gpus": "8", BLOCK: block, RACK: "r1", NVLINK_DOMAIN: domain}


def test_rack_of_the_hyper_nodes_fits(volcano: CheckedCluster) -> None:
    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_gang_larger_than_a_rack_never_fits(volcano: CheckedCluster) -> None:
    volcano.edit_workload(REPLICAS, 3)

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 24 GPUs in one rack, largest has 16 (a/r1)"


def test_gang_larger_than_every_rack_of_a_block_never_fits(volcano: CheckedCluster) -> None:
    volcano.edit_workload(REPLICAS, 3)
    volcano.edit_workload(NETWORK_TOPOLOGY, {"highestTierAllowed": 2})

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 24 GPUs in one block, largest has 16 (a)"


def test_soft_topology_fits_anywhere(volcano: CheckedCluster) -> None:
    volcano.edit_workload(REPLICAS, 5)
    volcano.edit_workload(NETWORK_TOPOLOGY, {"mode": "soft"})

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 5 pods on 5 nodes"


def test_tier_above_all_hyper_nodes_is_warned_of(volcano: CheckedCluster) -> None:
    volcano.edit_workload(REPLICAS, 5)
    volcano.edit_workload(NETWORK_TOPOLOGY, {"highestTierAllowed": 3})

    answer = volcano.check()

    assert answer.findings == [
        warning(
            "volcano/tier-above-all",
            HIGHEST_TIER,
            "is above the highest tier of the HyperNodes (2), so the pods may go anywhere",
            fix="use a tier that exists",
        )
    ]
    assert answer.verdict == "fits: 5 pods on 5 nodes"


def test_hyper_node_selects_its_nodes_by_label(volcano: CheckedCluster) -> None:
    volcano.edit(
        "HyperNode/s0",
        "spec.members",
        [
            {
                "type": "Node",
                "selector": {
                    "labelMatch": {
                        "matchLabels": {BLOCK: "a"},
                        "matchExpressions": [{"key": RACK, "operator": "Exists"}],
                    }
                },
            }
        ],
    )

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_cluster_topology_of_other_nodes_changes_nothing(volcano: CheckedCluster) -> None:
    volcano.label_node("c", "pool", "other")
    volcano.add(cluster_topology("other", BLOCK_LEVEL, select={"pool": "other"}))

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_cluster_topology_that_covers_the_domains_names_the_level(volcano: CheckedCluster) -> None:
    volcano.label_node("c", BLOCK, "c")
    volcano.label_node("c", "pool", "other")
    volcano.add(cluster_topology("other", BLOCK_LEVEL, select={"pool": "other"}))
    volcano.edit_workload(HIGHEST_TIER, 2)

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required block; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_NOTE]
    assert answer.verdict == "fits: 2 blocks could take it now, best a (2 nodes, 16 free GPUs)"


def test_parts_that_are_alike_fit(volcano: CheckedCluster) -> None:
    volcano.edit_workload(NETWORK_TOPOLOGY, None)
    volcano.edit_workload(TASKS, [task("w", pods=4, parts=2)])

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 4 pods on 4 nodes"


def test_pods_beside_parts_are_unclear(volcano: CheckedCluster) -> None:
    volcano.edit_workload(NETWORK_TOPOLOGY, None)
    volcano.edit_workload(TASKS, [task("v", pods=1), task("w", pods=2, parts=1)])

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == MAY_MISS_A_PLACE


def test_tasks_of_two_sizes_are_unclear(volcano: CheckedCluster) -> None:
    volcano.edit_workload(TASKS, [task("v", pods=1), task("w", pods=2, gpus=4)])

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == MAY_MISS_A_PLACE


def test_tasks_that_fit_in_any_order_on_forbidden_nodes_alone_are_unclear(volcano: CheckedCluster) -> None:
    away_from_web = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    tasks = [task("large", pods=1, gpus=4), task("small", pods=2, gpus=1)]
    for one in tasks:
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away_from_web]}}
        one["template"]["spec"]["affinity"] = affinity
    volcano.edit_workload(NETWORK_TOPOLOGY, None)
    volcano.edit_workload(TASKS, tasks)
    volcano.run("ml/four", on="a0", requests={GPU: "4"})
    volcano.run("ml/six", on="a1", requests={GPU: "6"})
    for node in ("b0", "b1", "c"):
        volcano.label_node(node, "kubernetes.io/hostname", node)
        volcano.run(f"ml/web-{node}", on=node)
        volcano.edit(f"Pod/web-{node}", "metadata.labels", {"app": "web"})

    assert volcano.check().verdict == MAY_MISS_A_PLACE
    volcano.delete("Pod/web-b0", "Pod/web-b1", "Pod/web-c")
    assert volcano.check().verdict == "fits: 3 pods on 2 nodes"


def test_tasks_of_two_sizes_that_fit_in_any_order_fit(volcano: CheckedCluster) -> None:
    volcano.edit_workload(TASKS, [task("v", pods=1), task("w", pods=1, gpus=4)])

    answer = volcano.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_hyper_node_that_is_no_domain_of_labels_counts_as_it_is(volcano: CheckedCluster) -> None:
    volcano.edit("HyperNode/s0", "spec.members[1].selector.exactMatch.name", "c")
    volcano.edit_workload(REPLICAS, 3)

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on HyperNodes
          train: required tier-1 HyperNode; 3 pods (nvidia.com/gpu=8)
    """)
    assert answer.verdict == "cannot fit: train needs 24 GPUs in one tier-1 HyperNode, largest has 16 (s0)"


def test_rack_without_a_hyper_node_takes_no_pod(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s2")
    volcano.cordon("b1")

    assert volcano.check().verdict == (
        "does not fit now: train needs 16 GPUs in one tier-1 HyperNode, largest has 8 (s1)"
    )


@pytest.fixture
def hand_made() -> CheckedCluster:
    """HyperNodes over nodes without labels: s0 (a0, a1) and s1 (b0, b1, c) in top, of tiers 1 and 2."""
    cluster = CheckedCluster("placement/clusters/hyper-nodes", "placement/volcano-job")
    cluster.delete("ClusterTopology/cluster", "HyperNode/s2", "HyperNode/s3")
    for node in ("a0", "a1", "b0", "b1", "c"):
        cluster.edit(f"Node/{node}", "metadata.labels", {"gpu.topology/gpus": "8"})
    cluster.edit("HyperNode/s1", "spec.members[0].selector", {"regexMatch": {"pattern": "^[bc]"}})
    cluster.add(hyper_node("top", 2, "s0", "s1"))
    return cluster


def hyper_node(name: str, tier: int, *children: str) -> Object:
    """A HyperNode of others."""
    members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": child}}} for child in children]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": members},
    }


def test_hand_made_hyper_nodes_are_domains(hand_made: CheckedCluster) -> None:
    hand_made.edit_workload(REPLICAS, 3)
    answer = hand_made.check()
    assert answer.findings == []
    assert answer.verdict == "fits: tier-1 HyperNode s1 (3 nodes, 24 free GPUs)"


def test_gang_larger_than_a_hand_made_hyper_node_never_fits(hand_made: CheckedCluster) -> None:
    hand_made.edit_workload(REPLICAS, 4)
    assert hand_made.check().verdict == "cannot fit: train needs 32 GPUs in one tier-1 HyperNode, largest has 24 (s1)"


def test_tier_name_of_hand_made_hyper_nodes_is_known(hand_made: CheckedCluster) -> None:
    hand_made.edit("HyperNode/top", "spec.tierName", "spine")
    hand_made.edit_workload(REPLICAS, 6)
    hand_made.edit_workload(NETWORK_TOPOLOGY, {"highestTierName": "spine"})
    answer = hand_made.check()
    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 48 GPUs in one spine, largest has 40 (top)"


def test_leaf_of_a_higher_tier_is_a_domain_too(hand_made: CheckedCluster) -> None:
    hand_made.edit("HyperNode/s1", "spec.tier", 2)
    hand_made.edit("HyperNode/top", "spec.tier", 3)
    hand_made.edit_workload(REPLICAS, 3)
    hand_made.edit_workload(HIGHEST_TIER, 2)
    assert hand_made.check().verdict == "fits: tier-2 HyperNode s1 (3 nodes, 24 free GPUs)"


def test_partition_stays_below_the_hyper_node_of_the_job(hand_made: CheckedCluster) -> None:
    hand_made.edit_workload(HIGHEST_TIER, 2)
    hand_made.edit_workload(TASKS, [task("w", pods=6, parts=3)])
    assert hand_made.check().verdict == (
        "cannot fit: 3 partitions of w each need one tier-1 HyperNode with 16 GPUs; there is room for 2"
    )


def test_hyper_node_with_two_parents_holds_jobs_back(hand_made: CheckedCluster) -> None:
    hand_made.add(hyper_node("other", 2, "s0"))
    assert hand_made.check().verdict == (
        "does not fit now: HyperNode s0 has 2 parents, so Volcano schedules no jobs with a topology: remove it from "
        "all but one"
    )


def test_hyper_node_that_contains_itself_holds_jobs_back(hand_made: CheckedCluster) -> None:
    hand_made.edit(
        "HyperNode/s0", "spec.members[0]", {"type": "HyperNode", "selector": {"exactMatch": {"name": "top"}}}
    )
    assert hand_made.check().verdict == (
        "does not fit now: HyperNode s0 contains itself, so Volcano schedules no jobs with a topology: remove it "
        "from the HyperNodes below it"
    )


def test_hyper_nodes_that_share_a_node_leave_a_refusal_unclear(hand_made: CheckedCluster) -> None:
    hand_made.edit("HyperNode/s0", "spec.members[2].selector.exactMatch.name", "c")
    hand_made.edit_workload(REPLICAS, 4)
    assert hand_made.check().verdict == "unclear: HyperNodes s0 and s1 both have node c, and either may be used"


def test_pattern_that_is_not_applied_leaves_a_refusal_unclear(hand_made: CheckedCluster) -> None:
    hand_made.edit("HyperNode/s1", "spec.members[0].selector", {"regexMatch": {"pattern": "((b|c)+)+$"}})
    hand_made.edit_workload(REPLICAS, 3)
    assert hand_made.check().verdict == "unclear: it is unknown which nodes the regexMatch of HyperNode s1 selects"


def test_any_pods_of_min_available_fit_where_all_do(volcano: CheckedCluster) -> None:
    volcano.edit_workload(TASKS, [task("v", pods=1), task("w", pods=2, gpus=2)])
    volcano.edit_workload("spec.minAvailable", 2)
    volcano.edit_workload(NETWORK_TOPOLOGY, None)
    assert volcano.check().verdict == "fits: 3 pods on 3 nodes"


def test_any_pods_of_min_available_are_unclear_where_only_some_fit(volcano: CheckedCluster) -> None:
    volcano.edit_workload(TASKS, [task("v", pods=4), task("w", pods=2, gpus=2)])
    volcano.edit_workload("spec.minAvailable", 3)
    assert volcano.check().verdict == "unclear: which 3 of its 6 pods start together is unknown"


def queue(name: str, *, capability: int = 0, allocated: int = 0, state: str = "Open", parent: str = "root") -> Object:
    """A queue with GPUs."""
    spec: Object = {"parent": parent}
    if capability:
        spec["capability"] = {GPU: str(capability)}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"state": state, "allocated": {GPU: str(allocated)}},
    }


def test_open_queue_without_capability_changes_nothing(volcano: CheckedCluster) -> None:
    volcano.add(queue("root", parent=""), queue("default"))
    answer = volcano.check()
    assert answer.findings == []
    assert answer.notes == []
    assert answer.verdict == TWO_RACKS_FIT


def test_shares_of_other_queues_are_noted(volcano: CheckedCluster) -> None:
    volcano.add(queue("default"), queue("gold"))
    assert volcano.check().notes == [
        "the share that weight, deserved and guarantee of other Volcano queues leave to default is not checked"
    ]


def test_capability_below_the_gang_never_takes_it(volcano: CheckedCluster) -> None:
    volcano.add(queue("default", capability=12))
    assert volcano.check().verdict == (
        "cannot fit: the gang requests 16 GPUs, and the capability of queue default is 12 GPUs"
    )


def test_allocated_capability_does_not_fit_now(volcano: CheckedCluster) -> None:
    volcano.add(queue("default", capability=24, allocated=16))
    assert volcano.check().verdict == (
        "does not fit now: the gang requests 16 GPUs, and the capability of queue default is 24 GPUs, "
        "16 GPUs of it allocated"
    )


def test_capability_of_a_queue_above_counts(volcano: CheckedCluster) -> None:
    volcano.add(queue("default", parent="team"), queue("team", capability=8))
    assert volcano.check().verdict == (
        "cannot fit: the gang requests 16 GPUs, and the capability of queue team is 8 GPUs"
    )


@pytest.mark.parametrize(
    ("queues", "message", "fix"),
    [
        pytest.param(
            [queue("gold")],
            "unable to find job queue: there is no queue default",
            "there are: gold",
            id="absent",
        ),
        pytest.param(
            [queue("default", state="Closed")],
            "can only submit job to queue with state `Open`, queue `default` status is `Closed`",
            "name an open queue, or open this one: vcctl queue operate",
            id="closed",
        ),
        pytest.param(
            [queue("default"), queue("child", parent="default")],
            "can only submit job to leaf queue, queue `default` has 1 child queues",
            "name one of them: child",
            id="no-leaf",
        ),
    ],
)
def test_queue_that_takes_no_jobs_is_refused(
    volcano: CheckedCluster, queues: list[Object], message: str, fix: str
) -> None:
    volcano.add(*queues)
    assert volcano.check().findings == [error("volcano/queue", "spec.queue", message, fix=fix)]


RAY_POD = {"containers": [{"name": "r", "resources": {"limits": {"cpu": "1"}}}]}


def ray_cluster(workers: int, *, labels: dict[str, str], **spec: Any) -> Object:
    """A head without GPUs and workers with 8 each."""
    group = {"groupName": "w", "replicas": workers, "minReplicas": 1, "maxReplicas": 9, "template": pod_template(8)}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "rc", "namespace": "ml", "labels": labels},
        "spec": {"headGroupSpec": {"template": {"spec": RAY_POD}}, "workerGroupSpecs": [group], **spec},
    }


TIER_1 = {
    "volcano.sh/network-topology-mode": "hard",
    "volcano.sh/network-topology-highest-tier-allowed": "1",
}


@pytest.fixture
def ray(volcano: CheckedCluster) -> CheckedCluster:
    """The racks, whose nodes have CPUs too, and a RayCluster that has to stay in one."""
    for node in ("a0", "a1", "b0", "b1", "c"):
        volcano.edit(f"Node/{node}", "status.allocatable.cpu", "64")
    volcano.workload = ray_cluster(2, labels=TIER_1)
    return volcano


def test_ray_cluster_stays_in_the_tier_of_its_labels(ray: CheckedCluster) -> None:
    answer = ray.check()
    assert answer.findings == []
    assert answer.workload == text("""
        Volcano raycluster/rc -n ml on cluster
          rc: required rack; 1 pods (cpu=1000); 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.verdict == TWO_RACKS_FIT


def test_ray_cluster_larger_than_its_tier_never_fits(ray: CheckedCluster) -> None:
    ray.workload = ray_cluster(3, labels=TIER_1)
    assert ray.check().verdict == "cannot fit: rc needs 24 GPUs in one rack, largest has 16 (a/r1)"


def test_ray_cluster_in_soft_mode_goes_anywhere(ray: CheckedCluster) -> None:
    ray.workload = ray_cluster(5, labels={**TIER_1, "volcano.sh/network-topology-mode": "soft"})
    assert ray.check().verdict == "fits: 6 pods on 5 nodes"


def test_autoscaled_ray_cluster_starts_with_its_minimum(ray: CheckedCluster) -> None:
    ray.workload = ray_cluster(3, labels=TIER_1, enableInTreeAutoscaling=True)
    answer = ray.check()
    assert answer.workload == text("""
        Volcano raycluster/rc -n ml on cluster
          rc: required rack; 2 pods
    """)
    assert answer.verdict == "unclear: which 2 of its 4 pods start together is unknown"


def test_tier_label_without_mode_is_warned_of(ray: CheckedCluster) -> None:
    label = "volcano.sh/network-topology-highest-tier-allowed"
    ray.workload = ray_cluster(2, labels={label: "1"})
    assert ray.check().findings == [
        warning(
            "volcano/no-mode",
            f"metadata.labels[{label}]",
            "has no effect without volcano.sh/network-topology-mode",
            fix="add the label volcano.sh/network-topology-mode: hard",
        )
    ]


@pytest.mark.parametrize(
    ("label", "value", "message", "fix"),
    [
        pytest.param(
            "volcano.sh/network-topology-mode",
            "hrd",
            "'hrd' is not one of hard, soft, so KubeRay cannot create a PodGroup",
            "did you mean 'hard'?",
            id="mode",
        ),
        pytest.param(
            "volcano.sh/network-topology-highest-tier-allowed",
            "one",
            "'one' is not a whole number, so KubeRay creates no PodGroup and no pod starts",
            "set the number of a tier, in quotes",
            id="tier",
        ),
    ],
)
def test_malformed_label_of_a_ray_cluster_is_refused(
    ray: CheckedCluster, label: str, value: str, message: str, fix: str
) -> None:
    ray.workload = ray_cluster(2, labels={**TIER_1, label: value})
    answer = ray.check()
    assert answer.findings == [error("volcano/label", f"metadata.labels[{label}]", message, fix=fix)]
    assert answer.verdict == ""


def test_queue_label_makes_a_ray_job_a_gang_beside_its_submitter(ray: CheckedCluster) -> None:
    cluster = ray_cluster(2, labels={})
    ray.workload = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "rj", "namespace": "ml", "labels": {"volcano.sh/queue-name": "gold"}},
        "spec": {"rayClusterSpec": cluster["spec"]},
    }
    answer = ray.check()
    assert answer.workload == text("""
        Volcano rayjob/rj -n ml
          rj: 1 pods (cpu=1000); 2 pods (nvidia.com/gpu=8)
          submitter: 1 submitter (cpu=500 memory=209715200)
    """)
    assert answer.notes == ["Volcano queue quota (gold) is not checked"]


def test_cluster_topology_stands_in_without_hyper_nodes(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3")

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_NOTE, STANDS_IN_NOTE]
    assert answer.verdict == TWO_RACKS_FIT


def test_level_of_hosts_makes_no_tier_of_its_own(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3")
    volcano.edit(
        "ClusterTopology/cluster",
        "spec.levels",
        [BLOCK_LEVEL, RACK_LEVEL, {"domain": "host", "key": "kubernetes.io/hostname"}],
    )

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [QUOTA_NOTE, STANDS_IN_NOTE]
    assert answer.verdict == TWO_RACKS_FIT


def test_second_cluster_topology_may_stand_in_too(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3")
    volcano.edit_workload(HIGHEST_TIER, 2)
    volcano.add(cluster_topology("other", BLOCK_LEVEL, RACK_LEVEL, {"domain": "shelf", "key": "gpu.topology/gpus"}))

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
        or on other
    """)
    assert answer.notes == [QUOTA_NOTE, STANDS_IN_NOTE]
    assert answer.verdict == TWO_RACKS_FIT


def test_second_cluster_topology_in_another_order_may_stand_in(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3")
    volcano.add(cluster_topology("other", RACK_LEVEL, BLOCK_LEVEL))

    answer = volcano.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Volcano job/train -n ml on cluster
          train: required rack; 2 pods (nvidia.com/gpu=8)
        or on other
    """)
    assert answer.notes == [QUOTA_NOTE, STANDS_IN_NOTE]
    assert answer.verdict == TWO_RACKS_FIT


def test_tier_name_that_no_cluster_topology_publishes_is_an_error(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3", "Node/c")
    volcano.edit("Node/a0", "metadata.labels", labels("a", "x"))
    volcano.edit("Node/a1", "metadata.labels", labels("a", "x"))
    volcano.edit("Node/b0", "metadata.labels", labels("b", "y0"))
    volcano.edit("Node/b1", "metadata.labels", labels("b", "y1"))
    volcano.edit("ClusterTopology/cluster", "spec.nodeSelector", {"matchLabels": {BLOCK: "a"}})
    volcano.add(
        cluster_topology("other", BLOCK_LEVEL, {"domain": "nvlink-domain", "key": NVLINK_DOMAIN}, select={BLOCK: "b"})
    )
    volcano.edit_workload(NETWORK_TOPOLOGY, {"mode": "hard", "highestTierName": "nvlink-domain"})

    answer = volcano.check()

    assert answer.findings == [
        error(
            "volcano/level-exists",
            "spec.networkTopology.highestTierName",
            ("failed to find hypernode tier name nvlink-domain: the scheduler logs this and places the pods anywhere"),
            fix="there are: block, rack",
        )
    ]
    assert answer.verdict == ""


def test_no_hyper_node_where_they_are_served_is_an_error(volcano: CheckedCluster) -> None:
    volcano.delete("HyperNode/s0", "HyperNode/s1", "HyperNode/s2", "HyperNode/s3")

    answer = volcano.check(served={"hypernodes.topology.volcano.sh": True})

    assert answer.findings == [
        error(
            "volcano/topology-exists",
            NETWORK_TOPOLOGY,
            "there are no HyperNodes, so the whole cluster counts as one and the pods may go anywhere",
            fix="ClusterTopology cluster sets spec.publish.volcano: Never; set it to Auto to publish the HyperNode",
        )
    ]
    assert answer.verdict == ""
