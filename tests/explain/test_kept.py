"""Whether running gangs share the domain that they require, by system, also after labels change under them."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.explain.causes import jobs_share_a_rack
from tests.explain.explained import Explain
from tests.explain.waiting import (
    NODES,
    RACK,
    WaitingCluster,
    grove_set,
    kai_job,
    kai_pod_group,
    kube_scheduler_gang,
    kueue_job,
    owned,
    pod,
    running_pod,
    train_job,
)

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


GANGS = [
    pytest.param(running_grove_set, id="grove"),
    pytest.param(running_kai_group, id="kai-pod-group"),
    pytest.param(running_kai_job, id="kai-job"),
    pytest.param(running_kueue_job, id="kueue"),
    pytest.param(running_kube_scheduler_gang, id="kube-scheduler"),
]


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
