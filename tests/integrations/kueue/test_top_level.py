"""Nodes that Kueue leaves out: for a level that they lack, or a value that older versions mistake."""

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import warning

pytestmark = pytest.mark.regression


def test_node_named_like_its_top_domain_is_warned_of(kueue: CheckedCluster) -> None:
    kueue.label_node("n0", "example.com/rack", "n0")
    kueue.pods(1)
    answer = kueue.check()
    assert answer.findings == [
        warning(
            "kueue/top-level-hostname",
            "",
            "Kueue 0.14 to 0.19.0 ignores 1 node (n0) whose kubernetes.io/hostname is also the value of "
            "example.com/rack, the top level of Topology t (kueue#14009)",
            fix=(
                "update Kueue to 0.19.1 or the newest patch of 0.18 or 0.17, or remove example.com/rack from the "
                "Topology"
            ),
        )
    ]
    assert answer.verdict == "fits: 2 example.com/racks could take it now, best n0 (1 node, 8 free GPUs)"


def test_name_of_another_node_is_no_reason(kueue: CheckedCluster) -> None:
    kueue.label_node("n0", "example.com/rack", "n1")
    kueue.pods(1)
    assert kueue.check().findings == []


def test_topology_of_hosts_alone_has_no_level_above(kueue: CheckedCluster) -> None:
    kueue.edit("Topology/t", "spec.levels", [{"nodeLabel": "kubernetes.io/hostname"}])
    kueue.annotate_pods("kueue.x-k8s.io/podset-required-topology", "kubernetes.io/hostname")
    kueue.pods(1)
    assert kueue.check().findings == []


def test_level_that_no_node_carries_is_named(kueue: CheckedCluster) -> None:
    levels = [{"nodeLabel": "example.com/island"}, {"nodeLabel": "example.com/rack"}]
    kueue.edit("Topology/t", "spec.levels", levels)
    assert kueue.check().verdict == (
        "cannot fit: no node carries example.com/island, a level of Topology t, "
        "and Kueue leaves out every node that lacks a level"
    )
