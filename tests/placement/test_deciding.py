"""Verdicts that are unclear whatever room there is: pods that are unknown, fields that were not read."""

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import check

NEW_FIELD = "spec.template.spec.newField"


@pytest.fixture
def cluster() -> CheckedCluster:
    """Two nodes with room for the two pods of a Job."""
    return CheckedCluster("placement/clusters/two-nodes", "placement/plain-job")


def test_pods_of_a_bare_pod_group_are_unknown() -> None:
    pod_group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    assert (
        check(pod_group, []).verdict
        == "unclear: a PodGroup does not say what its pods request; check the Job that creates them"
    )


def test_field_that_was_not_read_makes_a_fit_unclear(cluster: CheckedCluster) -> None:
    assert cluster.check().verdict == "fits: 2 pods on 2 nodes"
    cluster.edit_workload(NEW_FIELD, "x")
    assert cluster.check().verdict == f"unclear: {NEW_FIELD} is not read; without it: fits: 2 pods on 2 nodes"


def test_unclear_verdict_stays_unclear_beside_a_field_that_was_not_read(cluster: CheckedCluster) -> None:
    cluster.edit_workload("spec.template.spec.schedulerName", "mine")
    cluster.edit_workload(NEW_FIELD, "x")
    assert cluster.check().verdict == "unclear: schedulerName mine: the rules of that scheduler are unknown"
