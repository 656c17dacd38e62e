"""What holds the waiting pods themselves: gates, suspension, operators' errors, and the scheduler's refusal."""

import pytest
from tests.explain.explained import Explain, failed
from tests.explain.waiting import (
    RACK,
    Object,
    WaitingCluster,
    condition,
    grove_set,
    kueue_job,
    named,
    owned,
    pod,
    pod_spec,
    train_job,
    untried_grove_set,
)

pytestmark = pytest.mark.regression

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
GROVE_GATE = "grove.io/podgang-pending-creation"


def gated(name: str, gate: str) -> Object:
    """A pod with a scheduling gate, as the API server reports it."""
    waiting = pod(name, message="Scheduling is blocked due to non-empty scheduling gates")
    waiting["spec"]["schedulingGates"] = [{"name": gate}]
    waiting["status"]["conditions"][0]["reason"] = "SchedulingGated"
    return waiting


# Scheduling gates


def test_gate_of_grove_is_answered_by_the_errors_of_its_operator(explain: Explain) -> None:
    cluster = untried_grove_set()
    for number in range(4):
        cluster[f"Pod/llm-0-worker-{number}"]["spec"]["schedulingGates"] = [{"name": GROVE_GATE}]
    error = {"code": "ERR_NO_ENTRIES", "description": "failed to sync: PodGangMap llm-0 has no entries"}
    cluster["PodCliqueSet/llm"]["status"]["lastErrors"] = [error]
    explained = explain(cluster, "pcs/llm")

    assert explained.code == 1
    assert explained.answer.name == "gates"
    assert explained.answer.message == (
        f"scheduling gate {GROVE_GATE} holds pod/llm-0-worker-0 and 3 more, so no scheduler looks at them"
    )
    assert explained.answer.details[1:] == [
        "podcliqueset/llm -n ml: ERR_NO_ENTRIES: failed to sync: PodGangMap llm-0 has no entries"
    ]


def test_gate_of_kueue_is_answered_by_its_refusal(explain: Explain) -> None:
    cluster = kueue_job(topology=None)
    waiting = owned(gated("train-0", "kueue.x-k8s.io/admission"), cluster["Job/train"])
    cluster.add(waiting)
    explained = explain(cluster, "job/train")

    assert explained.answer.name == "gates"
    assert explained.answer.details == [
        "Kueue removes it once it has admitted the pod's Workload",
        (
            "workload/job-train -n ml: QuotaReserved=False (Pending): couldn't assign flavors to pod set main: "
            'topology "cluster" doesn\'t allow to fit any of 4 pod(s)'
        ),
        "meaning: no domain of topology cluster has room for any of the 4 pods; see room for what is missing",
    ]


def test_gate_of_nobody_known_is_named(explain: Explain) -> None:
    explained = explain(WaitingCluster(gated("alone", "example.com/wait")), "pod/alone")

    assert explained.answer.name == "gates"
    assert explained.answer.message == ("scheduling gate example.com/wait holds pod/alone, so no scheduler looks at it")


# Suspension


def suspended_job() -> WaitingCluster:
    """A Job that is suspended, in no queue."""
    job = train_job({})
    job["spec"]["suspend"] = True
    return WaitingCluster(job)


def test_suspended_job_without_a_queue_has_no_pods_for_ever(explain: Explain) -> None:
    explained = explain(suspended_job(), "job/train")

    assert explained.code == 1
    assert explained.answer.name == "suspended"
    assert explained.answer.message == (
        "job/train -n ml is suspended (spec.suspend: true), so it has no pods until that is set to false"
    )
    assert explained.document["answer"]["next"] == [
        """kubectl patch job/train -n ml --type merge -p '{"spec": {"suspend": false}}'"""
    ]


def test_suspended_job_in_a_queue_waits_for_kueue(explain: Explain) -> None:
    cluster = suspended_job()
    cluster["Job/train"]["metadata"]["labels"] = {QUEUE_NAME: "gpus"}
    explained = explain(cluster, "job/train")

    suspended = explained.step("suspended")
    assert suspended.outcome == "passed"
    assert suspended.message == (
        "job/train -n ml is suspended (spec.suspend: true): Kueue starts it once it has admitted it"
    )


def test_suspended_mpi_job_names_its_run_policy(explain: Explain) -> None:
    worker = {"replicas": 1, "template": {"spec": pod_spec()}}
    spec = {"runPolicy": {"suspend": True}, "mpiReplicaSpecs": {"Worker": worker}}
    explained = explain(WaitingCluster(named("kubeflow.org/v2beta1", "MPIJob", "nccl", spec)), "mpijob/nccl")

    assert explained.answer.message == (
        "mpijob/nccl -n ml is suspended (spec.runPolicy.suspend: true), so it has no pods until that is set to false"
    )


def job_set_of_a_train_job() -> WaitingCluster:
    """Kueue's queue is named by the TrainJob, and its JobSet has no label."""
    cluster = kueue_job(topology=None)
    cluster.remove("Job/train", "Workload/job-train")
    train = named("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune", labels={QUEUE_NAME: "gpus"})
    template = {"spec": {"parallelism": 1, "template": train_job({})["spec"]["template"]}}
    jobs = [{"name": "node", "replicas": 1, "template": template}]
    spec = {"replicatedJobs": jobs, "suspend": True}
    job_set = owned(named("jobset.x-k8s.io/v1alpha2", "JobSet", "tune", spec), train)
    cluster.add(train, job_set)
    return cluster


def test_job_set_is_in_the_queue_of_its_train_job(explain: Explain) -> None:
    explained = explain(job_set_of_a_train_job(), "jobset/tune")

    assert explained.step("suspended").outcome == "passed"
    assert "queue" not in [finding.rpartition("/")[2] for finding in explained.step("features").details]
    assert explained.step("rules").outcome == "passed"


# What operators report


def test_replica_failure_of_a_deployment_is_the_answer(explain: Explain) -> None:
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod_spec()}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
    deployment = named("apps/v1", "Deployment", "chat", spec)
    replica_set = owned(named("apps/v1", "ReplicaSet", "chat-1", spec), deployment)
    message = 'pods "chat-1-x" is forbidden: exceeded quota: gpus'
    replica_set["status"] = {"conditions": [condition("ReplicaFailure", "True", "FailedCreate", message)]}
    explained = explain(WaitingCluster(deployment, replica_set), "deploy/chat")

    assert explained.code == 1
    assert explained.answer.name == "owner"
    assert explained.answer.message == (f"replicaset/chat-1 -n ml: ReplicaFailure=True (FailedCreate): {message}")


def test_failed_state_of_an_owner_is_told_beside_other_errors(explain: Explain) -> None:
    cluster = untried_grove_set()
    graph = named("nvidia.com/v1beta1", "DynamoGraphDeployment", "llm", {"components": []})
    graph["status"] = {"state": "failed", "message": "no such image"}
    podcliqueset = cluster["PodCliqueSet/llm"]
    podcliqueset["metadata"] = owned(podcliqueset, graph)["metadata"]
    podcliqueset["status"]["lastErrors"] = [{"code": "ERR_SYNC", "description": "failed to sync"}]
    cluster.add(graph)
    explained = explain(cluster, "dgd/llm")

    assert explained.answer == failed(
        "owner",
        "podcliqueset/llm -n ml: ERR_SYNC: failed to sync",
        "dynamographdeployment/llm -n ml: status.state is failed: no such image",
    )


# The scheduler's refusal


CLAIMS = (
    "Resources were found for 1 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled "
    "due to: no nodes with enough resources were found: 3 cannot allocate all claims."
)


def test_claims_that_kai_cannot_allocate_are_no_lack_of_gpus(explain: Explain) -> None:
    explained = explain(WaitingCluster(pod("alone", message=CLAIMS)), "pod/alone")

    assert explained.code == 1
    assert explained.answer == failed(
        "scheduler",
        f"kai-scheduler on pod/alone: {CLAIMS}",
        "KAI finds nodes for 1 of the 4 pods that start together; nodes: 3 where the pods' resource claims "
        "(DRA devices or ComputeDomain channels, not GPUs of a device plugin) cannot be allocated: "
        "kubectl get resourceclaims, and the logs of their DRA driver",
    )
    assert explained.step("room").outcome == "passed"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("untolerated taint {gpu yes NoSchedule} in flavor h200", id="taint"),
        pytest.param("more than one TAS flavor assigned: f0, f1", id="flavors"),
        pytest.param("insufficient unused quota for memory in flavor h200, 4Gi more needed", id="memory"),
    ],
)
def test_refusal_of_kueue_wins_over_a_node_without_a_label(message: str, explain: Explain) -> None:
    cluster = kueue_job()
    cluster["Workload/job-train"]["status"]["conditions"][0]["message"] = message
    cluster.remove_rack_label("h200-2")
    cluster.occupy("h200-1", "h200-5", gpus=8)
    explained = explain(cluster, "job/train")

    assert explained.code == 1
    assert explained.answer.name == "scheduler"
    assert explained.answer.message == f"workload/job-train -n ml: QuotaReserved=False (Pending): {message}"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", id="nothing"),
        pytest.param(
            " no new claims to deallocate, preemption: 0/8 nodes are available: 8 No preemption victims found for "
            "incoming pod.",
            id="preemption",
        ),
        pytest.param(" preemption: not eligible due to preemptionPolicy=Never.", id="never-preempts"),
    ],
)
def test_refusal_for_too_few_gpus_is_answered_by_room(more: str, explain: Explain) -> None:
    message = f"0/8 nodes are available: 2 node(s) were unschedulable, 6 Insufficient nvidia.com/gpu.{more}"
    cluster = grove_set(message=message)
    cluster.occupy("h200-1", "h200-5", gpus=4)
    explained = explain(cluster, "pcs/llm")

    assert explained.answer.name == "room"


def test_refusal_without_an_explanation_of_ours_is_no_good_end(explain: Explain) -> None:
    cluster = kueue_job()
    cluster.occupy("h200-1", gpus=1)
    explained = explain(cluster, "job/train")

    assert explained.code == 1
    assert explained.answer.name == "scheduler"
    assert explained.step("room").outcome == "passed"


def test_admission_check_that_waits_is_the_answer(explain: Explain) -> None:
    cluster = kueue_job()
    cluster["Workload/job-train"]["status"] = {
        "conditions": [condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue all")],
        "admissionChecks": [{"name": "capacity", "state": "Pending", "message": "waits for a ProvisioningRequest"}],
    }
    explained = explain(cluster, "job/train")

    assert explained.answer.message == (
        "workload/job-train -n ml: admission check capacity is Pending: waits for a ProvisioningRequest"
    )


RESUMED = """--type merge -p '{"spec": {"stopPolicy": "None"}}'"""


@pytest.mark.parametrize(
    ("queue", "policy", "next_command"),
    [
        ("ClusterQueue/all", "Hold", f"kubectl patch clusterqueue all {RESUMED}"),
        ("ClusterQueue/all", "HoldAndDrain", f"kubectl patch clusterqueue all {RESUMED}"),
        ("LocalQueue/gpus", "Hold", f"kubectl patch localqueue gpus -n ml {RESUMED}"),
    ],
)
@pytest.mark.parametrize("has_workload", [True, False])
def test_stopped_queue_is_named_with_how_to_resume_it(
    queue: str, policy: str, next_command: str, has_workload: bool, explain: Explain
) -> None:
    """Also where the Workload still says why it waited before the queue was stopped."""
    cluster = kueue_job()
    cluster[queue]["spec"]["stopPolicy"] = policy
    if not has_workload:
        cluster.remove("Workload/job-train")
    explained = explain(cluster, "job/train")

    kind, name = queue.split("/")
    assert explained.answer == failed(
        "scheduler",
        f"{kind} {name}: stopped (spec.stopPolicy: {policy}), so Kueue admits no Workload in it",
        "to resume it, set spec.stopPolicy to None; first ask who stopped it",
    )
    assert explained.document["answer"]["next"] == [next_command]


def test_stopped_queue_does_not_hold_what_has_its_quota(explain: Explain) -> None:
    cluster = kueue_job()
    cluster["ClusterQueue/all"]["spec"]["stopPolicy"] = "Hold"
    reserved = condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue all")
    cluster["Workload/job-train"]["status"] = {"conditions": [reserved]}
    explained = explain(cluster, "job/train")

    assert explained.step("scheduler").outcome == "passed"


def test_levels_are_unknown_while_the_queue_is_stopped(explain: Explain) -> None:
    cluster = kueue_job()
    cluster["ResourceFlavor/h200"]["spec"]["topologyName"] = "cluster"
    cluster["ClusterQueue/all"]["spec"]["stopPolicy"] = "Hold"
    cluster.remove("Workload/job-train")
    explained = explain(cluster, "job/train")

    for name in ("topology", "levels", "labels", "availability", "room", "drift"):
        step = explained.step(name)
        assert (step.outcome, step.message) == ("unknown", "levels and room are not checked until the queue is fixed")


def test_full_queue_is_what_to_look_at(explain: Explain) -> None:
    cluster = kueue_job()
    cluster["ResourceFlavor/h200"]["spec"]["topologyName"] = "cluster"
    (group,) = cluster["ClusterQueue/all"]["spec"]["resourceGroups"]
    for resource in group["flavors"][0]["resources"]:
        resource["nominalQuota"] = "1"
    cluster["Workload/job-train"]["status"] = {}
    answer = explain(cluster, "job/train").document["answer"]

    assert answer["step"] == "room"
    assert answer["next"] == ["kubectl describe clusterqueues.kueue.x-k8s.io all"]


def test_harmless_copy_of_an_annotation_blocks_nothing(explain: Explain) -> None:
    cluster = kueue_job()
    cluster["ResourceFlavor/h200"]["spec"]["topologyName"] = "cluster"
    job = cluster["Job/train"]
    template = job["spec"]["template"]
    job["metadata"]["annotations"] = dict(template["metadata"]["annotations"])
    cluster.remove("Workload/job-train")
    explained = explain(cluster, "job/train")

    assert explained.step("features").outcome == "passed"
    assert explained.code == 0


# Queues that admit strictly in order


def strict_queue(*, since: str) -> WaitingCluster:
    """The Job's Workload, created at noon, waits in a queue of StrictFIFO with another one."""
    cluster = kueue_job()
    cluster["ClusterQueue/all"]["spec"]["queueingStrategy"] = "StrictFIFO"
    own = cluster["Workload/job-train"]
    own["metadata"]["creationTimestamp"] = "2026-01-01T12:00:00Z"
    own["status"] = {}
    other = named("kueue.x-k8s.io/v1beta2", "Workload", "job-large", {"queueName": "gpus"}, creationTimestamp=since)
    reserved = condition("QuotaReserved", "False", "Pending", "it is too large")
    other["status"] = {"conditions": [reserved]}
    cluster.add(other)
    cluster.occupy("h200-1", gpus=1)
    return cluster


def test_workload_behind_the_head_of_a_strict_queue_waits_for_it(explain: Explain) -> None:
    explained = explain(strict_queue(since="2026-01-01T00:00:00Z"), "job/train")

    assert explained.code == 1
    assert explained.answer.message == (
        "does not fit now: ClusterQueue all is StrictFIFO, and workload/job-large -n ml is ahead of it and waits: "
        "it is too large"
    )


def test_head_of_a_strict_queue_waits_for_nobody(explain: Explain) -> None:
    explained = explain(strict_queue(since="2026-01-01T13:00:00Z"), "job/train")

    assert explained.code == 0
    assert explained.step("room").outcome == "passed"


# Nodes that lack the label of a level


def short_of_one_node() -> WaitingCluster:
    """Kueue has not reported yet; three nodes of rack-3 are labelled, and rack-4 has three that are free."""
    cluster = kueue_job()
    cluster["Workload/job-train"]["status"] = {}
    cluster.remove_rack_label("h200-2")
    cluster.occupy("h200-5")
    return cluster


def test_missing_label_is_blamed_where_there_is_room_with_it(explain: Explain) -> None:
    explained = explain(short_of_one_node(), "job/train")

    assert explained.answer.name == "labels"
    assert explained.answer.message == (f"there is too little room, and 1 of 8 nodes lacks level rack ({RACK}): h200-2")


def test_missing_label_is_not_blamed_where_there_is_no_room_with_it(explain: Explain) -> None:
    cluster = short_of_one_node()
    cluster.occupy("h200-1", "h200-6")
    explained = explain(cluster, "job/train")

    assert explained.answer.name == "room"
    labels = explained.step("labels")
    assert labels.outcome == "passed"
    assert labels.message == "some nodes lack a level, but that is not why it waits"


def test_constraints_are_those_of_the_job_set_that_a_train_job_made(explain: Explain) -> None:
    cluster = job_set_of_a_train_job()
    explained = explain(cluster, "trainjob/tune")

    assert explained.document["explained"]["kind"] == "JobSet"
    assert explained.document["subject"]["kind"] == "TrainJob"
