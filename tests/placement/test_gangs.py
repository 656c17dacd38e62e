"""What `check` says where KAI 0.17 does not find the placement that exists, in KAI's own order."""

from __future__ import annotations

import pytest

from tests.placement.test_check import LABELS, PLACES, RESOURCES, published
from tests.support.workloads import HOST, RACK, ZONE, Object, job, template, workload
from toposcope.placement.check import Checker
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.model import NodeView, Owner, PodView, Published, Snapshot

Place = tuple[str, str]
"""Zone and rack of a node."""
TOPOLOGY = published("t", *LABELS, group="kai.scheduler")
MINIMUM = "kai.scheduler/batch-min-member"


def nodes(*places: Place) -> tuple[NodeView, ...]:
    """Nodes n0, n1, ... of 8 GPUs."""
    return tuple(
        NodeView(f"n{i}", f"n{i}", PLACES, (*place, f"n{i}"), True, True, (), RESOURCES, {}, None)
        for i, place in enumerate(places)
    )


def filled(*names: str) -> tuple[PodView, ...]:
    """A pod that takes all GPUs of each of these nodes."""
    owner = Owner("batch/v1", "Job", "j")
    taken = {"pods": 1, "nvidia.com/gpu": 8}
    return tuple(PodView("other", f"p-{n}", n, "Running", taken, owner, {}, {}, "default-scheduler", "") for n in names)


def verdict(document: Object, views: tuple[NodeView, ...], pods: tuple[PodView, ...] = (), *more: Object) -> Verdict:
    checker = Checker(Snapshot("test", None, views, pods, (), (TOPOLOGY,)), [document, *more])
    (checked,) = checker.check(document)
    assert checked.errors == ()
    assert checked.verdict is not None
    return checked.verdict


def placed(required: str | None = None, preferred: str | None = None, **more: str) -> Object:
    """Annotations of a workload for KAI."""
    annotations = {"topology": "t", "topology-required-placement": required, "topology-preferred-placement": preferred}
    return {f"kai.scheduler/{name}": value for name, value in annotations.items() if value} | more


TWO_AND_EIGHT = nodes(*[("a", "r1")] * 2, *[("b", f"r{i % 2}") for i in range(8)])
"""Two free nodes in zone a and eight in zone b."""


@pytest.mark.parametrize(
    ("annotations", "pods", "kind", "limitation"),
    [
        (
            placed(ZONE.key, RACK.key),
            (),
            "full",
            "binds 2 of 8 in zone a, where the first one goes, and the other 6 wait; as a gang",
        ),
        (placed(ZONE.key, RACK.key, **{MINIMUM: "8"}), (), "fits", ""),
        # Zone a has no room for the first pod, so that it goes where all others find room.
        (placed(ZONE.key, RACK.key), filled("n0", "n1"), "fits", ""),
        (placed(preferred=ZONE.key), (), "fits", ""),
        (placed(preferred=ZONE.key), filled("n0", "n1", "n2"), "full", ""),
    ],
)
def test_a_job_is_no_gang_unless_it_says_so(
    annotations: Object, pods: tuple[PodView, ...], kind: str, limitation: str
) -> None:
    answer = verdict(job(8, annotations), TWO_AND_EIGHT, pods)
    assert (answer.kind, limitation in answer.limitation, bool(limitation)) == (kind, True, bool(answer.limitation))


def test_nor_is_a_stateful_set() -> None:
    spec = {"replicas": 8, "template": template(8, schedulerName="kai-scheduler")}
    answer = verdict(workload("apps/v1", "StatefulSet", spec, placed(ZONE.key, **{MINIMUM: "8"})), TWO_AND_EIGHT)
    assert (answer.kind, "binds 2 of 8 in zone a" in answer.limitation) == ("full", True)


def test_pods_that_start_one_by_one_where_not_all_fit_at_any_time() -> None:
    answer = verdict(job(9, placed(ZONE.key)), TWO_AND_EIGHT)
    assert (answer.kind, "binds 2 of 9 in zone a" in answer.limitation) == ("never", True)
    assert "as a gang" not in answer.limitation


ONE_RACK = nodes(("a", "r1"), ("a", "r1"), ("a", "r1"))
NARROWER = (
    "KAI 0.17 finds no zone for train: all nodes that it looks at are in one example.com/rack (r1), and without a "
    "preferred level it looks no higher; prefer topology.kubernetes.io/zone, too"
)


@pytest.mark.parametrize(
    ("annotations", "limitation"),
    [
        (placed(ZONE.key), NARROWER),
        (placed(ZONE.key, ZONE.key), ""),
        (placed(ZONE.key, HOST.key), ""),
        (placed(RACK.key), ""),
    ],
)
@pytest.mark.parametrize("minimum", [{MINIMUM: "2"}, {}])
def test_all_nodes_in_one_narrower_domain(annotations: Object, minimum: Object, limitation: str) -> None:
    answer = verdict(job(2, {**annotations, **minimum}), ONE_RACK)
    assert (answer.kind, answer.limitation) == ("never" if limitation else "fits", limitation)


def sub_groups(*names: str, **constraints: Object) -> list[Object]:
    return [
        {"name": name, "minMember": 2}
        | ({"topologyConstraint": {"topology": "t", **constraints[name]}} if name in constraints else {})
        for name in names
    ]


def gang(spec: Object, *pods: tuple[str, int, int]) -> tuple[Object, list[Object]]:
    """A PodGroup, and a Pod of it for each sub-group, number of pods and GPUs."""
    group = workload("scheduling.run.ai/v2alpha2", "PodGroup", spec)
    members = []
    for subgroup, count, gpus in pods:
        for _ in range(count):
            pod = workload("v1", "Pod", template(gpus, schedulerName="kai-scheduler")["spec"])
            pod["metadata"] |= {"annotations": {"pod-group-name": "train"}, "labels": {}}
            pod["metadata"]["labels"] = {"kai.scheduler/subgroup-name": subgroup} if subgroup else {}
            members.append(pod)
    return group, members


REQUIRES_RACK: Object = {"topology": "t", "requiredTopologyLevel": RACK.key}
UNEQUAL = {"minMember": 3, "topologyConstraint": REQUIRES_RACK}
LARGEST = (
    "KAI 0.17 counts every pod of train as its largest: by this count the best example.com/rack takes 2 of 3 pods; "
    "request the same for every pod"
)


def test_kai_counts_every_pod_as_the_largest() -> None:
    """One pod of 8 GPUs and two of 4 fit on two nodes, three of 8 do not."""
    group, members = gang(UNEQUAL, ("", 1, 8), ("", 2, 4))
    rack = nodes(("a", "r1"), ("a", "r1"), ("b", "r1"))
    answer = verdict(group, rack, (), *members)
    assert (answer.kind, answer.limitation) == ("never", LARGEST)
    assert verdict(group, (*rack, *nodes(*[("a", "r1")] * 4)[3:]), (), *members).kind == "fits"


def test_pods_of_different_kinds_are_added_up() -> None:
    """Where some pods request no GPU at all, KAI compares the sum."""
    group, members = gang(UNEQUAL, ("", 2, 8), ("", 1, 0))
    assert verdict(group, nodes(("a", "r1"), ("a", "r1"), ("b", "r1")), (), *members).kind == "fits"


@pytest.mark.parametrize(("small", "kind"), [("a", "full"), ("z", "fits")])
def test_sub_groups_are_placed_by_their_names(small: str, kind: str) -> None:
    """Two pods of 4 GPUs fit into either rack, and two of 8 into the second alone, which is the one with less room."""
    names = (small, "large")
    spec = {"subGroups": sub_groups(*names, **{name: {"requiredTopologyLevel": RACK.key} for name in names})}
    group, members = gang(spec, (small, 2, 4), ("large", 2, 8))
    views = nodes(("a", "r1"), ("a", "r1"), *[("b", "r1")] * 5)
    half = {"pods": 1, "nvidia.com/gpu": 4}
    owner = Owner("batch/v1", "Job", "j")
    pods = tuple(
        PodView("other", f"q{i}", f"n{i}", "Running", half, owner, {}, {}, "default-scheduler", "") for i in range(2, 7)
    )
    answer = verdict(group, views, pods, *members)
    assert answer.kind == kind
    assert ("sub-group large finds room for 1 of 2 pods" in answer.limitation) is (kind != "fits")


def pod_clique_set(*gpus: int) -> Object:
    """A clique of one pod for each number of GPUs, all in one rack."""
    cliques = []
    for i, count in enumerate(gpus):
        pod_spec = template(count, schedulerName="kai-scheduler")["spec"]
        cliques.append({"name": f"c{i}", "spec": {"roleName": f"c{i}", "replicas": 1, "podSpec": pod_spec}})
    constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
    spec = {"replicas": 1, "template": {"cliques": cliques, "topologyConstraint": constraint}}
    return workload("grove.io/v1alpha1", "PodCliqueSet", spec, None, **{"kai.scheduler/queue": "q"})


@pytest.mark.parametrize(("gpus", "kind"), [((8, 8), "fits"), ((8, 4, 4), "never"), ((8, 8, 0), "fits")])
def test_grove_leaves_placing_to_kai(gpus: tuple[int, ...], kind: str) -> None:
    known = (ZONE, RACK, HOST)
    levels = [{"domain": level.domain, "key": level.key} for level in known]
    binding = Published("grove.io/v1alpha1", "ClusterTopologyBinding", "cluster", known, {"spec": {"levels": levels}})
    views = nodes(("a", "r1"), ("a", "r1"), ("b", "r1"))
    document = pod_clique_set(*gpus)
    (checked,) = Checker(Snapshot("test", None, views, (), (), (binding,)), [document]).check(document)
    assert [finding.message for finding in checked.errors] == []
    assert checked.verdict is not None
    assert (checked.verdict.kind, "as its largest" in checked.verdict.limitation) == (kind, kind != "fits")


def test_kai_takes_a_placeholder_for_a_value_like_any_other() -> None:
    views = nodes(("no-topology", "r1"), ("no-topology", "r2"))
    assert verdict(job(2, placed(ZONE.key, **{MINIMUM: "2"})), views).kind == "fits"
