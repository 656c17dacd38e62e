"""Kueue's chain where copies are too many to try, and where its objects are malformed."""

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.placement.test_rows import TABLES, checked, snapshot_of
from tests.support.readings import Edits
from toposcope.integrations.kueue.queues import kept
from toposcope.placement.check import Checked, Checker
from toposcope.placement.sentences import answer

QUEUES = TABLES["queues"]
GPU_QUOTA = "cluster.ClusterQueue/cq.spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"


def deployment(replicas: int, quota: str = "100") -> str:
    """The verdict on so many copies of two pods each."""
    template = QUEUES.situation("", {}).workload["spec"]["template"]
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas, "template": template}}
    edits: Edits = {f"workload.{name}": value for name, value in workload.items()}
    edits |= {"workload.spec.template.metadata.annotations": None, GPU_QUOTA: quota}
    answered = checked(QUEUES.situation("", edits), QUEUES.served)
    assert answered.verdict
    return answered.verdict.kind


@pytest.mark.regression
def test_many_copies_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out of the trial for time still counts against the quota, and needs room."""
    monkeypatch.setattr("toposcope.integrations.kueue.scheduling._MOST_EVALUATIONS", 1)
    assert deployment(2) == "fits"
    assert deployment(2, quota="8") == "never"
    assert deployment(3) == "never"  # two nodes


def partly_admitted(parallelism: int, quota: str) -> Checked:
    """A Job of 8 GPUs a pod that starts with one pod, too, in a flavor without a topology."""
    edits: Edits = {
        "cluster.ResourceFlavor/f.spec.topologyName": None,
        "workload.metadata.annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"},
        "workload.spec.parallelism": parallelism,
        "workload.spec.completions": parallelism,
        "workload.spec.template.metadata.annotations": None,
        GPU_QUOTA: quota,
    }
    return checked(QUEUES.situation("", edits), QUEUES.served)


@pytest.mark.regression
def test_fewer_pods_are_admitted_without_a_topology() -> None:
    answered = partly_admitted(parallelism=2, quota="8")
    assert answered.verdict
    assert answered.verdict.kind == "fits"
    assert answered.reading.workload
    assert answered.reading.workload.notes == (
        "admitted with 1 of 2 pods: the workload allows fewer (job-min-parallelism)",
    )


@pytest.mark.regression
def test_room_for_fewer_pods_without_a_topology_is_left_open() -> None:
    answered = partly_admitted(parallelism=4, quota="16")
    assert answered.verdict
    assert answer(answered.verdict) == (
        "unclear: Kueue 0.19 admits fewer pods than the workload asks for (job-min-parallelism), "
        "and whether these find room is not checked"
    )


@pytest.mark.regression
def test_fewer_pods_are_no_help_without_quota_for_the_least() -> None:
    answered = partly_admitted(parallelism=2, quota="4")
    assert answered.verdict
    assert answered.verdict.kind == "never"
    assert answered.reading.workload
    assert answered.reading.workload.notes == ()


JUNK: tuple[Any, ...] = (None, [], {}, "", "x", 7, -1, True, 1.5, [None], {"a": None}, "9" * 30, [{}])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, key) for key, _ in inner] + [place for _, below in inner for place in places(below)]


@pytest.mark.regression
@pytest.mark.parametrize("seed", range(20))
def test_malformed_objects_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    rows = [row for case in QUEUES.cases.values() for row in case]
    for _ in range(20):
        situation = QUEUES.situation("", rng.choice(rows).edits)
        nodes = [document for name, document in situation.cluster.items() if name.startswith(("Node/", "Topology/"))]
        objects = [copy.deepcopy(obj) for obj in situation.cluster.values() if obj not in nodes]
        for document in rng.choices([*objects, situation.workload], k=3):
            for _ in range(rng.randint(1, 3)):
                container, key = rng.choice(places(document))
                container[key] = copy.deepcopy(rng.choice(JUNK))
        read = tuple(one for other in objects if (one := kept(other)))
        snapshot = replace(snapshot_of(nodes, QUEUES.served), objects=read)
        assert len(Checker(snapshot, objects).check(situation.workload)) <= 2
