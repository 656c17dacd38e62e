"""Queues that admit nothing, whatever room there is, and what decides besides quota."""

import pytest
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.checking import error

pytestmark = pytest.mark.regression

QUEUE_NAME = "metadata.labels[kueue.x-k8s.io/queue-name]"
QUEUE_FIRST = "levels and room are not checked until the queue is fixed"
FITS = "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"


def add_cohort(kueue: CheckedCluster, name: str, *, below: str = "") -> None:
    """A cohort, below another one where it is named."""
    spec = {"parentName": below} if below else {}
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort"}
    kueue.add({**head, "metadata": {"name": name}, "spec": spec})


def inactive(reason: str, message: str) -> Object:
    """The status of a queue that is not active."""
    condition = {"type": "Active", "status": "False", "reason": reason, "message": message}
    return {"conditions": [condition]}


def test_cohorts_in_a_cycle_make_the_queue_inactive(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "below")
    add_cohort(kueue, "below", below="a")
    add_cohort(kueue, "a", below="b")
    add_cohort(kueue, "b", below="a")
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/cohort-cycle",
            QUEUE_NAME,
            "ClusterQueue cq is inactive: its cohorts are in a cycle: a > b > a",
            fix="change spec.parentName of one of them: kubectl get cohorts.kueue.x-k8s.io",
        )
    ]
    assert answer.notes == [QUEUE_FIRST]
    assert answer.verdict == ""


def test_cycle_of_other_cohorts_does_not_count(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "mine")
    add_cohort(kueue, "mine")
    add_cohort(kueue, "a", below="b")
    add_cohort(kueue, "b", below="a")
    assert kueue.check().verdict == FITS


def test_cluster_queue_that_is_not_active_says_why(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "status", inactive("Terminating", "Can't admit new workloads"))
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/queue-inactive",
            QUEUE_NAME,
            "ClusterQueue cq is inactive (Terminating): Can't admit new workloads",
            fix="kubectl describe clusterqueue cq",
        )
    ]
    assert answer.verdict == ""


def test_local_queue_that_is_not_active_says_why(kueue: CheckedCluster) -> None:
    kueue.edit("LocalQueue/queue", "status", inactive("ClusterQueueIsInactive", "Can't submit new workloads"))
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/queue-inactive",
            QUEUE_NAME,
            "LocalQueue queue is inactive (ClusterQueueIsInactive): Can't submit new workloads",
            fix="kubectl describe localqueue queue",
        )
    ]


def test_spec_says_more_than_the_condition(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.stopPolicy", "Hold")
    kueue.edit("ClusterQueue/cq", "status", inactive("Stopped", "Can't admit new workloads: is stopped."))
    answer = kueue.check()
    assert [finding.rule for finding in answer.findings] == ["kueue/queue-stopped"]


def add_check(kueue: CheckedCluster, *, active: str) -> None:
    """The admission check `prov`."""
    condition = {"type": "Active", "status": active, "reason": "R", "message": "no configuration"}
    kueue.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "prov"},
            "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
            "status": {"conditions": [condition]},
        }
    )


def use_check(kueue: CheckedCluster, name: str) -> None:
    strategy = {"admissionChecks": [{"name": name}]}
    kueue.edit("ClusterQueue/cq", "spec.admissionChecksStrategy", strategy)


def test_admission_checks_that_are_not_read_are_unclear(kueue: CheckedCluster) -> None:
    use_check(kueue, "prov")
    add_check(kueue, active="True")
    answer = kueue.check()
    assert answer.findings == []
    assert answer.verdict == (
        "unclear: ClusterQueue cq has admission checks (prov), which decide after the quota and are not checked"
    )


def test_admission_check_that_is_not_active_is_an_error(kueue: CheckedCluster) -> None:
    use_check(kueue, "prov")
    add_check(kueue, active="False")
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/admission-check",
            QUEUE_NAME,
            "ClusterQueue cq is inactive: references inactive AdmissionCheck(s): prov: no configuration",
            fix="kubectl describe admissionchecks.kueue.x-k8s.io prov",
        )
    ]


def test_admission_check_that_does_not_exist_is_an_error(kueue: CheckedCluster) -> None:
    use_check(kueue, "other")
    add_check(kueue, active="True")
    answer = kueue.check()
    assert answer.findings == [
        error(
            "kueue/admission-check",
            QUEUE_NAME,
            "ClusterQueue cq is inactive: references missing AdmissionCheck(s): other",
            fix="create it, or remove it from the ClusterQueue: kubectl get admissionchecks.kueue.x-k8s.io",
        )
    ]


@pytest.mark.parametrize(
    "expression",
    [
        {"operator": "In", "values": ["ml", "other"]},
        {"operator": "NotIn", "values": ["other"]},
        {"operator": "Exists"},
    ],
)
def test_selector_of_the_namespace_by_name_is_read(kueue: CheckedCluster, expression: Object) -> None:
    expression = {"key": "kubernetes.io/metadata.name", **expression}
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector", {"matchExpressions": [expression]})
    assert kueue.check().verdict == FITS


def test_selector_that_leaves_the_namespace_out_is_an_error(kueue: CheckedCluster) -> None:
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["ml"]}
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector", {"matchExpressions": [expression]})
    answer = kueue.check()
    assert [finding.rule for finding in answer.findings] == ["kueue/namespace"]


def test_labels_of_the_namespace_that_are_not_read_are_unclear(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector", {"matchLabels": {"team": "x"}})
    assert kueue.check().verdict == (
        "unclear: it is unknown whether namespace ml has the labels of the ClusterQueue's namespaceSelector (team)"
    )
