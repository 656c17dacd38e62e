"""Workloads behind others in a StrictFIFO queue."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster

pytestmark = pytest.mark.regression

HEAD = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
FITS = "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"
WAITS = (
    "does not fit now: ClusterQueue cq is StrictFIFO, and workload/older -n ml is ahead of it and waits: no room for it"
)


@pytest.fixture
def strict(kueue: CheckedCluster) -> CheckedCluster:
    """The queue takes one workload after the other, and one has waited since 7:00."""
    kueue.edit("ClusterQueue/cq", "spec.queueingStrategy", "StrictFIFO")
    waits(kueue)
    return kueue


def waits(kueue: CheckedCluster, *, refused: str = "no room for it", **spec: Any) -> None:
    """A Workload `older` in the queue, which Kueue has refused."""
    metadata = {"name": "older", "namespace": "ml", "creationTimestamp": "2026-11-27T07:00:00Z"}
    conditions = []
    if refused:
        conditions.append({"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": refused})
    kueue.add(
        {
            **HEAD,
            "kind": "Workload",
            "metadata": metadata,
            "spec": {"queueName": "queue", "podSets": [], **spec},
            "status": {"conditions": conditions},
        }
    )


def own_workload(kueue: CheckedCluster, *, created: str, priority: int = 0) -> None:
    """The Workload of the Job that is checked."""
    owner = {"kind": "Job", "name": "train"}
    metadata = {"name": "own", "namespace": "ml", "creationTimestamp": created, "ownerReferences": [owner]}
    spec = {"queueName": "queue", "podSets": [], "priority": priority}
    kueue.add({**HEAD, "kind": "Workload", "metadata": metadata, "spec": spec})


def test_new_workload_waits_behind_an_older_one(strict: CheckedCluster) -> None:
    assert strict.check().verdict == WAITS


def test_other_queues_take_who_fits(kueue: CheckedCluster) -> None:
    waits(kueue)
    assert kueue.check().verdict == FITS


@pytest.mark.parametrize("spec", [{"active": False}, {"queueName": "another"}])
def test_workload_outside_of_the_queue_is_not_ahead(strict: CheckedCluster, spec: Mapping[str, Any]) -> None:
    waits(strict, **spec)
    assert strict.check().verdict == FITS


def test_workload_that_waits_for_its_requeuing_is_not_ahead(strict: CheckedCluster) -> None:
    conditions = [{"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout", "message": ""}]
    strict.edit("Workload/older", "status.conditions", conditions)
    assert strict.check().verdict == FITS


def test_workload_that_kueue_has_not_judged_yet_makes_it_unclear(strict: CheckedCluster) -> None:
    waits(strict, refused="")
    assert strict.check().verdict == ("unclear: ClusterQueue cq is StrictFIFO, and workload/older -n ml is ahead of it")


def test_older_workload_of_the_job_itself_is_first(strict: CheckedCluster) -> None:
    own_workload(strict, created="2026-11-27T06:00:00Z")
    assert strict.check().verdict == FITS


def test_admitted_workload_of_the_job_itself_does_not_wait(strict: CheckedCluster) -> None:
    own_workload(strict, created="2026-11-27T08:00:00Z")
    strict.edit("Workload/own", "status.admission", {"clusterQueue": "cq", "podSetAssignments": []})
    assert strict.check().verdict == FITS


def test_newer_workload_of_the_job_itself_waits(strict: CheckedCluster) -> None:
    own_workload(strict, created="2026-11-27T08:00:00Z")
    assert strict.check().verdict == WAITS


@pytest.mark.parametrize(("uid", "verdict"), [("a", FITS), ("c", WAITS)])
def test_uid_decides_between_workloads_of_the_same_second(strict: CheckedCluster, uid: str, verdict: str) -> None:
    own_workload(strict, created="2026-11-27T07:00:00Z")
    strict.edit("Workload/own", "metadata.uid", uid)
    strict.edit("Workload/older", "metadata.uid", "b")
    assert strict.check().verdict == verdict


def test_higher_priority_of_the_workload_is_first(strict: CheckedCluster) -> None:
    own_workload(strict, created="2026-11-27T08:00:00Z", priority=10)
    assert strict.check().verdict == FITS


def test_priority_class_of_kueue_decides_who_is_first(strict: CheckedCluster) -> None:
    strict.add({**HEAD, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 10})
    strict.edit_workload("metadata.labels[kueue.x-k8s.io/priority-class]", "high")
    assert strict.check().verdict == FITS

    waits(strict, priority=11)
    assert strict.check().verdict == WAITS


def test_priority_class_that_is_not_known_makes_it_unclear(strict: CheckedCluster) -> None:
    strict.edit_workload("metadata.labels[kueue.x-k8s.io/priority-class]", "high")
    assert strict.check().verdict == (
        "unclear: ClusterQueue cq is StrictFIFO, and workload/older -n ml is ahead of it unless its priority is "
        "lower; the priority class of this workload is unknown"
    )


def test_priority_class_of_the_system_is_known(strict: CheckedCluster) -> None:
    strict.edit_workload("spec.template.spec.priorityClassName", "system-node-critical")
    assert strict.check().verdict == FITS


def test_fair_sharing_between_local_queues_makes_it_unclear(strict: CheckedCluster) -> None:
    strict.edit("ClusterQueue/cq", "spec.admissionScope", {"admissionMode": "UsageBasedAdmissionFairSharing"})
    assert strict.check().verdict == (
        "unclear: ClusterQueue cq is StrictFIFO, and workload/older -n ml waits; the past usage of their "
        "LocalQueues decides which is first"
    )


def test_workload_without_room_says_so_before_its_turn(strict: CheckedCluster) -> None:
    strict.pods(4)
    assert (
        strict.check().verdict == "cannot fit: pod set pods needs 32 GPUs in one example.com/rack, largest has 16 (r1)"
    )
