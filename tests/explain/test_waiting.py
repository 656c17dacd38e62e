"""The cluster that tests of explain edit."""

import pytest
from tests.explain.waiting import WaitingCluster, kai_job, pod


def test_missing_object_is_named_with_those_there_are() -> None:
    cluster = WaitingCluster(pod("a"), pod("b"))
    with pytest.raises(LookupError, match="there is no Pod/c; there are: Pod/a, Pod/b"):
        cluster.remove("Pod/c")


def test_cluster_is_made_anew_each_time() -> None:
    first = kai_job()
    first.cordon("h200-1")
    first.remove_rack_label("h200-2")
    first.run("train-2", on="h200-5")
    assert kai_job().objects != first.objects
    assert kai_job().objects == kai_job().objects
