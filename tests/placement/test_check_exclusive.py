"""Exclusive placement: who holds the domains that are taken, and whether leaders may choose one that is too small."""

from typing import Any

import pytest
from tests.support.checking import CheckedWorkload, check

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RACK = "example.com/rack"
GPU = "nvidia.com/gpu"


def node(name: str, rack: str) -> Object:
    """A node of 8 GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: rack, "kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {GPU: "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def rack(name: str, nodes: int) -> list[Object]:
    """The nodes of a rack."""
    return [node(f"{name}-{number}", name) for number in range(nodes)]


def template(gpus: int = 8) -> Object:
    """A pod of so many GPUs."""
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]}}


def jobs(name: str, *, pods: int, replicas: int = 1) -> Object:
    """A ReplicatedJob."""
    spec = {"parallelism": pods, "completions": pods, "template": template()}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def jobset(*replicated: Object) -> Object:
    """A JobSet whose Jobs each have a rack for themselves."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "js",
            "namespace": "ml",
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK},
        },
        "spec": {"replicatedJobs": list(replicated)},
    }


def leader_worker_set(size: int, replicas: int = 1) -> Object:
    """A LeaderWorkerSet whose groups each have a rack for themselves."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "lws",
            "namespace": "ml",
            "annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": RACK},
        },
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template()},
        },
    }


def running(on: str, *, labels: dict[str, str], gpus: int = 0) -> Object:
    """A pod of somebody else."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{on}", "namespace": "other", "labels": labels},
        "spec": {"nodeName": on, **template(gpus)["spec"]},
        "status": {"phase": "Running"},
    }


def vip(on: str, *, priority: str = "") -> Object:
    """A pod of JobSet `vip`, alone in its rack."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "vip", "jobset.sigs.k8s.io/job-key": on}
    if priority:
        labels["jobset.sigs.k8s.io/priority"] = priority
    return running(on, labels=labels, gpus=8)


def checked(workload: Object, *objects: Object) -> CheckedWorkload:
    return check(workload, objects)


def test_group_fits_where_each_rack_has_room_for_it() -> None:
    answer = checked(jobset(jobs("w", pods=2)), *rack("r1", 2), *rack("r2", 3))
    assert answer.verdict == "fits: 2 example.com/racks could take it now, best r1 (2 nodes, 16 free GPUs)"


def test_leader_that_may_choose_a_small_rack_is_unclear() -> None:
    answer = checked(jobset(jobs("w", pods=4)), *rack("r1", 1), *rack("r2", 4))
    assert answer.verdict == (
        "unclear: the first pod of job of w goes to any example.com/rack that has room for it, "
        "and the other 3 have to follow: not all of them would fit in r1"
    )


def test_small_rack_without_room_for_the_leader_does_no_harm() -> None:
    busy = running("r1-0", labels={}, gpus=8)
    answer = checked(jobset(jobs("w", pods=4)), *rack("r1", 1), *rack("r2", 4), busy)
    assert answer.verdict == "fits: example.com/rack r2 (4 nodes, 32 free GPUs)"


def test_jobs_of_one_pod_have_no_followers() -> None:
    answer = checked(jobset(jobs("w", pods=1, replicas=2)), *rack("r1", 1), *rack("r2", 4))
    assert answer.verdict == "fits: 2 pods on 2 nodes"


def test_jobs_of_two_sizes_may_take_the_larger_rack() -> None:
    answer = checked(jobset(jobs("a", pods=1), jobs("b", pods=2)), *rack("r1", 1), *rack("r2", 2))
    assert answer.verdict.startswith("unclear: the first pod of job of b goes to any example.com/rack")


def test_group_that_may_take_the_only_rack_of_another_is_unclear() -> None:
    """Job `a` needs whole nodes, which only r1 has; `b` may go there first."""
    small = jobs("b", pods=2)
    small["template"]["spec"]["template"] = template(4)
    halves = rack("r2", 2)
    for half in halves:
        half["status"]["allocatable"][GPU] = "4"
    answer = checked(jobset(jobs("a", pods=2), small), *rack("r1", 2), *halves)
    assert answer.verdict == "unclear: its groups differ, and one may take the only domain that has room for another"


def test_group_that_no_rack_has_room_for_cannot_fit_whoever_leads() -> None:
    answer = checked(jobset(jobs("w", pods=4)), *rack("r1", 1), *rack("r2", 2))
    assert answer.verdict == "cannot fit: job of w needs 32 GPUs in one example.com/rack, largest has 16 (r2)"


def test_node_of_no_rack_is_not_counted_among_the_racks_that_are_held() -> None:
    stray = node("stray", "")
    del stray["metadata"]["labels"][RACK]
    answer = checked(jobset(jobs("w", pods=2)), *rack("r1", 2), stray, vip("r1-0"))
    held = "1 of 1 example.com/rack is held by other groups: r1 by jobset/vip -n other"
    assert answer.verdict == f"does not fit now: {held}"


def test_leader_of_a_leader_worker_set_is_unclear_too() -> None:
    answer = checked(leader_worker_set(3), *rack("r1", 2), *rack("r2", 3))
    assert answer.verdict == (
        "unclear: the first pod of group goes to any example.com/rack that has room for it, "
        "and the other 2 have to follow: not all of them would fit in r1"
    )


def test_racks_of_another_job_set_do_not_fit_now() -> None:
    answer = checked(jobset(jobs("w", pods=1)), *rack("r1", 2), *rack("r2", 2), vip("r1-0"), vip("r2-0"))
    assert answer.verdict == (
        "does not fit now: 2 of 2 example.com/racks are held by other groups: "
        "r1 by jobset/vip -n other, r2 by jobset/vip -n other"
    )


def test_held_rack_is_named_where_the_others_are_too_small() -> None:
    answer = checked(jobset(jobs("w", pods=2)), *rack("r1", 2), *rack("r2", 1), vip("r1-0"))
    assert answer.verdict == (
        "does not fit now: 1 of 2 example.com/racks is held by other groups, and the others have too little room: "
        "r1 by jobset/vip -n other"
    )


def test_group_that_no_rack_has_room_for_never_fits() -> None:
    answer = checked(jobset(jobs("w", pods=3)), *rack("r1", 2), *rack("r2", 2), vip("r1-0"))
    assert answer.verdict == "cannot fit: job of w needs 24 GPUs in one example.com/rack, largest has 16 (r1)"


def test_jobs_of_another_priority_hold_no_rack() -> None:
    answer = checked(jobset(jobs("w", pods=1)), *rack("r1", 2), vip("r1-0", priority="1000"))
    assert answer.verdict == "fits: example.com/rack r1 (2 nodes, 8 free GPUs)"


def test_groups_of_another_leader_worker_set_do_not_fit_now() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-key": "k"}
    held = running("r1-0", labels=labels)
    held["metadata"]["namespace"] = "ml"
    answer = checked(leader_worker_set(1), *rack("r1", 2), held)
    assert answer.verdict == (
        "does not fit now: 1 of 1 example.com/rack is held by other groups: r1 by leaderworkerset/llm -n ml"
    )


def test_annotation_of_the_pods_counts_too() -> None:
    workload = jobset(jobs("w", pods=3))
    annotations = workload["metadata"].pop("annotations")
    workload["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": annotations}
    assert checked(workload, *rack("r1", 2), *rack("r2", 2)).verdict == (
        "cannot fit: job of w needs 24 GPUs in one example.com/rack, largest has 16 (r1)"
    )


def test_annotation_of_the_leader_counts_too() -> None:
    workload = leader_worker_set(3)
    annotations = workload["metadata"].pop("annotations")
    leader = {**template(), "metadata": {"annotations": annotations}}
    workload["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = leader
    assert checked(workload, *rack("r1", 2), *rack("r2", 2)).verdict == (
        "cannot fit: group needs 24 GPUs in one example.com/rack, largest has 16 (r1)"
    )


def test_two_pods_of_a_holder_on_one_node_hold_its_rack_once() -> None:
    second = vip("r1-0")
    second["metadata"]["name"] = "second"
    answer = checked(jobset(jobs("w", pods=2)), *rack("r1", 2), vip("r1-0"), second)
    assert answer.verdict == (
        "does not fit now: 1 of 1 example.com/rack is held by other groups: r1 by jobset/vip -n other"
    )
