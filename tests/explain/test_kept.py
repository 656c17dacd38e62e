"""Whether running gangs share the domain that they require, by system, also after labels change under them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.explain.causes import jobs_share_a_rack
from tests.explain.explained import Explain
from tests.explain.waiting import (
    LEVELS,
    NODES,
    RACK,
    WaitingCluster,
    cluster_topology,
    grove_set,
    kai_job,
    kai_pod_group,
    kube_scheduler_gang,
    kueue_job,
    levels_of,
    named,
    owned,
    pod,
    pod_spec,
    running_pod,
    train_job,
)
from toposcope.cli.main import main

Gang = tuple[WaitingCluster, str]


def running_grove_set() -> Gang:
    cluster = grove_set()
    for number in range(4):
        cluster.run(f"llm-0-worker-{number}", on=NODES[number])
    return cluster, "podcliqueset/llm"


def running_kai_group() -> Gang:
    cluster = kai_pod_group()
    cluster.remove("Pod/busy-h200-1", "Pod/busy-h200-5")
    for number in range(4):
        cluster.run(f"p{number}", on=NODES[number])
    return cluster, "podgroup/pg"


def running_kai_job() -> Gang:
    cluster = kai_job()
    cluster.remove("Pod/busy-h200-3", "Pod/busy-h200-4")
    cluster.run("train-2", on="h200-3")
    cluster.run("train-3", on="h200-4")
    return cluster, "job/train"


def running_kueue_job() -> Gang:
    cluster = kueue_job()
    for number in range(4):
        cluster.add(owned(running_pod(f"train-{number}", NODES[number]), cluster["Job/train"]))
    return cluster, "job/train"


def running_kube_scheduler_gang() -> Gang:
    cluster = kube_scheduler_gang()
    cluster["PodGroup/train"]["spec"]["schedulingConstraints"]["topology"] = [{"key": RACK}]
    for number in range(4):
        cluster.run(f"p{number}", on=NODES[number])
    return cluster, "podgroup/train"


def running_pod_gang() -> Gang:
    """Grove's PodGang says it, of a clique."""
    cluster, subject = running_grove_set()
    clique = {"name": "llm-0-worker", "minReplicas": 4}
    clique["topologyConstraint"] = {"packConstraint": {"required": RACK}}
    cluster.add(named("scheduler.grove.io/v1alpha1", "PodGang", "llm-0", {"podgroups": [clique]}))
    return cluster, subject


def running_kai_sub_group() -> Gang:
    cluster, subject = running_kai_group()
    constraint = cluster["PodGroup/pg"]["spec"].pop("topologyConstraint")
    cluster["PodGroup/pg"]["spec"]["subGroups"] = [{"name": "worker", "minMember": 4, "topologyConstraint": constraint}]
    for number in range(4):
        cluster[f"Pod/p{number}"]["metadata"]["labels"] = {"kai.scheduler/subgroup-name": "worker"}
    return cluster, subject


def running_volcano_job() -> Gang:
    cluster = WaitingCluster(cluster_topology(levels=levels_of(LEVELS)))
    constraint = {"mode": "hard", "highestTierName": "rack"}
    task = {"name": "worker", "replicas": 4, "template": {"spec": pod_spec()}}
    spec = {"minAvailable": 4, "schedulerName": "volcano", "networkTopology": constraint, "tasks": [task]}
    job = named("batch.volcano.sh/v1alpha1", "Job", "train", spec)
    group = named("scheduling.volcano.sh/v1beta1", "PodGroup", "pg", {"minMember": 4, "networkTopology": constraint})
    cluster.add(job, owned(group, job))
    for number in range(4):
        member = running_pod(f"train-{number}", NODES[number])
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "pg"}
        cluster.add(owned(member, job))
    return cluster, "job.batch.volcano.sh/train"


def hyper_node(name: str, *members: str) -> dict[str, Any]:
    entries = [{"type": "Node", "selector": {"exactMatch": {"name": member}}} for member in members]
    return named("topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": 1, "members": entries})


def running_exclusive_group() -> Gang:
    """A group of a LeaderWorkerSet."""
    cluster = WaitingCluster(cluster_topology(levels=levels_of(LEVELS)))
    prefix = "leaderworkerset.sigs.k8s.io/"
    exclusive = {prefix + "exclusive-topology": RACK}
    template = {"size": 4, "workerTemplate": {"spec": pod_spec()}}
    serve = named("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", annotations=exclusive)
    serve["spec"] = {"replicas": 1, "leaderWorkerTemplate": template}
    cluster.add(serve)
    for number in range(4):
        member = running_pod(f"serve-0-{number}", NODES[number])
        member["metadata"]["annotations"] = exclusive
        member["metadata"]["labels"] = {
            prefix + "name": "serve",
            prefix + "group-index": "0",
            prefix + "group-key": "key-0",
        }
        cluster.add(owned(member, serve))
    return cluster, "leaderworkerset/serve"


GANGS = [
    pytest.param(running_pod_gang, id="grove-pod-gang"),
    pytest.param(running_kai_sub_group, id="kai-sub-group"),
    pytest.param(running_volcano_job, id="volcano"),
    pytest.param(running_exclusive_group, id="leader-worker-set"),
    pytest.param(running_grove_set, id="grove"),
    pytest.param(running_kai_group, id="kai-pod-group"),
    pytest.param(running_kai_job, id="kai-job"),
    pytest.param(running_kueue_job, id="kueue"),
    pytest.param(running_kube_scheduler_gang, id="kube-scheduler"),
]


SAID_BY_PODS = [
    pytest.param(running_pod_gang, id="grove-pod-gang"),
    pytest.param(running_kai_group, id="kai-pod-group"),
    pytest.param(running_kai_sub_group, id="kai-sub-group"),
    pytest.param(running_kube_scheduler_gang, id="kube-scheduler"),
    pytest.param(running_volcano_job, id="volcano"),
    pytest.param(running_exclusive_group, id="leader-worker-set"),
]
"""Gangs of which the pods, or an object that they name, say what is required."""


def placement(explain: Explain, gang: Gang) -> dict[str, Any]:
    """The only placement of a gang."""
    (only,) = explain(*gang).placements
    return only


@pytest.mark.parametrize("running", GANGS)
def test_gang_in_one_rack_is_a_match(explain: Explain, running: Callable[[], Gang]) -> None:
    kept = placement(explain, running())

    assert kept["result"] == "MATCH"
    assert kept["domains"] == {"rack-3": 4}
    assert kept["observed"]["unread"] == []


@pytest.mark.parametrize("running", GANGS)
def test_gang_is_a_violation_after_a_label_changed(explain: Explain, running: Callable[[], Gang]) -> None:
    cluster, subject = running()
    cluster.label("h200-2", RACK, "rack-9")
    kept = placement(explain, (cluster, subject))

    assert kept["result"] == "VIOLATION"
    assert kept["kept"] is False
    assert kept["domains"] == {"rack-3": 3, "rack-9": 1}
    other = kept["observed"]["domains"][1]
    assert [member["node"] for member in other["pods"]] == ["h200-2"]


@pytest.mark.parametrize("running", GANGS)
def test_gang_is_unobservable_after_a_label_went(explain: Explain, running: Callable[[], Gang]) -> None:
    cluster, subject = running()
    cluster.remove_rack_label("h200-2")
    kept = placement(explain, (cluster, subject))

    assert kept["result"] == "UNOBSERVABLE"
    assert kept["kept"] is None
    (unread,) = kept["observed"]["unread"]
    assert unread["node"] == "h200-2"
    assert unread["reason"] == "no-label"
    assert unread["key"] == RACK


def test_gang_on_a_node_that_is_gone_is_unobservable(explain: Explain) -> None:
    cluster, subject = running_grove_set()
    cluster["Pod/llm-0-worker-0"]["spec"]["nodeName"] = "h200-77"
    kept = placement(explain, (cluster, subject))

    assert kept["result"] == "UNOBSERVABLE"
    assert kept["observed"]["unread"] == [
        {"pod": "llm-0-worker-0", "node": "h200-77", "reason": "node-gone", "key": None}
    ]


def test_gang_partly_scheduled_is_unobservable(explain: Explain) -> None:
    kept = placement(explain, (kai_job(), "job/train"))

    assert kept["result"] == "UNOBSERVABLE"
    assert kept["observed"]["placed"] == 2
    assert kept["observed"]["expected"] == 4


def test_gang_partly_scheduled_in_two_racks_is_a_violation(explain: Explain) -> None:
    cluster = kai_job()
    cluster["Pod/train-1"]["spec"]["nodeName"] = "h200-5"
    assert placement(explain, (cluster, "job/train"))["result"] == "VIOLATION"


def test_exclusive_jobs_violate_in_one_rack_and_match_apart(explain: Explain) -> None:
    cluster = jobs_share_a_rack()
    together = explain(cluster, "jobset/sim").placements
    cluster["Pod/sim-workers-1-0"]["spec"]["nodeName"] = "h200-5"
    apart = explain(cluster, "jobset/sim").placements

    assert [kept["result"] for kept in together] == ["VIOLATION", "VIOLATION"]
    assert [kept["result"] for kept in apart] == ["MATCH", "MATCH"]


def test_exclusive_job_is_unobservable_without_a_label(explain: Explain) -> None:
    cluster = jobs_share_a_rack()
    cluster.remove_rack_label("h200-1", "h200-2")
    kept = explain(cluster, "jobset/sim").placements
    assert [placed["result"] for placed in kept] == ["UNOBSERVABLE", "UNOBSERVABLE"]


def test_preferred_level_gets_no_result(explain: Explain) -> None:
    cluster, subject = running_kai_job()
    annotations = cluster["Job/train"]["metadata"]["annotations"]
    annotations["kai.scheduler/topology-preferred-placement"] = annotations.pop(
        "kai.scheduler/topology-required-placement"
    )
    cluster.label("h200-2", RACK, "rack-9")
    kept = placement(explain, (cluster, subject))

    assert kept["result"] is None
    assert kept["observed"] is None


def test_gang_that_asks_for_nothing_gets_no_placement(explain: Explain) -> None:
    cluster = WaitingCluster()
    job = train_job({})
    cluster.add(job, owned(running_pod("train-0", "h200-1"), job), owned(pod("train-1"), job))
    assert explain(cluster, "job/train").placements == []


@pytest.mark.parametrize("running", SAID_BY_PODS)
@pytest.mark.parametrize("rack", ["rack-3", "rack-9", ""])
def test_score_says_the_same_as_explain(
    explain: Explain,
    running: Callable[[], Gang],
    rack: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster, subject = running()
    if rack:
        cluster.label("h200-2", RACK, rack)
    else:
        cluster.remove_rack_label("h200-2")
    main(["score", "--from", str(cluster.save(tmp_path)), "-o", "json"])
    (gang,) = json.loads(capsys.readouterr().out)["kept"]
    (part,) = gang["parts"]

    observed = placement(explain, (cluster, subject))["observed"]
    assert part | observed == part


def relabelled() -> Gang:
    """A gang that was bound within rack-3, before one of its nodes became one of rack-9."""
    cluster, subject = running_kai_group()
    for number in range(4):
        cluster[f"Pod/p{number}"]["metadata"]["annotations"]["gpu.topology/path"] = "zone=z,rack=rack-3"
    cluster.label("h200-2", RACK, "rack-9")
    return cluster, subject


def test_label_that_changed_after_binding_is_the_cause(explain: Explain) -> None:
    cluster, subject = relabelled()
    for name in NODES[:4]:
        cluster.label(name, "topology.kubernetes.io/zone", "z")
    observed = placement(explain, (cluster, subject))["observed"]

    assert observed["brokenBy"] == "labels-changed"
    assert observed["changed"] == [{"pod": "p1", "node": "h200-2", "key": RACK, "then": "rack-3", "now": "rack-9"}]


def test_gang_that_was_bound_apart_was_broken_by_its_scheduler(explain: Explain) -> None:
    cluster, subject = running_kai_group()
    for number, rack in enumerate(["rack-3", "rack-9", "rack-3", "rack-3"]):
        labels = {"gpu.topology/path-zone": "z", "gpu.topology/path-rack": rack}
        cluster[f"Pod/p{number}"]["metadata"]["labels"] = labels
        cluster.label(NODES[number], RACK, rack)
        cluster.label(NODES[number], "topology.kubernetes.io/zone", "z")
    observed = placement(explain, (cluster, subject))["observed"]

    assert (observed["brokenBy"], observed["changed"]) == ("placed-apart", [])


def test_domain_that_kueue_assigned_tells_what_changed(explain: Explain) -> None:
    """Kueue writes the assigned domain into the node selector of each pod."""
    cluster, subject = running_kueue_job()
    for number in range(4):
        cluster[f"Pod/train-{number}"]["spec"]["nodeSelector"] = {RACK: "rack-3"}
    cluster.label("h200-2", RACK, "rack-9")
    observed = placement(explain, (cluster, subject))["observed"]

    assert observed["brokenBy"] == "labels-changed"
    assert [change["node"] for change in observed["changed"]] == ["h200-2"]


def test_match_says_which_labels_changed_since(explain: Explain) -> None:
    """The whole rack has another name now."""
    cluster, subject = running_kueue_job()
    for number in range(4):
        cluster[f"Pod/train-{number}"]["spec"]["nodeSelector"] = {RACK: "rack-3"}
        cluster.label(NODES[number], RACK, "rack-9")
    kept = placement(explain, (cluster, subject))

    assert (kept["result"], kept["observed"]["brokenBy"]) == ("MATCH", None)
    assert len(kept["observed"]["changed"]) == 4


def test_page_says_who_broke_it_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, subject = relabelled()
    for name in NODES[:4]:
        cluster.label(name, "topology.kubernetes.io/zone", "z")
    code = main(["explain", subject, "--from", str(cluster.save(tmp_path))])
    lines = capsys.readouterr().out.splitlines()

    assert code == 1
    assert lines[2:7] == [
        "Nothing blocks it, but its pods are not placed as it asks:",
        (
            "  pg: one rack required: VIOLATION: rack-3 (3 pods), rack-9 (1 pod); pod/p0 on h200-1 is in z/rack-3, "
            "pod/p1 on h200-2 is in z/rack-9; "
            f"label {RACK} of node h200-2 changed from rack-3 to rack-9 after pod/p1 was placed"
        ),
        "    cause: its scheduler kept it in one domain; labels of nodes changed after that",
        "    fix: set the label back where the node did not move; where it did, restart the gang after a checkpoint",
        f"  next: kubectl get node h200-2 h200-1 -L {RACK}",
    ]
    assert lines[7] == "        kubectl get node h200-2 -o yaml --show-managed-fields"


@pytest.mark.parametrize(
    ("node", "result", "domains"),
    [
        pytest.param("h200-2", "MATCH", {"leaf-a": 4}, id="within-one"),
        pytest.param("h200-5", "VIOLATION", {"leaf-a": 3, "leaf-b": 1}, id="in-two"),
        pytest.param("h200-8", "UNOBSERVABLE", {"leaf-a": 3, "no domain": 1}, id="in-none"),
    ],
)
def test_tier_of_volcano_goes_by_hyper_nodes(explain: Explain, node: str, result: str, domains: dict[str, int]) -> None:
    cluster, subject = running_volcano_job()
    for name in ("Job/train", "PodGroup/pg"):
        cluster[name]["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    cluster.add(hyper_node("leaf-a", *NODES[:4]), hyper_node("leaf-b", *NODES[4:7]))
    cluster["Pod/train-1"]["spec"]["nodeName"] = node
    kept = placement(explain, (cluster, subject))

    assert (kept["result"], kept["domains"]) == (result, domains)
