"""Waiting pods of a gang whose other pods KAI has bound: they can go to the domain of these and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.waiting import RACK, ZONE, Object, busy, job, kai_topology, named, nodes, owned, pod, pod_spec
from tests.support.saved import saved
from toposcope.cli.main import main

PLACED = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": RACK}
TOGETHER = {"kai.scheduler/batch-min-member": "4"}
NOWHERE_ELSE = "2 of its 4 pods are in rack rack-3, KAI places the other 2 nowhere else, and there is no room"


def stateful_set() -> Object:
    spec = {"replicas": 4, "template": {"metadata": {}, "spec": pod_spec()}}
    return named("apps/v1", "StatefulSet", "train", spec, annotations=PLACED)


def room_of(root: Object, on: tuple[str, ...], taken: tuple[str, ...], folder: Path, capsys: Any) -> tuple[str, str]:
    """The outcome of the step `room`, with its message and its last detail."""
    pods = [owned(pod(f"train-{i}", node), root) for i, node in enumerate([*on, "", "", "", ""][:4])]
    file = folder / "cluster.json"
    file.write_text(saved([*nodes(), kai_topology(), root, *pods, *busy(*taken)]), encoding="utf-8")
    main(["explain", f"{root['kind'].lower()}/train", "--from", str(file), "-o", "json"])
    step = next(step for step in json.loads(capsys.readouterr().out)["steps"] if step["step"] == "room")
    return step["outcome"], " | ".join((step["message"], *step["details"][-1:]))


TWO = ("h200-1", "h200-2")
REST = ("h200-3", "h200-4")


@pytest.mark.parametrize(
    ("root", "on", "taken", "outcome", "words"),
    [
        (job("train", PLACED), TWO, REST, "failed", f"{NOWHERE_ELSE} | or create the Job anew"),
        (job("train", PLACED), TWO, (*REST, "h200-5"), "failed", f"{NOWHERE_ELSE} | would fit if 2 nodes of rack-3"),
        (job("train", PLACED | TOGETHER), TWO, REST, "failed", f"{NOWHERE_ELSE} | delete its pods, and KAI places all"),
        (stateful_set(), TWO, REST, "failed", f"{NOWHERE_ELSE} | or make its pods a PodGroup with minMember: 4"),
        (job("train", PLACED), TWO, (), "passed", "rack rack-3, which holds 2 of its 4 pods, has room for the other 2"),
        # Pods that are not in one rack have not been placed by this constraint, so that nothing follows from them.
        (job("train", PLACED | TOGETHER), ("h200-1", "h200-5"), (), "passed", "2 racks could take it now"),
    ],
)
def test_where_waiting_pods_can_go(
    root: Object, on: tuple[str, ...], taken: tuple[str, ...], outcome: str, words: str, tmp_path: Path, capsys: Any
) -> None:
    answered, found = room_of(root, on, taken, tmp_path, capsys)
    assert (answered, words in found) == (outcome, True), found


def test_a_preferred_level_binds_no_pod(tmp_path: Path, capsys: Any) -> None:
    annotations = {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-preferred-placement": RACK}
    assert room_of(job("train", annotations), TWO, REST, tmp_path, capsys)[0] == "passed"


def test_a_broader_level_binds_pods_to_less(tmp_path: Path, capsys: Any) -> None:
    annotations = {**PLACED, "kai.scheduler/topology-required-placement": ZONE}
    assert room_of(job("train", annotations), TWO, REST, tmp_path, capsys)[0] == "passed"
