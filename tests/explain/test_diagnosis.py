"""What `toposcope explain` answers for scripts, scheduler by scheduler; tests/explain/causes.py has the usual causes.

tests/support/decisions.py runs these tests too, with an `explain` of its own: each asks once.
"""

import pytest
from tests.explain.causes import assigned_node_gone
from tests.explain.explained import Explain, Step, failed, passed, unknown
from tests.explain.waiting import (
    LEVELS,
    RACK,
    ZONE,
    Object,
    WaitingCluster,
    assigned_pod_set,
    condition,
    grove_set,
    kai_job,
    kai_pod_group,
    kai_topology,
    kube_scheduler_gang,
    kueue_job,
    levels_of,
    named,
    pod,
    pod_spec,
    untried_grove_set,
    volcano_job,
)

pytestmark = pytest.mark.regression

STRANDED = "2 of its 4 pods are in rack rack-3; KAI places the other 2 only there, and there is no room"
DOES_NOT_FIT = "does not fit now: a pod of train needs 8 GPUs, and no node that it may use has any free"
WOULD_FIT = "would fit if 2 nodes of rack-3 were drained of ml/busy-h200-3, ml/busy-h200-4: h200-3, h200-4"
ONE_BY_ONE = "KAI 0.17 does not treat this {} as a gang: the first pod to start chose the domain"
PLACED_COUNT = "2 pods already have nodes and count as still to be placed, because all of them belong together"
BATCH_MIN_MEMBER = "kai.scheduler/batch-min-member"
REQUIRED_PLACEMENT = "kai.scheduler/topology-required-placement"


# KAI: pods that wait for others of their gang


def stranded(*ways_out: str) -> Step:
    """Two pods of the Job run in rack-3, which has no room for the others."""
    return failed("room", STRANDED, DOES_NOT_FIT, WOULD_FIT, *ways_out)


def test_kai_job_stranded_in_a_rack_can_be_recreated_as_a_gang(explain: Explain) -> None:
    explained = explain(kai_job(), "job/train")

    assert explained.code == 1
    assert explained.step("room") == stranded(
        ONE_BY_ONE.format("Job"),
        f'or recreate the Job with {BATCH_MIN_MEMBER}: "4", so that its pods start together: '
        "fits: rack rack-4 (4 nodes, 32 free GPUs)",
    )


def test_kai_job_stranded_in_a_rack_cannot_be_recreated_without_room(explain: Explain) -> None:
    cluster = kai_job()
    cluster.occupy("h200-5")
    explained = explain(cluster, "job/train")

    assert explained.code == 1
    assert explained.step("room") == stranded(ONE_BY_ONE.format("Job"))


def test_kai_gang_stranded_in_a_rack_needs_its_pods_deleted(explain: Explain) -> None:
    cluster = kai_job()
    cluster["Job/train"]["metadata"]["annotations"][BATCH_MIN_MEMBER] = "4"
    explained = explain(cluster, "job/train")

    assert explained.code == 1
    assert explained.step("room") == stranded(
        "delete its pods, so that KAI places all of them again: fits: rack rack-4 (4 nodes, 32 free GPUs)"
    )


def test_kai_stateful_set_stranded_in_a_rack_needs_a_pod_group(explain: Explain) -> None:
    cluster = kai_job()
    annotations = cluster["Job/train"]["metadata"]["annotations"]
    spec = {"replicas": 4, "template": {"spec": pod_spec()}}
    cluster.remove("Job/train")
    cluster.add(named("apps/v1", "StatefulSet", "train", spec, annotations=annotations))
    for number in range(4):
        owner = cluster[f"Pod/train-{number}"]["metadata"]["ownerReferences"][0]
        owner |= {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    explained = explain(cluster, "statefulset/train")

    assert explained.code == 1
    assert explained.step("room") == stranded(
        ONE_BY_ONE.format("StatefulSet"),
        "or create a PodGroup for its pods with minMember: 4, so that they start together: fits: rack rack-4 (4 "
        "nodes, 32 free GPUs)",
    )


def test_kai_job_half_running_waits_well_where_its_rack_has_room(explain: Explain) -> None:
    cluster = kai_job(message="")
    cluster.remove("Pod/busy-h200-3", "Pod/busy-h200-4")
    explained = explain(cluster, "job/train")

    assert explained.code == 0
    assert explained.step("room") == passed(
        "room", "rack rack-3, which holds 2 of its 4 pods, has room for the other 2"
    )


def test_kai_gang_running_in_two_racks_counts_as_still_to_be_placed(explain: Explain) -> None:
    cluster = kai_job()
    cluster["Job/train"]["metadata"]["annotations"][BATCH_MIN_MEMBER] = "4"
    cluster.run("train-1", on="h200-5")
    cluster.remove("Pod/busy-h200-3", "Pod/busy-h200-4")
    explained = explain(cluster, "job/train")

    assert explained.code == 1
    assert explained.step("room") == passed(
        "room", "fits: 2 racks could take it now, best rack-3 (4 nodes, 32 free GPUs)", PLACED_COUNT
    )


def test_kai_preferred_level_strands_no_pod(explain: Explain) -> None:
    cluster = kai_job(message="")
    cluster["Job/train"]["metadata"]["annotations"] = {
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-preferred-placement": RACK,
    }
    explained = explain(cluster, "job/train")

    assert explained.code == 0
    assert explained.step("room").outcome == "passed"


def test_kai_broader_level_strands_no_pod(explain: Explain) -> None:
    cluster = kai_job(message="")
    cluster["Job/train"]["metadata"]["annotations"][REQUIRED_PLACEMENT] = ZONE
    explained = explain(cluster, "job/train")

    assert explained.code == 0
    assert explained.step("room").outcome == "passed"


def kai_queue(limit: int, *, allocated: int) -> Object:
    """KAI's queue `q` with a limit of GPUs."""
    unlimited = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": -1, "limit": limit}, "cpu": unlimited, "memory": unlimited}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"resources": resources},
        "status": {"allocated": {"nvidia.com/gpu": str(allocated)}},
    }


def half_running_pod_group() -> WaitingCluster:
    """Two of the four pods have nodes, and the rack is preferred."""
    cluster = kai_pod_group()
    cluster["PodGroup/pg"]["spec"]["topologyConstraint"] = {"topology": "cluster", "preferredTopologyLevel": RACK}
    cluster.remove("Pod/busy-h200-1", "Pod/busy-h200-5")
    cluster["Pod/p0"]["spec"]["nodeName"] = "h200-1"
    cluster["Pod/p1"]["spec"]["nodeName"] = "h200-2"
    return cluster


def test_kai_queue_counts_what_the_running_pods_hold_for_them(explain: Explain) -> None:
    cluster = half_running_pod_group()
    cluster.add(kai_queue(32, allocated=16))
    explained = explain(cluster, "podgroup/pg")

    assert explained.step("room") == passed("room", "fits: 4 pods on 4 nodes", PLACED_COUNT)


def test_kai_queue_counts_what_others_hold_against_the_group(explain: Explain) -> None:
    cluster = half_running_pod_group()
    cluster.add(kai_queue(40, allocated=32))
    explained = explain(cluster, "podgroup/pg")

    assert explained.code == 1
    room = explained.step("room")
    assert room.outcome == "failed"
    assert room.message == (
        "does not fit now: KAI's queue q has a limit of 40 GPUs, 16 GPUs of it allocated, and this requests 32 GPUs"
    )


def test_kai_pod_group_waits_for_room_for_its_pods(explain: Explain) -> None:
    explained = explain(kai_pod_group(), "podgroup/pg")

    assert explained.code == 1
    room = explained.step("room")
    assert room.outcome == "failed"
    assert room.message == "does not fit now: pg needs 32 GPUs in one rack, largest has 24 (rack-3)"


def test_kai_pod_group_without_pods_leaves_room_unknown(explain: Explain) -> None:
    cluster = kai_pod_group()
    cluster.remove("Pod/p0", "Pod/p1", "Pod/p2", "Pod/p3", "Pod/busy-h200-1", "Pod/busy-h200-5")
    explained = explain(cluster, "podgroup/pg")

    assert explained.code == 0
    room = explained.step("room")
    assert room.outcome == "unknown"
    assert room.message == (
        "no pods of the PodGroup are known, so their requests are unknown, so room is not checked; check the "
        "workload that creates its pods"
    )


# kube-scheduler: PodGroups


PLACEMENTS_AVAILABLE = "0/2 placements are available, first placement status: pod group is unschedulable"


def gang_in_a_rack() -> WaitingCluster:
    """The gang asks for the rack, a label that the nodes have."""
    cluster = kube_scheduler_gang()
    cluster["PodGroup/train"]["spec"]["schedulingConstraints"]["topology"] = [{"key": RACK}]
    return cluster


def test_kube_scheduler_gang_names_a_label_of_no_node(explain: Explain) -> None:
    explained = explain(kube_scheduler_gang(), "podgroup/train")

    assert explained.code == 1
    assert explained.answer.name == "levels"
    assert explained.answer.message == "spec.schedulingConstraints.topology[0].key: no feasible placements found"


def test_kube_scheduler_gang_waits_for_room(explain: Explain) -> None:
    cluster = gang_in_a_rack()
    cluster["PodGroup/train"]["status"]["conditions"][0]["message"] = PLACEMENTS_AVAILABLE
    cluster.occupy("h200-1", "h200-5")
    explained = explain(cluster, "podgroup/train")

    assert explained.code == 1
    assert explained.answer.name == "room"
    assert explained.answer.message == "does not fit now: train needs 32 GPUs in one rack, largest has 24 (rack-3)"


def test_kube_scheduler_gang_finds_every_node_of_its_level_cordoned(explain: Explain) -> None:
    cluster = gang_in_a_rack()
    cluster.cordon("h200-1", "h200-2", "h200-3", "h200-4", "h200-5", "h200-6", "h200-7", "h200-8")
    explained = explain(cluster, "podgroup/train")

    assert explained.code == 1
    assert explained.answer.message == "none of 8 nodes with level rack takes pods: each is cordoned or not Ready"


def test_kube_scheduler_condition_has_an_earlier_name_too(explain: Explain) -> None:
    cluster = kube_scheduler_gang()
    cluster["PodGroup/train"]["status"]["conditions"][0]["type"] = "PodGroupInitiallyScheduled"
    explained = explain(cluster, "podgroup/train")

    assert explained.code == 1
    assert explained.step("features").outcome == "passed"
    assert explained.messages[0]["text"] == "no feasible placements found"


def test_kube_scheduler_has_not_looked_at_a_gang_without_conditions(explain: Explain) -> None:
    cluster = gang_in_a_rack()
    cluster["PodGroup/train"]["status"]["conditions"] = []
    explained = explain(cluster, "podgroup/train")

    assert explained.code == 1
    assert explained.answer.name == "features"
    assert explained.answer.message == (
        "kube-scheduler has not processed podgroup/train -n ml: it has no condition PodGroupScheduled"
    )


def test_kube_scheduler_pod_waits_for_a_missing_pod_group(explain: Explain) -> None:
    cluster = kube_scheduler_gang()
    cluster.remove("PodGroup/train")
    reported = cluster["Pod/p0"]["status"]["conditions"][0]
    reported["message"] = 'waiting for pods\'s pod group "train" to appear in scheduling queue'
    explained = explain(cluster, "pod/p0")

    assert explained.code == 1
    assert explained.answer.name == "rules"
    assert explained.answer.message == 'waiting for pods\'s pod group "train" to appear in scheduling queue'


def test_kube_scheduler_pod_leads_to_messages_about_its_group(explain: Explain) -> None:
    cluster = gang_in_a_rack()
    cluster.remove("PodGroup/other")
    cluster["PodGroup/train"]["status"]["conditions"][0]["message"] = PLACEMENTS_AVAILABLE
    explained = explain(cluster, "pod/p0")

    assert explained.code == 1
    assert explained.answer.name == "scheduler"
    assert explained.messages == [
        {
            "about": "podgroup/train -n ml",
            "text": PLACEMENTS_AVAILABLE,
            "meaning": (
                "none of the 2 values of the label that the constraint names has room for minCount pods; "
                "the rest is about the first value tried"
            ),
        },
        {
            "about": "default-scheduler on pod/p0 and 3 more",
            "text": "waiting for minCount pods from a gang to be scheduled",
            "meaning": "too few pods of the PodGroup found a node",
        },
    ]


def running_gang(*node_names: str) -> WaitingCluster:
    """kube-scheduler placed the pods of the gang on these nodes."""
    cluster = gang_in_a_rack()
    cluster.remove("PodGroup/other")
    cluster["PodGroup/train"]["status"]["conditions"] = [condition("PodGroupScheduled", "True", "Scheduled", "")]
    for number, node_name in enumerate(node_names):
        cluster.run(f"p{number}", on=node_name)
    return cluster


def test_kube_scheduler_gang_in_one_rack_runs_as_it_asks(explain: Explain) -> None:
    explained = explain(running_gang("h200-1", "h200-2", "h200-3", "h200-4"), "podgroup/train")

    assert explained.code == 0
    assert not explained.has_answer
    assert explained.placements[0]["kept"] is True


def test_kube_scheduler_gang_in_two_racks_does_not_run_as_it_asks(explain: Explain) -> None:
    explained = explain(running_gang("h200-3", "h200-4", "h200-5", "h200-6"), "podgroup/train")

    assert explained.code == 1
    assert not explained.has_answer
    assert explained.placements[0]["kept"] is False


# Grove: bindings, levels that are gone, scaling groups


def grove_set_with_levels_gone(*published: str) -> WaitingCluster:
    """The ClusterTopology has levels `a` and `b` that no node carries; Grove and KAI have the `published` ones."""
    cluster = untried_grove_set()
    levels = {**{domain: f"example.com/{domain}" for domain in published}, **LEVELS}
    spec = cluster["ClusterTopology/cluster"]["spec"]
    spec["levels"] = levels_of({"a": "example.com/a", "b": "example.com/b", **LEVELS})
    cluster["ClusterTopologyBinding/cluster"]["spec"]["levels"] = levels_of(levels)
    cluster["Topology/cluster"]["spec"] = kai_topology(*levels.values(), name="cluster")["spec"]
    return cluster


@pytest.mark.parametrize(
    ("published", "code", "outcome"),
    [
        pytest.param(["a", "b"], 1, "passed", id="both"),
        pytest.param(["a"], 1, "passed", id="one"),
        pytest.param([], 0, "passed", id="none"),
        pytest.param(["c"], 1, "failed", id="another"),
    ],
)
def test_grove_binding_may_keep_any_level_that_is_gone(
    published: list[str], code: int, outcome: str, explain: Explain
) -> None:
    explained = explain(grove_set_with_levels_gone(*published), "pcs/llm")

    assert explained.code == code
    assert explained.step("drift").outcome == outcome


def test_grove_set_without_status_has_unknown_features(explain: Explain) -> None:
    cluster = untried_grove_set()
    cluster["PodCliqueSet/llm"]["status"] = {}
    explained = explain(cluster, "pcs/llm")

    assert explained.code == 0
    features = explained.step("features")
    assert features.outcome == "unknown"
    assert features.message == (
        "Grove has not reported on the topology constraints of podcliqueset/llm -n ml: "
        "it has no condition TopologyLevelsUnavailable"
    )


def bind_to_kai(cluster: WaitingCluster, topology: str) -> None:
    """Have the binding name the Topology of KAI."""
    reference = {"schedulerName": "kai-scheduler", "topologyReference": topology}
    cluster["ClusterTopologyBinding/cluster"]["spec"]["schedulerTopologyBindings"] = [reference]


def test_grove_binding_names_a_kai_topology_that_its_author_must_create(explain: Explain) -> None:
    cluster = grove_set()
    bind_to_kai(cluster, "theirs")
    explained = explain(cluster, "pcs/llm")

    assert explained.code == 1
    assert explained.step("features") == failed(
        "features",
        "KAI has no Topology theirs, so it cannot keep Grove's pods together",
        "clustertopologybinding.grove.io/cluster names it in spec.schedulerTopologyBindings, "
        "so Grove does not create it: its author must create it",
    )


def test_grove_binding_names_a_kai_topology_that_toposcope_creates(explain: Explain) -> None:
    cluster = grove_set()
    bind_to_kai(cluster, "cluster")
    cluster.remove("Topology/cluster")
    cluster.add(kai_topology(*LEVELS.values(), name="other"))
    explained = explain(cluster, "pcs/llm")

    assert explained.code == 1
    assert explained.step("features") == failed(
        "features",
        "KAI has no Topology cluster, so it cannot keep Grove's pods together",
        "clustertopologybinding.grove.io/cluster names it in spec.schedulerTopologyBindings, "
        "so Grove does not create it: Toposcope creates it, unless spec.publish.kai is Never",
    )


def test_older_grove_adds_a_constraint_only_when_the_set_changes(explain: Explain) -> None:
    cluster = untried_grove_set()
    del cluster["PodGang/llm-0"]["metadata"]["annotations"]
    binding = cluster["ClusterTopologyBinding/cluster"]
    cluster.remove("ClusterTopologyBinding/cluster")
    cluster.add({**binding, "kind": "ClusterTopology"})
    explained = explain(cluster, "podcliqueset/llm")

    assert explained.code == 1
    assert explained.answer.name == "features"
    assert explained.step("features").details == [
        (
            "Grove omits it while the topology or the level is missing, and before v0.1.0-alpha.9 adds it only when "
            "the PodCliqueSet changes or its operator starts: restart the operator"
        ),
        "running pods stay on their nodes",
    ]


def scaling_group_labels(replica: int) -> dict[str, str]:
    """Labels of a pod in a replica of the scaling group `g`."""
    return {
        "grove.io/podcliquescalinggroup": "llm-0-g",
        "grove.io/podcliquescalinggroup-replica-index": str(replica),
        "grove.io/podclique": f"llm-0-g-{replica}-worker",
        "grove.io/podcliqueset-replica-index": "0",
    }


def test_grove_scaled_replica_may_run_in_another_rack_than_its_set(explain: Explain) -> None:
    cluster = grove_set()
    template = cluster["PodCliqueSet/llm"]["spec"]["template"]
    template["cliques"][0]["spec"]["replicas"] = 1
    template["podCliqueScalingGroups"] = [{"name": "g", "cliqueNames": ["worker"], "replicas": 2}]
    cluster.remove("Pod/llm-0-worker-2", "Pod/llm-0-worker-3")
    for replica, node_name in enumerate(["h200-1", "h200-8"]):
        name = f"llm-0-worker-{replica}"
        cluster[f"Pod/{name}"]["metadata"]["labels"] = scaling_group_labels(replica)
        cluster.run(name, on=node_name)
    explained = explain(cluster, "podcliqueset/llm")

    assert explained.code == 0
    assert not explained.has_answer
    assert explained.placements == [
        {
            "group": "llm",
            "copy": None,
            "level": "rack",
            "key": RACK,
            "required": True,
            "domains": {"rack-3": 1},
            "kept": True,
            "note": None,
            "result": "MATCH",
            "observed": {
                "placed": 1,
                "expected": 1,
                "domains": [
                    {
                        "domain": ["zone-1", "rack-3"],
                        "pods": [{"pod": "llm-0-worker-0", "node": "h200-1"}],
                    }
                ],
                "unread": [],
                "changed": [],
                "sharedWith": [],
                "brokenBy": None,
            },
        }
    ]


# Kueue: nodes that it assigned


FAILED_NODE = "Kueue has marked as failed: h200-99"
REPLACES_ONLY_HOSTS = (
    "Kueue 0.19 replaces nodes only in topologies whose lowest level is kubernetes.io/hostname; to make Kueue assign "
    "the Workload again, set its spec.active to false, and to true again"
)


def job_on_nodes() -> WaitingCluster:
    """Kueue assigned the four nodes of rack-3 to the Job, of which three run its pods."""
    cluster = assigned_node_gone()
    assignment = assigned_pod_set(cluster)["topologyAssignment"]
    assignment["slices"][0]["valuesPerLevel"][0]["individual"]["roots"][3] = "4"
    return cluster


def job_in_rack(rack: str) -> WaitingCluster:
    """Kueue assigned a rack to the Job."""
    cluster = assigned_node_gone()
    assigned_pod_set(cluster)["topologyAssignment"] = {"levels": [RACK], "domains": [{"values": [rack], "count": 4}]}
    return cluster


def test_kueue_replaces_a_silent_node_once_no_pod_runs_there(explain: Explain) -> None:
    cluster = job_on_nodes()
    cluster.lose("h200-4")
    explained = explain(cluster, "wl/job-train")

    assert explained.code == 1
    assert explained.step("availability") == failed(
        "availability",
        "Kueue assigned 1 pod of pod set main to node h200-4, which is not Ready",
        FAILED_NODE,
        "Kueue 0.19 replaces the node once none of the Workload's pods runs there: Kubernetes deletes "
        "them after their tolerationSeconds (5 minutes by default), or delete them yourself",
    )


def test_kueue_replaces_a_cordoned_node_once_no_pod_runs_there(explain: Explain) -> None:
    cluster = job_on_nodes()
    cluster.cordon("h200-4")
    explained = explain(cluster, "wl/job-train")

    assert explained.code == 1
    assert explained.step("availability") == failed(
        "availability",
        "Kueue assigned 1 pod of pod set main to node h200-4, which is cordoned",
        FAILED_NODE,
        "running pods stay; for pods that cannot start there, Kueue 0.19 replaces the node once none of the "
        "Workload's pods runs on it: uncordon it, or delete those pods",
    )


def test_kueue_does_not_replace_a_rack_that_is_gone(explain: Explain) -> None:
    explained = explain(job_in_rack("rack-9"), "wl/job-train")

    assert explained.code == 1
    assert explained.step("availability") == failed(
        "availability",
        f"Kueue assigned 4 pods of pod set main to domain rack-9 ({RACK}), which is gone",
        FAILED_NODE,
        REPLACES_ONLY_HOSTS,
    )


def test_kueue_job_on_available_nodes_is_well(explain: Explain) -> None:
    explained = explain(job_on_nodes(), "wl/job-train")

    assert explained.code == 0
    assert explained.is_well
    assert explained.step("availability").outcome == "passed"


def test_kueue_job_in_a_rack_with_a_cordoned_node_is_well(explain: Explain) -> None:
    cluster = job_in_rack("rack-3")
    cluster.cordon("h200-4")
    explained = explain(cluster, "wl/job-train")

    assert explained.code == 0
    assert explained.is_well
    assert explained.step("availability").outcome == "passed"


@pytest.mark.regression
def test_pod_of_a_kai_group_leads_to_what_keeps_all_of_it(explain: Explain) -> None:
    explained = explain(kai_pod_group(), "pod/p0")

    assert explained.answer.name == "room"
    assert explained.answer.message == "does not fit now: pg needs 32 GPUs in one rack, largest has 24 (rack-3)"


# Kueue's groups of pods


def kueue_pod_group() -> WaitingCluster:
    """The four pods of Kueue's group `job-train` wait; each of them owns the Workload of that name."""
    cluster = kueue_job()
    cluster.remove("Job/train")
    owners = []
    for number in range(4):
        member = pod(f"p{number}", message="Scheduling is blocked due to non-empty scheduling gates")
        member["metadata"]["labels"] = {
            "kueue.x-k8s.io/queue-name": "gpus",
            "kueue.x-k8s.io/pod-group-name": "job-train",
        }
        member["metadata"]["annotations"] = {
            "kueue.x-k8s.io/pod-group-total-count": "4",
            "kueue.x-k8s.io/podset-required-topology": RACK,
        }
        del member["spec"]["schedulerName"]
        member["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        cluster.add(member)
        owners.append({"apiVersion": "v1", "kind": "Pod", "name": f"p{number}", "uid": f"uid-{number}"})
    workload = cluster["Workload/job-train"]
    workload["metadata"]["ownerReferences"] = owners
    template = {"spec": pod_spec()}
    del template["spec"]["schedulerName"]
    pod_set = {"name": "x", "count": 4, "topologyRequest": {"required": RACK}, "template": template}
    workload["spec"]["podSets"] = [pod_set]
    return cluster


@pytest.mark.regression
@pytest.mark.parametrize("subject", ["workload/job-train", "pod/p0"])
def test_workload_that_several_pods_own_says_why_all_of_them_wait(explain: Explain, subject: str) -> None:
    explained = explain(kueue_pod_group(), subject)

    assert explained.document["pods"] == {"expected": 4, "placed": 0, "waiting": 4}
    assert explained.answer.name == "gates"
    assert "holds pod/p0 and 3 more" in explained.answer.message
    assert explained.messages[0]["about"] == "workload/job-train -n ml"
    assert explained.step("room").outcome == "passed"


# Volcano and its HyperNodes


def second_zone(*members: str) -> Object:
    """A HyperNode `y` of tier 2 with these racks."""
    selected = [{"type": "HyperNode", "selector": {"exactMatch": {"name": member}}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "y"},
        "spec": {"tier": 2, "members": selected},
    }


def test_volcano_job_needs_more_than_a_hyper_node_has(explain: Explain) -> None:
    explained = explain(volcano_job(), "vcjob/train")

    assert explained.code == 1
    assert explained.answer.name == "room"
    assert explained.answer.message == "cannot fit: train needs 48 GPUs in one rack, largest has 32 (rack-3)"
    assert explained.messages[0]["text"] == (
        "6/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable"
    )
    assert explained.messages[1]["text"] == "pod group is not ready"
    assert explained.step("features").outcome == "passed"


def without_topology(cluster: WaitingCluster) -> WaitingCluster:
    """The cluster without its ClusterTopology: HyperNodes alone tell where nodes are."""
    cluster.remove("ClusterTopology/cluster")
    return cluster


@pytest.mark.regression
@pytest.mark.parametrize("subject", ["podgroup.scheduling.volcano.sh/train", "pod/p0"])
def test_pods_that_name_a_group_of_volcano_s_belong_to_it(explain: Explain, subject: str) -> None:
    cluster = without_topology(volcano_job())
    cluster.remove("Job/train")
    cluster.remove("Pod/train-worker-0")
    for number in range(6):
        member = pod(f"p{number}", message="pod group is not ready")
        member["spec"]["schedulerName"] = "volcano"
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
        cluster.add(member)
    explained = explain(cluster, subject)

    assert explained.document["pods"]["waiting"] == 6
    assert explained.step("gates") == passed("gates", "no waiting pod has a scheduling gate")
    assert explained.step("room") == unknown(
        "room", "a PodGroup does not say what its pods request; check the Job that creates them"
    )
    assert explained.step("drift") == passed("drift", "Volcano reads no resource that lists levels")


@pytest.mark.regression
def test_hyper_nodes_alone_tell_which_nodes_have_a_level(explain: Explain) -> None:
    explained = explain(without_topology(volcano_job()), "vcjob/train")

    assert explained.step("labels").outcome == "passed"
    assert explained.step("availability").outcome == "passed"
    assert explained.answer.name == "room"
    assert explained.answer.message == "cannot fit: train needs 48 GPUs in one rack, largest has 32 (r3)"


def test_nodes_of_no_hyper_node_are_named_where_room_is_short(explain: Explain) -> None:
    cluster = without_topology(volcano_job())
    cluster["Job/train"]["spec"]["tasks"][0]["replicas"] = 4
    cluster["Job/train"]["spec"]["minAvailable"] = 4
    members = {
        "r3": ["h200-1", "h200-2", "h200-3"],
        "r4": ["h200-5", "h200-6", "h200-7"],
    }
    for rack, names in members.items():
        cluster[f"HyperNode/{rack}"]["spec"]["members"] = [exactly(name) for name in names]
    explained = explain(cluster, "vcjob/train")

    assert explained.answer.name == "labels"
    assert explained.answer.message == (
        "there is too little room, and 2 of 8 nodes are in no HyperNode of level zone: h200-4, h200-8"
    )
    assert explained.answer.details == [
        "2 of 8 nodes are in no HyperNode of level rack: h200-4, h200-8",
        "list them as members of a HyperNode",
    ]


def test_hyper_nodes_of_other_nodes_are_no_level_of_the_gpus(explain: Explain) -> None:
    cluster = without_topology(volcano_job())
    without_gpus = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "cpu-1"},
        "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    cluster.add(without_gpus)
    for rack in ("r3", "r4"):
        cluster[f"HyperNode/{rack}"]["spec"]["members"] = [exactly("cpu-1")]
    explained = explain(cluster, "vcjob/train")

    assert explained.step("availability").message == "no HyperNode of level rack lists a node with GPUs"


def exactly(node: str) -> Object:
    """A member of a HyperNode: this node."""
    return {"type": "Node", "selector": {"exactMatch": {"name": node}}}


def test_volcano_job_names_a_tier_of_no_hyper_node(explain: Explain) -> None:
    cluster = volcano_job()
    cluster["Job/train"]["spec"]["networkTopology"] = {"highestTierName": "rak"}
    explained = explain(cluster, "vcjob/train")

    assert explained.code == 1
    assert explained.answer.name == "levels"
    assert explained.answer.message == (
        "spec.networkTopology.highestTierName: failed to find hypernode tier name rak: the scheduler logs this and "
        "places the pods anywhere"
    )


def test_volcano_holds_jobs_back_where_a_hyper_node_has_two_parents(explain: Explain) -> None:
    cluster = volcano_job()
    cluster["Job/train"]["spec"]["networkTopology"] = {"highestTierName": "zone"}
    cluster.add(second_zone("r3", "r4"))
    explained = explain(cluster, "vcjob/train")

    assert explained.code == 1
    assert explained.answer.name == "room"
    assert explained.answer.message == (
        "does not fit now: HyperNode r3 has 2 parents, so Volcano schedules no jobs with a topology: remove it from "
        "all but one"
    )
    assert explained.step("features").outcome == "failed"


def test_volcano_job_without_topology_ignores_hyper_nodes(explain: Explain) -> None:
    cluster = volcano_job()
    del cluster["Job/train"]["spec"]["networkTopology"]
    cluster.add(second_zone("r3"))
    explained = explain(cluster, "vcjob/train")

    assert explained.step("features").outcome == "passed"
