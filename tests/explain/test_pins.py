"""Pods that are bound to nodes by injected selectors, and by the pods that they have to be near."""

from collections.abc import Callable

import pytest
from tests.explain.explained import Explain, failed
from tests.explain.waiting import (
    RACK,
    Object,
    WaitingCluster,
    assigned_pod_set,
    kueue_job,
    named,
    owned,
    pod,
    pod_spec,
    running_pod,
)

pytestmark = pytest.mark.regression

HOST = "kubernetes.io/hostname"
LWS = "leaderworkerset.sigs.k8s.io"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NO_NODE = "0/8 nodes are available: 1 Insufficient nvidia.com/gpu, 7 node(s) didn't match Pod's node affinity/selector."
MAKE_ROOM = (
    "make room on those nodes, or delete pod/sim-w-0-0 and the pods of its Job, so that the Job may go elsewhere"
)
PINNED_ROOM = "there is no room where its waiting pods have to go: see pinned"


def selecting(name: str, **labels: str) -> Object:
    """A waiting pod with a node selector."""
    waiting = pod(name, message=NO_NODE)
    waiting["spec"]["nodeSelector"] = labels
    return waiting


# Kueue


def admitted(name: str, *hosts: str) -> Object:
    """A Workload of the Job of this name to which Kueue assigned a pod on each of the nodes."""
    domains = [{"values": [host], "count": 1} for host in hosts]
    assigned = {
        "name": "main",
        "count": len(hosts),
        "flavors": {"nvidia.com/gpu": "h200"},
        "topologyAssignment": {"levels": [HOST], "domains": domains},
    }
    workload = named("kueue.x-k8s.io/v1beta2", "Workload", f"job-{name}", {"queueName": "gpus"})
    conditions = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
    workload["status"] = {
        "conditions": conditions,
        "admission": {"clusterQueue": "all", "podSetAssignments": [assigned]},
    }
    return workload


def double_booked() -> WaitingCluster:
    """Kueue assigned h200-1 and h200-2 to the Job `train`, and a pod of another Workload fills h200-2."""
    cluster = kueue_job()
    cluster.remove("Workload/job-train")
    job = cluster["Job/train"]
    job["spec"] |= {"parallelism": 2, "completions": 2}
    cluster.add(owned(admitted("train", "h200-1", "h200-2"), job))
    cluster.add(owned(running_pod("train-0", "h200-1"), job))
    cluster.add(owned(selecting("train-1", **{HOST: "h200-2"}), job))
    cluster.add(admitted("other", "h200-2"), running_pod("other-0", "h200-2"))
    return cluster


def test_kueue_pins_a_pod_to_a_node_that_another_workload_fills(explain: Explain) -> None:
    explained = explain(double_booked(), "job/train")

    assert explained.code == 1
    assert explained.answer == failed(
        "pinned",
        "Kueue pins pod/train-1 to node h200-2, because workload/job-train -n ml is assigned to it, "
        "and that node has no room",
        "h200-2: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/other-0 holds 8 GPUs",
        "h200-3, h200-4, h200-5, h200-6, h200-7 and 1 more have room, but the pod must not go there",
        "Kueue assigned h200-2 to workload/job-other -n ml (1 pod), too",
        "Kueue keeps an assignment while its Workload is admitted; to make Kueue assign it again, set spec.active of "
        "workload/job-train -n ml to false, and to true again",
    )
    room = explained.step("room")
    assert (room.outcome, room.message) == ("failed", PINNED_ROOM)


def test_kueue_pin_names_the_node_and_not_its_hostname_label(explain: Explain) -> None:
    cluster = double_booked()
    cluster.label("h200-2", HOST, "x2")
    pod_set = assigned_pod_set(cluster)
    pod_set["topologyAssignment"]["domains"][1]["values"] = ["x2"]
    cluster["Pod/train-1"]["spec"]["nodeSelector"] = {HOST: "x2"}
    explained = explain(cluster, "job/train")

    assert explained.answer.message == (
        f"Kueue pins pod/train-1 to node h200-2 ({HOST}=x2), because workload/job-train -n ml is assigned to it, "
        "and that node has no room"
    )


def test_kueue_does_not_replace_a_node_whose_hostname_label_differs(explain: Explain) -> None:
    cluster = double_booked()
    cluster.remove("Pod/other-0", "Workload/job-other")
    cluster.run("train-1", on="h200-2")
    cluster.label("h200-2", HOST, "x2")
    cluster.lose("h200-2")
    pod_set = assigned_pod_set(cluster)
    pod_set["topologyAssignment"]["domains"][1]["values"] = ["x2"]
    explained = explain(cluster, "job/train")

    assert explained.answer.name == "availability"
    assert explained.answer.message == (
        f"Kueue assigned 1 pod of pod set main to node h200-2 ({HOST}=x2), which is not Ready"
    )
    assert explained.document["answer"]["next"][-1] == "kubectl get node h200-2"


def test_pin_to_a_hostname_that_no_node_has_names_the_label(explain: Explain) -> None:
    cluster = double_booked()
    domains = assigned_pod_set(cluster)["topologyAssignment"]["domains"]
    domains[1]["values"] = ["gone"]
    cluster["Pod/train-1"]["spec"]["nodeSelector"] = {HOST: "gone"}
    explained = explain(cluster, "job/train")

    assert explained.step("pinned").message == (
        f"Kueue pins pod/train-1 to {HOST}=gone, because workload/job-train -n ml is assigned to it, "
        "and there is no such node"
    )


def test_kueue_pin_to_a_lost_node_is_answered_by_what_kueue_does_with_it(explain: Explain) -> None:
    cluster = double_booked()
    cluster.lose("h200-2")
    explained = explain(cluster, "job/train")

    assert explained.answer.name == "availability"
    assert explained.answer.message == "Kueue assigned 1 pod of pod set main to node h200-2, which is not Ready"
    assert explained.step("pinned").outcome == "failed"


def test_kueue_pin_to_a_node_with_room_is_no_failure(explain: Explain) -> None:
    cluster = double_booked()
    cluster.remove("Pod/other-0")
    cluster["Pod/train-1"]["status"] = {"phase": "Pending"}
    explained = explain(cluster, "job/train")

    assert explained.code == 0
    pinned = explained.step("pinned")
    assert pinned.outcome == "passed"
    assert pinned.message == (
        "Kueue pins pod/train-1 to node h200-2, because workload/job-train -n ml is assigned to it, and there is room"
    )


def test_labels_of_a_flavor_are_a_pin_of_kueue(explain: Explain) -> None:
    cluster = double_booked()
    pod_set = assigned_pod_set(cluster)
    del pod_set["topologyAssignment"]
    cluster["ResourceFlavor/h200"]["spec"]["nodeLabels"] = {"pool": "none"}
    cluster["Pod/train-1"]["spec"]["nodeSelector"] = {"pool": "none"}
    explained = explain(cluster, "job/train")

    assert explained.answer.message == (
        "Kueue pins pod/train-1 to pool=none, because ResourceFlavor h200 has it in spec.nodeLabels, "
        "and there is no such node"
    )


# JobSet and LeaderWorkerSet


def exclusive(
    owner: Object, controller: Object, names: tuple[str, str], labels: list[dict[str, str]]
) -> WaitingCluster:
    """Of two pods the leader runs in rack-3, where all other nodes are taken, and its follower is pinned there."""
    leader = owned(running_pod(names[0], "h200-1"), controller)
    follower = owned(selecting(names[1], **{RACK: "rack-3"}), controller)
    leader["metadata"]["labels"], follower["metadata"]["labels"] = labels
    cluster = WaitingCluster(owner, leader, follower)
    cluster.occupy("h200-2", "h200-3", "h200-4")
    return cluster


def exclusive_job_set() -> WaitingCluster:
    """A JobSet of one Job with two pods."""
    template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
    jobs = {"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "template": template}}}
    job_set = named("jobset.x-k8s.io/v1alpha2", "JobSet", "sim", {"replicatedJobs": [jobs]})
    job_set["metadata"]["annotations"] = {EXCLUSIVE: RACK}
    job = owned(named("batch/v1", "Job", "sim-w-0", {"parallelism": 2, "template": template}), job_set)
    labels = {"jobset.sigs.k8s.io/job-key": "key"}
    cluster = exclusive(job_set, job, ("sim-w-0-0", "sim-w-0-1"), [labels, dict(labels)])
    cluster.add(job)
    return cluster


def exclusive_leader_worker_set() -> WaitingCluster:
    """A LeaderWorkerSet of one group of two."""
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod_spec()}}}
    serve = named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", spec)
    serve["metadata"]["annotations"] = {f"{LWS}/exclusive-topology": RACK}
    labels = []
    for number in range(2):
        labels.append({f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(number)})
    return exclusive(serve, serve, ("serve-0", "serve-0-1"), labels)


def test_job_set_pins_a_pod_to_the_full_rack_of_its_leader(explain: Explain) -> None:
    explained = explain(exclusive_job_set(), "jobset/sim")

    assert explained.code == 1
    assert explained.answer == failed(
        "pinned",
        f"JobSet pins pod/sim-w-0-1 to {RACK}=rack-3, because the first pod of its Job, pod/sim-w-0-0, runs there, "
        "and none of those 4 nodes has room",
        "h200-1: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/sim-w-0-0 holds 8 GPUs",
        "h200-2: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/busy-h200-2 holds 8 GPUs",
        "h200-3: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/busy-h200-3 holds 8 GPUs",
        "h200-4: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/busy-h200-4 holds 8 GPUs",
        "h200-5, h200-6, h200-7, h200-8 have room, but the pod must not go there",
        MAKE_ROOM,
    )


def test_each_node_of_a_pin_says_why_it_does_not_take_the_pod(explain: Explain) -> None:
    cluster = exclusive_job_set()
    cluster.remove("Pod/busy-h200-2", "Pod/busy-h200-3", "Pod/busy-h200-4")
    cluster.cordon("h200-2")
    cluster.taint("h200-3")
    cluster.occupy("h200-4", gpus=5)
    cluster.cordon("h200-5", "h200-6", "h200-7", "h200-8")
    explained = explain(cluster, "jobset/sim")

    assert explained.answer.name == "pinned"
    assert explained.answer.details == [
        "h200-1: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/sim-w-0-0 holds 8 GPUs",
        "h200-2: it is cordoned",
        "h200-3: it has taint team=vision:NoSchedule",
        "h200-4: the pod needs 8 GPUs, and 3 of 8 GPUs are free; ml/busy-h200-4 holds 5 GPUs",
        MAKE_ROOM,
    ]


def test_pin_to_many_nodes_names_the_first_ones(explain: Explain) -> None:
    cluster = exclusive_job_set()
    for number in range(5, 9):
        cluster.label(f"h200-{number}", RACK, "rack-3")
        cluster.occupy(f"h200-{number}")
    explained = explain(cluster, "jobset/sim")

    *nodes, more, way_out = explained.answer.details
    named_nodes = [line.partition(":")[0] for line in nodes]
    assert named_nodes == ["h200-1", "h200-2", "h200-3", "h200-4", "h200-5"]
    assert more == "and 3 more nodes"
    assert way_out == MAKE_ROOM


def test_node_without_a_resource_of_the_pod_says_so(explain: Explain) -> None:
    cluster = exclusive_job_set()
    limits = cluster["Pod/sim-w-0-1"]["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/imex"] = "1"
    explained = explain(cluster, "jobset/sim")

    assert explained.answer.details[0] == "h200-1: it has no nvidia.com/imex"


def test_leader_worker_set_pins_a_worker_to_the_full_rack_of_its_leader(explain: Explain) -> None:
    explained = explain(exclusive_leader_worker_set(), "lws/serve")

    assert explained.answer.message == (
        f"LeaderWorkerSet pins pod/serve-0-1 to {RACK}=rack-3, because its leader, pod/serve-0, runs there, "
        "and none of those 4 nodes has room"
    )


@pytest.mark.parametrize(
    ("build", "subject", "leader", "who"),
    [
        pytest.param(exclusive_job_set, "jobset/sim", "sim-w-0-0", "JobSet pins pod/sim-w-0-1", id="jobset"),
        pytest.param(
            exclusive_leader_worker_set, "lws/serve", "serve-0", "LeaderWorkerSet pins pod/serve-0-1", id="lws"
        ),
    ],
)
def test_pin_to_the_domain_of_an_unknown_leader_has_no_reason(
    build: Callable[[], WaitingCluster], subject: str, leader: str, who: str, explain: Explain
) -> None:
    cluster = build()
    cluster.remove(f"Pod/{leader}")
    cluster.occupy("h200-1")
    explained = explain(cluster, subject)

    assert explained.answer.name == "pinned"
    assert explained.answer.message == f"{who} to {RACK}=rack-3, and none of those 4 nodes has room"


def test_pin_to_a_label_that_no_annotation_names_is_nobody_s(explain: Explain) -> None:
    cluster = exclusive_leader_worker_set()
    cluster["LeaderWorkerSet/serve"]["metadata"]["annotations"] = {
        f"{LWS}/exclusive-topology": "",
        f"{LWS}/subgroup-exclusive-topology": HOST,
    }
    explained = explain(cluster, "lws/serve")

    assert explained.answer.message == (
        f"pod/serve-0-1 has a node selector that its template lacks: {RACK}=rack-3, and none of those 4 nodes has room"
    )


def test_selector_that_nobody_known_added_is_a_bond_too(explain: Explain) -> None:
    cluster = exclusive_job_set()
    del cluster["JobSet/sim"]["metadata"]["annotations"]
    explained = explain(cluster, "jobset/sim")

    assert explained.answer.message == (
        f"pod/sim-w-0-1 has a node selector that its template lacks: {RACK}=rack-3, and none of those 4 nodes has room"
    )


def test_cordoned_and_lost_nodes_of_a_pin_take_no_pod(explain: Explain) -> None:
    cluster = exclusive_job_set()
    cluster.remove("Pod/busy-h200-2", "Pod/busy-h200-3")
    cluster.cordon("h200-2")
    cluster.lose("h200-3")
    explained = explain(cluster, "jobset/sim")

    assert explained.answer is not None
    assert explained.answer.message.endswith("and none of those 4 nodes has room")
    assert "h200-2: it is cordoned" in explained.answer.details
    assert "h200-3: it is not Ready" in explained.answer.details


# Pod affinity


def near(labels: dict[str, str], **term: object) -> Object:
    """An affinity to pods with these labels, in the same rack."""
    required = {"labelSelector": {"matchLabels": labels}, "topologyKey": RACK, **term}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [required]}}


def pod_and_its_mate(**term: object) -> WaitingCluster:
    """A pod has to be in the rack of its mate, whose other nodes are taken."""
    follower = pod("worker-1", message=NO_NODE)
    mate = running_pod("worker-0", "h200-1")
    for member in (mate, follower):
        member["metadata"]["labels"] = {"role": "worker"}
        member["spec"]["schedulerName"] = "default-scheduler"
    follower["spec"]["affinity"] = near({"role": "worker"}, **term)
    cluster = WaitingCluster(mate, follower)
    cluster.occupy("h200-2", "h200-3", "h200-4")
    return cluster


def test_follower_has_no_room_in_the_domain_of_its_mate(explain: Explain) -> None:
    explained = explain(pod_and_its_mate(), "pod/worker-1")

    assert explained.code == 1
    assert explained.answer.name == "pinned"
    assert explained.answer.message == (
        f"pod/worker-1 has to share {RACK} with ml/worker-0, by its pod affinity: rack-3, "
        "and none of those 4 nodes has room"
    )
    assert explained.answer.details[1] == (
        "h200-2: the pod needs 8 GPUs, and none of 8 GPUs is free; ml/busy-h200-2 holds 8 GPUs"
    )
    assert explained.step("room").message == PINNED_ROOM


def test_follower_finds_room_in_the_domain_of_its_mate(explain: Explain) -> None:
    cluster = pod_and_its_mate()
    cluster.remove("Pod/busy-h200-3")
    explained = explain(cluster, "pod/worker-1")

    assert explained.step("pinned").outcome == "passed"


@pytest.mark.parametrize(
    "term",
    [
        pytest.param({"namespaces": ["other"]}, id="other-namespace"),
        pytest.param({"labelSelector": {"matchLabels": {"role": "launcher"}}}, id="other-labels"),
        pytest.param({"topologyKey": "example.com/none"}, id="label-of-no-node"),
    ],
)
def test_pods_that_a_term_does_not_select_bind_nobody(term: dict[str, object], explain: Explain) -> None:
    explained = explain(pod_and_its_mate(**term), "pod/worker-1")

    pinned = explained.step("pinned")
    assert pinned.outcome == "passed"
    assert pinned.message == "nothing binds a waiting pod to certain nodes"


@pytest.mark.parametrize(
    "term",
    [
        pytest.param({"namespaceSelector": {}}, id="all-namespaces"),
        pytest.param({"namespaces": ["ml", "other"]}, id="named-namespaces"),
    ],
)
def test_pods_of_every_selected_namespace_bind(term: dict[str, object], explain: Explain) -> None:
    explained = explain(pod_and_its_mate(**term), "pod/worker-1")

    assert explained.step("pinned").outcome == "failed"


def test_node_of_a_domain_is_out_where_a_pod_is_avoided(explain: Explain) -> None:
    cluster = pod_and_its_mate()
    cluster.remove("Pod/busy-h200-3")
    cluster["Pod/worker-1"]["spec"]["affinity"]["podAntiAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"role": "noisy"}}, "topologyKey": HOST}
        ]
    }
    noisy = running_pod("noisy", "h200-3", gpus=1)
    noisy["metadata"]["labels"] = {"role": "noisy"}
    cluster.add(noisy)
    explained = explain(cluster, "pod/worker-1")

    assert explained.answer.name == "pinned"
    assert explained.answer.details[2] == "h200-3: node(s) didn't match pod anti-affinity rules: ml/noisy"


def test_refused_pod_names_the_pods_that_it_avoids(explain: Explain) -> None:
    cluster = pod_and_its_mate()
    waiting = cluster["Pod/worker-1"]
    avoided = {"labelSelector": {"matchLabels": {"role": "worker"}}, "topologyKey": RACK}
    waiting["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [avoided]}}
    message = "0/8 nodes are available: 4 Insufficient nvidia.com/gpu, 4 node(s) didn't match pod anti-affinity rules."
    waiting["status"]["conditions"][0]["message"] = message
    explained = explain(cluster, "pod/worker-1")

    assert explained.answer.name == "scheduler"
    assert explained.answer.details[1:] == [
        "h200-1, h200-2, h200-3 and 1 more: node(s) didn't match pod anti-affinity rules, because of ml/worker-0"
    ]
