"""Which pods KAI starts together, kind by kind of workload."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER, TWO_TOPOLOGIES
from tests.integrations.kai.annotations import (
    JOB_IN_ONE_RACK,
    JOB_IS_NO_GANG,
    MIN_MEMBER,
    PREFERRED,
    REPLICATED_JOB_REQUIRED,
    REPLICATED_JOB_TOPOLOGY,
    REQUIRED,
    SET_MIN_MEMBER,
)
from tests.support.checking import Finding, Read, error, read, warning
from tests.support.documents import Edits, document, edited, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

REPLICATED_JOB_MIN_MEMBER = "spec.replicatedJobs[0].template.metadata.annotations[kai.scheduler/batch-min-member]"
FROM_1_TO_4 = "set a whole number from 1 to 4, in quotes"
JOB_ONE_BY_ONE = text("""
    KAI job/train -n ml on cluster, one by one
      train: required rack; 4 pods (nvidia.com/gpu=8)
""")
REPLICATED_JOBS = text("""
    KAI jobset/train -n ml on cluster, a gang
      train
        2 x job of a: required rack; 4 a (nvidia.com/gpu=8)
""")
LEADER_AND_WORKERS = text("""
    KAI leaderworkerset/train -n ml on cluster, a gang
      3 x train: required rack
        leader: 1 leader (nvidia.com/gpu=1)
        workers: 4 worker (nvidia.com/gpu=8)
""")


def replicated_job(name: str) -> dict[str, Any]:
    """One Job of four pods of a JobSet, without a level of its own."""
    return edited(in_one_rack(name), {"template.metadata": None})


def in_one_rack(name: str) -> dict[str, Any]:
    """One Job of four pods of a JobSet, kept in one rack."""
    job = document("kai/jobset")["spec"]["replicatedJobs"][0]
    return edited(job, {"name": name, "replicas": 1})


def no_gang(kind: str) -> Finding:
    """The warning on the four pods of a kind that has no gang size."""
    return warning(
        "kai/min-member",
        REQUIRED,
        f"KAI 0.17 does not treat a {kind} as a gang: it starts the 4 pods one by one, the first chooses the domain, "
        "and pods without room there wait",
        fix=(
            "use a LeaderWorkerSet, JobSet or Job; or write a PodGroup with minMember: 4, name it in the "
            "annotation pod-group-name of the pod template, and set kai.scheduler/skip-podgrouper: "
            f'"true" on the {kind}'
        ),
    )


TWO_JOBS: Edits = {
    "metadata.annotations": None,
    "spec.replicatedJobs[0].name": "a",
    "spec.replicatedJobs[0].replicas": 2,
}


def read_kai(name: str, edits: Edits | None = None, *, cluster: ClusterFacts = CLUSTER) -> Read:
    return read("KAI", document(f"kai/{name}", edits), cluster)


def test_job_without_min_member_is_no_gang() -> None:
    answer = read_kai("job", {MIN_MEMBER: None})
    assert answer.findings == [warning("kai/min-member", REQUIRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER)]
    assert answer.workload == JOB_ONE_BY_ONE
    assert answer.notes == []


def test_preferred_level_of_a_job_without_min_member_is_warned_of() -> None:
    answer = read_kai("job", {REQUIRED: None, PREFERRED: "example.com/rack", MIN_MEMBER: None})
    assert answer.findings == [warning("kai/min-member", PREFERRED, JOB_IS_NO_GANG, fix=SET_MIN_MEMBER)]
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, one by one
          train: preferred rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_kind_without_min_member_is_no_gang(kind: str) -> None:
    answer = read_kai(kind.lower())
    assert answer.findings == [no_gang(kind)]
    assert answer.workload == text(f"""
        KAI {kind.lower()}/train -n ml on cluster, one by one
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_job_of_one_pod_is_a_gang() -> None:
    answer = read_kai("job", {MIN_MEMBER: None, "spec.parallelism": 1, "spec.completions": 1})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, a gang
          train: required rack; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_job_with_min_member_of_all_pods_is_a_gang() -> None:
    answer = read_kai("job")
    assert answer.findings == []
    assert answer.workload == JOB_IN_ONE_RACK
    assert answer.notes == []


def test_room_is_checked_for_min_member_pods() -> None:
    answer = read_kai("job", {MIN_MEMBER: "3"})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI job/train -n ml on cluster, a gang
          train: required rack; 3 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 3 of 4 pods: KAI starts these together, and the others if there is room"
    ]


WRONG_MIN_MEMBERS = pytest.mark.parametrize(
    ("min_member", "message"),
    [
        pytest.param(
            "all",
            "'all' is not a whole number, so KAI creates no PodGroup and never schedules the pods",
            id="no-number",
        ),
        pytest.param(
            "4.0", "'4.0' is not a whole number, so KAI creates no PodGroup and never schedules the pods", id="fraction"
        ),
        pytest.param("0", "0 is below 1, so KAI creates no PodGroup and never schedules the pods", id="zero"),
        pytest.param("-1", "-1 is below 1, so KAI creates no PodGroup and never schedules the pods", id="negative"),
        pytest.param("5", "5 is more than the 4 pods that run at once, so KAI waits forever", id="too-many"),
    ],
)


@WRONG_MIN_MEMBERS
def test_wrong_min_member_of_a_job_is_refused(min_member: str, message: str) -> None:
    answer = read_kai("job", {MIN_MEMBER: min_member})
    assert answer.findings == [error("kai/min-member", MIN_MEMBER, message, fix=FROM_1_TO_4)]
    assert answer.workload == JOB_ONE_BY_ONE
    assert answer.notes == []


@WRONG_MIN_MEMBERS
def test_wrong_min_member_of_one_kind_of_jobs_is_refused(min_member: str, message: str) -> None:
    answer = read_kai("jobset", {**TWO_JOBS, REPLICATED_JOB_MIN_MEMBER: min_member})
    assert answer.findings == [error("kai/min-member", REPLICATED_JOB_MIN_MEMBER, message, fix=FROM_1_TO_4)]
    assert answer.workload == REPLICATED_JOBS
    assert answer.notes == []


def test_min_member_of_a_stateful_set_is_not_read() -> None:
    answer = read_kai("statefulset", {MIN_MEMBER: "4"})
    assert answer.findings == [
        warning("kai/min-member", MIN_MEMBER, "KAI reads this on Jobs and JobSets only", fix="remove it"),
        no_gang("StatefulSet"),
    ]
    assert answer.workload == text("""
        KAI statefulset/train -n ml on cluster, one by one
          train: required rack; 4 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_min_member_of_a_jobset_counts_its_kinds_of_jobs() -> None:
    answer = read_kai(
        "jobset",
        {MIN_MEMBER: "2", "spec.replicatedJobs": [replicated_job("b"), replicated_job("a"), replicated_job("c")]},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train: required zone
            job of a: 4 a (nvidia.com/gpu=8)
            job of b: 4 b (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["room is checked for a, b: KAI starts this many of the JobSet's 3 kinds of Jobs first"]


def test_min_member_of_a_jobset_beyond_its_kinds_means_all() -> None:
    answer = read_kai(
        "jobset",
        {MIN_MEMBER: "9", "spec.replicatedJobs": [replicated_job("b"), replicated_job("a"), replicated_job("c")]},
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train: required zone
            job of a: 4 a (nvidia.com/gpu=8)
            job of b: 4 b (nvidia.com/gpu=8)
            job of c: 4 c (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_each_job_of_one_kind_may_start_with_fewer_pods() -> None:
    answer = read_kai("jobset", {**TWO_JOBS, REPLICATED_JOB_MIN_MEMBER: "3"})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train
            2 x job of a: required rack; 3 a (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "a: room is checked for 3 of 4 pods: KAI starts these together, and the others if there is room"
    ]


def test_fewer_completions_than_parallel_pods_are_refused() -> None:
    answer = read_kai(
        "jobset",
        {
            "metadata.annotations": None,
            "spec.replicatedJobs[0].name": "a",
            "spec.replicatedJobs[0].replicas": 2,
            "spec.replicatedJobs[0].template.spec.completions": 2,
        },
    )
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.replicatedJobs[0].template.spec.parallelism",
            "KAI waits for 4 pods of each Job, but at most 2 ever run",
            fix="lower it to 2, or set kai.scheduler/batch-min-member on the Job template",
        )
    ]


def test_jobset_starts_its_kinds_of_jobs_by_name() -> None:
    answer = read_kai(
        "jobset", {"metadata.annotations": None, "spec.replicatedJobs": [in_one_rack("b"), in_one_rack("a")]}
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train
            job of a: required rack; 4 a (nvidia.com/gpu=8)
            job of b: required rack; 4 b (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_order_that_differs_from_names_is_refused() -> None:
    answer = read_kai(
        "jobset",
        {
            "metadata.annotations": None,
            "spec.replicatedJobs": [in_one_rack("b"), in_one_rack("a")],
            "spec.startupPolicy": {"startupPolicyOrder": "InOrder"},
        },
    )
    assert answer.findings == [
        error(
            "kai/startup-order",
            "spec.startupPolicy.startupPolicyOrder",
            "KAI 0.17 places a first, by name, but the JobSet creates b first, so neither ever starts",
            fix="rename them so that b is first by name, or use startupPolicyOrder: AnyOrder",
        )
    ]


def test_jobset_keeps_its_kinds_of_jobs_in_one_zone() -> None:
    answer = read_kai("jobset", {"spec.replicatedJobs": [in_one_rack("a"), in_one_rack("b")]})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train: required zone
            job of a: required rack; 4 a (nvidia.com/gpu=8)
            job of b: required rack; 4 b (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_order_that_follows_names_keeps_nothing_together() -> None:
    answer = read_kai(
        "jobset",
        {
            "spec.replicatedJobs": [in_one_rack("a"), in_one_rack("b")],
            "spec.startupPolicy": {"startupPolicyOrder": "InOrder"},
        },
    )
    assert answer.findings == [
        warning(
            "kai/startup-order",
            REQUIRED,
            "KAI 0.17 places a alone, and the others later wherever there is room, so this keeps no pods together",
            fix="use startupPolicyOrder: AnyOrder",
        )
    ]


def test_all_pods_of_a_tfjob_start_together() -> None:
    answer = read_kai("tfjob")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI tfjob/train -n ml on cluster, a gang
          train: required rack; 4 PS (nvidia.com/gpu=8); 4 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_min_available_of_a_tfjob_counts() -> None:
    answer = read_kai("tfjob", {"spec.runPolicy": {"schedulingPolicy": {"minAvailable": 5}}})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI tfjob/train -n ml on cluster, a gang
          train: required rack; 4 PS (nvidia.com/gpu=8); 1 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 5 of 8 pods: KAI starts these together, and the others if there is room"
    ]


def test_elastic_policy_of_a_tfjob_does_not_count() -> None:
    answer = read_kai("tfjob", {"spec.elasticPolicy": {"minReplicas": 3}})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI tfjob/train -n ml on cluster, a gang
          train: required rack; 4 PS (nvidia.com/gpu=8); 4 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_min_replicas_of_a_pytorchjob_count() -> None:
    answer = read_kai("pytorchjob")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train: required rack
            Master: 4 Master (nvidia.com/gpu=8)
            Worker: 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 6 of 8 pods: KAI starts these together, and the others if there is room"
    ]


def test_min_replicas_within_the_masters_leave_no_worker() -> None:
    answer = read_kai("pytorchjob", {"spec.elasticPolicy.minReplicas": 2})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train: required rack
            Master: 4 Master (nvidia.com/gpu=8)
            Worker: 0 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 2 of 8 pods: KAI starts these together, and the others if there is room"
    ]


def test_min_available_beyond_all_pods_is_refused() -> None:
    answer = read_kai(
        "pytorchjob",
        {
            "spec.pytorchReplicaSpecs.Master": None,
            "spec.elasticPolicy": None,
            "spec.runPolicy": {"schedulingPolicy": {"minAvailable": 5}},
        },
    )
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "5 is more than its 4 pods, so KAI waits forever",
            fix="set at most 4",
        )
    ]
    assert answer.workload == text("""
        KAI pytorchjob/train -n ml on cluster, a gang
          train: required rack
            Worker: 4 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_pods_of_a_tfjob_are_one_group() -> None:
    answer = read_kai("tfjob", {"spec.tfReplicaSpecs.PS.replicas": 2, "spec.tfReplicaSpecs.Worker.replicas": 2})
    assert answer.findings == []
    assert answer.workload == text("""
        KAI tfjob/train -n ml on cluster, a gang
          train: required rack; 2 PS (nvidia.com/gpu=8); 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_paddlejob_is_no_gang() -> None:
    answer = read_kai("paddlejob")
    assert answer.findings == [no_gang("PaddleJob")]
    assert answer.workload == text("""
        KAI paddlejob/train -n ml on cluster, one by one
          train: required rack; 2 PS (nvidia.com/gpu=8); 2 Worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_each_pod_of_a_deployment_is_alone() -> None:
    answer = read_kai("deployment")
    assert answer.findings == [
        warning(
            "kai/each-pod-alone",
            REQUIRED,
            "KAI creates a PodGroup for each pod of a Deployment, so this keeps no pods together",
            fix="use a Job or LeaderWorkerSet for pods that belong together",
        )
    ]
    assert answer.workload == text("""
        KAI deployment/train -n ml on cluster, a gang
          3 x pod: required rack; 1 pods (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_pod_is_its_own_workload() -> None:
    answer = read_kai("pod")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI pod/train -n ml on cluster, a gang
          train: required rack; 1 pod (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_each_job_of_a_jobset_has_a_constraint_of_its_own() -> None:
    answer = read_kai("jobset")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang
          train: required zone
            3 x job of workers: required rack; 4 workers (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_level_broader_than_that_of_the_jobset_is_refused() -> None:
    answer = read_kai("jobset", {REQUIRED: "example.com/rack", REPLICATED_JOB_REQUIRED: "topology.kubernetes.io/zone"})
    assert answer.findings == [
        error(
            "kai/broader-than-parent",
            REPLICATED_JOB_REQUIRED,
            (
                "'topology.kubernetes.io/zone' is broader than 'example.com/rack', which the group around it "
                "requires: KAI 0.17 never schedules it"
            ),
            fix="name a narrower level, or remove it",
        )
    ]


def test_broader_level_has_no_effect_beside_a_preferred_one() -> None:
    answer = read_kai(
        "jobset",
        {
            REQUIRED: "example.com/rack",
            "spec.replicatedJobs[0].template.metadata.annotations": {
                "kai.scheduler/topology": "cluster",
                "kai.scheduler/topology-required-placement": "topology.kubernetes.io/zone",
                "kai.scheduler/topology-preferred-placement": "kubernetes.io/hostname",
            },
        },
    )
    assert answer.findings == [
        warning(
            "kai/broader-than-parent",
            REPLICATED_JOB_REQUIRED,
            (
                "'topology.kubernetes.io/zone' is broader than 'example.com/rack', which the group around it "
                "requires, so it has no effect"
            ),
            fix="name a narrower level, or remove it",
        )
    ]


def test_jobset_on_two_topologies_is_not_placeable() -> None:
    answer = read_kai(
        "jobset",
        {
            "spec.replicatedJobs[0].name": "a",
            "spec.replicatedJobs[0].replicas": 1,
            REPLICATED_JOB_TOPOLOGY: "other",
            "spec.replicatedJobs[0].template.spec.parallelism": 1,
        },
        cluster=TWO_TOPOLOGIES,
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI jobset/train -n ml on cluster, a gang, not placeable
          train: required zone
            job of a: required rack; 1 a (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["the constraints use several topologies (cluster, other), so room is not checked"]


def test_each_replica_of_a_leaderworkerset_is_placed_by_itself() -> None:
    answer = read_kai("leaderworkerset", {"spec.leaderWorkerTemplate.workerTemplate.metadata": None})
    assert answer.findings == []
    assert answer.workload == LEADER_AND_WORKERS
    assert answer.notes == []


def test_leader_ready_keeps_no_workers_with_a_leader() -> None:
    answer = read_kai(
        "leaderworkerset",
        {"spec.leaderWorkerTemplate.workerTemplate.metadata": None, "spec.startupPolicy": "LeaderReady"},
    )
    assert answer.findings == [
        warning(
            "kai/leader-first",
            REQUIRED,
            (
                "KAI 0.17 places the leader before its workers exist, and the workers later wherever there is room, "
                "so this does not keep them together"
            ),
            fix="use startupPolicy: LeaderCreated",
        )
    ]
    assert answer.workload == LEADER_AND_WORKERS
    assert answer.notes == []


def test_leader_ready_elsewhere_is_not_read() -> None:
    answer = read_kai(
        "leaderworkerset",
        {
            REQUIRED: None,
            PREFERRED: "example.com/rack",
            "spec.leaderWorkerTemplate.workerTemplate.metadata": None,
            "spec.leaderWorkerTemplate.startupPolicy": "LeaderReady",
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI leaderworkerset/train -n ml on cluster, a gang
          3 x train: preferred rack
            leader: 1 leader (nvidia.com/gpu=1)
            workers: 4 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_worker_group_of_ray_has_a_level_of_its_own() -> None:
    answer = read_kai("raycluster")
    assert answer.findings == []
    assert answer.workload == text("""
        KAI raycluster/train -n ml on cluster, a gang
          train: required zone
            gpu: required rack; 4 gpu (nvidia.com/gpu=8)
            head: 1 head
    """)
    assert answer.notes == []


def test_min_replicas_of_a_ray_group_count_hosts() -> None:
    answer = read_kai(
        "raycluster",
        {
            "metadata.annotations": None,
            "spec.workerGroupSpecs[0].minReplicas": 2,
            "spec.workerGroupSpecs[0].numOfHosts": 2,
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        KAI raycluster/train -n ml on cluster, a gang
          train
            gpu: required rack; 4 gpu (nvidia.com/gpu=8)
            head: 1 head
    """)
    assert answer.notes == [
        "gpu: room is checked for 4 of 8 pods: KAI starts these together, and the others if there is room"
    ]


def test_min_replicas_beyond_replicas_of_ray_are_refused() -> None:
    answer = read_kai(
        "raycluster", {"spec.workerGroupSpecs[0].replicas": None, "spec.workerGroupSpecs[0].minReplicas": 2}
    )
    assert answer.findings == [
        error(
            "kai/min-member",
            "spec.workerGroupSpecs[0].minReplicas",
            "2 is more than its 0 replicas: so KAI 0.17 creates no PodGroup and never schedules a pod of the "
            "RayCluster",
            fix="set replicas to 2 or more",
        )
    ]


def test_level_of_a_ray_group_without_topology_is_refused() -> None:
    answer = read_kai(
        "raycluster",
        {
            "metadata.annotations": None,
            "spec.workerGroupSpecs[0].template.metadata.annotations[kai.scheduler/topology]": None,
        },
    )
    assert answer.findings == [
        error(
            "kai/topology-name",
            "spec.workerGroupSpecs[0].template.metadata.annotations[kai.scheduler/topology-required-placement]",
            (
                "topology annotation (kai.scheduler/topology) is required for workerGroupSpecs.gpu when "
                "topology placement annotations are set"
            ),
            fix="also set kai.scheduler/topology",
        )
    ]
    assert answer.workload == text("""
        KAI raycluster/train -n ml, a gang
          train
            gpu: 4 gpu (nvidia.com/gpu=8)
            head: 1 head
    """)
    assert answer.notes == []


def test_ray_job_with_a_submitter_is_refused_by_its_operator() -> None:
    cluster = document("kai/raycluster")
    edits = {"headGroupSpec.template.spec.schedulerName": None, "workerGroupSpecs[0].template.spec.schedulerName": None}
    ray_job = {**cluster, "kind": "RayJob", "spec": {"rayClusterSpec": edited(cluster["spec"], edits)}}
    answer = read("KAI", ray_job, CLUSTER)
    refusal = error(
        "kai/submission-mode",
        "spec.submissionMode",
        "KAI-Scheduler does not support RayJob with K8sJobMode: the submitter pod is created after RayCluster is "
        "ready, preventing proper gang scheduling",
        fix="set submissionMode: HTTPMode or SidecarMode; K8sJobMode is the default",
    )
    assert refusal in answer.findings
    in_http_mode = edited(ray_job, {"spec.submissionMode": "HTTPMode"})
    assert refusal not in read("KAI", in_http_mode, CLUSTER).findings
