"""Kueue's chain where copies are too many to try, and where its objects are malformed."""

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.checked_cluster import CheckedCluster
from tests.support.checking import CheckedWorkload, snapshot_of
from tests.support.kueue_objects import BOTH_ON_N0, ONE_ON_EACH, admitted, flavor, lender, pod_of_workload, quotas
from tests.support.sampling import slow_after
from toposcope.integrations.kueue.queues import kept
from toposcope.placement.check import Checker

pytestmark = pytest.mark.regression

SERVED = {"topologies.kueue.x-k8s.io": True}
GPU_QUOTA = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
POD_ANNOTATIONS = "spec.template.metadata.annotations"
JUNK: tuple[Any, ...] = (None, [], {}, "", "x", 7, -1, True, 1.5, [None], {"a": None}, "9" * 30, [{}])


@pytest.fixture
def kueue() -> CheckedCluster:
    """Two nodes in a rack, and a queue whose flavor places a Job of two pods on them."""
    return new_cluster()


def new_cluster() -> CheckedCluster:
    return CheckedCluster("placement/clusters/kueue-queue", "placement/kueue-job", served=SERVED)


def check_deployment(kueue: CheckedCluster, *, replicas: int, quota: str = "100") -> str:
    """The verdict on a Deployment instead of the Job."""
    kueue.edit_workload("apiVersion", "apps/v1")
    kueue.edit_workload("kind", "Deployment")
    kueue.edit_workload("spec", {"replicas": replicas, "template": kueue.workload["spec"]["template"]})
    kueue.edit_workload(POD_ANNOTATIONS, None)
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, quota)
    return kueue.check().verdict


def test_copies_that_are_not_tried_count_against_the_quota(
    kueue: CheckedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out of the trial for time still counts against the quota, and needs room."""
    monkeypatch.setattr("toposcope.integrations.kueue.scheduling._MOST_EVALUATIONS", 1)

    assert check_deployment(kueue, replicas=2) == "fits: 2 pods on 2 nodes"
    assert check_deployment(kueue, replicas=2, quota="8") == (
        "cannot fit: ClusterQueue cq has a quota of 8 nvidia.com/gpu left in flavor f, 16 nvidia.com/gpu requested"
    )
    assert check_deployment(kueue, replicas=3) == "cannot fit: pod needs 24 GPUs, the nodes it may use have 16"


def check_partly_admitted(kueue: CheckedCluster, *, pods: int, quota: str) -> CheckedWorkload:
    """A Job of 8 GPUs a pod that starts with one pod, too, in a flavor without a topology."""
    kueue.edit("ResourceFlavor/f", "spec.topologyName", None)
    kueue.edit("ClusterQueue/cq", GPU_QUOTA, quota)
    kueue.edit_workload("metadata.annotations", {"kueue.x-k8s.io/job-min-parallelism": "1"})
    kueue.edit_workload(POD_ANNOTATIONS, None)
    kueue.pods(pods)
    return kueue.check()


def test_fewer_pods_are_admitted_without_a_topology(kueue: CheckedCluster) -> None:
    answer = check_partly_admitted(kueue, pods=2, quota="8")
    assert answer.verdict == "fits: 2 pods on 2 nodes"
    assert answer.notes == ["admitted with 1 of 2 pods: the workload allows fewer (job-min-parallelism)"]


def test_room_for_fewer_pods_without_a_topology_is_unclear(kueue: CheckedCluster) -> None:
    answer = check_partly_admitted(kueue, pods=4, quota="16")
    assert answer.verdict == (
        "unclear: Kueue 0.19 admits fewer pods than the workload requests (job-min-parallelism), and it is not "
        "checked whether they fit"
    )


def test_fewer_pods_are_no_help_without_quota_for_the_least(kueue: CheckedCluster) -> None:
    answer = check_partly_admitted(kueue, pods=2, quota="4")
    assert answer.verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 4 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
    )
    assert answer.notes == []


def with_pool_to_borrow(kueue: CheckedCluster) -> None:
    """Two nodes in rack r2, of a flavor that the queue has no quota of and may borrow, before its own."""
    for name in ("n2", "n3"):
        kueue.apply(f"""
            apiVersion: v1
            kind: Node
            metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, pool: b, example.com/rack: r2}}}}
            status:
              allocatable: {{nvidia.com/gpu: '8', cpu: '64', memory: 64Gi, pods: '110'}}
              conditions: [{{type: Ready, status: 'True'}}]
        """)
    kueue.add(flavor("borrowed", pool="b"), lender(quotas("borrowed")))
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups[0].flavors", [quotas("borrowed", "0"), quotas("f")])


@pytest.mark.parametrize("fungibility", [{}, {"whenCanBorrow": "Borrow"}], ids=["default", "borrow"])
def test_queue_borrows_in_a_flavor_before_it_tries_the_next(kueue: CheckedCluster, fungibility: dict[str, str]) -> None:
    with_pool_to_borrow(kueue)
    kueue.edit("ClusterQueue/cq", "spec.flavorFungibility", fungibility)

    assert kueue.check().verdict == "fits: example.com/rack r2 (2 nodes, 16 free GPUs)"


def test_queue_that_tries_the_next_flavor_first_borrows_nothing(kueue: CheckedCluster) -> None:
    with_pool_to_borrow(kueue)
    kueue.edit("ClusterQueue/cq", "spec.flavorFungibility", {"whenCanBorrow": "TryNextFlavor"})

    assert kueue.check().verdict == "fits: 2 pods on 2 nodes"
    kueue.edit("Node/n0", "spec.unschedulable", True)
    assert kueue.check().verdict.startswith("does not fit now"), "the borrowed flavor has room, and is not tried"


def with_lender(kueue: CheckedCluster) -> None:
    kueue.add(lender(quotas("f", "8")), admitted(gpus=4, queue="lender"))
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")


def with_borrowing_limit(kueue: CheckedCluster) -> None:
    with_lender(kueue)
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": 4}
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups[0].flavors[0].resources[0]", quota)


def with_nested_cohorts(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.cohortName", "c")
    kueue.apply("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: c}
        spec: {parentName: top}
    """)


def with_two_flavors(kueue: CheckedCluster) -> None:
    kueue.add(flavor("full", pool="b"))
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups[0].flavors", [quotas("full"), quotas("f")])


def with_assignment(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=BOTH_ON_N0), pod_of_workload("p0", on="n0"))


def with_assignment_in_slices(kueue: CheckedCluster) -> None:
    kueue.add(admitted(gpus=4, on=ONE_ON_EACH), pod_of_workload("p0"))


def with_minimum(kueue: CheckedCluster) -> None:
    kueue.edit_workload("metadata.annotations", {"kueue.x-k8s.io/job-min-parallelism": "1"})
    kueue.pods(4)


def with_slices(kueue: CheckedCluster) -> None:
    with_minimum(kueue)
    kueue.annotate_pods("kueue.x-k8s.io/podset-slice-required-topology", "example.com/rack")
    kueue.annotate_pods("kueue.x-k8s.io/podset-slice-size", "2")


def with_reservation(kueue: CheckedCluster) -> None:
    resources = [{"name": "nvidia.com/gpu", "total": "90"}]
    kueue.edit("ClusterQueue/cq", "status", {"flavorsReservation": [{"name": "f", "resources": resources}]})


def with_selector(kueue: CheckedCluster) -> None:
    kueue.edit("ClusterQueue/cq", "spec.namespaceSelector", {"matchLabels": {"team": "x"}})
    kueue.edit("ClusterQueue/cq", "spec.admissionChecks", ["prov"])


SITUATIONS: tuple[Callable[[CheckedCluster], None], ...] = (
    with_lender,
    with_borrowing_limit,
    with_nested_cohorts,
    with_two_flavors,
    with_assignment,
    with_assignment_in_slices,
    with_minimum,
    with_slices,
    with_reservation,
    with_selector,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        found.append((value, key))
        found += places(below)
    return found


@pytest.mark.parametrize("seed", slow_after(5, range(20)))
def test_malformed_objects_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        kueue = new_cluster()
        rng.choice(SITUATIONS)(kueue)
        nodes, chain = [], []
        for name, item in kueue.objects.items():
            if name.startswith(("Node/", "Topology/")):
                nodes.append(item)
            else:
                chain.append(copy.deepcopy(item))

        for document in rng.choices([*chain, kueue.workload], k=3):
            for _ in range(rng.randint(1, 3)):
                container, key = rng.choice(places(document))
                container[key] = copy.deepcopy(rng.choice(JUNK))

        remembered = [kept(item) for item in chain]
        snapshot = replace(snapshot_of(nodes, SERVED), objects=tuple(item for item in remembered if item))
        assert len(Checker(snapshot, chain).check(kueue.workload)) <= 2
