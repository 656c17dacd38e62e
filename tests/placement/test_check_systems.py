"""Whether workloads of each system fit on one small cluster: racks, exclusive placement, plain workloads, JSON."""

from typing import Any

import pytest
from tests.support.checked_cluster import GPU, NOT_CHECKED, CheckedCluster
from tests.support.checking import error, warning
from tests.support.documents import text

pytestmark = pytest.mark.regression

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
TWO_RACKS_FIT = "fits: 2 example.com/racks could take it now, best a/r1 (2 nodes, 16 free GPUs)"
POOL_NOTE = (
    "OSMO's pod templates may restrict the pool's platforms to some nodes; they are unknown here, so all nodes count"
)
HARDEST_GROUP_NOTE = "OSMO places each group of tasks separately; this is the group that is hardest to place"
WITHOUT_QUEUE = warning(
    "kueue/queue-name",
    "metadata.labels[kueue.x-k8s.io/queue-name]",
    "Kueue does not manage a workload without a queue, so its annotations have no effect",
    fix="label the Job with kueue.x-k8s.io/queue-name (not needed where Kueue manages jobs without a queue name)",
)
OSMO_POOL = """
    name: p
    topology_keys:
      - {key: area, label: topology.kubernetes.io/zone}
      - {key: shelf, label: example.com/rack}
"""
CLUSTER_TOPOLOGY_BINDING = """
    apiVersion: grove.io/v1alpha1
    kind: ClusterTopologyBinding
    metadata: {name: t}
    spec:
      levels:
        - {domain: zone, key: topology.kubernetes.io/zone}
        - {domain: rack, key: example.com/rack}
        - {domain: host, key: kubernetes.io/hostname}
"""


@pytest.fixture
def cluster() -> CheckedCluster:
    """Two zones, each with a rack r1 of two nodes, and a rack r2 of one node; a Job for KAI, of two pods in a rack."""
    return CheckedCluster("placement/clusters/three-racks", "placement/kai-job-in-rack")


def kueue_topology(name: str, *keys: str) -> Object:
    """A Topology of Kueue's with these levels."""
    levels = [{"nodeLabel": key} for key in keys]
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology"}
    return {**head, "metadata": {"name": name}, "spec": {"levels": levels}}


def pod_template(**spec: Any) -> Object:
    """A pod of 8 GPUs."""
    return {"spec": {**spec, "containers": [{"name": "c", "resources": {"limits": {GPU: "8"}}}]}}


def kai_pod_template() -> Object:
    """A pod of 8 GPUs for KAI."""
    container = {"name": "c", "image": "example.invalid/c", "resources": {"limits": {GPU: "8"}}}
    return {"metadata": {}, "spec": {"containers": [container], "schedulerName": "kai-scheduler"}}


def exclusive_jobset(*, jobs: int, template: Object, level: str = RACK) -> Object:
    """A JobSet of one-pod Jobs each of which has a domain to itself."""
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": level}
    job = {"metadata": {}, "spec": {"parallelism": 1, "template": template}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml", "annotations": annotations},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": jobs, "template": job}]},
    }


def running_exclusively(name: str, *, on: str, job: str) -> Object:
    """A running pod of an exclusive Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    metadata = {
        "name": name,
        "namespace": "other",
        "labels": {"jobset.sigs.k8s.io/job-key": job},
        "ownerReferences": [owner],
    }
    spec = {"nodeName": on, "containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def plain_leader_worker_set(*, size: int, scheduler: str) -> Object:
    """A LeaderWorkerSet with one group of pods of 8 GPUs, without a requirement."""
    template = kai_pod_template()
    template["spec"]["schedulerName"] = scheduler
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}}
    metadata = {"name": "train", "namespace": "ml"}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}


def dynamo_graph(*, nodes_per_replica: int) -> Object:
    """A DynamoGraphDeployment of two multinode replicas, each of which stays in a rack."""
    component = {
        "name": "decode",
        "replicas": 2,
        "multinode": {"nodeCount": nodes_per_replica},
        "topologyConstraint": {"packDomain": "rack"},
        "podTemplate": {"spec": {"containers": [{"resources": {"limits": {GPU: "8"}}}]}},
    }
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {},
        "spec": {"topologyConstraint": {"clusterTopologyName": "t"}, "components": [component]},
    }


def workflow(*groups: tuple[str, int]) -> Object:
    """A workflow of OSMO's: groups of so many tasks of 8 GPUs, each group on one shelf."""
    groups_of_tasks = []
    for name, tasks in groups:
        named_tasks = [{"name": f"t{number}", "resource": "r"} for number in range(tasks)]
        groups_of_tasks.append({"name": name, "tasks": named_tasks})
    resources = {"r": {"gpu": 8, "topology": [{"key": "shelf"}]}}
    return {"workflow": {"name": "w", "groups": groups_of_tasks, "resources": resources}}


def test_kai_job_fits_into_either_rack(cluster: CheckedCluster) -> None:
    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT


def test_kai_job_of_three_nodes_fits_into_no_rack(cluster: CheckedCluster) -> None:
    cluster.annotate("kai.scheduler/batch-min-member", "3")
    cluster.pods(3)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: train needs 24 GPUs in one example.com/rack, largest has 16 (a/r1)"


def test_kai_level_goes_by_its_alias(cluster: CheckedCluster) -> None:
    cluster.edit("Topology/t", "spec.levels", [{"nodeLabel": RACK, "alias": "pod-rack"}])
    cluster.annotate(REQUIRED, "pod-rack")
    cluster.annotate(PREFERRED, "pod-rack")

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack r1 (4 nodes, 32 free GPUs)"


def test_kueue_topology_of_zones_has_no_rack_for_three(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.add(kueue_topology("a", ZONE, RACK, HOST))
    cluster.edit_workload("metadata.annotations", None)
    cluster.pods(3)
    cluster.edit_workload("spec.template.metadata.annotations", {"kueue.x-k8s.io/podset-required-topology": RACK})

    answer = cluster.check()

    assert answer.findings == [WITHOUT_QUEUE]
    assert answer.workload == text("""
        Kueue job/train -n ml on a
          train
            pod set pods: required example.com/rack; 3 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: pod set pods needs 24 GPUs in one example.com/rack, largest has 16 (a/r1)"


def test_kueue_takes_the_topology_that_has_room(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.add(kueue_topology("a", ZONE, RACK, HOST))
    cluster.add(kueue_topology("b", RACK, HOST))
    cluster.edit_workload("metadata.annotations", None)
    cluster.edit_workload("spec.template.spec.schedulerName", None)
    cluster.pods(3)
    cluster.edit_workload("spec.template.metadata.annotations", {"kueue.x-k8s.io/podset-required-topology": RACK})

    answer = cluster.check()

    assert answer.findings == [WITHOUT_QUEUE]
    assert answer.workload == text("""
        Kueue job/train -n ml on b
          train
            pod set pods: required example.com/rack; 3 pods (nvidia.com/gpu=8)
        or on a
    """)
    assert answer.notes == ["the ResourceFlavor decides which topology it is: b, a"]
    assert answer.verdict == "fits: example.com/rack r1 (4 nodes, 32 free GPUs)"


def test_kueue_without_room_names_the_topology_that_is_closest(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.add(kueue_topology("a", ZONE, RACK, HOST))
    cluster.add(kueue_topology("b", RACK, HOST))
    cluster.edit_workload("metadata.annotations", None)
    cluster.pods(5)
    cluster.edit_workload("spec.template.metadata.annotations", {"kueue.x-k8s.io/podset-required-topology": RACK})

    answer = cluster.check()

    assert answer.findings == [WITHOUT_QUEUE]
    assert answer.verdict == "cannot fit: pod set pods needs 40 GPUs in one example.com/rack, largest has 32 (r1)"


def test_kueue_counts_the_domains_that_a_pod_set_could_take(cluster: CheckedCluster) -> None:
    cluster.edit("Topology/t", "apiVersion", "kueue.x-k8s.io/v1beta2")
    cluster.edit_workload("metadata.annotations", None)
    cluster.edit_workload("spec.template.spec.schedulerName", None)
    cluster.edit_workload("spec.template.metadata.annotations", {"kueue.x-k8s.io/podset-required-topology": RACK})

    answer = cluster.check()

    assert answer.findings == [WITHOUT_QUEUE]
    assert answer.verdict == TWO_RACKS_FIT


def test_exclusive_job_skips_nodes_without_the_label(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.label_node("n0", RACK, None)
    cluster.label_node("n1", RACK, None)
    cluster.apply("""
        apiVersion: v1
        kind: Node
        metadata: {name: cpu, labels: {kubernetes.io/hostname: cpu}}
        status: {allocatable: {cpu: '8', pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
    """)
    cluster.workload = exclusive_jobset(jobs=1, template=pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        JobSet jobset/train -n ml on labels example.com/rack
          job of a: required example.com/rack, apart by jobset.sigs.k8s.io/job-key; 1 a (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["2 of 5 nodes with GPUs lack example.com/rack and are silently skipped"]
    assert answer.verdict == "fits: 2 example.com/racks could take it now, best r2 (1 node, 8 free GPUs)"


def test_exclusive_job_on_a_label_that_no_node_carries_is_an_error(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = exclusive_jobset(jobs=1, template=pod_template(), level="example.com/none")

    answer = cluster.check()

    assert answer.findings == [
        error(
            "jobset/label-exists",
            "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]",
            "node does not have topology label: example.com/none",
            fix="no node carries the label 'example.com/none'; did you mean 'example.com/rack'?",
        )
    ]
    assert answer.workload == text("""
        JobSet jobset/train -n ml on labels example.com/none
          job of a: required example.com/none, apart by jobset.sigs.k8s.io/job-key; 1 a (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: 1 job of a needs one example.com/none to itself; there are 0"


def test_exclusive_jobs_go_to_racks_of_different_names(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = exclusive_jobset(jobs=2, template=pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_exclusive_jobs_cannot_share_racks_of_one_name(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = exclusive_jobset(jobs=3, template=kai_pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: 3 jobs of a each need one example.com/rack to themselves; there are 2"


def test_exclusive_jobs_go_by_names_of_the_binding(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.apply("""
        apiVersion: grove.io/v1alpha1
        kind: ClusterTopologyBinding
        metadata: {name: t}
        spec:
          levels:
            - {domain: zone, key: topology.kubernetes.io/zone}
            - {domain: rack, key: example.com/rack}
    """)
    cluster.workload = exclusive_jobset(jobs=3, template=pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: 3 jobs of a each need one rack to themselves; there are 2"


def test_exclusive_job_that_tolerates_all_may_use_a_cordoned_node(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.cordon("n4")
    cluster.workload = exclusive_jobset(jobs=1, template=pod_template(tolerations=[{"operator": "Exists"}]))

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 example.com/racks could take it now, best r2 (1 node, 8 free GPUs)"
    assert answer.roomy_domains == ["r2: 1 nodes, 8", "r1: 4 nodes, 32"]


def test_placeholder_is_a_domain_to_an_exclusive_job(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.label_node("n4", RACK, "no-topology")
    cluster.workload = exclusive_jobset(jobs=1, template=pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 2 example.com/racks could take it now, best no-topology (1 node, 8 free GPUs)"


def test_rack_of_a_running_exclusive_job_is_taken(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.add(running_exclusively("p", on="n0", job="x"))
    cluster.workload = exclusive_jobset(jobs=1, template=pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack r2 (1 node, 8 free GPUs)"


def test_exclusive_job_waits_when_every_rack_is_taken(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.add(running_exclusively("p", on="n0", job="x"))
    cluster.add(running_exclusively("p-1", on="n4", job="y"))
    cluster.workload = exclusive_jobset(jobs=1, template=kai_pod_template())

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == (
        "does not fit now: 2 of 2 example.com/racks are held by other groups: "
        "r1 by jobset/? -n other, r2 by jobset/? -n other"
    )


def test_exclusive_subgroup_of_two_nodes_fits_on_no_host(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.submit("""
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata:
          name: train
          namespace: ml
          annotations:
            leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack
            leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: kubernetes.io/hostname
        spec:
          replicas: 1
          leaderWorkerTemplate:
            size: 2
            workerTemplate:
              metadata: {}
              spec:
                containers:
                  - {name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '8'}}}
                schedulerName: kai-scheduler
            subGroupPolicy: {subGroupSize: 1}
    """)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: sub-group needs 16 GPUs in one host, largest has 8 (n0)"


def test_exclusive_group_avoids_racks_of_groups_in_its_namespace(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.apply("""
        apiVersion: v1
        kind: Pod
        metadata: {name: p, namespace: ml, labels: {leaderworkerset.sigs.k8s.io/group-key: x}}
        spec: {nodeName: n0, containers: [{name: c}]}
        status: {phase: Running}
    """)
    cluster.apply("""
        apiVersion: v1
        kind: Pod
        metadata: {name: q, namespace: other, labels: {leaderworkerset.sigs.k8s.io/group-key: x}}
        spec: {nodeName: n4, containers: [{name: c}]}
        status: {phase: Running}
    """)
    cluster.submit("""
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata:
          name: train
          namespace: ml
          annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack}
        spec:
          replicas: 1
          leaderWorkerTemplate:
            size: 1
            workerTemplate:
              metadata: {}
              spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: '8'}}}]}
    """)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: example.com/rack r2 (1 node, 8 free GPUs)"


def test_plain_leader_worker_set_fits_on_all_nodes(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = plain_leader_worker_set(size=5, scheduler="default-scheduler")

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kubernetes leaderworkerset/train -n ml
          train: 5 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "fits: 5 pods on 5 nodes"


def test_plain_leader_worker_set_needs_more_nodes(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = plain_leader_worker_set(size=6, scheduler="default-scheduler")

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Kubernetes leaderworkerset/train -n ml
          train: 6 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []
    assert answer.verdict == "cannot fit: train needs 48 GPUs, the nodes it may use have 40"


def test_pod_group_without_known_pods_has_no_verdict(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.submit("""
        apiVersion: scheduling.run.ai/v2alpha2
        kind: PodGroup
        spec: {minMember: 8}
    """)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == NOT_CHECKED


def test_dynamo_keeps_each_replica_in_a_rack(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.apply(CLUSTER_TOPOLOGY_BINDING)
    cluster.workload = dynamo_graph(nodes_per_replica=2)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "fits: 4 pods on 4 nodes"


def test_dynamo_replica_that_needs_more_than_a_rack_never_fits(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.apply(CLUSTER_TOPOLOGY_BINDING)
    cluster.workload = dynamo_graph(nodes_per_replica=3)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: replica of decode needs 24 GPUs in one rack, largest has 16 (a/r1)"


def test_osmo_hardest_group_decides(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = workflow(("g1", 1), ("g2", 3), ("g3", 4))
    cluster.put_beside(OSMO_POOL)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "cannot fit: shelf group default needs 24 GPUs in one shelf, largest has 16 (a/r1)"
    assert answer.json["workload"] == "workflow/w, group g2"


def test_osmo_groups_that_fit_are_all_described(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = workflow(("g2", 2), ("g1", 1), ("g2", 2), ("g1", 1))
    cluster.put_beside(OSMO_POOL)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/w, group g2 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g2
            shelf group default: required shelf; 2 r (nvidia.com/gpu=8)
        OSMO workflow/w, group g1 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g1
            shelf group default: required shelf; 1 r (nvidia.com/gpu=8)
        OSMO workflow/w, group g2 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g2
            shelf group default: required shelf; 2 r (nvidia.com/gpu=8)
        OSMO workflow/w, group g1 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g1
            shelf group default: required shelf; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        POOL_NOTE,
        HARDEST_GROUP_NOTE,
        POOL_NOTE,
        HARDEST_GROUP_NOTE,
        POOL_NOTE,
        HARDEST_GROUP_NOTE,
        POOL_NOTE,
        HARDEST_GROUP_NOTE,
    ]
    assert answer.verdict == "fits: 2 shelfs could take it now, best a/r1 (2 nodes, 16 free GPUs)"


def test_osmo_hardest_group_comes_first_among_stages(cluster: CheckedCluster) -> None:
    cluster.delete("Topology/t")
    cluster.workload = workflow(("g2", 2), ("g3", 3), ("g1", 1))
    cluster.put_beside(OSMO_POOL)

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/w, group g3 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g3
            shelf group default: required shelf; 3 r (nvidia.com/gpu=8)
        OSMO workflow/w, group g3 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g3
            shelf group default: required shelf; 3 r (nvidia.com/gpu=8)
        OSMO workflow/w, group g1 on labels topology.kubernetes.io/zone, example.com/rack, a gang
          group g1
            shelf group default: required shelf; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [POOL_NOTE, HARDEST_GROUP_NOTE, POOL_NOTE, HARDEST_GROUP_NOTE, POOL_NOTE, HARDEST_GROUP_NOTE]
    assert answer.verdict == "cannot fit: shelf group default needs 24 GPUs in one shelf, largest has 16 (a/r1)"


def test_runai_preference_never_keeps_a_workload_out(cluster: CheckedCluster) -> None:
    cluster.workload = plain_leader_worker_set(size=5, scheduler="runai-scheduler")

    answer = cluster.check()

    assert answer.findings == []
    assert answer.workload == text("""
        Run:ai leaderworkerset/train -n ml on t, a gang
          train: preferred host
            leader: 1 pods (nvidia.com/gpu=8)
            workers: 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["Run:ai prefers the lowest level of topology t by default (host), then broader levels"]
    assert answer.verdict == "fits: 5 pods on 5 nodes"


def test_json_of_a_workload_that_fits(cluster: CheckedCluster) -> None:
    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == TWO_RACKS_FIT
    assert answer.explanation == [
        "train must stay in one example.com/rack: 2 of 3 example.com/racks have room for it alone",
        "train: 2 pods in a/r1: n0, n1",
    ]
    assert answer.roomy_domains == ["a/r1: 2 nodes, 16", "b/r1: 2 nodes, 16"]
    assert answer.json["place"] == "work.yaml"
    assert answer.json["workload"] == "job/train -n ml"
    assert answer.json["system"] == "KAI"
    assert answer.json["topology"] == "t"
    assert answer.json["well"] is True
    assert answer.json["findings"] == []
    assert answer.json["notes"] == []
    assert answer.json["verdict"] == {
        "kind": "fits",
        "answer": TWO_RACKS_FIT,
        "domains": {"withRoom": 2, "exact": True},
        "best": {"level": RACK, "domain": "a/r1", "nodes": 2},
        "shortage": None,
        "remedies": [],
        "placement": [{"group": "train", "domain": ["a", "r1"], "nodes": {"n0": 1, "n1": 1}}],
        "leftOut": {},
    }


def test_json_of_a_workload_that_does_not_fit_now(cluster: CheckedCluster) -> None:
    cluster.taint("n4", "team=x:NoSchedule")
    cluster.run("other/p", on="n0", requests={GPU: "4"})
    cluster.run("other/q", on="n0", requests={"cpu": "4"})
    cluster.run("other/r", on="n2", requests={GPU: "4"})

    answer = cluster.check()

    assert answer.findings == []
    assert answer.verdict == "does not fit now: train needs 16 GPUs in one example.com/rack, largest has 12 (a/r1)"
    assert answer.advice == ["would fit if 1 node of a/r1 were drained of other/p: n0"]
    assert answer.explanation == [
        "train must stay in one example.com/rack: 0 of 2 example.com/racks have room for it alone",
        "1 node is left out: has taint team=x:NoSchedule (n4)",
    ]
    assert answer.json["well"] is False
    assert answer.json["verdict"] == {
        "kind": "full",
        "answer": "does not fit now: train needs 16 GPUs in one example.com/rack, largest has 12 (a/r1)",
        "domains": None,
        "best": None,
        "shortage": {
            "group": "train",
            "level": RACK,
            "counted": "resource",
            "resource": GPU,
            "needs": 16,
            "largest": 12,
            "domain": "a/r1",
            "copies": 1,
            "roomFor": 0,
        },
        "remedies": [{"act": "drain", "domain": "a/r1", "nodes": ["n0"], "pods": ["other/p"], "tolerations": []}],
        "placement": [],
        "leftOut": {"has taint team=x:NoSchedule": 1},
    }
