"""The cluster that Kueue's tests begin with."""

import pytest
from tests.support.checked_cluster import CheckedCluster


@pytest.fixture
def kueue() -> CheckedCluster:
    """Nodes n0 and n1 with 8 GPUs in rack r1, and a queue whose flavor places a Job of two pods on them."""
    served = {"topologies.kueue.x-k8s.io": True}
    return CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job", served=served)
