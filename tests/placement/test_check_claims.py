"""Whether pods find their devices where these come by resource claims."""

from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RACK = "example.com/rack"
EXTENDED_RESOURCE = "spec.extendedResourceName"
POD_CLAIMS = "spec.template.spec.resourceClaims"
SECOND_JOB = "spec.replicatedJobs[1].template.spec"
DRAIN_N0 = ["would fit if 1 node of the cluster were drained: n0"]
DEPENDS_ON_CHOICE = "unclear: whether its pods get their devices depends on which ones the scheduler takes for each"
SHARED_CLAIM = (
    "unclear: it is unknown which devices its pods get: resourceclaim/own -n ml is shared by pods or already allocated"
)
OWN_CLAIM = [{"name": "g", "resourceClaimName": "own"}]
ONE_OF_TEMPLATE = [{"name": "g", "resourceClaimTemplateName": "one"}]


@pytest.fixture
def job() -> CheckedCluster:
    """Two GPUs on each of n0 and n1 in rack r1, and one on n2 in r2; a Job of two pods that claim two each."""
    return CheckedCluster("placement/clusters/devices", "placement/claiming-job")


@pytest.fixture
def jobset() -> CheckedCluster:
    """The same with a JobSet of two such pods, which have a rack to themselves, and one without claims."""
    return CheckedCluster("placement/clusters/devices", "placement/claiming-jobset")


@pytest.fixture
def leader_worker_set() -> CheckedCluster:
    """The same with a LeaderWorkerSet whose group of two pods shares a host."""
    return CheckedCluster("placement/clusters/devices", "placement/claiming-leader-worker-set")


def pods_with(container: Object) -> Object:
    """A pod template of one container."""
    return {"spec": {"containers": [{"name": "c", **container}]}}


def job_of(pods: int, template: Object) -> Object:
    """The spec of a Job."""
    return {"parallelism": pods, "completions": pods, "template": template}


def status(**allocatable: str) -> Object:
    """Of a Ready node."""
    return {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}


EXTENDED = pods_with({"resources": {"limits": {"example.com/gpu": 2}}})
FOUR_BY_PLUGIN = status(**{"cpu": "8", "pods": "110", "example.com/gpu": "4"})
HELD_CLAIM = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: held, namespace: ml}
    spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
    status: {allocation: {devices: {results: [{request: r, driver: d, pool: n0, device: g0}]}}}
"""


def test_claims_of_two_pods_fit_on_two_nodes(job: CheckedCluster) -> None:
    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"
    assert answer.json["verdict"]["placement"] == [{"group": "train", "domain": [], "nodes": {"n0": 1, "n1": 1}}]


def test_third_pod_finds_no_devices(job: CheckedCluster) -> None:
    job.pods(3)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 3 x resourceclaimtemplate/two -n ml, the nodes it may use have 2"


def test_pod_with_two_claims_finds_no_node(job: CheckedCluster) -> None:
    job.edit_workload(
        POD_CLAIMS,
        [{"name": "g", "resourceClaimTemplateName": "one"}, {"name": "h", "resourceClaimTemplateName": "two"}],
    )
    job.pods(1)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == (
        "cannot fit: a pod of train needs 1 x resourceclaimtemplate/one -n ml and "
        "resourceclaimtemplate/two -n ml, and no node that it may use has any"
    )


def test_resources_count_before_claims(job: CheckedCluster) -> None:
    job.pods(25)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 25 CPU cores, the nodes it may use have 24"


def test_exclusive_jobs_with_claims_fit(jobset: CheckedCluster) -> None:
    answer = jobset.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 3 pods on 3 nodes"


def test_node_that_lacks_the_label_serves_pods_without_affinity(jobset: CheckedCluster) -> None:
    jobset.label_node("n2", RACK, None)

    answer = jobset.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 3 pods on 3 nodes"
    assert answer.roomy_domains == ["r1: 2 nodes, 220"]
    assert answer.json["verdict"]["placement"][1] == {"group": "job of b", "domain": [], "nodes": {"n2": 1}}
    assert answer.json["verdict"]["leftOut"] == {}


def test_devices_that_another_claim_holds_do_not_count(job: CheckedCluster) -> None:
    job.apply(HELD_CLAIM)

    answer = job.check()

    assert answer.findings == []
    assert (
        answer.verdict
        == "does not fit now: train needs 2 x resourceclaimtemplate/two -n ml, the nodes it may use have 1"
    )
    assert answer.advice == DRAIN_N0


def test_pods_of_a_subgroup_do_not_share_a_host(leader_worker_set: CheckedCluster) -> None:
    answer = leader_worker_set.check()

    assert answer.findings == []
    assert (
        answer.verdict
        == "cannot fit: sub-group needs 2 x resourceclaimtemplate/two -n ml in one host, largest has 1 (n0)"
    )


def test_node_that_lacks_one_level_of_affinity_serves_at_another(leader_worker_set: CheckedCluster) -> None:
    leader_worker_set.edit(
        "Node/n0", "metadata.labels", {"kubernetes.io/hostname": "n0", "example.com/block": "b1", RACK: "r1"}
    )
    leader_worker_set.edit("Node/n1", "metadata.labels", {"kubernetes.io/hostname": "n1", "example.com/block": "b1"})
    leader_worker_set.edit(
        "Node/n2", "metadata.labels", {"kubernetes.io/hostname": "n2", "example.com/block": "b2", RACK: "r2"}
    )
    leader_worker_set.edit_workload(
        "metadata.annotations",
        {
            "leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/block",
            "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": RACK,
        },
    )
    leader_worker_set.edit_workload(
        "spec",
        {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": 3,
                "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
                "leaderTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}},
                "workerTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
            },
        },
    )

    answer = leader_worker_set.check()

    assert answer.findings == []
    assert (
        answer.verdict
        == "cannot fit: a pod of group needs 9 CPU cores, and no node that it may use has more than 8 (n0)"
    )
    assert answer.offers == ["b1: 2 nodes, 16000", "b2: 1 nodes, 8000"]


def test_extended_resource_of_a_device_class_is_counted(job: CheckedCluster) -> None:
    job.edit("DeviceClass/gpu", EXTENDED_RESOURCE, "example.com/gpu")
    job.edit_workload("spec", job_of(3, EXTENDED))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 6 example.com/gpu, the nodes it may use have 5"


def test_extended_resource_that_a_claim_holds_does_not_count(job: CheckedCluster) -> None:
    job.edit("DeviceClass/gpu", EXTENDED_RESOURCE, "example.com/gpu")
    job.apply(HELD_CLAIM)
    job.edit_workload("spec", job_of(2, EXTENDED))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: train needs room for 2 pods with 2 example.com/gpu, the nodes it may use have room for 1"
    )
    assert answer.advice == DRAIN_N0


def test_extended_resource_of_a_plugin_counts_beside_devices(job: CheckedCluster) -> None:
    job.delete("ResourceSlice/n2")
    job.edit("DeviceClass/gpu", EXTENDED_RESOURCE, "example.com/gpu")
    job.edit("Node/n2", "status", FOUR_BY_PLUGIN)
    job.edit_workload("spec", job_of(4, EXTENDED))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 4 pods on 3 nodes"
    assert answer.json["verdict"]["placement"][0]["nodes"] == {"n0": 1, "n1": 1, "n2": 2}


def test_extended_resource_of_a_plugin_counts_before_devices(job: CheckedCluster) -> None:
    job.edit("DeviceClass/gpu", EXTENDED_RESOURCE, "example.com/gpu")
    job.edit("Node/n2", "status", FOUR_BY_PLUGIN)
    job.edit_workload("spec", job_of(4, EXTENDED))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 4 pods on 3 nodes"


def test_claim_that_two_pods_share_is_unclear(job: CheckedCluster) -> None:
    job.edit_workload(POD_CLAIMS, OWN_CLAIM)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == SHARED_CLAIM


def test_claim_of_one_pod_fits(job: CheckedCluster) -> None:
    job.edit_workload(POD_CLAIMS, OWN_CLAIM)
    job.pods(1)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 1 pod on 1 node"


def test_claim_that_a_group_shares_is_unclear(leader_worker_set: CheckedCluster) -> None:
    leader_worker_set.edit_workload("spec.leaderWorkerTemplate.workerTemplate.spec.resourceClaims", OWN_CLAIM)

    answer = leader_worker_set.check()

    assert answer.findings == []
    assert answer.verdict == SHARED_CLAIM


def test_claim_that_two_groups_share_is_unclear(leader_worker_set: CheckedCluster) -> None:
    leader_worker_set.edit_workload("metadata.annotations", None)
    leader_worker_set.edit_workload(
        "spec",
        {
            "replicas": 2,
            "leaderWorkerTemplate": {
                "size": 2,
                "workerTemplate": {"spec": {"resourceClaims": OWN_CLAIM, "containers": [{"name": "c"}]}},
            },
        },
    )

    answer = leader_worker_set.check()

    assert answer.findings == []
    assert answer.verdict == SHARED_CLAIM


def test_pool_with_slices_missing_is_unclear(job: CheckedCluster) -> None:
    job.edit("ResourceSlice/n0", "spec.pool.resourceSliceCount", 2)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == DEPENDS_ON_CHOICE


def test_devices_that_are_on_no_node_are_unclear(job: CheckedCluster) -> None:
    job.edit("ResourceSlice/n0", "spec.nodeName", None)
    job.pods(3)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == DEPENDS_ON_CHOICE


def test_selector_on_a_missing_attribute_is_unclear(job: CheckedCluster) -> None:
    job.edit("ResourceSlice/n0", "spec.devices[0].attributes", {})
    job.edit(
        "ResourceClaimTemplate/two",
        "spec.spec.devices.requests[0].exactly.selectors",
        [{"cel": {"expression": 'device.attributes["d"].size == 2'}}],
    )
    job.pods(1)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == DEPENDS_ON_CHOICE


def test_claims_of_two_sizes_are_unclear(jobset: CheckedCluster) -> None:
    jobset.edit_workload(
        "spec.replicatedJobs[1].template.spec.template.spec",
        {"resourceClaims": ONE_OF_TEMPLATE, "containers": [{"name": "c"}]},
    )

    answer = jobset.check()

    assert answer.findings == []
    assert answer.verdict == DEPENDS_ON_CHOICE


def test_more_claims_than_devices_never_fit(jobset: CheckedCluster) -> None:
    jobset.edit_workload(
        "spec.replicatedJobs[1].template.spec",
        {"parallelism": 6, "template": {"spec": {"resourceClaims": ONE_OF_TEMPLATE, "containers": [{"name": "c"}]}}},
    )

    answer = jobset.check()

    assert answer.findings == []
    assert (
        answer.verdict == "cannot fit: job of b needs 6 x resourceclaimtemplate/one -n ml, the nodes it may use have 5"
    )


def test_job_without_pods_asks_for_no_room(job: CheckedCluster) -> None:
    job.edit_workload("spec.parallelism", 0)

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == ""


def test_leader_worker_set_without_replicas_asks_for_no_room(leader_worker_set: CheckedCluster) -> None:
    leader_worker_set.edit_workload("spec.replicas", 0)

    answer = leader_worker_set.check()

    assert answer.findings == []
    assert answer.verdict == ""


def test_node_that_does_not_say_takes_110_pods(job: CheckedCluster) -> None:
    job.delete("Node/n1", "Node/n2")
    job.edit("Node/n0", "status", status(cpu="8"))
    job.edit_workload("spec", job_of(111, pods_with({})))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 111 pods, the nodes it may use have 110"


def test_node_takes_as_many_pods_as_it_says(job: CheckedCluster) -> None:
    job.delete("Node/n1", "Node/n2")
    job.edit("Node/n0", "status", status(cpu="8", pods="3"))
    job.edit_workload("spec", job_of(4, pods_with({})))

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 4 pods, the nodes it may use have 3"


def test_claims_are_unclear_where_kai_places(job: CheckedCluster) -> None:
    job.edit_workload("spec.template.spec.schedulerName", "kai-scheduler")

    answer = job.check()

    assert answer.findings == []
    assert answer.verdict == "unclear: it is unknown which devices the resource claims of its pods get"
