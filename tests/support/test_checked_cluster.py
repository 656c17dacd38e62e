"""The driver that checks a workload on a cluster of documents."""

import pytest
from tests.support.checked_cluster import CheckedCluster


@pytest.fixture
def cluster() -> CheckedCluster:
    return CheckedCluster("placement/clusters/two-nodes", "placement/kai-job-anywhere")


def test_taint_reads_as_in_kubectl(cluster: CheckedCluster) -> None:
    cluster.taint("n1", "team=x:NoSchedule", "example.com/idle:NoExecute")

    assert cluster.objects["Node/n1"]["spec"]["taints"] == [
        {"key": "team", "value": "x", "effect": "NoSchedule"},
        {"key": "example.com/idle", "effect": "NoExecute"},
    ]


def test_edit_of_a_missing_object_names_those_that_exist(cluster: CheckedCluster) -> None:
    with pytest.raises(KeyError, match="there is no Node/n9; there are Node/n0, Node/n1"):
        cluster.edit("Node/n9", "spec.unschedulable", True)


def test_applied_objects_replace_those_of_their_name(cluster: CheckedCluster) -> None:
    cluster.apply("""
        kind: Node
        metadata: {name: n1}
        ---
        kind: Pod
        metadata: {name: p}
    """)

    assert list(cluster.objects) == ["Node/n0", "Node/n1", "Pod/p"]
    assert cluster.objects["Node/n1"] == {"kind": "Node", "metadata": {"name": "n1"}}


def test_clusters_of_one_document_do_not_share_objects(cluster: CheckedCluster) -> None:
    cluster.cordon("n1")

    again = CheckedCluster("placement/clusters/two-nodes", "placement/kai-job-anywhere")

    assert "unschedulable" not in again.objects["Node/n1"]["spec"]
