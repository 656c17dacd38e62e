"""Workloads of every system against one small cluster: the answer of the whole check."""

import pytest

from tests.support.workloads import HOST, RACK, ZONE, Object, job, jobset, leader_worker_set, replicated
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Field
from toposcope.placement.check import Checked, Checker
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.model import NodeView, Owner, PodView, Published, Snapshot
from toposcope.topology.levels import Level

LABELS = (ZONE.key, RACK.key, HOST.key)
PLACES = {key: number for number, key in enumerate(LABELS)}
RESOURCES = {"nvidia.com/gpu": 8, "cpu": 64000, "memory": 1 << 40, "pods": 110}
JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def node(number: int, zone: str, rack: str) -> NodeView:
    name = f"n{number}"
    values = (zone, rack, name)
    return NodeView(name, name, PLACES, values, True, True, (), RESOURCES, {}, None)


def published(name: str, *keys: str, group: str = "kueue.x-k8s.io", alias: str = "") -> Published:
    levels = [{"nodeLabel": key, **({"alias": alias} if alias else {})} for key in keys]
    document = {"spec": {"levels": levels}}
    return Published(f"{group}/v1", "Topology", name, tuple(Level("", key) for key in keys), document)


def pod(node_name: str, **labels: str) -> PodView:
    owner = Owner("batch/v1", "Job", "j")
    return PodView("other", "p", node_name, "Running", {"pods": 1}, owner, labels, {}, "default-scheduler", "")


# Two zones, each with a rack called r1 of two nodes; a third rack of one node.
NODES = (node(0, "a", "r1"), node(1, "a", "r1"), node(2, "b", "r1"), node(3, "b", "r1"), node(4, "b", "r2"))


def check(document: Object, *topologies: Published, pods: tuple[PodView, ...] = ()) -> Checked:
    snapshot = Snapshot("test", None, NODES, pods, (), topologies)
    (found,) = Checker(snapshot).check(document)
    return found


def verdict(checked: Checked) -> Verdict:
    assert checked.verdict is not None
    return checked.verdict


def kinds(checked: Checked) -> str:
    return verdict(checked).kind


def workload(checked: Checked) -> Workload:
    assert checked.reading.workload is not None
    return checked.reading.workload


def kai(level: str) -> Object:
    annotations = {"topology": "t", "topology-required-placement": level, "topology-preferred-placement": level}
    return {f"kai.scheduler/{name}": value for name, value in annotations.items()}


@pytest.mark.parametrize(("pods", "kind"), [(2, "fits"), (3, "never")])
def test_a_job_for_kai(pods: int, kind: str) -> None:
    full = published("t", *LABELS, group="kai.scheduler")
    together = {"kai.scheduler/batch-min-member": str(pods)}
    assert kinds(check(job(pods, kai(RACK.key) | together), full)) == kind


def test_an_alias_of_kai() -> None:
    topology = published("t", RACK.key, group="kai.scheduler", alias="pod-rack")
    checked = check(job(2, kai("pod-rack") | {"kai.scheduler/batch-min-member": "2"}), topology)
    assert checked.well
    assert kinds(checked) == "fits"


def test_kueue_takes_the_topology_that_has_room() -> None:
    document = job(3, None, {"kueue.x-k8s.io/podset-required-topology": RACK.key})
    narrow, wide = published("a", *LABELS), published("b", RACK.key, HOST.key)
    assert kinds(check(document, narrow)) == "never"
    # Where the zone is no level, the racks called r1 are one.
    checked = check(document, narrow, wide)
    assert kinds(checked) == "fits"
    assert workload(checked).topology == "b"


def test_the_answer_counts_the_domains_that_one_pod_set_could_take() -> None:
    document = job(2, None, {"kueue.x-k8s.io/podset-required-topology": RACK.key})
    found = verdict(check(document, published("t", *LABELS)))
    assert found.best is not None
    assert (found.roomy, found.best.level.key) == (2, RACK.key)


def test_jobs_apart_compare_the_label_alone() -> None:
    def exclusive(jobs: int) -> Checked:
        return check(jobset(replicated("a", jobs, 1), annotations={JOBS: RACK.key}))

    assert kinds(exclusive(2)) == "fits"
    assert kinds(exclusive(3)) == "never"  # three racks by their path, two by their name


def test_racks_of_running_jobs_are_taken() -> None:
    document = jobset(replicated("a", 1, 1), annotations={JOBS: RACK.key})
    running = pod("n0", **{"jobset.sigs.k8s.io/job-key": "x"})
    checked = check(document, pods=(running,))
    assert kinds(checked) == "fits"
    assert {name for placed in verdict(checked).placed for name, _ in placed.nodes} == {"n4"}
    both = (running, pod("n4", **{"jobset.sigs.k8s.io/job-key": "y"}))
    assert kinds(check(document, pods=both)) != "fits"


def test_groups_and_sub_groups_apart() -> None:
    both = {
        "leaderworkerset.sigs.k8s.io/exclusive-topology": RACK.key,
        "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": HOST.key,
    }
    policy = {"subGroupSize": 1}
    document = leader_worker_set(1, 2, both, leader=False, subGroupPolicy=policy)
    checked = check(document)
    assert not checked.errors
    # The leader and its first worker share a host, 16 GPUs on one of 8: no host has that.
    assert kinds(checked) == "never"


def test_plain_workloads() -> None:
    assert kinds(check(leader_worker_set(1, 5, leader=False))) == "fits"
    assert kinds(check(leader_worker_set(1, 6, leader=False))) == "never"


def test_without_knowledge_there_is_no_verdict() -> None:
    document = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": {"minMember": 8}}
    assert check(document).verdict is None


def test_paths_of_keys_with_dots() -> None:
    part = Field({"limits": {"nvidia.com/gpu": 8}}) / "limits" / "nvidia.com/gpu"
    assert (part.path, part.value) == ("limits[nvidia.com/gpu]", 8)


def test_a_deployment_of_dynamo_keeps_each_replica_together() -> None:
    def deployment(nodes: int) -> Object:
        component = {
            "name": "decode",
            "replicas": 2,
            "multinode": {"nodeCount": nodes},
            "topologyConstraint": {"packDomain": "rack"},
            "podTemplate": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}},
        }
        spec = {"topologyConstraint": {"clusterTopologyName": "t"}, "components": [component]}
        return {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {}, "spec": spec}

    document: Object = {"spec": {"levels": []}}
    levels = (Level("zone", ZONE.key), Level("rack", RACK.key), Level("host", HOST.key))
    binding = Published("grove.io/v1alpha1", "ClusterTopologyBinding", "t", levels, document)
    assert kinds(check(deployment(2), binding)) == "fits"  # one replica in each r1
    assert kinds(check(deployment(3), binding)) == "never"


def test_the_hardest_group_of_an_osmo_workflow_decides() -> None:
    def workflow(*tasks: int) -> Object:
        groups = [
            {"name": f"g{count}", "tasks": [{"name": f"t{number}", "resource": "r"} for number in range(count)]}
            for count in tasks
        ]
        resources = {"r": {"gpu": 8, "topology": [{"key": "shelf"}]}}
        return {"workflow": {"name": "w", "groups": groups, "resources": resources}}

    keys = [{"key": "area", "label": ZONE.key}, {"key": "shelf", "label": RACK.key}]
    pool = {"name": "p", "topology_keys": keys}

    def answered(document: Object) -> Checked:
        (found,) = Checker(Snapshot("test", None, NODES, ()), [document, pool]).check(document)
        return found

    # All of them together need 6 nodes of 5; they run one after the other.
    assert kinds(answered(workflow(2, 1, 2, 1))) == "fits"
    checked = answered(workflow(2, 3, 1))
    assert kinds(checked) == "never"
    assert workload(checked).handle == "workflow/w, group g3"


def test_run_ais_preference_never_keeps_a_workload_out() -> None:
    document = leader_worker_set(1, 5, leader=False)
    template = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["schedulerName"] = "runai-scheduler"
    checked = check(document, published("t", *LABELS, group="kai.scheduler"))
    assert (workload(checked).system, workload(checked).topology) == ("Run:ai", "t")
    assert kinds(checked) == "fits"
